"""A group's log with one operation changed: a record replaced, added, left out or moved.

The records of an operation have adjacent offsets. An operation with another number of records still
ends at the same offset, and begins at another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kip848_spark.checks.audit_rows import AuditStep
from kip848_spark.checks.log_entries import JsonValue, LogEntry
from kip848_spark.checks.operations import INVALID_ORDER, same_operation, split_operation
from kip848_spark.coordinator import records
from kip848_spark.coordinator.records import Record


class Correction(NamedTuple):
    """A corrected log. ``offsets`` has the right offset of each record that has another one in
    it."""

    steps: list[AuditStep]
    offsets: dict[int, int]


class Operation(NamedTuple):
    """The control records of a group that may belong to one operation: the steps from ``begin`` to
    before ``end``."""

    steps: Sequence[AuditStep]
    begin: int
    end: int

    @classmethod
    def at(cls, steps: Sequence[AuditStep], at: int) -> Operation:
        """The operation of the record at this position."""
        begin = end = at
        while begin > 0 and _adjacent(steps, begin - 1):
            begin -= 1
        while _adjacent(steps, end):
            end += 1
        return cls(steps, begin, end + 1)

    @property
    def entries(self) -> list[LogEntry]:
        """Its records."""
        return [step.entry for step in self.steps[self.begin : self.end] if step.entry is not None]

    def last_value(self, kind: str) -> tuple[LogEntry, JsonValue] | None:
        """The newest record of a key of the group at or before the end of the operation, with its
        value; None if there is none, or if it is a tombstone."""
        for step in reversed(self.steps[: self.end]):
            entry = step.entry
            if entry is not None and entry.key == (kind, ""):
                return None if entry.value is None else (entry, entry.value)
        return None

    def next_value(self, kind: str) -> tuple[LogEntry, JsonValue] | None:
        """The first value of a key of the group after the operation, as `last_value`."""
        for step in self.steps[self.end :]:
            entry = step.entry
            if entry is not None and entry.key == (kind, ""):
                return None if entry.value is None else (entry, entry.value)
        return None

    def newest_of(self, kind: str, *, before: bool = False) -> dict[str, JsonValue]:
        """The newest value of each key of a kind at the end of the operation, or ``before`` it, by
        member."""
        found: dict[str, JsonValue] = {}
        for step in self.steps[: self.begin if before else self.end]:
            entry = step.entry
            if entry is not None and entry.kind == kind:
                found[entry.member] = entry.value
        return {member: value for member, value in found.items() if value is not None}

    def with_entries(self, entries: Sequence[LogEntry]) -> Correction:
        """The log in which the operation has these records. One that keeps its offset is known by
        it; one that was added has the offset -1."""
        last = self.steps[self.end - 1]
        offsets = {}
        changed = []
        for at, entry in enumerate(entries):
            offset = last.offset - (len(entries) - 1 - at)
            if entry.offset not in (offset, -1):
                offsets[offset] = entry.offset
            moved = entry._replace(offset=offset, timestamp=last.millis)
            changed.append(AuditStep.of(moved))
        return Correction([*self.steps[: self.begin], *changed, *self.steps[self.end :]], offsets)

    def replaced(self, changes: Mapping[int, LogEntry]) -> Correction:
        """The log with other records in place of those at positions in the operation."""
        entries = self.entries
        for at, entry in changes.items():
            entries[at] = entry
        return self.with_entries(entries)

    def without(self, at: int) -> Correction:
        """The log without the record at a position in the operation."""
        entries = self.entries
        if len(entries) == 1:
            return Correction([*self.steps[: self.begin], *self.steps[self.end :]], {})
        return self.with_entries(entries[:at] + entries[at + 1 :])

    def valid_with(self, record: Record, member: str) -> Iterator[Correction]:
        """The logs with another record, wherever a coordinator may write it in the operation."""
        entries = self.entries
        value = record["value"]
        added = LogEntry(
            entries[0].partition, -1, entries[0].timestamp, record, str(record["key"]["type"]),
            entries[0].group, member, None if value is None else value["data"],
        )  # fmt: skip
        for at in range(len(entries) + 1):
            changed = [*entries[:at], added, *entries[at:]]
            if is_valid(changed):
                yield self.with_entries(changed)

    def valid_without(self) -> Iterator[Correction]:
        """The logs without a record, if the rest is in an order that a coordinator writes."""
        entries = self.entries
        for at in range(len(entries)):
            rest = entries[:at] + entries[at + 1 :]
            if rest and is_valid(rest):
                yield self.with_entries(rest)

    def valid_moved(self) -> Iterator[Correction]:
        """The logs in which two records have changed places, in such an order."""
        entries = self.entries
        for first in range(len(entries)):
            for second in range(first + 1, len(entries)):
                moved = list(entries)
                moved[first], moved[second] = moved[second], moved[first]
                if moved[first].kind != moved[second].kind and is_valid(moved):
                    yield self.with_entries(moved)


def is_valid(entries: Sequence[LogEntry]) -> bool:
    """Whether a coordinator may write records in this order."""
    return all(part.name != INVALID_ORDER for part in split_operation(entries))


def with_values(entry: LogEntry, values: Mapping[str, JsonValue]) -> LogEntry:
    """The record with other values of some fields."""
    value = {**(entry.value or {}), **values}
    version = entry.record["value"] or {"version": "0"}
    return entry._replace(value=value, record={**entry.record, "value": {**version, "data": value}})


def tombstone_of(group_id: str, kind: str, member: str) -> Record:
    """The tombstone of a key of a consumer group."""
    key = {"groupId": group_id}
    return records.tombstone(kind, **key, **({"memberId": member} if member else {}))


def _adjacent(steps: Sequence[AuditStep], at: int) -> bool:
    """Whether the record behind the one at ``at`` may belong to the same operation."""
    if at + 1 >= len(steps) or steps[at].is_commit or steps[at + 1].is_commit:
        return False
    entry, following = steps[at].entry, steps[at + 1].entry
    return entry is not None and following is not None and same_operation(entry, following)
