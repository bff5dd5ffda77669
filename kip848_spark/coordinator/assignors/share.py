"""The assignor of share groups, ``simple``, as it is from 4.2 on (KIP-932 "Server-side Assignor").

A partition may have several members. With more members than partitions, each partition is shared by
as many members as it takes to give every member one. Partitions stay where they are, as far as the
loads allow (docs/kafka-facts.md#share-assignor).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kip848_spark.coordinator.assignors.model import AssignmentSpec, GroupAssignment, MemberSpec
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import (
    HashTable,
    copied_size,
    grown_size,
    int_order,
    table_size,
    uuid_hash,
    uuid_order,
)

Assignable = Mapping[str, Iterable[int]]
"""Topic id -> the partitions that may be assigned: those with initialized share state."""
ShareAssignor = Callable[[AssignmentSpec, Assignable], GroupAssignment]
TopicIdPartition = tuple[str, int]

_P = TypeVar("_P")


def assign_share(spec: AssignmentSpec, assignable: Assignable) -> GroupAssignment:
    """The target of a share group from 4.2 on. A topic of a member may be left with an empty list
    of partitions, as a broker leaves it.
    """
    if not any(member.topics for member in spec.members):
        return {}
    if spec.homogeneous:
        return _assign_together(spec, assignable)
    return _assign_by_topic(spec, assignable)


def partition_hash(partition: TopicIdPartition) -> int:
    """The hash code of a topic id and partition."""
    return 31 * uuid_hash(partition[0]) + partition[1]


def old_partitions(member: MemberSpec) -> list[TopicIdPartition]:
    """A member's old target in the order in which a broker iterates it."""
    return [
        (topic, number)
        for topic in uuid_order(member.target)
        for number in int_order(list(member.target[topic]), _set_size(member.target[topic]))
    ]


def _set_size(numbers: Iterable[int]) -> int:
    return copied_size(len(list(numbers)))


@dataclass(slots=True)
class _Division(Generic[_P]):
    """The division of partitions among members, both in the order of a broker's tables."""

    wanted: Sequence[int]
    """The number of partitions that each member is to have."""
    sharing: int
    """The most members that a partition is to have."""
    table: HashTable[_P]
    holders: dict[_P, list[int]]
    """Partition -> its members, in order of insertion."""
    most: dict[_P, int]
    """Partition -> the most members that it had."""
    held: list[dict[_P, None]]
    """Member -> its partitions."""

    def keep(self, member: int, partition: _P) -> None:
        """The member holds the partition in the old target."""
        self.table.compute(partition)
        self.holders.setdefault(partition, []).append(member)
        self.most[partition] = len(self.holders[partition])
        self.held[member][partition] = None

    def add_partition(self, partition: _P) -> None:
        """The partition may be assigned."""
        self.table.compute(partition)
        self.holders.setdefault(partition, [])
        self.most.setdefault(partition, 0)

    def drop_excess(self, member: int, partitions: Iterable[_P]) -> None:
        """The member gives up the first of its ``partitions`` until it has what it is to have."""
        for partition in partitions:
            if len(self.held[member]) <= self.wanted[member]:
                return
            self._take(member, partition)

    def limit_sharing(self) -> None:
        """No partition keeps more members than it is to have."""
        for partition in self.table:
            excess = len(self.holders[partition]) - self.sharing
            if excess > 0:
                mask = grown_size(16, self.most[partition]) - 1
                order = sorted(self.holders[partition], key=lambda m: (m & mask, m))
                for member in order[:excess]:
                    self._take(member, partition)

    def _take(self, member: int, partition: _P) -> None:
        self.holders[partition].remove(member)
        del self.held[member][partition]

    def fill(self) -> None:
        """Give partitions to members that have too few, in turn. Raises GroupError
        UNKNOWN_SERVER_ERROR where a broker fails: no member is left for a partition that needs
        one (4.2 to 4.4).
        """
        unfilled = [m for m, wanted in enumerate(self.wanted) if len(self.held[m]) < wanted]
        at, granted = 0, False
        for partition in self.table:
            holders = self.holders[partition]
            needed = self.sharing - len(holders)
            if not unfilled:
                return
            while needed > 0:
                if not unfilled:
                    raise GroupError("UNKNOWN_SERVER_ERROR", "the assignor has no member left")
                if at == len(unfilled):
                    if not granted:
                        return  # a broker does not start over, for this partition or a later one
                    at, granted = 0, False
                member = unfilled[at]
                if member in holders:
                    at += 1
                    continue
                holders.append(member)
                self.held[member][partition] = None
                needed -= 1
                granted = True
                if len(self.held[member]) >= self.wanted[member]:
                    del unfilled[at]
                else:
                    at += 1


def wanted_counts(members: int, partitions: int) -> tuple[int, list[int]]:
    """How many members share a partition, and how many partitions each member is to have. Computed
    in double precision, as a broker does.
    """
    if members == 0 or partitions == 0:
        return 0, [0] * members
    sharing = math.ceil(members / partitions)
    each = float(sharing * partitions) / members
    return sharing, [math.ceil(each * (i + 1)) - math.ceil(each * i) for i in range(members)]


def _initial_size(partitions: int) -> int:
    return table_size(int((partitions + 1) / 0.75 + 1))


def _assign_together(spec: AssignmentSpec, assignable: Assignable) -> GroupAssignment:
    """All members subscribe to the same topics."""
    members = spec.members
    subscribed = members[0].topics if members else {}
    if not subscribed:
        return {}
    available = [(topic, number) for topic in subscribed for number in assignable.get(topic, ())]
    sharing, wanted = wanted_counts(len(members), len(available))
    division: _Division[TopicIdPartition] = _Division(
        wanted, sharing, HashTable((), _initial_size(len(available)), partition_hash),
        {}, {}, [{} for _ in members],
    )  # fmt: skip
    for index, member in enumerate(members):
        for partition in old_partitions(member):
            if partition[0] in subscribed:
                division.keep(index, partition)
    for index in range(len(members)):
        own: HashTable[TopicIdPartition] = HashTable(division.held[index], 16, partition_hash)
        division.drop_excess(index, list(own))
    for partition in available:
        division.add_partition(partition)
    division.limit_sharing()
    division.fill()
    return {
        member.member_id: _result(
            [topic for topic in member.target if topic in subscribed],
            division.held[index],
        )
        for index, member in enumerate(members)
    }


def _result(old: list[str], held: Iterable[TopicIdPartition]) -> dict[str, list[int]]:
    """A member's target, with its topics in a broker's order; a topic of the old one stays even
    without partitions.
    """
    table = HashTable(uuid_order(old), table_size(len(old)))
    numbers: dict[str, list[int]] = {}
    for topic, number in held:
        table.compute(topic)
        numbers.setdefault(topic, []).append(number)
    return {topic: numbers.get(topic, []) for topic in table}


def _assign_by_topic(spec: AssignmentSpec, assignable: Assignable) -> GroupAssignment:
    """Members subscribe to different topics: each topic is divided by itself."""
    members = spec.members
    result = {
        member.member_id: {t: list(n) for t, n in member.target.items()} for member in members
    }
    for topic in dict.fromkeys(topic for member in members for topic in member.topics):
        subscribers = [i for i, member in enumerate(members) if topic in member.topics]
        available = list(assignable.get(topic, ()))
        sharing, counts = wanted_counts(len(subscribers), len(available))
        wanted = [0] * len(members)
        for index, count in zip(subscribers, counts, strict=True):
            wanted[index] = count
        division: _Division[int] = _Division(
            wanted, sharing, HashTable((), _initial_size(len(available)), int),
            {}, {}, [{} for _ in members],
        )  # fmt: skip
        for index, member in enumerate(members):
            numbers = list(member.target.get(topic, ()))
            for number in int_order(numbers, _set_size(numbers)):
                division.keep(index, number)
        for index in range(len(members)):
            division.drop_excess(index, int_order(division.held[index]))
        for number in available:
            division.add_partition(number)
        division.limit_sharing()
        division.fill()
        for index, member in enumerate(members):
            share = result[member.member_id]
            if topic in share or division.held[index]:
                share[topic] = list(division.held[index])
    return result
