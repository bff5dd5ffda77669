"""Members, instance ids, expressions and topics that are not what they must be."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

from kip848_spark.coordinator.records import tombstone
from tests.audit.faults.injection import (
    Injected,
    Log,
    NoPlaceError,
    appended,
    begin,
    data,
    dropped,
    fault,
    group_of,
    injected,
    latest,
    operation_of,
    operations,
    pick,
    previous,
    values,
)


@fault
def subscription_changed_without_a_bump(log: Log, rng: random.Random) -> Injected:
    """A member asks for a topic more, or for one less, and the group's epoch stays."""
    at = pick(rng, values(log, "5"))
    record = copy.deepcopy(log[at].record)
    names = record["value"]["data"]["subscribedTopicNames"]
    if names and rng.random() < 0.5:
        names.remove(pick(rng, names))
    else:
        names.append("one-more")
    return injected(*appended(log, at, record))


@fault
def instance_taken_twice(log: Log, rng: random.Random) -> Injected:
    """A member joins as an instance that another member is."""
    places = []
    for i in values(log, "5"):
        before = latest(log, i, log[i].group, "5")
        if log[i].member not in before and log[operation_of(log, i)[0]].kind == "5":
            others = {(m.value or {}).get("instanceId") for m in before.values()} - {None}
            places += [(i, other) for other in sorted(others)]
    at, instance = pick(rng, places)
    data(log, at)["instanceId"] = instance
    return injected(log, at)


def _rejoins(log: Log) -> list[int]:
    """Places of the records of members that take a static member's place."""
    return [
        operation[3]
        for operation in operations(log)
        if "".join(log[i].kind for i in operation[:6]) == "875578"
        and all(log[i].value is None for i in operation[:3])
    ]


@fault
def rejoined_under_another_instance(log: Log, rng: random.Random) -> Injected:
    at = pick(rng, _rejoins(log))
    data(log, at)["instanceId"] = f"another-{rng.randrange(1000)}"
    return injected(log, at)


@fault
def expression_matches_not(log: Log, rng: random.Random) -> Injected:
    """A topic is said to be matched by an expression that does not match it."""
    at = pick(rng, values(log, "16"))
    data(log, at)["topics"].append(f"+{rng.randrange(1000)}")
    return injected(log, at)


@fault
def expression_unresolved(log: Log, rng: random.Random) -> Injected:
    """What an expression came to is lost, the epoch it made is there."""
    places = [
        operation[0]
        for operation in operations(log)
        if "".join(log[i].kind for i in operation) in ("163", "1643")
        and log[operation[0]].value is not None
        and _resolved_before(log, operation[0]) != set(data(log, operation[0])["topics"])
    ]
    at = pick(rng, places)
    return injected(dropped(log, at), at, begin(log, at))


def _resolved_before(log: Log, at: int) -> set[str]:
    """The topics that an expression stood for until now."""
    last = latest(log, at, log[at].group, "16").get(log[at].member)
    return set() if last is None else set((last.value or {})["topics"])


@fault
def lost_expression_tombstone(log: Log, rng: random.Random) -> Injected:
    """Nobody subscribes by an expression any more, but what it came to stays."""
    places = [
        (operation, i)
        for operation in operations(log)
        for i in operation[1:]
        if log[i].kind == "16"
        and log[i].value is None
        and log[operation[-1]].kind != "2"
        and not any(log[j].kind == "3" and log[j].value is None for j in operation)
        and log[i].member in latest(log, i, log[i].group, "16")
    ]
    operation, gone = pick(rng, places)
    first, place = log[operation[0]].offset, log[gone].offset
    at = gone if gone != operation[-1] else gone - 1
    return replace(injected(dropped(log, gone), at, first), place=place)


@fault
def topic_metadata_off(log: Log, rng: random.Random) -> Injected:
    """A topic's partitions in key 4 (4.0) are one more than there are."""
    places = [i for i in values(log, "4") if data(log, i)["topics"]]
    at = pick(rng, [i for i in places if _next_target(log, i) is not None])
    last = _next_target(log, at)
    assert last is not None
    given_out = {
        row["topicId"]
        for item in latest(log, last, log[at].group, "7").values()
        for row in (item.value or {})["topicPartitions"]
    }
    row = pick(rng, [row for row in data(log, at)["topics"] if row["topicId"] in given_out])
    row["numPartitions"] += 1
    found = injected(log, at)
    return Injected(**(vars(found) | {"last": max(found.last, log[last].offset)}))


def _next_target(log: Log, at: int) -> int | None:
    """The target that is made of a key 4; None if another one comes before."""
    for i in group_of(log, at):
        if i > at and log[i].kind in ("2", "4"):
            return None
        if i > at and log[i].kind == "6":
            return i if log[i].value is not None else None
    return None


@fault
def lost_last_member(log: Log, rng: random.Random) -> Injected:
    """A member's three tombstones are lost, the epoch that they made is there."""
    places = [
        operation
        for operation in operations(log)
        # with another key 4, or another hash, a topic could be the cause
        if "".join(log[i].kind for i in operation) == "8753"
        and (before := previous(log, operation[-1])) is not None
        and (before.value or {}).get("metadataHash")
        == (log[operation[-1]].value or {}).get("metadataHash")
    ]
    operation = pick(rng, places)
    first = log[operation[0]].offset
    for i in operation[:3][::-1]:
        log = dropped(log, i)
    return injected(log, operation[0], first)


@fault
def ghost(log: Log, rng: random.Random) -> Injected:
    """Somebody has joined of whom nothing else tells."""
    at = pick(rng, values(log, "5"))
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["memberId"] = f"nobody-{rng.randrange(1000)}"
    record["value"]["data"]["instanceId"] = None
    if not record["value"]["data"]["subscribedTopicNames"]:
        raise NoPlaceError
    return injected(*appended(log, at, record))


@fault
def vanished(log: Log, rng: random.Random) -> Injected:
    """A member's own record gets a tombstone, its assignment and target stay."""
    places = [
        i
        for i in values(log, "8")
        if log[operation_of(log, i)[-1]].kind != "2" and operation_of(log, i)[-1] == i
    ]
    at = pick(rng, places)
    key = log[at].record["key"]["data"]
    return injected(*appended(log, at, tombstone("5", **key)))
