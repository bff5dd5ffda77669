"""Assignments and targets that nobody would have made."""

from __future__ import annotations

import copy
import random

from kip848_spark.checks.log_entries import LogEntry, log_entry
from tests.audit.faults.injection import (
    Injection,
    Log,
    NoPlaceError,
    add_partition,
    append_operation,
    fault,
    group_of,
    injection_at,
    insert_record,
    latest_values,
    operation_of,
    partitions_of,
    pick,
    remove_partition,
    value_at,
    values,
)


@fault
def partition_with_two_owners(log: Log, rng: random.Random) -> Injection:
    places = []
    for i in values(log, "8"):
        for member, other in latest_values(log, i, log[i].group, "8").items():
            if member != log[i].member:
                places += [(i, p) for p in partitions_of(other.value or {}, "assignedPartitions")]
    at, place = pick(rng, places)
    if place in partitions_of(value_at(log, at), "assignedPartitions"):
        raise NoPlaceError
    add_partition(value_at(log, at), "assignedPartitions", place, value_at(log, at)["memberEpoch"])
    return injection_at(log, at)


@fault
def assignment_misses_a_partition(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, [i for i in values(log, "8") if value_at(log, i)["assignedPartitions"]])
    value = value_at(log, at)
    remove_partition(
        value, "assignedPartitions", pick(rng, partitions_of(value, "assignedPartitions"))
    )
    return injection_at(log, at)


@fault
def assignment_of_unsubscribed_topic(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "8"))
    own = {t for i in group_of(log, at) for t in _topics(log[i])}
    others = sorted({t for e in log for t in _topics(e)} - own)
    add_partition(value_at(log, at), "assignedPartitions", (pick(rng, others), 0), 1)
    return injection_at(log, at)


def _topics(item: LogEntry) -> set[str]:
    rows = (item.value or {}).get("topicPartitions", []) if item.kind == "7" else []
    return {row["topicId"] for row in rows}


@fault
def revocation_skipped(log: Log, rng: random.Random) -> Injection:
    """The member is at the new epoch with what it was to give up."""
    places = [i for i in values(log, "8") if value_at(log, i)["partitionsPendingRevocation"]]
    at = pick(rng, places)
    value = value_at(log, at)
    for place in partitions_of(value, "partitionsPendingRevocation"):
        epoch = remove_partition(value, "partitionsPendingRevocation", place)
        add_partition(value, "assignedPartitions", place, epoch or 0)
    value["state"] = 0
    value["memberEpoch"] += 1
    return injection_at(log, at)


@fault
def revokes_unowned_partition(log: Log, rng: random.Random) -> Injection:
    places = [i for i in values(log, "8") if value_at(log, i)["partitionsPendingRevocation"]]
    at = pick(rng, places)
    value = value_at(log, at)
    topic = value["partitionsPendingRevocation"][0]["topicId"]
    add_partition(value, "partitionsPendingRevocation", (topic, rng.randint(50, 90)))
    return injection_at(log, at)


@fault
def duplicate_partition_in_target(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, [i for i in values(log, "7") if value_at(log, i)["topicPartitions"]])
    row = pick(rng, value_at(log, at)["topicPartitions"])
    row["partitions"].append(pick(rng, row["partitions"]))
    return injection_at(log, at)


@fault
def wrong_member_state(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "8"))
    value = value_at(log, at)
    value["state"] = rng.choice([state for state in (0, 1, 2, 127) if state != value["state"]])
    return injection_at(log, at)


@fault
def static_rejoin_with_fewer_partitions(log: Log, rng: random.Random) -> Injection:
    """A static member comes back, and a partition of its place is gone."""
    places = [
        i
        for i in values(log, "8")
        if value_at(log, i)["memberEpoch"] == 0 and value_at(log, i)["assignedPartitions"]
    ]
    at = pick(rng, places)
    value = value_at(log, at)
    remove_partition(
        value, "assignedPartitions", pick(rng, partitions_of(value, "assignedPartitions"))
    )
    return injection_at(log, at)


def _targets(log: Log) -> list[int]:
    """PartitionSets of non-empty targets that an assignor made (an upgrade copies its own)."""
    return [
        i
        for i in values(log, "7")
        if value_at(log, i)["topicPartitions"]
        and log[operation_of(log, i)[0]].kind not in ("2", "8")
    ]


@fault
def target_misses_a_partition(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _targets(log))
    value = value_at(log, at)
    remove_partition(value, "topicPartitions", pick(rng, partitions_of(value, "topicPartitions")))
    return injection_at(log, at)


@fault
def target_with_nonexistent_partition(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _targets(log))
    value = value_at(log, at)
    topic = pick(rng, partitions_of(value, "topicPartitions"))[0]
    add_partition(value, "topicPartitions", (topic, rng.randint(1_000, 2_000)))
    return injection_at(log, at)


def _pairs(log: Log) -> list[tuple[int, int]]:
    """PartitionSets of two members' targets in one operation, the first of them with something."""
    return [
        (i, j)
        for i in _targets(log)
        for j in operation_of(log, i)
        if j != i and log[j].kind == "7" and log[j].value is not None
    ]


@fault
def partition_in_two_targets(log: Log, rng: random.Random) -> Injection:
    one, other = pick(rng, _pairs(log))
    place = pick(rng, partitions_of(value_at(log, one), "topicPartitions"))
    add_partition(value_at(log, other), "topicPartitions", place)
    return injection_at(log, other)


@fault
def unbalanced_target(log: Log, rng: random.Random) -> Injection:
    one, other = pick(rng, _pairs(log))
    for place in partitions_of(value_at(log, one), "topicPartitions"):
        remove_partition(value_at(log, one), "topicPartitions", place)
        add_partition(value_at(log, other), "topicPartitions", place)
    return injection_at(log, other)


@fault
def targets_swapped(log: Log, rng: random.Random) -> Injection:
    """Two members of one operation get each other's targets: not sticky, or not in range order.

    Only where the target could be no other: members of one bucket of a broker's table may have been
    visited in either order, more than 12 partitions come in the order of a table, too, and where no
    member votes the broker's setting chooses the assignor.
    """
    certain = [
        (i, j)
        for i, j in _pairs(log)
        if _bucket(log[i].member) != _bucket(log[j].member)
        and all(n < 12 for k in group_of(log, i) if log[k].kind == "7" for n in _numbers(log[k]))
        and any(
            (m.value or {}).get("serverAssignor")
            for m in latest_values(log, i, log[i].group, "5").values()
        )
    ]
    one, other = pick(rng, certain)
    a, b = value_at(log, one), value_at(log, other)
    a["topicPartitions"], b["topicPartitions"] = b["topicPartitions"], a["topicPartitions"]
    return injection_at(log, other)


def _numbers(item: LogEntry) -> set[int]:
    return {n for row in (item.value or {}).get("topicPartitions", ()) for n in row["partitions"]}


def _bucket(member: str) -> int:
    """Where a small `java.util.HashMap` keeps a member id."""
    code = 0
    for letter in member:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code ^ code >> 16) & 15


@fault
def topics_swapped_in_target(log: Log, rng: random.Random) -> Injection:
    """In one member's target, two topics have each other's partitions."""
    places = [
        i
        for i in _targets(log)
        if len({tuple(sorted(row["partitions"])) for row in value_at(log, i)["topicPartitions"]})
        > 1
    ]
    at = pick(rng, places)
    rows = value_at(log, at)["topicPartitions"]
    one = pick(rng, rows)
    two = pick(rng, [r for r in rows if sorted(r["partitions"]) != sorted(one["partitions"])])
    one["topicId"], two["topicId"] = two["topicId"], one["topicId"]
    return injection_at(log, at)


@fault
def topics_swapped_in_assignment(log: Log, rng: random.Random) -> Injection:
    """In one member's assignment, two topics have each other's partitions."""
    places = []
    for i in values(log, "8"):
        rows = value_at(log, i)["assignedPartitions"]
        if len({tuple(sorted(row["partitions"])) for row in rows}) > 1:
            places.append(i)
    at = pick(rng, places)
    rows = value_at(log, at)["assignedPartitions"]
    one = pick(rng, rows)
    two = pick(rng, [r for r in rows if sorted(r["partitions"]) != sorted(one["partitions"])])
    one["topicId"], two["topicId"] = two["topicId"], one["topicId"]
    return injection_at(log, at)


@fault
def target_of_unknown_topic(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _targets(log))
    row = pick(rng, value_at(log, at)["topicPartitions"])
    row["topicId"] = "".join(rng.choices("abcdefghijklmnop", k=21)) + "A"
    return injection_at(log, at)


@fault
def target_of_unknown_member(log: Log, rng: random.Random) -> Injection:
    """A target for somebody who is no member, among those of the members."""
    at = pick(rng, values(log, "7"))
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["memberId"] = f"nobody-{rng.randrange(1000)}"
    item = log_entry(log[at].partition, log[at].offset, log[at].timestamp, record)
    return injection_at(insert_record(log, at, item), at)


@fault
def partition_removed_at_same_epoch(log: Log, rng: random.Random) -> Injection:
    """A member at rest has a partition less, at the same epoch."""
    places = [
        i
        for i in values(log, "8")
        if value_at(log, i)["state"] == 0
        and value_at(log, i)["memberEpoch"] > 0
        and value_at(log, i)["assignedPartitions"]
    ]
    at = pick(rng, places)
    record = copy.deepcopy(log[at].record)
    value = record["value"]["data"]
    value["previousMemberEpoch"] = value["memberEpoch"]
    remove_partition(
        value, "assignedPartitions", pick(rng, partitions_of(value, "assignedPartitions"))
    )
    return injection_at(*append_operation(log, at, record))


@fault
def static_rejoin_with_wrong_epoch(log: Log, rng: random.Random) -> Injection:
    """A static member comes back, and is not at the start: its epoch before is another."""
    at = pick(rng, [i for i in values(log, "8") if value_at(log, i)["memberEpoch"] == 0])
    value_at(log, at)["previousMemberEpoch"] = rng.randint(1, 9)
    return injection_at(log, at)


@fault
def static_rejoin_with_more_partitions(log: Log, rng: random.Random) -> Injection:
    """A static member comes back, and has a partition that it did not have."""
    places = [
        i
        for i in values(log, "8")
        if value_at(log, i)["memberEpoch"] == 0 and value_at(log, i)["assignedPartitions"]
    ]
    at = pick(rng, places)
    topic = pick(rng, partitions_of(value_at(log, at), "assignedPartitions"))[0]
    add_partition(value_at(log, at), "assignedPartitions", (topic, rng.randint(50, 90)))
    return injection_at(log, at)


@fault
def assigned_before_revocation_finished(log: Log, rng: random.Random) -> Injection:
    """A member is given what another has not let go of yet."""
    places = []
    for i in values(log, "8"):
        for member, other in latest_values(log, i, log[i].group, "8").items():
            if member != log[i].member:
                rows = partitions_of(other.value or {}, "partitionsPendingRevocation")
                places += [(i, p) for p in rows if p not in _held(log, i)]
    at, place = pick(rng, places)
    add_partition(value_at(log, at), "assignedPartitions", place, value_at(log, at)["memberEpoch"])
    return injection_at(log, at)


def _held(log: Log, at: int) -> list[tuple[str, int]]:
    return partitions_of(value_at(log, at), "assignedPartitions")


@fault
def assigned_and_revoked(log: Log, rng: random.Random) -> Injection:
    """A member has a partition, and is asked to let go of it, at once."""
    at = pick(rng, [i for i in values(log, "8") if _held(log, i)])
    add_partition(value_at(log, at), "partitionsPendingRevocation", pick(rng, _held(log, at)))
    return injection_at(log, at)


@fault
def target_of_unsubscribed_topic(log: Log, rng: random.Random) -> Injection:
    """A member's target has a partition of a topic that the group does not ask for."""
    at = pick(rng, _targets(log))
    own = {t for i in group_of(log, at) for t in _topics(log[i])}
    others = sorted({t for e in log for t in _topics(e)} - own)
    add_partition(value_at(log, at), "topicPartitions", (pick(rng, others), 0))
    return injection_at(log, at)


@fault
def dynamic_member_leaves_temporarily(log: Log, rng: random.Random) -> Injection:
    """A member without an instance id leaves for a while, as only a static one can."""
    places = []
    for i in values(log, "8"):
        member = latest_values(log, i, log[i].group, "5").get(log[i].member)
        if (
            member is not None
            and (member.value or {})["instanceId"] is None
            and not value_at(log, i)["partitionsPendingRevocation"]
        ):
            places.append(i)
    at = pick(rng, places)
    record = copy.deepcopy(log[at].record)
    value = record["value"]["data"]
    value["memberEpoch"] = -2
    for row in value["assignedPartitions"]:
        if row.get("assignmentEpochs"):
            row["assignmentEpochs"] = [0] * len(row["partitions"])
    return injection_at(*append_operation(log, at, record))
