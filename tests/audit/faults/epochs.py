"""Epochs, hashes and generations that are not what they must be."""

from __future__ import annotations

import random

from tests.audit.faults.injection import (
    Injection,
    Log,
    fault,
    group_of,
    injection_at,
    latest_values,
    operation_of,
    pick,
    previous,
    value_at,
    values,
)


@fault
def group_epoch_decreases(log: Log, rng: random.Random) -> Injection:
    at = pick(
        rng, [i for i in values(log, "3") if previous(log, i) and value_at(log, i)["epoch"] > 1]
    )
    value_at(log, at)["epoch"] -= rng.randint(1, value_at(log, at)["epoch"] - 1)
    return injection_at(log, at)


@fault
def group_epoch_skips(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, [i for i in values(log, "3") if log[operation_of(log, i)[0]].kind != "2"])
    value_at(log, at)["epoch"] += rng.randint(1, 5)
    return injection_at(log, at)


@fault
def wrong_target_epoch(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "6"))
    value_at(log, at)["assignmentEpoch"] += rng.choice((-1, 1))
    return injection_at(log, at)


@fault
def member_ahead_of_group(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "8"))
    value_at(log, at)["memberEpoch"] += rng.randint(20, 40)
    return injection_at(log, at)


@fault
def wrong_member_epoch(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "8"))
    value_at(log, at)["memberEpoch"] += rng.choice((-1, 1))
    return injection_at(log, at)


@fault
def member_epoch_minus_one(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "8"))
    value_at(log, at)["memberEpoch"] = -1
    return injection_at(log, at)


@fault
def wrong_previous_member_epoch(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, "8"))
    value_at(log, at)["previousMemberEpoch"] += rng.choice((-1, 1, 2))
    return injection_at(log, at)


@fault
def wrong_assignment_epoch(log: Log, rng: random.Random) -> Injection:
    rows = [
        (i, row)
        for i in values(log, "8")
        for row in value_at(log, i)["assignedPartitions"]
        if row.get("assignmentEpochs") and previous(log, i)
    ]
    found = pick(rng, rows)
    at, row = found
    row["assignmentEpochs"][rng.randrange(len(row["assignmentEpochs"]))] += rng.choice((-1, 1))
    return injection_at(log, at)


@fault
def wrong_metadata_hash(log: Log, rng: random.Random) -> Injection:
    """Of three epochs with one hash and the same subscriptions, the one in the middle. Where a
    topic that is asked for is not there, it may have come and gone."""
    places = []
    for i in values(log, "3"):
        bumps = [j for j in group_of(log, i) if log[j].kind in ("2", "3")]
        three = bumps[max(bumps.index(i) - 1, 0) : bumps.index(i) + 2]
        if (
            len(three) == 3
            and all(log[j].kind == "3" and log[j].value is not None for j in three)
            and len({value_at(log, j).get("metadataHash") for j in three}) == 1
            and value_at(log, i).get("metadataHash")
            and len({_asked_for(log, j) for j in three}) == 1
            and len(_given_out(log, i)) == len(_asked_for(log, i) - {""})
        ):
            places.append(i)
    at = pick(rng, places)
    value_at(log, at)["metadataHash"] += rng.randint(1, 1 << 40)
    return injection_at(log, at)


def _given_out(log: Log, at: int) -> set[str]:
    """Ids of the topics that somebody has in the target."""
    targets = [item.value or {} for item in latest_values(log, at, log[at].group, "7").values()]
    return {part["topicId"] for value in targets for part in value["topicPartitions"]}


def _asked_for(log: Log, at: int) -> frozenset[str]:
    """Every name and pattern that the members of the group are subscribed to."""
    members = [item.value or {} for item in latest_values(log, at, log[at].group, "5").values()]
    names = {name for value in members for name in value["subscribedTopicNames"]}
    return frozenset(names | {value["subscribedTopicRegex"] or "" for value in members})
