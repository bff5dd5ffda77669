"""Times inside values that the coordinator's clock cannot have shown."""

from __future__ import annotations

import random

from tests.audit.faults.injection import (
    Injection,
    Log,
    fault,
    group_of,
    injection_at,
    operation_of,
    pick,
    previous,
    value_at,
    values,
)

FIELDS = {"2": "currentStateTimestamp", "6": "assignmentTimestamp", "16": "timestamp"}
"""By key type: the field with a time."""
MINUTE, DAY = 60_000, 86_400_000
_LATEST = 1_000 * DAY


def timed(log: Log, kind: str) -> list[int]:
    """The places of values with a time."""
    return [i for i in values(log, kind) if value_at(log, i).get(FIELDS[kind], -1) > 0]


def _too_late(log: Log, rng: random.Random, kind: str) -> Injection:
    """From two minutes to a thousand days after the record."""
    at = pick(rng, timed(log, kind))
    value_at(log, at)[FIELDS[kind]] = log[at].timestamp + rng.randint(2 * MINUTE, _LATEST)
    return injection_at(log, at)


@fault
def time_of_classic_state_too_late(log: Log, rng: random.Random) -> Injection:
    return _too_late(log, rng, "2")


@fault
def time_of_target_too_late(log: Log, rng: random.Random) -> Injection:
    return _too_late(log, rng, "6")


@fault
def time_of_resolution_too_late(log: Log, rng: random.Random) -> Injection:
    return _too_late(log, rng, "16")


@fault
def time_of_target_too_early(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, timed(log, "6"))
    value_at(log, at)[FIELDS["6"]] -= rng.randint(2 * MINUTE, _LATEST)
    return injection_at(log, at)


@fault
def time_of_classic_state_decreases(log: Log, rng: random.Random) -> Injection:
    """Of a group that has had a state before."""
    places = []
    for i in timed(log, "2"):
        before = previous(log, i)
        if before is not None and (before.value or {}).get(FIELDS["2"], -1) > 0:
            places.append((i, before))
    at, before = pick(rng, places)
    assert before.value is not None
    value_at(log, at)[FIELDS["2"]] = before.value[FIELDS["2"]] - rng.randint(2 * MINUTE, DAY)
    return injection_at(log, at)


@fault
def expressions_resolved_at_different_times(log: Log, rng: random.Random) -> Injection:
    """Of several in one operation, one has a time of its own."""
    places = [
        i
        for i in timed(log, "16")
        if sum(log[j].kind == "16" and log[j].value is not None for j in operation_of(log, i)) > 1
    ]
    at = pick(rng, places)
    value_at(log, at)[FIELDS["16"]] -= rng.randint(1, MINUTE)
    return injection_at(log, at)


@fault
def expressions_resolved_again_too_soon(log: Log, rng: random.Random) -> Injection:
    """A resolution has a time at most ten seconds after the last one."""
    places = []
    for i in timed(log, "16"):
        before = previous(log, i)
        if before is not None and before.value is not None:
            places.append((i, before.value[FIELDS["16"]]))
    at, last = pick(rng, places)
    time = last + rng.randint(0, 10_000)
    for i in operation_of(log, at):
        if log[i].kind == "16" and log[i].value is not None:
            value_at(log, i)[FIELDS["16"]] = time
    return injection_at(log, at)


@fault
def record_one_day_before_the_time_in_its_value(log: Log, rng: random.Random) -> Injection:
    """From some operation of the group on."""
    at = pick(rng, [i for kind in FIELDS for i in timed(log, kind)])
    first = operation_of(log, at)[0]
    for i in group_of(log, at):
        if i >= first:
            log[i] = log[i]._replace(timestamp=log[i].timestamp - DAY)
    return injection_at(log, at)
