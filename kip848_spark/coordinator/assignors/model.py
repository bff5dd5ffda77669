"""Input and output of an assignor (KIP-848 "Broker API", AssignmentSpec)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kip848_spark.coordinator.javahash import (
    HashTable,
    copied_size,
    grown_size,
    int_order,
    table_size,
    uuid_order,
)
from kip848_spark.coordinator.topics import Topic

Assignment = dict[str, dict[int, None]]
"""Topic id -> partitions, in order of insertion."""
GroupAssignment = dict[str, dict[str, list[int]]]
"""Member id -> topic id -> partitions, in the order in which a broker's tables list them."""


class MemberSpec(NamedTuple):
    """A member as an assignor sees it; its topics are the ids of those that exist."""

    member_id: str
    instance_id: str | None
    topics: Mapping[str, None]
    """Topic ids in the order in which a broker iterates the names."""
    target: Assignment
    """Its partitions in the last target, which a sticky assignor keeps."""
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class AssignmentSpec:
    """A group as an assignor sees it. The assignor visits the members in this order."""

    members: tuple[MemberSpec, ...]
    partitions: dict[str, int]
    """Topic id -> number of partitions, for every subscribed topic."""
    homogeneous: bool
    gives_back: bool = True
    """Whether ``uniform`` leaves extra partitions with their owners (not in 4.0.0)."""
    topics: Mapping[str, Topic] = field(default_factory=dict)
    """Every subscribed topic by its id: only custom assignors see more than its partitions."""


Assignor = Callable[[AssignmentSpec], GroupAssignment]


class TargetBuilder:
    """Builds one member's target, in the order of a broker's hash tables.

    It begins as a copy of the partitions kept from the old target. A topic that is new to the
    member gets a set of ``fresh`` buckets.
    """

    def __init__(self, member: MemberSpec) -> None:
        self.old = member.target
        self.partitions: Assignment = {}
        self._fresh: dict[str, int] = {}
        self._most: dict[str, int] = {}
        self._table: HashTable[str] | None = None

    def keep(self, topic: str, numbers: Iterable[int]) -> None:
        """Keep partitions of the old target; call it only before :meth:`add`."""
        self.partitions[topic] = dict.fromkeys(numbers)

    def _get_table(self) -> HashTable[str]:
        if self._table is None:
            self._table = HashTable(uuid_order(self.old), table_size(len(self.old)))
            for topic in self.old.keys() - self.partitions.keys():
                self._table.remove(topic)
        return self._table

    def add(self, topic: str, number: int, fresh: int) -> None:
        """Add a partition."""
        self._get_table().compute(topic)
        if topic not in self.partitions:
            self.partitions[topic] = {}
            self._fresh[topic] = fresh
        self.partitions[topic][number] = None
        self._most[topic] = max(self._most.get(topic, 0), len(self.partitions[topic]))

    def take(self, topic: str, number: int) -> None:
        """Remove a partition."""
        table = self._get_table()
        del self.partitions[topic][number]
        if not self.partitions[topic]:
            del self.partitions[topic]
            table.remove(topic)

    def ordered(self) -> dict[str, list[int]]:
        """The target in order: the old target's order if nothing changed."""
        same = self._table is None and self.partitions == self.old
        order = uuid_order(self.old) if same else self._get_table()
        return {topic: int_order(self.partitions[topic], self._start(topic)) for topic in order}

    def _start(self, topic: str) -> int:
        """Buckets of a topic's set at its largest size, since a set never shrinks."""
        start = self._fresh.get(topic) or copied_size(len(self.old.get(topic, ())))
        return grown_size(start, self._most.get(topic, 0))
