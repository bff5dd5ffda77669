"""What an assignor is given and gives back (KIP-848 "Broker API", AssignmentSpec)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kip848_spark.coordinator.javahash import (
    HashTable,
    copied_size,
    grown_size,
    int_order,
    table_size,
    uuid_order,
)

Assignment = dict[str, dict[int, None]]
"""Topic id -> partitions, in the order they came."""
GroupAssignment = dict[str, dict[str, list[int]]]
"""Member id -> topic id -> partitions, in the order a broker's tables list them."""


class MemberSpec(NamedTuple):
    """A member as an assignor sees it; its topics are the ids of those that exist."""

    member_id: str
    instance_id: str | None
    topics: Mapping[str, None]
    """Ids in the order a broker walks the names."""
    target: Assignment
    """Its partitions by the last target: what stickiness keeps."""


@dataclass(frozen=True, slots=True)
class AssignmentSpec:
    """A group as an assignor sees it. The order of the members is the order of the visits."""

    members: tuple[MemberSpec, ...]
    partitions: dict[str, int]
    """Topic id -> number of partitions, for every topic some member asks for."""
    homogeneous: bool


Assignor = Callable[[AssignmentSpec], GroupAssignment]


class Share:
    """One member's growing part of a target, in the order of a broker's tables.

    It begins as a copy of what is kept of the old target; a topic new to the member gets a set
    that begins with ``fresh`` buckets.
    """

    def __init__(self, member: MemberSpec) -> None:
        self.old = member.target
        self.partitions: Assignment = {}
        self._fresh: dict[str, int] = {}
        self._most: dict[str, int] = {}
        self._table: HashTable | None = None

    def keep(self, topic: str, numbers: Iterable[int]) -> None:
        """Keep partitions of the old target; all of this comes before :meth:`add`."""
        self.partitions[topic] = dict.fromkeys(numbers)

    def _opened(self) -> HashTable:
        if self._table is None:
            self._table = HashTable(uuid_order(self.old), table_size(len(self.old)))
            for topic in self.old.keys() - self.partitions.keys():
                self._table.remove(topic)
        return self._table

    def add(self, topic: str, number: int, fresh: int) -> None:
        """Give the member a partition."""
        self._opened().compute(topic)
        if topic not in self.partitions:
            self.partitions[topic] = {}
            self._fresh[topic] = fresh
        self.partitions[topic][number] = None
        self._most[topic] = max(self._most.get(topic, 0), len(self.partitions[topic]))

    def take(self, topic: str, number: int) -> None:
        """Take a partition away again."""
        table = self._opened()
        del self.partitions[topic][number]
        if not self.partitions[topic]:
            del self.partitions[topic]
            table.remove(topic)

    def listed(self) -> dict[str, list[int]]:
        """The share in order: the old target's own if nothing changed."""
        same = self._table is None and self.partitions == self.old
        order = uuid_order(self.old) if same else self._opened()
        return {topic: int_order(self.partitions[topic], self._start(topic)) for topic in order}

    def _start(self, topic: str) -> int:
        """Buckets of a topic's set when it was largest: it never shrinks."""
        start = self._fresh.get(topic) or copied_size(len(self.old.get(topic, ())))
        return grown_size(start, self._most.get(topic, 0))
