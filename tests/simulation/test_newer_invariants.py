"""The invariants of share and streams groups: logs of real brokers keep them, and a violation is
detected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kip848_spark.checks.log_entries import SHARE_STREAMS_KEY_TYPES, LogEntry
from kip848_spark.simulation.invariants import Invariants
from kip848_spark.simulation.newer_invariants import BrokenInvariantError
from tests.audit.raw_records import entries_of
from tests.captures import COMMITTED
from tests.conftest import DATA

Record = dict[str, Any]
CAPTURES = sorted(path.name for kind in ("shares", "streams") for path in DATA.glob(f"{kind}-*"))


def _operations(log: list[LogEntry]) -> Iterator[list[Record]]:
    """Adjacent records of one group with the same timestamp."""
    operation: list[Record] = []
    before: tuple[Any, ...] = ()
    for entry in log:
        place = (entry.partition, entry.group, entry.timestamp)
        if place != before and operation:
            yield operation
            operation = []
        operation.append(entry.record)
        before = place
    yield operation


@pytest.mark.parametrize("capture", CAPTURES)
def test_real_brokers_keep_the_invariants(capture: str) -> None:
    log = [e for e in entries_of(DATA / capture / COMMITTED) if e.kind in SHARE_STREAMS_KEY_TYPES]
    invariants = Invariants(capture.rpartition("-")[2])
    for operation in _operations(log):
        invariants.check(operation)
    assert len(log) > 300


def _record(kind: str, member: str | None, **value: Any) -> Record:
    key = {"groupId": "g"} | ({} if member is None else {"memberId": member})
    return {
        "key": {"type": kind, "data": key},
        "value": {"version": "0", "data": value} if value else None,
    }


def _rows(name: str, numbers: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{name: "t", "partitions": list(numbers)}] if numbers else []


def _state(initializing: tuple[int, ...], initialized: tuple[int, ...]) -> Record:
    return _record(
        "15", None, initializingTopics=_rows("topicId", initializing),
        initializedTopics=_rows("topicId", initialized), deletingTopics=[],
    )  # fmt: skip


def _share_target(member: str, *numbers: int) -> Record:
    return _record("13", member, topicPartitions=_rows("topicId", numbers))


def _share_current(member: str, epoch: int, previous: int, *numbers: int) -> Record:
    return _record(
        "14", member, memberEpoch=epoch, previousMemberEpoch=previous, state=0,
        assignedPartitions=_rows("topicId", numbers),
    )  # fmt: skip


def _share_bump(epoch: int) -> list[Record]:
    return [_record("11", None, epoch=epoch, metadataHash=0)]


def _share_epoch(epoch: int) -> Record:
    return _record("12", None, assignmentEpoch=epoch)


SHARED = [
    [_record("10", "A", clientId="a"), *_share_bump(2), _share_target("A"), _share_epoch(2),
     _share_current("A", 2, 0), _state((0, 1), ())],
    [_state((), (0, 1))],
    [*_share_bump(3), _share_target("A", 0, 1), _share_epoch(3), _share_current("A", 3, 2, 0, 1)],
]  # fmt: skip
SHARE_GONE = [_record("14", "A"), _record("13", "A"), _record("10", "A")]
BROKEN_SHARES: dict[str, list[Record]] = {
    "S1: the epoch does not follow 3": _share_bump(5),
    "S2: a target epoch differs": [_share_epoch(4)],
    "S2: a target is not newer": [_share_epoch(3)],
    "S2: a member is ahead": [_share_current("A", 4, 3)],
    "S3: the members with a target": [
        _record("10", "B", clientId="b"), *_share_bump(4), _share_epoch(4)
    ],
    "S4: a new member": [_share_current("B", 3, 2)],
    "S4: a member epoch decreases": [_share_current("A", 2, 3)],
    "S4: the previous epoch": [*_share_bump(4), _share_epoch(4), _share_current("A", 4, 2)],
    "S5: a member is deleted": [_record("10", "A")],
    "S5: a group is deleted before its members": [_record("11", None)],
    "S5: a group is deleted before its target": [*SHARE_GONE, _record("11", None)],
    "S6: a target has": [_share_target("A", 2)],
    "S6: a partition is assigned": [_share_target("A", 0), _share_current("A", 3, 2, 0, 1)],
    "S7: a partition is initialized and": [_state((0,), (0, 1))],
    "S7: a partition is initialized that": [_state((), (0, 1, 2))],
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN_SHARES)
def test_violations_in_share_groups_are_detected(rule: str) -> None:
    invariants = Invariants("4.3")
    for operation in SHARED:
        invariants.check(operation)
    with pytest.raises(BrokenInvariantError, match=rule):
        invariants.check(BROKEN_SHARES[rule])


ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
Numbers = tuple[int, ...]


def _tasks(active: Numbers = (), standby: Numbers = (), suffix: str = "") -> dict[str, Any]:
    lists = (_rows("subtopologyId", numbers) for numbers in (active, standby, ()))
    return {f"{role}{suffix}": rows for role, rows in zip(ROLES, lists, strict=True)}


def _thread(member: str) -> Record:
    return _record("19", member, processId=f"process-{member}")


def _goal(member: str, active: Numbers = (), standby: Numbers = ()) -> Record:
    return _record("21", member, **_tasks(active, standby))


def _held(
    member: str, epoch: int, previous: int, active: Numbers = (), standby: Numbers = (),
    revoking: Numbers = (), state: int = 1,
) -> Record:  # fmt: skip
    return _record(
        "22", member, memberEpoch=epoch, previousMemberEpoch=previous, state=state,
        **_tasks(active, standby), **_tasks(revoking, suffix="PendingRevocation"),
    )  # fmt: skip


def _bump(epoch: int, **more: Any) -> Record:
    return _record("17", None, epoch=epoch, metadataHash=1, **more)


def _goal_epoch(epoch: int) -> Record:
    return _record("20", None, assignmentEpoch=epoch)


STREAMED = [
    [_thread("A"), _record("23", None, epoch=0, subtopologies=[]), _bump(2),
     _goal("A", (0, 1)), _goal_epoch(2), _held("A", 2, 0, (0, 1))],
]  # fmt: skip
B_JOINS = [_thread("B"), _bump(3), _goal("B", (1,), (0,)), _goal("A", (0,), (1,)), _goal_epoch(3)]
THREAD_GONE = [_record("22", "A"), _record("21", "A"), _record("19", "A")]
BROKEN_STREAMS: dict[str, list[Record]] = {
    "T1: the epoch does not follow 2": [_bump(2)],
    "T2: a target epoch differs": [_goal_epoch(3)],
    "T2: a target is not newer": [_goal_epoch(2)],
    "T2: a member is ahead": [_held("A", 3, 2, (0, 1))],
    "T3: the members with a target": [_thread("B"), _bump(3), _goal_epoch(3)],
    "T4: a member epoch decreases": [_held("A", 1, 2, (0, 1))],
    "T4: the previous epoch": [*B_JOINS, _held("A", 3, 1, (0,))],
    "T4: leaving changes": [_held("A", -2, 2, (0, 1))],
    "T5: a member is deleted": [_record("19", "A")],
    "T5: a group is deleted before its members": [_record("17", None)],
    "T5: a group is deleted before its target": [*THREAD_GONE, _record("17", None)],
    "T6: a task is active in two": [_thread("B"), _bump(3), _goal("B", (1,)), _goal_epoch(3)],
    "T7: tasks pending": [_held("A", 2, 2, (0,), revoking=(1,))],
    "T7: a member holds a task in two": [_held("A", 2, 2, (0,), revoking=(0,), state=2)],
    "T8: a task is assigned that": [_held("A", 2, 2, (0, 1, 2))],
    "T8: a task is pending that": [_held("A", 2, 2, (0, 1), revoking=(5,), state=2)],
    "T9: a stable member": [*B_JOINS, _held("A", 3, 2, (0, 1))],
    "T10: two members": [*B_JOINS, _held("B", 3, 0, (1,), state=3)],
}


@pytest.mark.parametrize("rule", BROKEN_STREAMS)
def test_violations_in_streams_groups_are_detected(rule: str) -> None:
    invariants = Invariants("4.3")
    for operation in STREAMED:
        invariants.check(operation)
    with pytest.raises(BrokenInvariantError, match=rule):
        invariants.check(BROKEN_STREAMS[rule])


def test_a_stored_description_keeps_the_epoch() -> None:
    """From 4.4, key 17 is written again when a description of the topology is stored."""
    invariants = Invariants("4.4")
    for operation in (
        *STREAMED,
        [_bump(2, storedDescriptionTopologyEpoch=-2)],
        [_bump(2, storedDescriptionTopologyEpoch=0)],
        [*B_JOINS, _held("B", 3, 0, state=3)],
        [_held("A", 2, 2, (0,), revoking=(1,), state=2)],
        [_held("A", 3, 2, (0,), (1,))],
        [_held("B", 3, 3, (1,), (0,))],
    ):
        invariants.check(operation)
    with pytest.raises(BrokenInvariantError, match="T1"):
        invariants.check([_bump(3)])
