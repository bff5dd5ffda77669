"""Faults put into real logs of share groups: what a coordinator would never have written."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import same_operation

Log = list[LogEntry]
ShareFault = Callable[[Log, int, random.Random], Log | None]
"""Edits a copy of a group's log at a record; None if that record is no place for the fault."""
SHARE_FAULTS: dict[str, ShareFault] = {}
UNDETECTABLE = {
    "wrong_hash": "the topics may have been others for a moment, if the next hash is of others too",
    "new_epoch_without_cause": "the epoch may have another cause as well",
}
"""Kinds that leave no trace in some places, and why."""


def _fault(function: ShareFault) -> ShareFault:
    SHARE_FAULTS[function.__name__] = function
    return function


def _value(log: Log, at: int, kind: str) -> tuple[Log, dict[str, Any]] | None:
    """A copy of the log, and the value in it of the record, if it is of this kind."""
    if log[at].kind != kind or log[at].value is None:
        return None
    edited = list(log)
    edited[at] = copy.deepcopy(log[at])
    value = edited[at].record["value"]["data"]
    edited[at] = edited[at]._replace(value=value)
    return edited, value


def _operation(log: Log, at: int) -> range:
    """The positions of the records of an operation."""
    first = last = at
    while first > 0 and same_operation(log[first - 1], log[first]):
        first -= 1
    while last + 1 < len(log) and same_operation(log[last], log[last + 1]):
        last += 1
    return range(first, last + 1)


def operation_start(log: Log, at: int) -> int:
    """The offset of the first record of an operation."""
    return log[_operation(log, at)[0]].offset


def _dropped(log: Log, at: int) -> Log:
    """The log without a record; what follows in the operation keeps adjacent offsets."""
    return [*log[:at], *_moved(log[at + 1 :], -1)]


def _moved(log: Log, by: int) -> Log:
    return [entry._replace(offset=entry.offset + by) for entry in log]


def _add(by: int, kind: str, field: str) -> ShareFault:
    def edit(log: Log, at: int, rng: random.Random) -> Log | None:
        found = _value(log, at, kind)
        if found is None:
            return None
        found[1][field] += by
        return found[0]

    return edit


SHARE_FAULTS["group_epoch_too_high"] = _add(1, "11", "epoch")
SHARE_FAULTS["group_epoch_repeated"] = _add(-1, "11", "epoch")
SHARE_FAULTS["target_epoch_too_high"] = _add(1, "12", "assignmentEpoch")
SHARE_FAULTS["target_epoch_too_low"] = _add(-1, "12", "assignmentEpoch")
SHARE_FAULTS["member_epoch_too_high"] = _add(1, "14", "memberEpoch")
SHARE_FAULTS["member_epoch_too_low"] = _add(-1, "14", "memberEpoch")
SHARE_FAULTS["previous_epoch_wrong"] = _add(-1, "14", "previousMemberEpoch")
SHARE_FAULTS["member_state_wrong"] = _add(1, "14", "state")
SHARE_FAULTS["wrong_hash"] = _add(1, "11", "metadataHash")


def _without_partition(kind: str, field: str) -> ShareFault:
    def edit(log: Log, at: int, rng: random.Random) -> Log | None:
        found = _value(log, at, kind)
        rows = [row for row in found[1][field] if row["partitions"]] if found else []
        if found is None or not rows:
            return None
        row = rng.choice(rows)
        row["partitions"].remove(rng.choice(row["partitions"]))
        return found[0]

    return edit


def _with_partition(kind: str, field: str, far: int) -> ShareFault:
    def edit(log: Log, at: int, rng: random.Random) -> Log | None:
        found = _value(log, at, kind)
        if found is None or not found[1][field]:
            return None
        row = rng.choice(found[1][field])
        row["partitions"].append(max(row["partitions"], default=-1) + far)
        return found[0]

    return edit


SHARE_FAULTS["target_lacks_partition"] = _without_partition("13", "topicPartitions")
SHARE_FAULTS["assignment_lacks_partition"] = _without_partition("14", "assignedPartitions")
SHARE_FAULTS["target_has_next_partition"] = _with_partition("13", "topicPartitions", 1)
SHARE_FAULTS["target_has_strange_partition"] = _with_partition("13", "topicPartitions", 1_000)
SHARE_FAULTS["assignment_has_next_partition"] = _with_partition("14", "assignedPartitions", 1)
SHARE_FAULTS["initialized_unasked"] = _with_partition("15", "initializedTopics", 500)


def _newest(log: Log, at: int) -> dict[str, Any] | None:
    """The value of this key before a record."""
    return next((e.value for e in reversed(log[:at]) if e.key == log[at].key), None)


@_fault
def target_emptied(log: Log, at: int, rng: random.Random) -> Log | None:
    """A target that has partitions loses all of them."""
    found = _value(log, at, "13")
    if found is None or not any(row["partitions"] for row in found[1]["topicPartitions"]):
        return None
    found[1]["topicPartitions"].clear()
    return found[0]


@_fault
def assignment_emptied(log: Log, at: int, rng: random.Random) -> Log | None:
    """An assignment that has partitions loses all of them."""
    found = _value(log, at, "14")
    if found is None or not any(row["partitions"] for row in found[1]["assignedPartitions"]):
        return None
    found[1]["assignedPartitions"].clear()
    return found[0]


@_fault
def targets_exchanged(log: Log, at: int, rng: random.Random) -> Log | None:
    """Two members of one operation get each other's target."""
    others = [
        i
        for i in _operation(log, at)
        if i != at and log[i].kind == "13" and log[i].value is not None
        for i in _operation(log, at)
        if i != at and log[i].kind == "13" and log[i].value is not None
    ]
    found = _value(log, at, "13")
    if found is None or not others:
        return None
    edited, value = found
    other = rng.choice(others)
    second = _value(edited, other, "13")
    assert second is not None
    if _places(value) == _places(second[1]):
        return None
    mine, theirs = value["topicPartitions"], second[1]["topicPartitions"]
    value["topicPartitions"], second[1]["topicPartitions"] = theirs, mine
    return second[0]


def _places(value: dict[str, Any]) -> set[tuple[str, int]]:
    return {(row["topicId"], n) for row in value["topicPartitions"] for n in row["partitions"]}


def _lost(kind: str, *, value: bool = True) -> ShareFault:
    def edit(log: Log, at: int, rng: random.Random) -> Log | None:
        if log[at].kind != kind or (log[at].value is not None) != value:
            return None
        own = _operation(log, at)
        if len(own) == 1:
            return None
        if kind == "10" and value and _newest(log, at) is not None:
            return None  # a new rack changes nothing else, and new topics not always
        if kind == "13" and value and _is_same_target(log, at):
            return None
        if kind == "14" and value and not _is_used(log, at):
            return None
        return _dropped(log, at)

    return edit


def _is_same_target(log: Log, at: int) -> bool:
    before, after = _newest(log, at), log[at].value
    assert after is not None
    return (_places(before) if before is not None else set()) == _places(after)


def _is_used(log: Log, at: int) -> bool:
    """Whether a later assignment of the member follows from the epochs of this one."""
    before, own = _newest(log, at), log[at].value
    if before is not None and own is not None and before["memberEpoch"] == own["memberEpoch"]:
        return False
    later = next((e for e in log[at + 1 :] if e.key == log[at].key), None)
    if later is None or later.value is None or own is None:
        return False
    return bool(later.value["memberEpoch"] != own["memberEpoch"])


SHARE_FAULTS["lost_member"] = _lost("10")
SHARE_FAULTS["lost_group_epoch"] = _lost("11")
SHARE_FAULTS["lost_target_epoch"] = _lost("12")
SHARE_FAULTS["lost_target"] = _lost("13")
SHARE_FAULTS["lost_assignment"] = _lost("14")
SHARE_FAULTS["lost_member_tombstone"] = _lost("10", value=False)
SHARE_FAULTS["lost_target_tombstone"] = _lost("13", value=False)
SHARE_FAULTS["lost_assignment_tombstone"] = _lost("14", value=False)


@_fault
def lost_initialization(log: Log, at: int, rng: random.Random) -> Log | None:
    """The record that asks for share state is lost, and its answer is there."""
    value = log[at].value
    if log[at].kind != "15" or value is None or not value["initializingTopics"]:
        return None
    answer = next((e for e in log[at + 1 :] if e.kind == "15"), None)
    if answer is None or answer.value is None or answer.value["initializingTopics"]:
        return None
    asked = {(row["topicId"], n) for row in value["initializingTopics"] for n in row["partitions"]}
    given = {
        (row["topicId"], n) for row in answer.value["initializedTopics"] for n in row["partitions"]
    }
    before = next((e for e in reversed(log[:at]) if e.kind == "15"), None)
    if before is not None and before.value is not None and before.value["initializingTopics"]:
        return None  # it may have been asked for already
    return _dropped(log, at) if asked & given else None


@_fault
def records_exchanged(log: Log, at: int, rng: random.Random) -> Log | None:
    """Two neighbours of one operation, of different kinds, change places."""
    own = _operation(log, at)
    if at + 1 not in own or log[at].kind == log[at + 1].kind or len(own) < 4:
        return None
    if log[at].kind == "10" and _newest(log, at) is not None:
        return None  # a new rack is an operation of its own
    if {log[at].kind, log[at + 1].kind} & {"15"} or (log[at].kind, log[at + 1].kind) in (
        ("10", "14"),
        ("12", "14"),
    ):
        return None  # either order is two operations of one millisecond
    first, second = log[at], log[at + 1]
    swapped = [
        second._replace(offset=first.offset),
        first._replace(offset=second.offset),
    ]
    return [*log[:at], *swapped, *log[at + 2 :]]


@_fault
def record_doubled(log: Log, at: int, rng: random.Random) -> Log | None:
    """A record of an operation occurs twice."""
    if log[at].kind not in ("10", "11", "12", "13", "14") or len(_operation(log, at)) < 3:
        return None
    return [*log[: at + 1], *_moved(log[at:], 1)]


@_fault
def tombstone_of_another(log: Log, at: int, rng: random.Random) -> Log | None:
    """One of the tombstones of a member that leaves names another member."""
    entry = log[at]
    others = sorted({e.member for e in log[:at] if e.kind == "10"} - {entry.member})
    if entry.value is not None or entry.kind not in ("10", "13", "14") or not others:
        return None
    other = rng.choice(others)
    record = copy.deepcopy(entry.record)
    record["key"]["data"]["memberId"] = other
    return [*log[:at], entry._replace(record=record, member=other), *log[at + 1 :]]


@_fault
def new_epoch_without_cause(log: Log, at: int, rng: random.Random) -> Log | None:
    """A new group epoch whose cause, a change of a member's topics, is undone."""
    found = _value(log, at, "10")
    if found is None or (log[at + 1].kind if at + 1 < len(log) else "") != "11":
        return None
    before = [e for e in log[:at] if e.kind == "10" and e.member == log[at].member]
    if not before or before[-1].value is None:
        return None
    if sorted(before[-1].value["subscribedTopicNames"]) == sorted(found[1]["subscribedTopicNames"]):
        return None
    found[1]["subscribedTopicNames"] = list(before[-1].value["subscribedTopicNames"])
    found[1]["rackId"] = "elsewhere"
    return found[0]
