"""Which Kafka releases may have written a group's records, judged by the fields in use.

Only 4.0 writes key 4 with a value. The metadata hash came with 4.1; the time of a target and the
epochs of assigned partitions came with 4.3. No field tells 4.1 from 4.2, so both stay candidates.
See docs/kafka-facts.md#releases.
"""

from __future__ import annotations

from collections.abc import Iterable

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.coordinator import records
from kip848_spark.coordinator.releases import RELEASES, Release, find_release

ALL: tuple[Release, ...] = tuple(RELEASES[name] for name in ("4.0", "4.1", "4.2", "4.3"))

_40 = frozenset({"4.0"})
_FROM_41 = frozenset({"4.1", "4.2", "4.3"})
_TO_42 = frozenset({"4.0", "4.1", "4.2"})
_43 = frozenset({"4.3"})


def candidates(name: str | None) -> tuple[Release, ...]:
    """The release called ``name``; all releases if that is None. Raises UsageError."""
    return ALL if name is None else (find_release(name),)


def narrow(before: tuple[Release, ...], entries: Iterable[LogEntry]) -> tuple[Release, ...]:
    """Those of ``before`` that could have written ``entries``. If none could, the cluster was up-
    or downgraded: then all releases that could."""
    allowed = _ANY
    for entry in entries:
        writers = _writers(entry)
        if writers is not _ANY:
            allowed &= writers
    if not allowed or allowed is _ANY:
        return before
    remaining = tuple(release for release in before if release.name in allowed)
    return remaining or tuple(release for release in ALL if release.name in allowed)


_ANY = frozenset(release.name for release in ALL)


def _writers(entry: LogEntry) -> frozenset[str]:
    value = entry.value
    if value is None:
        return _ANY
    if entry.kind == records.TOPICS:
        return _40
    if entry.kind == records.GROUP:
        return _FROM_41 if value.get("metadataHash") else _ANY
    if entry.kind == records.TARGET_EPOCH:
        return _43 if value.get("assignmentTimestamp") else _ANY
    if entry.kind == records.CURRENT:
        assigned, pending = value["assignedPartitions"], value["partitionsPendingRevocation"]
        if assigned or pending:
            epochs = any(row.get("assignmentEpochs") for row in (*assigned, *pending))
            return _43 if epochs else _TO_42
    return _ANY
