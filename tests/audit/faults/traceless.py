"""What leaves no trace: were one of these found, it would belong elsewhere."""

from __future__ import annotations

import random

from tests.audit.faults.injection import (
    Injected,
    Log,
    after_it,
    data,
    dropped,
    group_of,
    injected,
    operation_of,
    operations,
    pick,
    previous,
    undetectable,
    values,
)


@undetectable("nothing else in the log depends on what a client calls itself")
def client_id_changed(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, values(log, "5"))
    data(log, at)["clientId"] = "another"
    return injected(log, at)


@undetectable("racks take part in nothing that Kafka's own assignors do")
def rack_changed(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, values(log, "5"))
    data(log, at)["rackId"] = "another"
    return injected(log, at)


@undetectable(
    "racks that nobody knows of explain any hash, until one of the group is right without"
)
def only_hash_wrong(log: Log, rng: random.Random) -> Injected:
    hashed = [i for i in values(log, "3") if data(log, i).get("metadataHash")]
    alone = [i for i in hashed if sum(log[j].group == log[i].group for j in hashed) == 1]
    at = pick(rng, alone)
    data(log, at)["metadataHash"] += 1
    return injected(log, at)


@undetectable("a group's topics may be others from one epoch to the next, and no target tells")
def first_hash_wrong(log: Log, rng: random.Random) -> Injected:
    places = [
        i
        for i in values(log, "3")
        if data(log, i).get("metadataHash")
        and previous(log, i) is None
        and not any(
            (log[j].value or {}).get("assignmentEpoch") == data(log, i)["epoch"]
            for j in group_of(log, i)
            if log[j].kind == "6"
        )
    ]
    at = pick(rng, places)
    data(log, at)["metadataHash"] += 1
    return injected(log, at)


@undetectable("a client may acknowledge a revocation at once, then no record tells of it")
def revocation_unrecorded(log: Log, rng: random.Random) -> Injected:
    places = []
    for i in values(log, "8"):
        next_one = after_it(log, i)
        if data(log, i)["partitionsPendingRevocation"] and next_one is not None:
            places.append((i, next_one))
    at, after = pick(rng, places)
    data(log, after)["previousMemberEpoch"] = min(
        data(log, at)["previousMemberEpoch"], data(log, after)["previousMemberEpoch"]
    )
    return injected(dropped(log, at), after - 1)


@undetectable("a group's last assignment may be as old as it likes")
def last_assignment_dropped(log: Log, rng: random.Random) -> Injected:
    places = [
        i for i in values(log, "8") if group_of(log, i)[-1] == i and operation_of(log, i) == [i]
    ]
    at = pick(rng, places)
    before = group_of(log, at)[-2]
    return injected(dropped(log, at), before)


@undetectable("a time is the clock of the broker that led the partition, and clocks differ")
def a_day_back(log: Log, rng: random.Random) -> Injected:
    """From some operation of the group on."""
    at = pick(rng, [operation[0] for operation in operations(log)])
    for i in group_of(log, at):
        if i >= at:
            log[i] = log[i]._replace(timestamp=log[i].timestamp - 86_400_000)
    return injected(log, at)
