"""Faults put into real logs, at random places: what a coordinator would never have written.

Each function edits a log (a fresh copy) and says where, or returns None if the log has no place
for its kind of fault. The groups, members and values are those of the capture.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kip848_spark.audit.entries import Entry, entry
from kip848_spark.audit.operations import same_operation
from kip848_spark.audit.results import Tally
from kip848_spark.coordinator.records import tombstone

Log = list[Entry]


@dataclass(frozen=True)
class Injected:
    """Where a fault was put, and the log with it."""

    log: Log
    group: str
    partition: int
    first: int
    last: int
    """A finding must be within: the operation that was edited, and the group's next one."""

    def found_by(self, tally: Tally) -> bool:
        """Whether the first thing that an audit finds is this."""
        places = [f for f in tally.findings if f.group_id == self.group]
        at = min((f.offset for f in places), default=-1)
        return self.first <= at <= self.last


Fault = Callable[[Log, random.Random], Injected | None]
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


def begin(log: Log, at: int) -> int:
    """The offset at which the operation of the record at ``at`` begins."""
    return log[operation_of(log, at)[0]].offset


def previous(log: Log, at: int) -> Entry | None:
    """The record of the same key before this one."""
    for item in reversed(log[:at]):
        if (item.group, item.key) == (log[at].group, log[at].key):
            return item
    return None


def latest(log: Log, at: int, group: str, kind: str) -> dict[str, Entry]:
    """The newest value of each key of a kind before ``at``, in a group."""
    found: dict[str, Entry] = {}
    for item in log[:at]:
        if item.group == group and item.kind == "3" and item.value is None:
            found.clear()
        if item.group == group and item.kind == kind:
            found[item.member] = item
            if item.value is None:
                del found[item.member]
    return found


def injected(log: Log, at: int, first: int | None = None) -> Injected:
    """What was done at ``at`` in ``log``, after the edit; ``first``: where the operation began."""
    own = group_of(log, at)
    edited = operation_of(log, at)
    later = [i for i in own if i > edited[-1]]
    until = operation_of(log, later[0])[-1] if later else own[-1]
    item = log[at]
    begin = log[edited[0]].offset if first is None else first
    return Injected(log, item.group, item.partition, begin, log[until].offset)


def shifted(log: Log, at: int, by: int, partition: int) -> Log:
    """The log with the offsets of a partition from the place ``at`` on moved by ``by``."""
    return log[:at] + [
        replace(e, offset=e.offset + by) if e.partition == partition else e for e in log[at:]
    ]


def inserted(log: Log, at: int, item: Entry) -> Log:
    """The log with another record before the place ``at``."""
    return [*log[:at], item, *shifted(log, at, 1, item.partition)[at:]]


def dropped(log: Log, at: int) -> Log:
    """The log without a record, and without a hole where it was."""
    return log[:at] + shifted(log, at + 1, -1, log[at].partition)[at + 1 :]


def data(log: Log, at: int) -> dict[str, Any]:
    """The value at a place, to be edited."""
    found = log[at].value
    assert found is not None
    return found


def rows_of(value: dict[str, Any], field: str) -> list[tuple[str, int]]:
    return [(row["topicId"], n) for row in value[field] for n in row["partitions"]]


def without(value: dict[str, Any], field: str, place: tuple[str, int]) -> int | None:
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


def given(value: dict[str, Any], field: str, place: tuple[str, int], epoch: int = 0) -> None:
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


def pick(rng: random.Random, found: list[Any]) -> Any:
    return rng.choice(found) if found else None


# Epochs


@fault
def epoch_back(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, [i for i in values(log, "3") if previous(log, i) and data(log, i)["epoch"] > 1])
    if at is None:
        return None
    data(log, at)["epoch"] -= rng.randint(1, data(log, at)["epoch"] - 1)
    return injected(log, at)


@fault
def epoch_jump(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, [i for i in values(log, "3") if log[operation_of(log, i)[0]].kind != "2"])
    data(log, at)["epoch"] += rng.randint(1, 5)
    return injected(log, at)


@fault
def target_epoch_off(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "6"))
    data(log, at)["assignmentEpoch"] += rng.choice((-1, 1))
    return injected(log, at)


@fault
def member_ahead_of_group(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "8"))
    data(log, at)["memberEpoch"] += rng.randint(20, 40)
    return injected(log, at)


@fault
def member_epoch_off(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "8"))
    data(log, at)["memberEpoch"] += rng.choice((-1, 1))
    return injected(log, at)


@fault
def member_epoch_minus_one(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "8"))
    data(log, at)["memberEpoch"] = -1
    return injected(log, at)


@fault
def wrong_previous_epoch(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "8"))
    data(log, at)["previousMemberEpoch"] += rng.choice((-1, 1, 2))
    return injected(log, at)


@fault
def assignment_epoch_off(log: Log, rng: random.Random) -> Injected | None:
    rows = [
        (i, row)
        for i in values(log, "8")
        for row in data(log, i)["assignedPartitions"]
        if row.get("assignmentEpochs") and previous(log, i)
    ]
    found = pick(rng, rows)
    if found is None:
        return None
    at, row = found
    row["assignmentEpochs"][rng.randrange(len(row["assignmentEpochs"]))] += rng.choice((-1, 1))
    return injected(log, at)


# Assignments


@fault
def owned_twice(log: Log, rng: random.Random) -> Injected | None:
    places = []
    for i in values(log, "8"):
        for member, other in latest(log, i, log[i].group, "8").items():
            if member != log[i].member:
                places += [(i, p) for p in rows_of(other.value or {}, "assignedPartitions")]
    at, place = pick(rng, places)
    if place in rows_of(data(log, at), "assignedPartitions"):
        return None
    given(data(log, at), "assignedPartitions", place, data(log, at)["memberEpoch"])
    return injected(log, at)


@fault
def assignment_misses_a_partition(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, [i for i in values(log, "8") if data(log, i)["assignedPartitions"]])
    value = data(log, at)
    without(value, "assignedPartitions", rng.choice(rows_of(value, "assignedPartitions")))
    return injected(log, at)


@fault
def unsubscribed_topic(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "8"))
    own = {t for i in group_of(log, at) for t in _topics(log[i])}
    others = sorted({t for e in log for t in _topics(e)} - own)
    given(data(log, at), "assignedPartitions", (rng.choice(others), 0), 1)
    return injected(log, at)


def _topics(item: Entry) -> set[str]:
    rows = (item.value or {}).get("topicPartitions", []) if item.kind == "7" else []
    return {row["topicId"] for row in rows}


@fault
def revocation_skipped(log: Log, rng: random.Random) -> Injected | None:
    """The member is at the new epoch with what it was to give up."""
    places = [i for i in values(log, "8") if data(log, i)["partitionsPendingRevocation"]]
    at = pick(rng, places)
    value = data(log, at)
    for place in rows_of(value, "partitionsPendingRevocation"):
        epoch = without(value, "partitionsPendingRevocation", place)
        given(value, "assignedPartitions", place, epoch or 0)
    value["state"] = 0
    value["memberEpoch"] += 1
    return injected(log, at)


@fault
def revokes_what_it_never_had(log: Log, rng: random.Random) -> Injected | None:
    places = [i for i in values(log, "8") if data(log, i)["partitionsPendingRevocation"]]
    at = pick(rng, places)
    value = data(log, at)
    topic = value["partitionsPendingRevocation"][0]["topicId"]
    given(value, "partitionsPendingRevocation", (topic, rng.randint(50, 90)))
    return injected(log, at)


@fault
def wrong_state(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "8"))
    value = data(log, at)
    value["state"] = rng.choice([state for state in (0, 1, 2, 127) if state != value["state"]])
    return injected(log, at)


@fault
def rejoined_with_less(log: Log, rng: random.Random) -> Injected | None:
    """A static member comes back, and a partition of its place is gone."""
    places = [
        i
        for i in values(log, "8")
        if data(log, i)["memberEpoch"] == 0 and data(log, i)["assignedPartitions"]
    ]
    at = pick(rng, places)
    value = data(log, at)
    without(value, "assignedPartitions", rng.choice(rows_of(value, "assignedPartitions")))
    return injected(log, at)


# Targets


def _targets(log: Log) -> list[int]:
    """Places of non-empty targets that an assignor made (an upgrade copies its own)."""
    return [
        i
        for i in values(log, "7")
        if data(log, i)["topicPartitions"] and log[operation_of(log, i)[0]].kind not in ("2", "8")
    ]


@fault
def target_misses_a_partition(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, _targets(log))
    value = data(log, at)
    without(value, "topicPartitions", rng.choice(rows_of(value, "topicPartitions")))
    return injected(log, at)


@fault
def target_with_a_partition_too_many(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, _targets(log))
    value = data(log, at)
    topic = rng.choice(rows_of(value, "topicPartitions"))[0]
    given(value, "topicPartitions", (topic, rng.randint(20, 30)))
    return injected(log, at)


def _pairs(log: Log) -> list[tuple[int, int]]:
    """Places of two members' targets in one operation, the first of them with something."""
    return [
        (i, j)
        for i in _targets(log)
        for j in operation_of(log, i)
        if j != i and log[j].kind == "7" and log[j].value is not None
    ]


@fault
def target_given_twice(log: Log, rng: random.Random) -> Injected | None:
    one, other = pick(rng, _pairs(log))
    place = rng.choice(rows_of(data(log, one), "topicPartitions"))
    given(data(log, other), "topicPartitions", place)
    return injected(log, other)


@fault
def unbalanced_target(log: Log, rng: random.Random) -> Injected | None:
    one, other = pick(rng, _pairs(log))
    for place in rows_of(data(log, one), "topicPartitions"):
        without(data(log, one), "topicPartitions", place)
        given(data(log, other), "topicPartitions", place)
    return injected(log, other)


@fault
def targets_exchanged(log: Log, rng: random.Random) -> Injected | None:
    """Two members of one operation get each other's targets: not sticky, or not in range order."""
    one, other = pick(rng, _pairs(log))
    a, b = data(log, one), data(log, other)
    a["topicPartitions"], b["topicPartitions"] = b["topicPartitions"], a["topicPartitions"]
    return injected(log, other)


# Records


@fault
def swapped(log: Log, rng: random.Random) -> Injected | None:
    """Two neighbours of one operation, of different kinds, change places."""
    pairs = [
        (i, i + 1)
        for i in range(len(log) - 1)
        if log[i].group == log[i + 1].group
        and same_operation(log[i], log[i + 1])
        and log[i].kind != log[i + 1].kind
        and len(operation_of(log, i)) > 2  # two could be two operations of one millisecond
    ]
    one, other = pick(rng, pairs)
    a, b = log[one], log[other]
    log[one], log[other] = replace(b, offset=a.offset), replace(a, offset=b.offset)
    return injected(log, other)


@fault
def duplicated(log: Log, rng: random.Random) -> Injected | None:
    """A record of a consumer group is there twice, side by side."""
    places = [i for i, e in enumerate(log) if e.kind not in ("2", "4")]
    at = pick(rng, places)
    again = replace(copy.deepcopy(log[at]), offset=log[at].offset + 1)
    return injected(inserted(log, at + 1, again), at + 1)


@fault
def replayed_later(log: Log, rng: random.Random) -> Injected | None:
    """An old assignment is appended again behind a newer one."""
    places = []
    for i in values(log, "8"):
        later = [j for j in group_of(log, i) if j > i and log[j].key == log[i].key]
        places += [(i, j) for j in later if log[j].value is not None]
    one, other = pick(rng, places)
    again = replace(
        copy.deepcopy(log[one]), offset=log[other].offset + 1, timestamp=log[other].timestamp + 1
    )
    return injected(inserted(log, other + 1, again), other + 1)


def _drop(kind: str, value: bool) -> Fault:
    def drop(log: Log, rng: random.Random) -> Injected | None:
        places = [
            i
            for i, e in enumerate(log)
            if e.kind == kind and (e.value is not None) == value and group_of(log, i)[-1] != i
        ]
        at = pick(rng, places)
        if at is None:
            return None
        following = next(i for i in group_of(log, at) if i > at) - 1
        return injected(dropped(log, at), following, begin(log, at))

    return drop


for _kind, _name in (("3", "group_epoch"), ("6", "target_epoch"), ("7", "target")):
    FAULTS[f"dropped_{_name}"] = _drop(_kind, value=True)
for _kind, _name in (("5", "member"), ("7", "target"), ("8", "assignment")):
    FAULTS[f"lost_{_name}_tombstone"] = _drop(_kind, value=False)


@fault
def dropped_member(log: Log, rng: random.Random) -> Injected | None:
    """The record by which a member joined is lost."""
    places = []
    for i in values(log, "5"):
        before = previous(log, i)
        if before is None or before.value is None:
            places.append(i)
    at = pick(rng, places)
    following = next(i for i in group_of(log, at) if i > at) - 1
    return injected(dropped(log, at), following, begin(log, at))


@fault
def dropped_assignment(log: Log, rng: random.Random) -> Injected | None:
    """An assignment is lost whose epoch the member's next one names as the previous one."""
    places = []
    for i in values(log, "8"):
        after = _after(log, i)
        before = previous(log, i)
        then = before.value["memberEpoch"] if before is not None and before.value else 0
        if after is not None and data(log, after)["previousMemberEpoch"] != then:
            places.append((i, after))
    at, after = pick(rng, places)
    return injected(dropped(log, at), after - 1, begin(log, at))


def _after(log: Log, at: int) -> int | None:
    """The place of the next value of the same key, if nothing ends it before."""
    later = [j for j in group_of(log, at) if j > at and log[j].key == log[at].key]
    if not later or log[later[0]].value is None or data(log, later[0])["memberEpoch"] < 0:
        return None
    return later[0]


@fault
def orphan_tombstone(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "8"))
    key = {"groupId": log[at].group, "memberId": f"nobody-{rng.randrange(1000)}"}
    lost = entry(
        log[at].partition,
        log[at].offset + 1,
        log[at].timestamp + 1,
        tombstone(rng.choice("578"), **key),
    )
    return injected(inserted(log, at + 1, lost), at + 1, begin(log, at))


@fault
def bump_without_cause(log: Log, rng: random.Random) -> Injected | None:
    """A group's last word is a new epoch that nothing called for."""
    at = pick(rng, values(log, "3"))
    own = group_of(log, at)
    later = [i for i in own if i > at and log[i].kind in ("2", "3")]
    if later:
        return None
    record = copy.deepcopy(log[at].record)
    record["value"]["data"]["epoch"] += 1
    end = log[own[-1]]
    bump = entry(end.partition, end.offset + 1, end.timestamp + 9, record)
    return injected(inserted(log, own[-1] + 1, bump), own[-1] + 1)


@fault
def of_another_group(log: Log, rng: random.Random) -> Injected | None:
    """A member's assignment bears the name of another consumer group of the partition."""
    at = pick(rng, values(log, "8"))
    groups = {
        e.group
        for e in log[:at]
        if e.kind == "3" and e.partition == log[at].partition and e.value is not None
    } - {log[at].group}
    ended = {e.group for e in log[:at] if e.kind == "3" and e.value is None}
    name = pick(rng, sorted(groups - ended))
    if name is None:
        return None
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["groupId"] = name
    item = log[at]
    log[at] = entry(item.partition, item.offset, item.timestamp, record)
    return injected(log, at)


# Topics


@fault
def hash_wrong(log: Log, rng: random.Random) -> Injected | None:
    hashed = {i for i in values(log, "3") if data(log, i).get("metadataHash")}
    places = [
        i
        for i in sorted(hashed)
        if (previous(log, i) or any(log[j].kind == "6" for j in operation_of(log, i)))
        and len([j for j in group_of(log, i) if j in hashed]) > 1
    ]
    at = pick(rng, places)
    if at is None:
        return None
    data(log, at)["metadataHash"] += rng.randint(1, 1 << 40)
    return injected(log, at)


# Migration


def _upgrades(log: Log) -> list[int]:
    return [
        i
        for i, e in enumerate(log)
        if e.kind == "2" and e.value is None and len(operation_of(log, i)) > 5
    ]


@fault
def wrong_generation_at_upgrade(log: Log, rng: random.Random) -> Injected | None:
    start = pick(rng, _upgrades(log))
    for i in operation_of(log, start):
        if log[i].kind == "3":
            data(log, i)["epoch"] += rng.choice((-1, 3))
            return injected(log, i)
    return None


@fault
def upgrade_loses_a_partition(log: Log, rng: random.Random) -> Injected | None:
    start = pick(rng, _upgrades(log))
    group = operation_of(log, start)
    at = next(i for i in group if log[i].kind == "8")
    value = data(log, at)
    without(value, "assignedPartitions", rng.choice(rows_of(value, "assignedPartitions")))
    return injected(log, at)


@fault
def wrong_generation_at_downgrade(log: Log, rng: random.Random) -> Injected | None:
    places = [
        i
        for i in values(log, "2")
        if i and log[i - 1].kind == "3" and log[i - 1].value is None
        and log[i - 1].group == log[i].group
    ]  # fmt: skip
    at = pick(rng, places)
    data(log, at)["generation"] += rng.choice((-1, 1, 2))
    return injected(log, at)


@fault
def classic_generation_back(log: Log, rng: random.Random) -> Injected | None:
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
    data(log, at)["generation"] = rng.randrange(before.value["generation"])
    return injected(log, at)


# What no log can show


@undetectable("nothing else in the log depends on what a client calls itself")
def client_id_changed(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "5"))
    data(log, at)["clientId"] = "another"
    return injected(log, at)


@undetectable("racks take part in nothing that Kafka's own assignors do")
def rack_changed(log: Log, rng: random.Random) -> Injected | None:
    at = pick(rng, values(log, "5"))
    data(log, at)["rackId"] = "another"
    return injected(log, at)


@undetectable(
    "racks that nobody knows of explain any hash, until one of the group is right without"
)
def only_hash_wrong(log: Log, rng: random.Random) -> Injected | None:
    hashed = [i for i in values(log, "3") if data(log, i).get("metadataHash")]
    alone = [i for i in hashed if sum(log[j].group == log[i].group for j in hashed) == 1]
    at = pick(rng, alone)
    if at is None:
        return None
    data(log, at)["metadataHash"] += 1
    return injected(log, at)


@undetectable("a group's topics may be others from one epoch to the next, and no target tells")
def first_hash_wrong(log: Log, rng: random.Random) -> Injected | None:
    places = [
        i
        for i in values(log, "3")
        if data(log, i).get("metadataHash")
        and previous(log, i) is None
        and all(log[j].kind != "6" for j in operation_of(log, i))
    ]
    at = pick(rng, places)
    if at is None:
        return None
    data(log, at)["metadataHash"] += 1
    return injected(log, at)


@undetectable("a client may acknowledge a revocation at once, then no record tells of it")
def revocation_unrecorded(log: Log, rng: random.Random) -> Injected | None:
    places = []
    for i in values(log, "8"):
        next_one = _after(log, i)
        if data(log, i)["partitionsPendingRevocation"] and next_one is not None:
            places.append((i, next_one))
    at, after = pick(rng, places)
    data(log, after)["previousMemberEpoch"] = min(
        data(log, at)["previousMemberEpoch"], data(log, after)["previousMemberEpoch"]
    )
    return injected(dropped(log, at), after - 1)


@undetectable("a group's last assignment may be as old as it likes")
def last_assignment_dropped(log: Log, rng: random.Random) -> Injected | None:
    places = [
        i for i in values(log, "8") if group_of(log, i)[-1] == i and operation_of(log, i) == [i]
    ]
    at = pick(rng, places)
    before = group_of(log, at)[-2]
    return injected(dropped(log, at), before)
