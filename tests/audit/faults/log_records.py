"""Records that are lost, doubled, moved or of somebody else."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

from kip848_spark.checks.log_entries import log_entry
from kip848_spark.checks.operations import same_operation
from kip848_spark.coordinator.records import tombstone
from tests.audit.faults.injection import (
    FAULTS,
    Fault,
    Injection,
    Log,
    NoPlaceError,
    append_operation,
    drop_record,
    fault,
    group_of,
    injection_at,
    insert_record,
    latest_values,
    next_value_of_key,
    operation_of,
    operation_start,
    operations,
    pick,
    previous,
    value_at,
    values,
)


@fault
def swapped_records(log: Log, rng: random.Random) -> Injection:
    """Two neighbours of one operation, of different kinds, change places."""
    pairs = [
        (i, i + 1)
        for i in range(len(log) - 1)
        if log[i].group == log[i + 1].group
        and same_operation(log[i], log[i + 1])
        and log[i].kind != log[i + 1].kind
        # a member's own record may be an operation by itself, and so may its assignment
        and (log[i].kind, log[i + 1].kind) != ("5", "8")
        and len(operation_of(log, i)) > 2  # two could be two operations of one millisecond
        # and a target in which nothing changes is an operation by itself, too
        and (log[i - 1].kind == "7" or (log[i].kind, log[i + 1].kind) != ("6", "8"))
    ]
    one, other = pick(rng, pairs)
    a, b = log[one], log[other]
    log[one], log[other] = b._replace(offset=a.offset), a._replace(offset=b.offset)
    return injection_at(log, other)


@fault
def duplicated_record(log: Log, rng: random.Random) -> Injection:
    """A record of a consumer group is there twice, side by side. Not a static member's leave: it
    may say so twice."""
    places = [
        i
        for i, e in enumerate(log)
        if e.kind not in ("2", "4") and (e.value or {}).get("memberEpoch") != -2
    ]
    at = pick(rng, places)
    again = copy.deepcopy(log[at])._replace(offset=log[at].offset + 1)
    return injection_at(insert_record(log, at + 1, again), at + 1)


@fault
def old_assignment_appended_again(log: Log, rng: random.Random) -> Injection:
    """An old assignment is appended again behind a newer one."""
    places = []
    for i in values(log, "8"):
        later = [j for j in group_of(log, i) if j > i and log[j].key == log[i].key]
        places += [(i, j) for j in later if not _may_follow(log[j].value, log[i].value)]
    one, other = pick(rng, places)
    again = copy.deepcopy(log[one])._replace(
        offset=log[other].offset + 1, timestamp=log[other].timestamp + 1
    )
    return injection_at(
        insert_record(log, other + 1, again), other + 1, operation_start(log, other)
    )


def _may_follow(last: Any, again: Any) -> bool:
    """Whether a coordinator may write ``again`` after ``last``: a static member may leave
    temporarily at any time, also twice. (After a tombstone there is nothing to repeat.)"""
    return last is None or (
        again["memberEpoch"] == -2
        and again["previousMemberEpoch"] == last["previousMemberEpoch"]
        and again["assignedPartitions"] == last["assignedPartitions"]
    )


def _drop(kind: str, value: bool) -> Fault:
    def drop(log: Log, rng: random.Random) -> Injection:
        places = [
            i
            for i, e in enumerate(log)
            if e.kind == kind and (e.value is not None) == value and group_of(log, i)[-1] != i
        ]
        at = pick(rng, places)
        following = next(i for i in group_of(log, at) if i > at) - 1
        return injection_at(drop_record(log, at), following, operation_start(log, at))

    return drop


for _kind, _name in (("3", "group_epoch"), ("6", "target_epoch"), ("7", "target")):
    FAULTS[f"lost_{_name}"] = _drop(_kind, value=True)
for _kind, _name in (
    ("3", "group"), ("5", "member"), ("6", "target_epoch"), ("7", "target"), ("8", "assignment"),
):  # fmt: skip
    FAULTS[f"lost_{_name}_tombstone"] = _drop(_kind, value=False)


@fault
def lost_member(log: Log, rng: random.Random) -> Injection:
    """The record by which a member joined is lost."""
    places = []
    for i in values(log, "5"):
        before = previous(log, i)
        if before is None or before.value is None:
            places.append(i)
    at = pick(rng, places)
    following = next(i for i in group_of(log, at) if i > at) - 1
    return injection_at(drop_record(log, at), following, operation_start(log, at))


@fault
def lost_assignment(log: Log, rng: random.Random) -> Injection:
    """An assignment is lost whose epoch the member's next one names as the previous one."""
    places = []
    for i in values(log, "8"):
        after = next_value_of_key(log, i)
        before = previous(log, i)
        then = before.value["memberEpoch"] if before is not None and before.value else 0
        if after is not None and value_at(log, after)["previousMemberEpoch"] != then:
            places.append((i, after))
    at, after = pick(rng, places)
    return injection_at(drop_record(log, at), after - 1, operation_start(log, at))


@fault
def orphan_tombstone(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "8"))
    key = {"groupId": log[at].group, "memberId": f"nobody-{rng.randrange(1000)}"}
    lost = log_entry(
        log[at].partition,
        log[at].offset + 1,
        log[at].timestamp + 1,
        tombstone(rng.choice("578"), **key),
    )
    return injection_at(insert_record(log, at + 1, lost), at + 1, operation_start(log, at))


@fault
def epoch_bump_without_cause(log: Log, rng: random.Random) -> Injection:
    """A new epoch that nothing called for, at a time of rest; all later ones are one higher."""
    places = []
    for operation in operations(log):
        at = operation[-1]
        if log[at].kind in ("6", "8") and log[at].value is not None:
            epochs = latest_values(log, at + 1, log[at].group, "3").values()
            targets = latest_values(log, at + 1, log[at].group, "6").values()
            now = {(e.value or {}).get("epoch") for e in epochs}
            if now and now == {(e.value or {}).get("assignmentEpoch") for e in targets}:
                places.append((at, *epochs))
    at, newest = pick(rng, places)
    record = copy.deepcopy(newest.record)
    record["value"]["data"]["epoch"] += 1
    log, bump = append_operation(log, at, record)
    for i in group_of(log, bump):
        if i > bump and log[i].kind in ("2", "3") and log[i].value is None:
            # What becomes of the group goes on from the epoch it had.
            for j in operation_of(log, i):
                if log[j].kind == "2" and log[j].value is not None and value_at(log, j)["members"]:
                    value_at(log, j)["generation"] += 1
            break
        if i > bump and log[i].value is not None:
            _raise(value_at(log, i), record["value"]["data"]["epoch"])
    return injection_at(log, bump)


def _raise(value: dict[str, Any], least: int) -> None:
    """Epochs from ``least`` on are one higher."""
    for name in ("epoch", "assignmentEpoch", "memberEpoch", "previousMemberEpoch"):
        if value.get(name, -1) >= least:
            value[name] += 1
    for field in ("assignedPartitions", "partitionsPendingRevocation"):
        for row in value.get(field, ()):
            if row.get("assignmentEpochs"):
                row["assignmentEpochs"] = [n + (n >= least) for n in row["assignmentEpochs"]]


@fault
def assignment_of_another_group(log: Log, rng: random.Random) -> Injection:
    """A member's assignment bears the name of another consumer group of the partition."""
    at = pick(rng, values(log, "8"))
    groups = {
        e.group
        for e in log[:at]
        if e.kind == "3" and e.partition == log[at].partition and e.value is not None
    } - {log[at].group}
    ended = {e.group for e in log[:at] if e.kind == "3" and e.value is None}
    name = pick(rng, sorted(groups - ended))
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["groupId"] = name
    item = log[at]
    log[at] = log_entry(item.partition, item.offset, item.timestamp, record)
    return injection_at(log, at)


@fault
def assignment_of_another_member(log: Log, rng: random.Random) -> Injection:
    """A member's assignment bears the id of another member of the group. Not a static member's
    leave: it may be any static one that goes."""
    at = pick(rng, [i for i in values(log, "8") if value_at(log, i)["memberEpoch"] != -2])
    others = latest_values(log, at, log[at].group, "5").keys() - {log[at].member}
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["memberId"] = pick(rng, sorted(others))
    item = log[at]
    log[at] = log_entry(item.partition, item.offset, item.timestamp, record)
    return injection_at(log, at)


@fault
def group_ids_swapped(log: Log, rng: random.Random) -> Injection:
    """Two groups' records of one kind bear each other's group id."""
    one = pick(rng, [i for k in "35678" for i in values(log, k)])
    others = [
        i
        for i in values(log, log[one].kind)
        if i > one and log[i].group != log[one].group and log[i].value != log[one].value
    ]
    other = pick(rng, others)
    for at, group in ((one, log[other].group), (other, log[one].group)):
        item, record = log[at], copy.deepcopy(log[at].record)
        record["key"]["data"].update(groupId=group)
        log[at] = log_entry(item.partition, item.offset, item.timestamp, record)
    return injection_at(log, one)


@fault
def split_operation(log: Log, rng: random.Random) -> Injection:
    """A record within an operation bears another time. Not the last one: a member's assignment may
    be an operation by itself."""
    places = [o for o in operations(log) if len(o) > 2]
    operation = pick(rng, places)
    at = pick(rng, operation[1:-1])
    first, last = log[operation[0]].offset, log[operation[-1]].offset
    log[at] = log[at]._replace(timestamp=log[at].timestamp + rng.choice((-1, 1)) * 86_400_000)
    found = injection_at(log, at, first)
    return replace(found, last=max(found.last, last))


@fault
def lost_operation(log: Log, rng: random.Random) -> Injection:
    """All that was written at once is lost, a new epoch among it, and a later one is there."""
    places = []
    for operation in operations(log):
        bumps = [i for i in operation if log[i].kind == "3" and log[i].value is not None]
        if bumps and log[operation[0]].kind != "2" and _epoch_after(log, operation) is not None:
            places.append(operation)
    operation = pick(rng, places)
    first = log[operation[0]].offset
    after = _epoch_after(log, operation)
    assert after is not None
    for i in reversed(operation):
        log = drop_record(log, i)
    after -= len(operation)
    return replace(injection_at(log, after, first), place=first)


def _epoch_after(log: Log, operation: list[int]) -> int | None:
    """The next epoch of the group, if nothing ends the group before."""
    for i in group_of(log, operation[0]):
        if i > operation[-1] and log[i].kind in ("2", "3"):
            return i if log[i].kind == "3" and log[i].value is not None else None
    return None


@fault
def duplicated_operation(log: Log, rng: random.Random) -> Injection:
    """All that was written at once, a new epoch among it, is there once more, a moment later."""
    places = [
        operation
        for operation in operations(log)
        if any(log[i].kind == "3" for i in operation) and all(log[i].kind != "2" for i in operation)
    ]
    operation = pick(rng, places)
    again = [copy.deepcopy(log[i]) for i in operation]
    end = operation[-1]
    for n, item in enumerate(again, 1):
        moved = item._replace(offset=log[end].offset + n, timestamp=item.timestamp + 1)
        log = insert_record(log, end + n, moved)
    return injection_at(log, end + 1)


@fault
def assignment_of_departed_member(log: Log, rng: random.Random) -> Injection:
    """A member that left is given its last assignment again."""
    places = []
    for i, item in enumerate(log):
        if item.kind == "5" and item.value is None:
            own = [e for e in log[:i] if (e.group, e.key) == (item.group, ("8", item.member))]
            last = [e for e in own if e.value is not None]
            if last and log[operation_of(log, i)[-1]].kind != "2":
                places.append((i, last[-1].record))
    at, record = pick(rng, places)
    if any(log[j].member == log[at].member and j > at for j in operation_of(log, at)):
        raise NoPlaceError  # it is back under its old id
    return injection_at(*append_operation(log, at, copy.deepcopy(record)))


@fault
def group_tombstone_alone(log: Log, rng: random.Random) -> Injection:
    """A group with members is ended by the tombstone of its epoch alone."""
    places = [o for o in operations(log) if log[o[-1]].kind == "8" and log[o[-1]].value is not None]
    at = pick(rng, places)[-1]
    return injection_at(*append_operation(log, at, tombstone("3", groupId=log[at].group)))
