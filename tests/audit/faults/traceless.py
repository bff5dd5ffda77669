"""What leaves no trace: were one of these found, it would belong elsewhere."""

from __future__ import annotations

import random

from tests.audit.faults.injection import (
    Injection,
    Log,
    drop_record,
    group_of,
    injection_at,
    next_value_of_key,
    operation_of,
    operations,
    pick,
    previous,
    undetectable,
    value_at,
    values,
)
from tests.audit.faults.times import FIELDS, timed


@undetectable("nothing else in the log depends on what a client calls itself")
def client_id_changed(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "5"))
    value_at(log, at)["clientId"] = "another"
    return injection_at(log, at)


@undetectable("racks take part in nothing that Kafka's own assignors do")
def rack_changed(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "5"))
    value_at(log, at)["rackId"] = "another"
    return injection_at(log, at)


@undetectable(
    "racks that nobody knows of explain any hash, until one of the group is right without"
)
def only_metadata_hash_wrong(log: Log, rng: random.Random) -> Injection:
    hashed = [i for i in values(log, "3") if value_at(log, i).get("metadataHash")]
    alone = [i for i in hashed if sum(log[j].group == log[i].group for j in hashed) == 1]
    at = pick(rng, alone)
    value_at(log, at)["metadataHash"] += 1
    return injection_at(log, at)


@undetectable("a group's topics may be others from one epoch to the next, and no target tells")
def first_metadata_hash_wrong(log: Log, rng: random.Random) -> Injection:
    places = [
        i
        for i in values(log, "3")
        if value_at(log, i).get("metadataHash")
        and previous(log, i) is None
        and not any(
            (log[j].value or {}).get("assignmentEpoch") == value_at(log, i)["epoch"]
            for j in group_of(log, i)
            if log[j].kind == "6"
        )
    ]
    at = pick(rng, places)
    value_at(log, at)["metadataHash"] += 1
    return injection_at(log, at)


@undetectable("a client may acknowledge a revocation at once, then no record tells of it")
def revocation_unrecorded(log: Log, rng: random.Random) -> Injection:
    places = []
    for i in values(log, "8"):
        next_one = next_value_of_key(log, i)
        if value_at(log, i)["partitionsPendingRevocation"] and next_one is not None:
            places.append((i, next_one))
    at, after = pick(rng, places)
    value_at(log, after)["previousMemberEpoch"] = min(
        value_at(log, at)["previousMemberEpoch"], value_at(log, after)["previousMemberEpoch"]
    )
    return injection_at(drop_record(log, at), after - 1)


@undetectable("a group's last assignment may be as old as it likes")
def lost_last_assignment(log: Log, rng: random.Random) -> Injection:
    places = [
        i for i in values(log, "8") if group_of(log, i)[-1] == i and operation_of(log, i) == [i]
    ]
    at = pick(rng, places)
    before = group_of(log, at)[-2]
    return injection_at(drop_record(log, at), before)


@undetectable("a time is the clock of the broker that led the partition, and clocks differ")
def timestamps_one_day_earlier(log: Log, rng: random.Random) -> Injection:
    """From some operation of the group on, after which no value has a time."""
    last: dict[str, int] = {}
    for kind in FIELDS:
        for i in timed(log, kind):
            last[log[i].group] = max(i, last.get(log[i].group, -1))
    places = [operation[0] for operation in operations(log)]
    at = pick(rng, [i for i in places if i > last.get(log[i].group, -1)])
    for i in group_of(log, at):
        if i >= at:
            log[i] = log[i]._replace(timestamp=log[i].timestamp - 86_400_000)
    return injection_at(log, at)
