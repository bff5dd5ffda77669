"""Conversions from one protocol to the other that lose or add something, and classic groups."""

from __future__ import annotations

import base64
import copy
import random
from dataclasses import replace
from typing import Any

from kip848_spark.coordinator.consumer_protocol import (
    ClassicAssignment,
    assignment_bytes,
    read_assignment,
    write_assignment,
)
from kip848_spark.coordinator.records import tombstone
from tests.audit.faults.injection import (
    Injection,
    Log,
    NoPlaceError,
    add_partition,
    append_operation,
    drop_record,
    fault,
    group_of,
    injection_at,
    latest_values,
    operation_of,
    operations,
    partitions_of,
    pick,
    previous,
    remove_partition,
    undetectable,
    value_at,
    values,
)


def _upgrades(log: Log) -> list[int]:
    return [
        i
        for i, e in enumerate(log)
        if e.kind == "2" and e.value is None and len(operation_of(log, i)) > 5
    ]


@fault
def wrong_generation_at_upgrade(log: Log, rng: random.Random) -> Injection:
    start = pick(rng, _upgrades(log))
    for i in operation_of(log, start):
        if log[i].kind == "3":
            value_at(log, i)["epoch"] += rng.choice((-1, 3))
            return injection_at(log, i)
    raise NoPlaceError


@fault
def upgrade_loses_a_partition(log: Log, rng: random.Random) -> Injection:
    start = pick(rng, _upgrades(log))
    group = operation_of(log, start)
    at = next(i for i in group if log[i].kind == "8")
    value = value_at(log, at)
    remove_partition(
        value, "assignedPartitions", pick(rng, partitions_of(value, "assignedPartitions"))
    )
    return injection_at(log, at)


@fault
def wrong_generation_at_downgrade(log: Log, rng: random.Random) -> Injection:
    places = [
        i
        for i in values(log, "2")
        if i and log[i - 1].kind == "3" and log[i - 1].value is None
        and log[i - 1].group == log[i].group
    ]  # fmt: skip
    at = pick(rng, places)
    value_at(log, at)["generation"] += rng.choice((-1, 1, 2))
    return injection_at(log, at)


@fault
def classic_generation_decreases(log: Log, rng: random.Random) -> Injection:
    places = [
        i
        for i in values(log, "2")
        if (before := previous(log, i)) is not None
        and before.value is not None
        and before.value["generation"] > 0
    ]
    at = pick(rng, places)
    before = previous(log, at)
    assert before is not None
    assert before.value is not None
    value_at(log, at)["generation"] = rng.randrange(before.value["generation"])
    return injection_at(log, at)


def _downgrades(log: Log) -> list[int]:
    """PartitionSets of classic records with members that end a conversion."""
    return [
        i
        for i in values(log, "2")
        if len(own := operation_of(log, i)) > 3
        and any(log[j].kind == "3" and log[j].value is None for j in own if j < i)
        and value_at(log, i)["members"]
    ]


@fault
def upgrade_gains_a_partition(log: Log, rng: random.Random) -> Injection:
    """A member is given one that it had not as a classic member."""
    start = pick(rng, _upgrades(log))
    group = operation_of(log, start)
    at = next(i for i in group if log[i].kind == "8")
    rows = partitions_of(value_at(log, at), "assignedPartitions")
    epoch = value_at(log, at)["memberEpoch"]
    topic = pick(rng, rows)[0]
    add_partition(value_at(log, at), "assignedPartitions", (topic, rng.randint(50, 90)), epoch)
    return injection_at(log, at)


@fault
def upgrade_without_classic_tombstone(log: Log, rng: random.Random) -> Injection:
    """The classic group's tombstone is lost, the consumer group begins on top of it."""
    at = pick(rng, _upgrades(log))
    first = log[operation_of(log, at)[0]].offset
    return injection_at(drop_record(log, at), at, first)


@fault
def downgrade_loses_a_partition(log: Log, rng: random.Random) -> Injection:
    """A member is told less than its target was."""
    at, member = pick(rng, [(i, m) for i in _downgrades(log) for m in value_at(log, i)["members"]])
    reported = read_assignment(assignment_bytes(member["assignment"]))
    rows = [(topic, numbers) for topic, numbers in reported.partitions if numbers]
    if not rows:
        raise NoPlaceError
    short = pick(rng, rows)
    left = tuple((t, n[1:] if (t, n) == short else n) for t, n in reported.partitions)
    _tell(member, replace(reported, partitions=left))
    return injection_at(log, at)


@fault
def downgrade_gains_a_partition(log: Log, rng: random.Random) -> Injection:
    """A member is told more than its target was."""
    at, member = pick(rng, [(i, m) for i in _downgrades(log) for m in value_at(log, i)["members"]])
    reported = read_assignment(assignment_bytes(member["assignment"]))
    if not reported.partitions:
        raise NoPlaceError
    (topic, numbers), *others = reported.partitions
    more = ((topic, (*numbers, rng.randint(50, 90))), *others)
    _tell(member, replace(reported, partitions=more))
    return injection_at(log, at)


def _tell(member: dict[str, Any], assignment: ClassicAssignment) -> None:
    member["assignment"] = base64.b64encode(write_assignment(assignment)).decode()


@fault
def downgrade_loses_a_member(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, [i for i in _downgrades(log) if len(value_at(log, i)["members"]) > 1])
    members = value_at(log, at)["members"]
    leader = value_at(log, at)["leader"]
    members.remove(pick(rng, [m for m in members if m["memberId"] != leader]))
    return injection_at(log, at)


@fault
def downgrade_gains_a_member(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _downgrades(log))
    members = value_at(log, at)["members"]
    again = dict(pick(rng, members))
    members.append(again | {"memberId": f"nobody-{rng.randrange(1000)}", "groupInstanceId": None})
    return injection_at(log, at)


@fault
def leader_not_a_member(log: Log, rng: random.Random) -> Injection:
    """A classic group's leader is none of its members."""
    at = pick(rng, [i for i in values(log, "2") if value_at(log, i)["members"]])
    value_at(log, at)["leader"] = f"nobody-{rng.randrange(1000)}"
    return injection_at(log, at)


@fault
def downgrade_keeps_leaving_member(log: Log, rng: random.Random) -> Injection:
    """The member whose leave ended the consumer group is in the classic one."""
    places = []
    for i in _downgrades(log):
        members = {m["memberId"] for m in value_at(log, i)["members"]}
        last = latest_values(log, operation_of(log, i)[0], log[i].group, "5")
        new = {e for e, item in last.items() if not (item.value or {})["classicMemberMetadata"]}
        places += [(i, member) for member in sorted(new - members)]
    at, leaver = pick(rng, places)
    members = value_at(log, at)["members"]
    members.append(dict(members[0]) | {"memberId": leaver, "groupInstanceId": None})
    return injection_at(log, at)


@fault
def duplicate_classic_instance_id(log: Log, rng: random.Random) -> Injection:
    """Two members of a classic group are one instance."""
    at = pick(rng, [i for i in values(log, "2") if len(value_at(log, i)["members"]) > 1])
    for member in value_at(log, at)["members"][:2]:
        member["groupInstanceId"] = "one"
    return injection_at(log, at)


def _at_rest(log: Log) -> list[int]:
    """PartitionSets of assignments that end an operation of a consumer group."""
    found = [operation[-1] for operation in operations(log)]
    return [i for i in found if log[i].kind == "8" and log[i].value is not None]


@fault
def classic_record_over_a_consumer_group(log: Log, rng: random.Random) -> Injection:
    """A classic record of the group, as it once was, comes while it is of the new protocol."""
    places = []
    for i in _at_rest(log):
        before = [e for e in log[:i] if (e.group, e.kind) == (log[i].group, "2") and e.value]
        places += [(i, e.record) for e in before[-1:]]
    at, record = pick(rng, places)
    return injection_at(*append_operation(log, at, copy.deepcopy(record)))


@fault
def classic_tombstone_over_a_consumer_group(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _at_rest(log))
    return injection_at(*append_operation(log, at, tombstone("2", group=log[at].group)))


@undetectable("of a classic group's generations not every one is on record")
def classic_generation_skips(log: Log, rng: random.Random) -> Injection:
    """The last one of a classic group."""
    own = [i for i in values(log, "2") if group_of(log, i)[-1] == i and previous(log, i)]
    at = pick(rng, [i for i in own if len(operation_of(log, i)) == 1])
    value_at(log, at)["generation"] += rng.randint(1, 5)
    return injection_at(log, at)
