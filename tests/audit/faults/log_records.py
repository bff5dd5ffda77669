"""Records that are lost, doubled, moved or of somebody else."""

from __future__ import annotations

import copy
import random

from kip848_spark.audit.entries import entry
from kip848_spark.audit.operations import same_operation
from kip848_spark.coordinator.records import tombstone
from tests.audit.faults.injecting import (
    FAULTS,
    Fault,
    Injected,
    Log,
    NoPlaceError,
    after_it,
    begin,
    data,
    dropped,
    fault,
    group_of,
    injected,
    inserted,
    operation_of,
    pick,
    previous,
    values,
)


@fault
def swapped(log: Log, rng: random.Random) -> Injected:
    """Two neighbours of one operation, of different kinds, change places."""
    pairs = [
        (i, i + 1)
        for i in range(len(log) - 1)
        if log[i].group == log[i + 1].group
        and same_operation(log[i], log[i + 1])
        and log[i].kind != log[i + 1].kind
        # a member's own record may be an operation by itself, and so may its assignment
        and (log[i].kind, log[i + 1].kind) != ("5", "8")
        and len(operation_of(log, i)) > 2  # two could be two operations of one millisecond
    ]
    one, other = pick(rng, pairs)
    a, b = log[one], log[other]
    log[one], log[other] = b._replace(offset=a.offset), a._replace(offset=b.offset)
    return injected(log, other)


@fault
def duplicated(log: Log, rng: random.Random) -> Injected:
    """A record of a consumer group is there twice, side by side. Not a static member's leave: it
    may say so twice."""
    places = [
        i
        for i, e in enumerate(log)
        if e.kind not in ("2", "4") and (e.value or {}).get("memberEpoch") != -2
    ]
    at = pick(rng, places)
    again = copy.deepcopy(log[at])._replace(offset=log[at].offset + 1)
    return injected(inserted(log, at + 1, again), at + 1)


@fault
def replayed_later(log: Log, rng: random.Random) -> Injected:
    """An old assignment is appended again behind a newer one."""
    places = []
    for i in values(log, "8"):
        later = [j for j in group_of(log, i) if j > i and log[j].key == log[i].key]
        places += [(i, j) for j in later if log[j].value is not None]
    one, other = pick(rng, places)
    again = copy.deepcopy(log[one])._replace(
        offset=log[other].offset + 1, timestamp=log[other].timestamp + 1
    )
    return injected(inserted(log, other + 1, again), other + 1, begin(log, other))


def _drop(kind: str, value: bool) -> Fault:
    def drop(log: Log, rng: random.Random) -> Injected:
        places = [
            i
            for i, e in enumerate(log)
            if e.kind == kind and (e.value is not None) == value and group_of(log, i)[-1] != i
        ]
        at = pick(rng, places)
        following = next(i for i in group_of(log, at) if i > at) - 1
        return injected(dropped(log, at), following, begin(log, at))

    return drop


for _kind, _name in (("3", "group_epoch"), ("6", "target_epoch"), ("7", "target")):
    FAULTS[f"dropped_{_name}"] = _drop(_kind, value=True)
for _kind, _name in (("5", "member"), ("7", "target"), ("8", "assignment")):
    FAULTS[f"lost_{_name}_tombstone"] = _drop(_kind, value=False)


@fault
def dropped_member(log: Log, rng: random.Random) -> Injected:
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
def dropped_assignment(log: Log, rng: random.Random) -> Injected:
    """An assignment is lost whose epoch the member's next one names as the previous one."""
    places = []
    for i in values(log, "8"):
        after = after_it(log, i)
        before = previous(log, i)
        then = before.value["memberEpoch"] if before is not None and before.value else 0
        if after is not None and data(log, after)["previousMemberEpoch"] != then:
            places.append((i, after))
    at, after = pick(rng, places)
    return injected(dropped(log, at), after - 1, begin(log, at))


@fault
def orphan_tombstone(log: Log, rng: random.Random) -> Injected:
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
def bump_without_cause(log: Log, rng: random.Random) -> Injected:
    """A group's last word is a new epoch that nothing called for."""
    at = pick(rng, values(log, "3"))
    own = group_of(log, at)
    later = [i for i in own if i > at and log[i].kind in ("2", "3")]
    if later:
        raise NoPlaceError
    record = copy.deepcopy(log[at].record)
    record["value"]["data"]["epoch"] += 1
    end = log[own[-1]]
    bump = entry(end.partition, end.offset + 1, end.timestamp + 9, record)
    return injected(inserted(log, own[-1] + 1, bump), own[-1] + 1)


@fault
def of_another_group(log: Log, rng: random.Random) -> Injected:
    """A member's assignment bears the name of another consumer group of the partition."""
    at = pick(rng, values(log, "8"))
    groups = {
        e.group
        for e in log[:at]
        if e.kind == "3" and e.partition == log[at].partition and e.value is not None
    } - {log[at].group}
    ended = {e.group for e in log[:at] if e.kind == "3" and e.value is None}
    name = pick(rng, sorted(groups - ended))
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["groupId"] = name
    item = log[at]
    log[at] = entry(item.partition, item.offset, item.timestamp, record)
    return injected(log, at)
