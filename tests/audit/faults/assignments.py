"""Assignments and targets that nobody would have made."""

from __future__ import annotations

import copy
import random

from kip848_spark.checks.log_entries import Entry, entry
from tests.audit.faults.injection import (
    Injected,
    Log,
    NoPlaceError,
    appended,
    data,
    fault,
    given,
    group_of,
    injected,
    inserted,
    latest,
    operation_of,
    pick,
    rows_of,
    values,
    without,
)


@fault
def owned_twice(log: Log, rng: random.Random) -> Injected:
    places = []
    for i in values(log, "8"):
        for member, other in latest(log, i, log[i].group, "8").items():
            if member != log[i].member:
                places += [(i, p) for p in rows_of(other.value or {}, "assignedPartitions")]
    at, place = pick(rng, places)
    if place in rows_of(data(log, at), "assignedPartitions"):
        raise NoPlaceError
    given(data(log, at), "assignedPartitions", place, data(log, at)["memberEpoch"])
    return injected(log, at)


@fault
def assignment_misses_a_partition(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, [i for i in values(log, "8") if data(log, i)["assignedPartitions"]])
    value = data(log, at)
    without(value, "assignedPartitions", pick(rng, rows_of(value, "assignedPartitions")))
    return injected(log, at)


@fault
def unsubscribed_topic(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, values(log, "8"))
    own = {t for i in group_of(log, at) for t in _topics(log[i])}
    others = sorted({t for e in log for t in _topics(e)} - own)
    given(data(log, at), "assignedPartitions", (pick(rng, others), 0), 1)
    return injected(log, at)


def _topics(item: Entry) -> set[str]:
    rows = (item.value or {}).get("topicPartitions", []) if item.kind == "7" else []
    return {row["topicId"] for row in rows}


@fault
def revocation_skipped(log: Log, rng: random.Random) -> Injected:
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
def revokes_what_it_never_had(log: Log, rng: random.Random) -> Injected:
    places = [i for i in values(log, "8") if data(log, i)["partitionsPendingRevocation"]]
    at = pick(rng, places)
    value = data(log, at)
    topic = value["partitionsPendingRevocation"][0]["topicId"]
    given(value, "partitionsPendingRevocation", (topic, rng.randint(50, 90)))
    return injected(log, at)


@fault
def partition_named_twice(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, [i for i in values(log, "7") if data(log, i)["topicPartitions"]])
    row = pick(rng, data(log, at)["topicPartitions"])
    row["partitions"].append(pick(rng, row["partitions"]))
    return injected(log, at)


@fault
def wrong_state(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, values(log, "8"))
    value = data(log, at)
    value["state"] = rng.choice([state for state in (0, 1, 2, 127) if state != value["state"]])
    return injected(log, at)


@fault
def rejoined_with_less(log: Log, rng: random.Random) -> Injected:
    """A static member comes back, and a partition of its place is gone."""
    places = [
        i
        for i in values(log, "8")
        if data(log, i)["memberEpoch"] == 0 and data(log, i)["assignedPartitions"]
    ]
    at = pick(rng, places)
    value = data(log, at)
    without(value, "assignedPartitions", pick(rng, rows_of(value, "assignedPartitions")))
    return injected(log, at)


def _targets(log: Log) -> list[int]:
    """Places of non-empty targets that an assignor made (an upgrade copies its own)."""
    return [
        i
        for i in values(log, "7")
        if data(log, i)["topicPartitions"] and log[operation_of(log, i)[0]].kind not in ("2", "8")
    ]


@fault
def target_misses_a_partition(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, _targets(log))
    value = data(log, at)
    without(value, "topicPartitions", pick(rng, rows_of(value, "topicPartitions")))
    return injected(log, at)


@fault
def target_with_a_partition_too_many(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, _targets(log))
    value = data(log, at)
    topic = pick(rng, rows_of(value, "topicPartitions"))[0]
    given(value, "topicPartitions", (topic, rng.randint(1_000, 2_000)))
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
def target_given_twice(log: Log, rng: random.Random) -> Injected:
    one, other = pick(rng, _pairs(log))
    place = pick(rng, rows_of(data(log, one), "topicPartitions"))
    given(data(log, other), "topicPartitions", place)
    return injected(log, other)


@fault
def unbalanced_target(log: Log, rng: random.Random) -> Injected:
    one, other = pick(rng, _pairs(log))
    for place in rows_of(data(log, one), "topicPartitions"):
        without(data(log, one), "topicPartitions", place)
        given(data(log, other), "topicPartitions", place)
    return injected(log, other)


@fault
def targets_exchanged(log: Log, rng: random.Random) -> Injected:
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
            for m in latest(log, i, log[i].group, "5").values()
        )
    ]
    one, other = pick(rng, certain)
    a, b = data(log, one), data(log, other)
    a["topicPartitions"], b["topicPartitions"] = b["topicPartitions"], a["topicPartitions"]
    return injected(log, other)


def _numbers(item: Entry) -> set[int]:
    return {n for row in (item.value or {}).get("topicPartitions", ()) for n in row["partitions"]}


def _bucket(member: str) -> int:
    """Where a small `java.util.HashMap` keeps a member id."""
    code = 0
    for letter in member:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return (code ^ code >> 16) & 15


@fault
def targets_topics_exchanged(log: Log, rng: random.Random) -> Injected:
    """In one member's target, two topics have each other's partitions."""
    places = [
        i
        for i in _targets(log)
        if len({tuple(sorted(row["partitions"])) for row in data(log, i)["topicPartitions"]}) > 1
    ]
    at = pick(rng, places)
    rows = data(log, at)["topicPartitions"]
    one = pick(rng, rows)
    two = pick(rng, [r for r in rows if sorted(r["partitions"]) != sorted(one["partitions"])])
    one["topicId"], two["topicId"] = two["topicId"], one["topicId"]
    return injected(log, at)


@fault
def topics_exchanged(log: Log, rng: random.Random) -> Injected:
    """In one member's assignment, two topics have each other's partitions."""
    places = []
    for i in values(log, "8"):
        rows = data(log, i)["assignedPartitions"]
        if len({tuple(sorted(row["partitions"])) for row in rows}) > 1:
            places.append(i)
    at = pick(rng, places)
    rows = data(log, at)["assignedPartitions"]
    one = pick(rng, rows)
    two = pick(rng, [r for r in rows if sorted(r["partitions"]) != sorted(one["partitions"])])
    one["topicId"], two["topicId"] = two["topicId"], one["topicId"]
    return injected(log, at)


@fault
def target_of_an_unknown_topic(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, _targets(log))
    row = pick(rng, data(log, at)["topicPartitions"])
    row["topicId"] = "".join(rng.choices("abcdefghijklmnop", k=21)) + "A"
    return injected(log, at)


@fault
def target_of_nobody(log: Log, rng: random.Random) -> Injected:
    """A target for somebody who is no member, among those of the members."""
    at = pick(rng, values(log, "7"))
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["memberId"] = f"nobody-{rng.randrange(1000)}"
    item = entry(log[at].partition, log[at].offset, log[at].timestamp, record)
    return injected(inserted(log, at, item), at)


@fault
def given_back_unasked(log: Log, rng: random.Random) -> Injected:
    """A member at rest has a partition less, at the same epoch."""
    places = [
        i
        for i in values(log, "8")
        if data(log, i)["state"] == 0
        and data(log, i)["memberEpoch"] > 0
        and data(log, i)["assignedPartitions"]
    ]
    at = pick(rng, places)
    record = copy.deepcopy(log[at].record)
    value = record["value"]["data"]
    value["previousMemberEpoch"] = value["memberEpoch"]
    without(value, "assignedPartitions", pick(rng, rows_of(value, "assignedPartitions")))
    return injected(*appended(log, at, record))


@fault
def rejoined_with_a_wrong_epoch(log: Log, rng: random.Random) -> Injected:
    """A static member comes back, and is not at the start: its epoch before is another."""
    at = pick(rng, [i for i in values(log, "8") if data(log, i)["memberEpoch"] == 0])
    data(log, at)["previousMemberEpoch"] = rng.randint(1, 9)
    return injected(log, at)


@fault
def rejoined_with_more(log: Log, rng: random.Random) -> Injected:
    """A static member comes back, and has a partition that it did not have."""
    places = [
        i
        for i in values(log, "8")
        if data(log, i)["memberEpoch"] == 0 and data(log, i)["assignedPartitions"]
    ]
    at = pick(rng, places)
    topic = pick(rng, rows_of(data(log, at), "assignedPartitions"))[0]
    given(data(log, at), "assignedPartitions", (topic, rng.randint(50, 90)))
    return injected(log, at)


@fault
def owned_while_revoked(log: Log, rng: random.Random) -> Injected:
    """A member is given what another has not let go of yet."""
    places = []
    for i in values(log, "8"):
        for member, other in latest(log, i, log[i].group, "8").items():
            if member != log[i].member:
                rows = rows_of(other.value or {}, "partitionsPendingRevocation")
                places += [(i, p) for p in rows if p not in _held(log, i)]
    at, place = pick(rng, places)
    given(data(log, at), "assignedPartitions", place, data(log, at)["memberEpoch"])
    return injected(log, at)


def _held(log: Log, at: int) -> list[tuple[str, int]]:
    return rows_of(data(log, at), "assignedPartitions")


@fault
def assigned_and_revoked(log: Log, rng: random.Random) -> Injected:
    """A member has a partition, and is asked to let go of it, at once."""
    at = pick(rng, [i for i in values(log, "8") if _held(log, i)])
    given(data(log, at), "partitionsPendingRevocation", pick(rng, _held(log, at)))
    return injected(log, at)


@fault
def target_of_a_foreign_topic(log: Log, rng: random.Random) -> Injected:
    """A member's target has a partition of a topic that the group does not ask for."""
    at = pick(rng, _targets(log))
    own = {t for i in group_of(log, at) for t in _topics(log[i])}
    others = sorted({t for e in log for t in _topics(e)} - own)
    given(data(log, at), "topicPartitions", (pick(rng, others), 0))
    return injected(log, at)


@fault
def dynamic_member_away(log: Log, rng: random.Random) -> Injected:
    """A member without an instance id leaves for a while, as only a static one can."""
    places = []
    for i in values(log, "8"):
        member = latest(log, i, log[i].group, "5").get(log[i].member)
        if (
            member is not None
            and (member.value or {})["instanceId"] is None
            and not data(log, i)["partitionsPendingRevocation"]
        ):
            places.append(i)
    at = pick(rng, places)
    record = copy.deepcopy(log[at].record)
    value = record["value"]["data"]
    value["memberEpoch"] = -2
    for row in value["assignedPartitions"]:
        if row.get("assignmentEpochs"):
            row["assignmentEpochs"] = [0] * len(row["partitions"])
    return injected(*appended(log, at, record))
