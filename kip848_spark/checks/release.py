"""Which releases may have written a group's records, by what is in them.

Key 4 with a value is 4.0's; a metadata hash came with 4.1; the time of a target and the epochs
of assigned partitions with 4.3. Nothing in the form tells 4.1 from 4.2: both stay possible.
"""

from __future__ import annotations

from collections.abc import Iterable

from kip848_spark.checks.log_entries import Entry
from kip848_spark.coordinator import records
from kip848_spark.coordinator.releases import RELEASES, Release, find_release

ALL: tuple[Release, ...] = tuple(RELEASES[name] for name in ("4.0", "4.1", "4.2", "4.3"))

_40 = frozenset({"4.0"})
_FROM_41 = frozenset({"4.1", "4.2", "4.3"})
_TO_42 = frozenset({"4.0", "4.1", "4.2"})
_43 = frozenset({"4.3"})


def given(name: str | None) -> tuple[Release, ...]:
    """The releases that are possible before anything was read. Raises UsageError."""
    return ALL if name is None else (find_release(name),)


def possible(before: tuple[Release, ...], entries: Iterable[Entry]) -> tuple[Release, ...]:
    """Those of ``before`` that could have written ``entries``; where none could, the cluster was
    up- or downgraded, and all that could are possible."""
    allowed = _ANY
    for entry in entries:
        writers = _writers(entry)
        if writers is not _ANY:
            allowed &= writers
    if not allowed or allowed is _ANY:
        return before
    kept = tuple(release for release in before if release.name in allowed)
    return kept or tuple(release for release in ALL if release.name in allowed)


_ANY = frozenset(release.name for release in ALL)


def _writers(entry: Entry) -> frozenset[str]:
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
