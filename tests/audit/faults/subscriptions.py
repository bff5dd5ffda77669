"""Members, instance ids, expressions and topics that are not what they must be."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

from kip848_spark.coordinator.records import tombstone
from tests.audit.faults.injection import (
    Injection,
    Log,
    NoPlaceError,
    append_operation,
    drop_record,
    fault,
    group_of,
    injection_at,
    latest_values,
    operation_of,
    operation_start,
    operations,
    pick,
    previous,
    value_at,
    values,
)


@fault
def subscription_change_without_epoch_bump(log: Log, rng: random.Random) -> Injection:
    """A member asks for a topic more, or for one less, and the group's epoch stays."""
    at = pick(rng, values(log, "5"))
    record = copy.deepcopy(log[at].record)
    names = record["value"]["data"]["subscribedTopicNames"]
    if names and rng.random() < 0.5:
        names.remove(pick(rng, names))
    else:
        names.append("one-more")
    return injection_at(*append_operation(log, at, record))


@fault
def duplicate_instance_id(log: Log, rng: random.Random) -> Injection:
    """A member joins as an instance that another member is."""
    places = []
    for i in values(log, "5"):
        before = latest_values(log, i, log[i].group, "5")
        if log[i].member not in before and log[operation_of(log, i)[0]].kind == "5":
            others = {(m.value or {}).get("instanceId") for m in before.values()} - {None}
            places += [(i, other) for other in sorted(others)]
    at, instance = pick(rng, places)
    value_at(log, at)["instanceId"] = instance
    return injection_at(log, at)


def _rejoins(log: Log) -> list[int]:
    """PartitionSets of the records of members that take a static member's place."""
    return [
        operation[3]
        for operation in operations(log)
        if "".join(log[i].kind for i in operation[:6]) == "875578"
        and all(log[i].value is None for i in operation[:3])
    ]


@fault
def static_rejoin_with_another_instance_id(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _rejoins(log))
    value_at(log, at)["instanceId"] = f"another-{rng.randrange(1000)}"
    return injection_at(log, at)


@fault
def regex_resolved_to_unmatched_topic(log: Log, rng: random.Random) -> Injection:
    """A topic is said to be matched by an expression that does not match it."""
    at = pick(rng, values(log, "16"))
    value_at(log, at)["topics"].append(f"+{rng.randrange(1000)}")
    return injection_at(log, at)


@fault
def lost_regex_resolution(log: Log, rng: random.Random) -> Injection:
    """The topics of an expression are lost, the epoch that they caused is there.

    With a record of key 4 (4.0), the topics themselves may have been the cause of the epoch, unless
    nobody but the expression subscribes to one of them.
    """
    places = []
    for operation in operations(log):
        at = operation[0]
        kinds = "".join(log[i].kind for i in operation)
        if kinds not in ("163", "1643") or log[at].value is None:
            continue
        resolved = set(value_at(log, at)["topics"])
        if resolved == _resolved_before(log, at):
            continue
        if kinds == "163" or resolved - _subscribed_before(log, at):
            places.append(at)
    at = pick(rng, places)
    return injection_at(drop_record(log, at), at, operation_start(log, at))


def _subscribed_before(log: Log, at: int) -> set[str]:
    """Every topic that members of the group subscribe to, by name or by expression."""
    members = latest_values(log, at, log[at].group, "5").values()
    expressions = latest_values(log, at, log[at].group, "16").values()
    by_name = {name for m in members for name in (m.value or {})["subscribedTopicNames"]}
    return by_name | {topic for e in expressions for topic in (e.value or {})["topics"]}


def _resolved_before(log: Log, at: int) -> set[str]:
    """The topics to which an expression was resolved before."""
    last = latest_values(log, at, log[at].group, "16").get(log[at].member)
    return set() if last is None else set((last.value or {})["topics"])


@fault
def lost_regex_tombstone(log: Log, rng: random.Random) -> Injection:
    """Nobody subscribes by an expression any more, but what it came to stays."""
    places = [
        (operation, i)
        for operation in operations(log)
        for i in operation[1:]
        if log[i].kind == "16"
        and log[i].value is None
        and log[operation[-1]].kind != "2"
        and not any(log[j].kind == "3" and log[j].value is None for j in operation)
        and log[i].member in latest_values(log, i, log[i].group, "16")
    ]
    operation, gone = pick(rng, places)
    first, place = log[operation[0]].offset, log[gone].offset
    at = gone if gone != operation[-1] else gone - 1
    return replace(injection_at(drop_record(log, gone), at, first), place=place)


@fault
def wrong_topic_metadata(log: Log, rng: random.Random) -> Injection:
    """A topic's partitions in key 4 (4.0) are one more than there are."""
    places = [i for i in values(log, "4") if value_at(log, i)["topics"]]
    at = pick(rng, [i for i in places if _next_target(log, i) is not None])
    last = _next_target(log, at)
    assert last is not None
    given_out = {
        row["topicId"]
        for item in latest_values(log, last, log[at].group, "7").values()
        for row in (item.value or {})["topicPartitions"]
    }
    row = pick(rng, [row for row in value_at(log, at)["topics"] if row["topicId"] in given_out])
    row["numPartitions"] += 1
    found = injection_at(log, at)
    return Injection(**(vars(found) | {"last": max(found.last, log[last].offset)}))


def _next_target(log: Log, at: int) -> int | None:
    """The target that is made of a key 4; None if another one comes before."""
    for i in group_of(log, at):
        if i > at and log[i].kind in ("2", "4"):
            return None
        if i > at and log[i].kind == "6":
            return i if log[i].value is not None else None
    return None


@fault
def lost_leave_tombstones(log: Log, rng: random.Random) -> Injection:
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
        log = drop_record(log, i)
    return injection_at(log, operation[0], first)


@fault
def join_without_epoch_bump(log: Log, rng: random.Random) -> Injection:
    """Somebody has joined of whom nothing else tells."""
    at = pick(rng, values(log, "5"))
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["memberId"] = f"nobody-{rng.randrange(1000)}"
    record["value"]["data"]["instanceId"] = None
    if not record["value"]["data"]["subscribedTopicNames"]:
        raise NoPlaceError
    return injection_at(*append_operation(log, at, record))


@fault
def member_tombstone_alone(log: Log, rng: random.Random) -> Injection:
    """A member's own record gets a tombstone, its assignment and target stay."""
    places = [
        i
        for i in values(log, "8")
        if log[operation_of(log, i)[-1]].kind != "2" and operation_of(log, i)[-1] == i
    ]
    at = pick(rng, places)
    key = log[at].record["key"]["data"]
    return injection_at(*append_operation(log, at, tombstone("5", **key)))
