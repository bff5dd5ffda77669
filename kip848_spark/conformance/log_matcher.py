"""Compares a log with what the model can write, record by record.

Where the log differs from every way to go on, `LogMatcher.allowed` has what the model allows there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kip848_spark.conformance.group import ModelGroup, Rules
from kip848_spark.conformance.records import TraceRecord


class Allowed(NamedTuple):
    """A record that the model allows. ``value`` is None for a tombstone, a text if only a property
    of the value is given."""

    key: int
    name: str
    value: Any


class LogMatcher:
    """A log with the place at which an operation begins, and the group as it is there."""

    def __init__(
        self, rules: Rules, group: ModelGroup, records: Sequence[TraceRecord], at: int
    ) -> None:
        self.rules, self.group, self.records, self.at = rules, group, records, at
        self.furthest = at
        """The first record that no operation has."""
        self.allowed: list[Allowed] = []
        """What operations have there instead."""

    def record(self, at: int) -> TraceRecord | None:
        return self.records[at] if at < len(self.records) else None

    def matches(self, at: int, key: int, name: str, value: Any) -> bool:
        """Whether the log has this record; if not, it is noted as allowed."""
        record = self.record(at)
        if (
            record is not None
            and record.key == key
            and record.name == name
            and (record.value is None) == (value is None)
            and record.value == value
        ):
            return True
        self.note(at, key, name, value)
        return False

    def note(self, at: int, key: int, name: str, value: Any) -> None:
        if at > self.furthest:
            self.furthest, self.allowed = at, []
        if at == self.furthest:
            self.allowed.append(Allowed(key, name, value))

    def value_at(self, at: int, key: int, name: str | None = None) -> TraceRecord | None:
        """The record there, if it is a value of this key (and member)."""
        record = self.record(at)
        if record is None or record.key != key or record.value is None:
            return None
        return record if name is None or record.name == name else None

    def run_of(self, at: int, key: int, *, deleted: bool = False) -> list[TraceRecord]:
        """The records of one key from there on."""
        end = at
        while end < len(self.records):
            record = self.records[end]
            if record.key != key or (record.value is None) != deleted:
                break
            end += 1
        return list(self.records[at:end])
