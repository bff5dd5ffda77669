"""The invariants of a log: records of real brokers keep them, and a violation is detected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.simulation.invariants import Invariants
from kip848_spark.simulation.newer_invariants import BrokenInvariantError
from tests.captures import DUMP, read_dump
from tests.conftest import DATA

Record = dict[str, Any]
REAL = sorted(path for path in DATA.glob("kafka-*") if (path / DUMP).exists())
CONTROL = {"2", "3", "4", "5", "6", "7", "8", "16"}


def _operations(dump: Path) -> Iterator[list[Record]]:
    """Adjacent control records of one group with the same timestamp."""
    operation: list[Record] = []
    before: tuple[Any, ...] = ()
    for line in read_dump(dump):
        if "key" not in line or line["key"]["type"] not in CONTROL:
            continue
        group = line["key"]["data"].get("groupId") or line["key"]["data"].get("group")
        place = (line["partition"], group, line["timestamp"])
        if place != before and operation:
            yield operation
            operation = []
        operation.append({"key": line["key"], "value": line["payload"]})
        before = place
    yield operation


@pytest.mark.parametrize("capture", REAL, ids=lambda path: path.name)
def test_real_brokers_keep_the_invariants(capture: Path) -> None:
    invariants = Invariants(capture.name.removeprefix("kafka-"))
    count = 0
    for operation in _operations(capture / DUMP):
        invariants.check(operation)
        count += len(operation)
    assert count > 300


def _record(kind: str, member: str | None, **value: Any) -> Record:
    key = {"groupId": "g"} | ({} if member is None else {"memberId": member})
    return {
        "key": {"type": kind, "data": key},
        "value": {"version": "0", "data": value} if value else None,
    }


def _rows(*numbers: int, epoch: int = 2) -> list[dict[str, Any]]:
    numbers_of = [{"topicId": "t", "partitions": list(numbers)}]
    return [row | {"assignmentEpochs": [epoch] * len(numbers)} for row in numbers_of if numbers]


def _target(member: str, *numbers: int) -> Record:
    return _record("7", member, topicPartitions=_rows(*numbers))


def _current(
    member: str, epoch: int, previous: int, *assigned: int, revoking: tuple[int, ...] = (),
    state: int = 0, newest: int = 2,
) -> Record:  # fmt: skip
    return _record(
        "8", member, memberEpoch=epoch, previousMemberEpoch=previous, state=state,
        assignedPartitions=_rows(*assigned, epoch=newest),
        partitionsPendingRevocation=_rows(*revoking, epoch=newest),
    )  # fmt: skip


def _epoch(epoch: int) -> Record:
    return _record("3", None, epoch=epoch)


def _target_epoch(epoch: int) -> Record:
    return _record("6", None, assignmentEpoch=epoch)


JOINED = [
    _record("5", "A", clientId="a"), _epoch(2), _target("A", 0, 1), _target_epoch(2),
    _current("A", 2, 0, 0, 1),
]  # fmt: skip
B_JOINS = [_record("5", "B", clientId="b"), _epoch(3), _target("B", 1), _target("A", 0)]
A_REVOKES = _current("A", 2, 2, 0, revoking=(1,), state=1)
GONE = [_record("8", "A"), _record("7", "A"), _record("5", "A")]

BROKEN: dict[str, list[list[Record]]] = {
    "C1: the epoch does not follow 2": [[_epoch(4)]],
    "C2: a member is ahead": [[_epoch(3)], [_current("A", 3, 2, 0, 1)]],
    "C3: a target epoch differs": [[_target_epoch(3)]],
    "C3: a target is not newer": [[_target_epoch(2)]],
    "C4: the members with a target": [
        [_record("5", "B", clientId="b"), _epoch(3), _target_epoch(3)]
    ],
    "C4: a partition is in two": [
        [_record("5", "B", clientId="b"), _epoch(3), _target("B", 1), _target_epoch(3)]
    ],
    "C5: a member epoch of -1": [[_current("A", -1, 2, 0, 1)]],
    "C5: a member epoch decreases": [[_current("A", 1, 2, 0, 1)]],
    "C6: the previous epoch": [[_current("A", 2, 1, 0)]],
    "C6: leaving changes": [[_current("A", -2, 2, 0, 1, newest=0)]],
    "C7: a partition is both": [[_current("A", 2, 2, 0, revoking=(0,), state=1)]],
    "C7: a member with pending": [[_current("A", 2, 2, 0, revoking=(1,))]],
    "C7: a member in UNREVOKED": [[_current("A", 2, 2, 0, 1, state=1)]],
    "C8: a partition is held by two": [[*B_JOINS, _target_epoch(3), _current("B", 3, 0, 1)]],
    "C9: a partition is assigned that": [[_current("A", 2, 2, 0, 1, 2)]],
    "C9: a partition is pending that": [[_current("A", 2, 2, 0, revoking=(5,), state=1)]],
    "C10: a stable member": [[*B_JOINS, _target_epoch(3), _current("A", 3, 2, 0, 1)]],
    "C11: a member is deleted before its assignment": [[_record("5", "A")]],
    "C11: a member is deleted before its target": [[_record("8", "A"), _record("5", "A")]],
    "C11: a group is deleted before its members": [[_record("3", None)]],
    "C11: a group is deleted before its target": [[*GONE, _record("3", None)]],
    "C12: an assignment epoch exceeds": [[_current("A", 2, 2, 0, 1, newest=3)]],
}


@pytest.mark.parametrize("rule", BROKEN)
def test_violations_are_detected(rule: str) -> None:
    invariants = Invariants("4.3")
    invariants.check(JOINED)
    *valid, broken = BROKEN[rule]
    for operation in valid:
        invariants.check(operation)
    with pytest.raises(BrokenInvariantError, match=rule):
        invariants.check(broken)


def test_rebalance_and_leave_keep_the_invariants() -> None:
    invariants = Invariants("4.3")
    for operation in (
        JOINED,
        [
            *B_JOINS,
            _target_epoch(3),
            _record("8", "B", **_current("B", 3, 0, state=2)["value"]["data"]),
        ],
        [A_REVOKES],
        [_current("A", 3, 2, 0)],
        [_current("B", 3, 3, 1, newest=3)],
        [*GONE, _epoch(4)],
        [_target("B", 0, 1), _target_epoch(4), _current("B", 4, 3, 0, 1, newest=4)],
    ):
        invariants.check(operation)
