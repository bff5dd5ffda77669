"""The assignor of share groups in 4.1: by the hash of member ids, then round robin.

Raises GroupError UNKNOWN_SERVER_ERROR where a broker of 4.1 fails to compute a target
(docs/kafka-facts.md#share-assignor).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from kip848_spark.coordinator.assignors.model import AssignmentSpec, GroupAssignment
from kip848_spark.coordinator.assignors.share import (
    Assignable,
    TopicIdPartition,
    old_partitions,
    partition_hash,
)
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import HashTable, string_hash, string_order

_Held = dict[str, dict[TopicIdPartition, None]]


def assign_share_41(spec: AssignmentSpec, assignable: Assignable) -> GroupAssignment:
    """The target of a share group in 4.1."""
    if not any(member.topics for member in spec.members):
        return {}
    held = _homogeneous(spec, assignable) if spec.homogeneous else _mixed(spec, assignable)
    result: GroupAssignment = {}
    for member_id, partitions in held.items():
        own: dict[str, list[int]] = {}
        for topic, number in partitions:
            own.setdefault(topic, []).append(number)
        result[member_id] = own
    return result


def _partitions(topics: Iterable[str], assignable: Assignable) -> list[TopicIdPartition]:
    return [(topic, number) for topic in topics for number in assignable.get(topic, ())]


def _by_hash(member_id: str, partitions: list[TopicIdPartition]) -> TopicIdPartition:
    return partitions[abs(string_hash(member_id)) % len(partitions)]


def _current(spec: AssignmentSpec) -> list[tuple[TopicIdPartition, list[str]]]:
    """Partitions of the old target with their holders, in a broker's order."""
    holders: dict[TopicIdPartition, list[str]] = {}
    table: HashTable[TopicIdPartition] = HashTable((), 16, partition_hash)
    for member in spec.members:
        for partition in old_partitions(member):
            table.compute(partition)
            holders.setdefault(partition, []).append(member.member_id)
    return [(partition, holders[partition]) for partition in table]


def _homogeneous(spec: AssignmentSpec, assignable: Assignable) -> _Held:
    topics = spec.members[0].topics
    partitions = _partitions(topics, assignable)
    held: _Held = {member.member_id: {} for member in spec.members}
    if not partitions:
        return held
    most = math.ceil(len(partitions) / len(spec.members))
    given: set[TopicIdPartition] = set()
    for member_id, own in held.items():
        chosen = _by_hash(member_id, partitions)
        own[chosen] = None
        given.add(chosen)
    hashed = frozenset(given)
    for partition, holders in _current(spec):
        if partition[0] not in topics or partition in hashed:
            continue
        for member_id in holders:
            if len(held[member_id]) < most:
                held[member_id][partition] = None
                given.add(partition)
    waiting = deque(held)
    for partition in partitions:
        if partition in given:
            continue
        while waiting and len(held[waiting[0]]) > most:
            waiting.popleft()
        if not waiting:
            raise GroupError("UNKNOWN_SERVER_ERROR", "the assignor has no member for a partition")
        member_id = waiting.popleft()
        held[member_id][partition] = None
        waiting.append(member_id)
    return held


def _mixed(spec: AssignmentSpec, assignable: Assignable) -> _Held:
    held: _Held = {member.member_id: {} for member in spec.members}
    subscribers: dict[str, list[str]] = {}
    hashed: set[TopicIdPartition] = set()
    for member in spec.members:
        partitions = _partitions(member.topics, assignable)
        for topic in member.topics:
            subscribers.setdefault(topic, []).append(member.member_id)
        if partitions:
            chosen = _by_hash(member.member_id, partitions)
            held[member.member_id][chosen] = None
            hashed.add(chosen)
    current = _current(spec)
    kept = {partition for partition, _ in current}
    given = set(hashed)
    for topic, ids in subscribers.items():
        order = string_order(ids)
        rest = [
            partition
            for partition in _partitions([topic], assignable)
            if partition not in hashed and partition not in kept
        ]
        for at, partition in enumerate(rest):
            held[order[at % len(order)]][partition] = None
            given.add(partition)
    wanted = {member.member_id: member.topics for member in spec.members}
    for partition, holders in current:
        if partition in given or not assignable.get(partition[0]):
            continue
        for member_id in holders:
            if partition[0] in wanted[member_id]:
                held[member_id][partition] = None
    return held
