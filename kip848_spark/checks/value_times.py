"""Checks the times inside values against the time of the record (docs/kafka-facts.md#timestamps),
and the times of records against those of their neighbours.

The coordinator reads the clock while it decides, and the record's own time (CreateTime) when it
appends the record. So a time inside a value is never later. The two differ by more only if a clock
was set back, or if another broker, with another clock, had written the older one.
"""

from __future__ import annotations

from collections.abc import Callable

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import REGEX, OperationPart
from kip848_spark.checks.results import VALUE_TIMES, WARNING, Tally
from kip848_spark.coordinator import records
from kip848_spark.coordinator.subscriptions import MIN_REFRESH_MS

TOLERANCE_MS = 60_000
"""Clocks of two brokers, or of one before and after it was set, may differ by this much."""
LONGEST_RESOLUTION_MS = 600_000
"""A resolution of regular expressions takes less time than this."""

_FIELDS: dict[str, str] = {
    records.CLASSIC_GROUP: "currentStateTimestamp",
    records.TARGET_EPOCH: "assignmentTimestamp",
    records.REGEX: "timestamp",
    records.OFFSET: "commitTimestamp",
    "12": "assignmentTimestamp",
    "20": "assignmentTimestamp",
}
"""By key type: the field with the time of the decision."""
_OLDEST: dict[str, int] = {
    records.TARGET_EPOCH: TOLERANCE_MS,
    records.REGEX: LONGEST_RESOLUTION_MS,
    records.OFFSET: TOLERANCE_MS,
    "12": TOLERANCE_MS,
    "20": TOLERANCE_MS,
}
"""By key type: how much older than its record the time may be (ms). The time of key 2 is that of
the last change of state, which may be any time ago."""
_UNSET = (None, 0, -1)
"""0: no time (an assignment that was not computed); -1: the classic group has not changed its state
since a release that did not record the time."""


class NeighbourTimes:
    """Compares the time of each record with those of the records directly before and after it.

    A broker's clock may be set, and another broker may have another clock. But no clock shows one
    time at two records, and a time far from it at the record between them.
    """

    def __init__(self, tally: Tally, counts: Callable[[LogEntry], bool]) -> None:
        """``counts``: whether a verdict on a record goes into the ``tally``."""
        self._tally = tally
        self._counts = counts
        self._before: LogEntry | None = None
        self._last: LogEntry | None = None
        self.found = False
        """Whether any time disagrees, also one that is not counted."""

    def add(self, entry: LogEntry) -> None:
        """Takes the next control record of a group, and checks the one before it."""
        before, middle = self._before, self._last
        self._before, self._last = middle, entry
        if before is None or middle is None or before.timestamp != entry.timestamp:
            return
        if abs(middle.timestamp - entry.timestamp) <= TOLERANCE_MS:
            return
        adjacent = (before.offset + 1, middle.offset + 1) == (middle.offset, entry.offset)
        self.found = self.found or adjacent
        if adjacent and self._counts(entry):
            self._tally.add_disagreement(
                VALUE_TIMES,
                "record_time",
                middle,
                {"time": entry.timestamp},
                {"time": middle.timestamp},
                severity=WARNING,
            )


def check_part_times(audited: AuditedGroup, part: OperationPart) -> None:
    """Checks the times in the values of a part, before it is replayed."""
    for entry in part.entries:
        if entry.kind in _FIELDS and entry.value is not None:
            _check(audited.tally, entry, _earliest_state(audited, entry))
    if part.name == REGEX:
        _check_resolution(audited, part)


def check_entry_times(tally: Tally, entry: LogEntry) -> None:
    """Checks the times in the value of one record: a commit, or a record of a share or streams
    group.
    """
    if entry.value is None or entry.kind not in _FIELDS:
        return
    expires = entry.value.get("expireTimestamp", -1)
    if expires not in _UNSET and expires < entry.value["commitTimestamp"]:
        _report(tally, entry, "expireTimestamp", (entry.value["commitTimestamp"], None), expires)
    else:
        _check(tally, entry, None)


def _check(tally: Tally, entry: LogEntry, least: int | None) -> None:
    """Checks that the time is at most the record's, and not older than it can be."""
    value = entry.value or {}
    time = value.get(_FIELDS[entry.kind])
    if time in _UNSET:
        return
    oldest = _OLDEST.get(entry.kind)
    if oldest is not None:
        least = entry.timestamp - oldest
    most = entry.timestamp + TOLERANCE_MS
    if time > most or (least is not None and time < least):
        _report(tally, entry, _FIELDS[entry.kind], (least, most), time)
    else:
        tally.add_verified(VALUE_TIMES)


def _earliest_state(audited: AuditedGroup, entry: LogEntry) -> int | None:
    """The least time of a classic group's state: the one that is recorded already."""
    known = audited.classic
    if entry.kind != records.CLASSIC_GROUP or known is None or known.state_since is None:
        return None
    return known.state_since - TOLERANCE_MS


def _check_resolution(audited: AuditedGroup, part: OperationPart) -> None:
    """Checks that all expressions of a resolution have one time and one version, more than ten
    seconds after the last one. The coordinator compares the time that is recorded with its own
    clock, so this needs no tolerance.
    """
    resolved = part.of(records.REGEX)
    first = resolved[0].value or {}
    for entry in resolved[1:]:
        value = entry.value or {}
        for name in ("timestamp", "version"):
            if value[name] != first[name]:
                audited.tally.add_disagreement(
                    VALUE_TIMES,
                    "expressions_resolved_apart",
                    entry,
                    {name: first[name]},
                    {name: value[name]},
                    severity=WARNING,
                )
                return
    group = audited.consumer
    if group is None or not audited.complete:
        return
    last = max((found.timestamp for found in group.resolved.values()), default=None)
    if last is not None and first["timestamp"] <= last + MIN_REFRESH_MS:
        audited.tally.add_disagreement(
            VALUE_TIMES,
            "resolved_too_soon",
            resolved[0],
            {"least": last + MIN_REFRESH_MS + 1},
            {"timestamp": first["timestamp"]},
            severity=WARNING,
        )


def _report(
    tally: Tally, entry: LogEntry, field: str, bounds: tuple[int | None, int | None], time: int
) -> None:
    least, most = bounds
    tally.add_disagreement(
        VALUE_TIMES,
        "time_in_value",
        entry,
        {"field": field, "least": least, "most": most, "appended": entry.timestamp},
        {"field": field, "time": time},
        severity=WARNING,
    )
