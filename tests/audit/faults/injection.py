"""Faults put into real logs, at random places: what a coordinator would never have written.

The groups, members and values are those of the log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.operations import same_operation
from kip848_spark.checks.results import Tally
from kip848_spark.coordinator.records import Record

Log = list[LogEntry]


@dataclass(frozen=True)
class Injection:
    """Where a fault was put, and the log with it."""

    log: Log
    group: str
    partition: int
    place: int
    """The offset of what was edited."""
    first: int
    last: int
    """A finding must be within: the operation that was edited, up to the group's next one and the
    next one about the same member."""

    def found_by(self, tally: Tally) -> bool:
        """Whether the first thing that an audit finds is this."""
        places = [f for f in tally.findings if f.group_id == self.group]
        at = min((f.offset for f in places), default=-1)
        return self.first <= at <= self.last


class NoPlaceError(Exception):
    """The log has no place for a kind of fault."""


Fault = Callable[[Log, random.Random], Injection]
"""Edits a log (a fresh copy) and says where. Raises NoPlaceError."""
FAULTS: dict[str, Fault] = {}
UNDETECTABLE: dict[str, tuple[Fault, str]] = {}


def fault(function: Fault) -> Fault:
    """Puts a kind of fault into the list under its function's name."""
    FAULTS[function.__name__] = function
    return function


def undetectable(why: str) -> Callable[[Fault], Fault]:
    """As `fault`, for a kind that leaves no trace."""

    def keep(function: Fault) -> Fault:
        UNDETECTABLE[function.__name__] = function, why
        return function

    return keep


# Finding a place


def values(log: Log, kind: str) -> list[int]:
    """The places of a kind's values."""
    return [i for i, e in enumerate(log) if e.kind == kind and e.value is not None]


def group_of(log: Log, at: int) -> list[int]:
    """The places of the records of the group that the record at ``at`` is of."""
    return [i for i, e in enumerate(log) if e.group == log[at].group]


def operation_of(log: Log, at: int) -> list[int]:
    """The places of the operation that the record at ``at`` is of."""
    own = group_of(log, at)
    here = own.index(at)
    first = last = here
    while first > 0 and same_operation(log[own[first - 1]], log[own[first]]):
        first -= 1
    while last + 1 < len(own) and same_operation(log[own[last]], log[own[last + 1]]):
        last += 1
    return own[first : last + 1]


def operations(log: Log) -> list[list[int]]:
    """The places of every operation, group by group."""
    last: dict[str, list[int]] = {}
    found = []
    for i, item in enumerate(log):
        operation = last.get(item.group)
        if operation is None or not same_operation(log[operation[-1]], item):
            operation = last[item.group] = []
            found.append(operation)
        operation.append(i)
    return found


def operation_start(log: Log, at: int) -> int:
    """The offset at which the operation of the record at ``at`` begins."""
    return log[operation_of(log, at)[0]].offset


def previous(log: Log, at: int) -> LogEntry | None:
    """The record of the same key before this one."""
    for item in reversed(log[:at]):
        if (item.group, item.key) == (log[at].group, log[at].key):
            return item
    return None


def latest_values(log: Log, at: int, group: str, kind: str) -> dict[str, LogEntry]:
    """The newest value of each key of a kind before ``at``, in a group."""
    found: dict[str, LogEntry] = {}
    for item in log[:at]:
        if item.group == group and item.kind == "3" and item.value is None:
            found.clear()
        if item.group == group and item.kind == kind:
            found[item.member] = item
            if item.value is None:
                del found[item.member]
    return found


def injection_at(log: Log, at: int, first: int | None = None) -> Injection:
    """What was done at ``at`` in ``log``, after the edit; ``first``: where the operation began."""
    own = group_of(log, at)
    edited = operation_of(log, at)
    later = [i for i in own if i > edited[-1]]
    of_key = [i for i in later if log[i].key == log[at].key]
    next_ones = [operation_of(log, found[0])[-1] for found in (later, of_key) if found]
    until = max(next_ones, default=own[-1])
    item = log[at]
    begin = log[edited[0]].offset if first is None else first
    return Injection(log, item.group, item.partition, item.offset, begin, log[until].offset)


def shift_offsets(log: Log, at: int, by: int, partition: int) -> Log:
    """The log with the offsets of a partition from the place ``at`` on moved by ``by``."""
    return log[:at] + [
        e._replace(offset=e.offset + by) if e.partition == partition else e for e in log[at:]
    ]


def insert_record(log: Log, at: int, item: LogEntry) -> Log:
    """The log with another record before the place ``at``."""
    return [*log[:at], item, *shift_offsets(log, at, 1, item.partition)[at:]]


def append_operation(log: Log, at: int, record: Record) -> tuple[Log, int]:
    """The log with a record as an operation of its own behind that of the record at ``at``, and
    its place."""
    end = operation_of(log, at)[-1]
    last = log[end]
    item = log_entry(last.partition, last.offset + 1, last.timestamp + 1, record)
    return insert_record(log, end + 1, item), end + 1


def drop_record(log: Log, at: int) -> Log:
    """The log without a record, and without a hole where it was."""
    return log[:at] + shift_offsets(log, at + 1, -1, log[at].partition)[at + 1 :]


def value_at(log: Log, at: int) -> dict[str, Any]:
    """The value at a place, to be edited."""
    found = log[at].value
    assert found is not None
    return found


def partitions_of(value: dict[str, Any], field: str) -> list[tuple[str, int]]:
    return [(row["topicId"], n) for row in value[field] for n in row["partitions"]]


def remove_partition(value: dict[str, Any], field: str, place: tuple[str, int]) -> int | None:
    """Take a partition out of a list; its assignment epoch, where one is kept."""
    epoch = None
    for row in value[field]:
        if row["topicId"] == place[0] and place[1] in row["partitions"]:
            index = row["partitions"].index(place[1])
            row["partitions"].pop(index)
            if row.get("assignmentEpochs"):
                epoch = row["assignmentEpochs"].pop(index)
    value[field] = [row for row in value[field] if row["partitions"]]
    return epoch


def add_partition(
    value: dict[str, Any], field: str, place: tuple[str, int], epoch: int = 0
) -> None:
    """Put a partition into a list."""
    row = next((row for row in value[field] if row["topicId"] == place[0]), None)
    if row is None:
        row = {"topicId": place[0], "partitions": []}
        if field != "topicPartitions" and any("assignmentEpochs" in r for r in value[field]):
            row["assignmentEpochs"] = []
        value[field].append(row)
    row["partitions"].append(place[1])
    if row.get("assignmentEpochs") is not None:
        row["assignmentEpochs"].append(epoch)


def pick(rng: random.Random, found: Sequence[Any]) -> Any:
    """One of the places found. Raises NoPlaceError."""
    if not found:
        raise NoPlaceError
    return rng.choice(found)


def next_value_of_key(log: Log, at: int) -> int | None:
    """The place of the next value of the same key, if nothing ends it before."""
    later = [j for j in group_of(log, at) if j > at and log[j].key == log[at].key]
    if not later or log[later[0]].value is None or value_at(log, later[0])["memberEpoch"] < 0:
        return None
    return later[0]
