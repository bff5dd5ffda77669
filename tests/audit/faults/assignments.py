"""Assignments and targets that nobody would have made."""

from __future__ import annotations

import random

from kip848_spark.audit.entries import Entry
from tests.audit.faults.injecting import (
    Injected,
    Log,
    NoPlaceError,
    data,
    fault,
    given,
    group_of,
    injected,
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
