"""Which Kafka releases may have written a group's records, judged by the fields in use.

Each sign is sufficient, and its absence proves nothing: only 4.0 writes key 4 with a value, the
metadata hash came with 4.1, the time of a target and the epochs of assigned partitions came with
4.3, and every target that the assignor computes has a time since. What no sign tells apart stays a
candidate, and the checks accept what any candidate writes.
See docs/kafka-facts.md#releases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.coordinator import records
from kip848_spark.coordinator.releases import RELEASES, Release, find_release

PossibleReleases = tuple[Release, ...]
"""Releases that may have written a record, the oldest first."""

ALL: PossibleReleases = tuple(release for release in RELEASES.values() if release.name != "kip")


def _those(predicate: Callable[[Release], bool]) -> frozenset[str]:
    return frozenset(release.name for release in ALL if predicate(release))


_ANY = _those(lambda release: True)
_WITH_TOPICS = _those(lambda release: release.partition_metadata_record)
_WITH_HASH = _those(lambda release: release.metadata_hash)
_WITH_TIMES = _those(lambda release: release.assignment_interval)
_WITHOUT_TIMES = _ANY - _WITH_TIMES
_WITH_EPOCHS = _those(lambda release: release.partition_epochs)
_WITHOUT_EPOCHS = _ANY - _WITH_EPOCHS
_KEEPS_REGEX = _those(lambda release: not release.classic_clears_regex)


def candidates(name: str | None) -> PossibleReleases:
    """The release called ``name``; all releases if that is None. Raises UsageError."""
    return ALL if name is None else (find_release(name),)


def narrow(
    before: PossibleReleases, entries: Sequence[LogEntry], *, complete: bool = False
) -> PossibleReleases:
    """Those of ``before`` that could have written ``entries``. If none could, the cluster was up-
    or downgraded: then all releases that could. ``complete``: the entries are whole operations."""
    allowed = _ANY
    for entry in entries:
        writers = _writers(entry)
        if writers is not _ANY:
            allowed &= writers
    if complete and _computes_target_without_time(entries):
        allowed &= _WITHOUT_TIMES
    if not allowed or allowed is _ANY:
        return before
    return _remaining(before, allowed)


@lru_cache(1024)
def _remaining(before: PossibleReleases, allowed: frozenset[str]) -> PossibleReleases:
    remaining = tuple(release for release in before if release.name in allowed)
    if len(remaining) == len(before):
        return before
    return remaining or tuple(release for release in ALL if release.name in allowed)


def of_line(
    before: PossibleReleases, entries: Sequence[LogEntry], line: str
) -> PossibleReleases | None:
    """Those of ``line`` that could have written ``entries``, by what was known before or, if the
    brokers were up- or downgraded since, by the entries alone. None if the log contradicts.
    """
    found = _those_of_line(before, line)
    return found or _those_of_line(narrow(ALL, entries), line) or None


@lru_cache(1024)
def _those_of_line(releases: PossibleReleases, line: str) -> PossibleReleases:
    found = tuple(release for release in releases if release.line == line)
    return releases if len(found) == len(releases) else found


def without(
    releases: PossibleReleases, before: PossibleReleases, left: PossibleReleases
) -> PossibleReleases:
    """``releases`` without those that a check has ruled out: they were among ``before``, and are
    not among those that are ``left``."""
    ruled_out = [release for release in before if release not in left]
    return tuple(release for release in releases if release not in ruled_out)


def _writers(entry: LogEntry) -> frozenset[str]:
    value = entry.value
    if value is None:
        return _ANY
    if entry.kind == records.TOPICS:
        return _WITH_TOPICS
    if entry.kind == records.GROUP:
        return _WITH_HASH if value.get("metadataHash") else _ANY
    if entry.kind == records.TARGET_EPOCH:
        return _WITH_TIMES if value.get("assignmentTimestamp") else _ANY
    if entry.kind == records.MEMBER:
        classic = value.get("classicMemberMetadata") is not None
        return _KEEPS_REGEX if classic and value["subscribedTopicRegex"] else _ANY
    if entry.kind == records.CURRENT:
        assigned, pending = value["assignedPartitions"], value["partitionsPendingRevocation"]
        if assigned or pending:
            epochs = any(row.get("assignmentEpochs") for row in (*assigned, *pending))
            return _WITH_EPOCHS if epochs else _WITHOUT_EPOCHS
    return _ANY


def _computes_target_without_time(entries: Sequence[LogEntry]) -> bool:
    """Whether a target has no time although the assignor has computed it. From 4.3 on, only the
    target of a conversion has none, and from 4.4 on that of a group whose last member left."""
    targets = [e.value for e in entries if e.kind == records.TARGET_EPOCH and e.value is not None]
    return any(not value.get("assignmentTimestamp") for value in targets) and not any(
        entry.kind == records.CLASSIC_GROUP or (entry.kind == records.MEMBER and _leaves(entry))
        for entry in entries
    )


def _leaves(entry: LogEntry) -> bool:
    return entry.value is None or entry.value.get("classicMemberMetadata") is not None


@lru_cache(1024)
def replaying(releases: PossibleReleases) -> Release:
    """The release that replays the records of ``releases``: the newest one, as tolerant as the most
    tolerant of them."""
    return replace(
        releases[-1],
        tolerant_ownership=any(release.tolerant_ownership for release in releases),
        keeps_old_instance=any(release.keeps_old_instance for release in releases),
    )


@lru_cache(1024)
def reconciling(releases: PossibleReleases) -> PossibleReleases:
    """Of releases that reconcile members in the same way, only the oldest."""
    found: dict[tuple[object, ...], Release] = {}
    for release in releases:
        rules = (
            release.epochs_after_revocation,
            release.masks_lost_topics,
            release.unsubscribing_steps,
            release.free_includes_own_pending,
            release.partition_epochs,
        )
        found.setdefault(rules, release)
    return tuple(found.values())


@lru_cache(1024)
def uniform_rules(releases: PossibleReleases) -> tuple[bool, ...]:
    """The values of `Release.uniform_gives_back`, the newest rule first."""
    return tuple(sorted({release.uniform_gives_back for release in releases}, reverse=True))


@lru_cache(1024)
def with_uniform_rule(releases: PossibleReleases, gives_back: bool) -> PossibleReleases:
    """Those of ``releases`` with this rule; all if none has it."""
    found = tuple(release for release in releases if release.uniform_gives_back == gives_back)
    return releases if len(found) == len(releases) else found or releases
