"""The ``uniform`` assignor for members with different subscriptions.

docs/kafka-facts.md#uniform-heterogeneous. Three steps: keep partitions that are still subscribed
to, give each topic's free partitions to its least loaded subscribers, then move partitions from the
most loaded to the least loaded subscribers of a topic until nothing moves.
"""

from __future__ import annotations

from kip848_spark.coordinator.assignors.model import AssignmentSpec, GroupAssignment, TargetBuilder
from kip848_spark.coordinator.javahash import copied_size, int_order, uuid_halves

_PASSES = 16


def assign_heterogeneous(spec: AssignmentSpec) -> GroupAssignment:
    """The most even target for these subscriptions (in up to 16 balancing passes)."""
    return _Balancer(spec).run()


class _Balancer:
    """Members are given by their index in the order of visits; a load counts partitions
    of all topics.
    """

    def __init__(self, spec: AssignmentSpec) -> None:
        self.spec = spec
        self.loads = [0] * len(spec.members)
        self.builders = [TargetBuilder(member) for member in spec.members]
        self.subscribers: dict[str, list[int]] = {}
        for index, member in enumerate(spec.members):
            for topic in member.topics:
                self.subscribers.setdefault(topic, []).append(index)
        self.topics = sorted(self.subscribers, key=self._rank)

    def _rank(self, topic: str) -> tuple[float, int, tuple[int, int]]:
        """Order of topics: most partitions per subscriber first, then fewest subscribers, then
        topic id.
        """
        count = len(self.subscribers[topic])
        return -self.spec.partitions[topic] / count, count, uuid_halves(topic)

    def run(self) -> GroupAssignment:
        self._keep()
        for topic in self.topics:
            self._fill(topic)
        self._balance()
        return {
            member.member_id: builder.ordered()
            for member, builder in zip(self.spec.members, self.builders, strict=True)
        }

    def _new_set_size(self, topic: str) -> int:
        """Buckets of the set of a topic that is new to a member: enough for an even share of it."""
        even_share = -(-self.spec.partitions[topic] // len(self.subscribers[topic]))
        return copied_size(even_share, 1)

    def _give(self, index: int, topic: str, number: int) -> None:
        self.builders[index].add(topic, number, self._new_set_size(topic))
        self.loads[index] += 1

    def _keep(self) -> None:
        for index, member in enumerate(self.spec.members):
            for topic, numbers in member.target.items():
                if topic in member.topics:
                    kept = int_order(numbers, copied_size(len(numbers)))
                    self.builders[index].keep(topic, kept)
                    self.loads[index] += len(numbers)

    def _fill(self, topic: str) -> None:
        """Give free partitions, in ascending order, to the least loaded subscribers,
        level by level.
        """
        owned: set[int] = set()
        for index in self.subscribers[topic]:
            owned |= self.builders[index].partitions.get(topic, {}).keys()
        levels = _LoadLevels(self.subscribers[topic], self.loads)
        for number in range(self.spec.partitions[topic]):
            if number not in owned:
                self._give(levels.next_light(), topic, number)

    def _balance(self) -> None:
        shared = [topic for topic in self.topics if len(self.subscribers[topic]) > 1]
        unchanged = -1  # the first topic always counts as changed
        for _ in range(_PASSES):
            for topic in shared:
                if unchanged == len(shared) - 1:
                    return
                unchanged = 0 if self._balance_topic(topic) or unchanged < 0 else unchanged + 1

    def _balance_topic(self, topic: str) -> bool:
        """Move partitions of one topic from its most loaded to its least loaded subscribers."""
        levels = _LoadLevels(self.subscribers[topic], self.loads)
        if levels.spread() <= 1:
            return False
        owned = {
            i: sorted(self.builders[i].partitions.get(topic, ())) for i in self.subscribers[topic]
        }
        moved = False
        while not levels.balanced():
            source = levels.next_heavy()
            while source is not None and not owned[source]:
                levels.exclude_heavy()
                source = levels.next_heavy()
            if source is None:
                break
            number = owned[source].pop()
            destination = levels.next_light()
            if levels.balanced():
                break
            self.builders[source].take(topic, number)
            self.loads[source] -= 1
            self._give(destination, topic, number)
            moved = True
        return moved


class _LoadLevels:
    """One topic's subscribers by load, visited from both ends, level by level.

    The least loaded subscribers are a growing head of the list. They are visited in turn, and each
    visit adds one partition; when all of them have the same load, the subscribers already at that
    load are added. The most loaded ones are the tail, treated likewise in the other direction.
    """

    def __init__(self, subscribers: list[int], loads: list[int]) -> None:
        self.loads = loads
        self.members = sorted(subscribers, key=lambda index: (loads[index], index))
        self.light_end = 0
        self.light_balance_topic = loads[self.members[0]] - 1
        self.light_at = 0
        self.heavy_start = len(self.members)
        self.heavy_end = len(self.members)
        self.heavy_balance_topic = loads[self.members[-1]] + 1
        self.heavy_at = len(self.members) - 1

    def spread(self) -> int:
        """The highest load minus the lowest."""
        return self.loads[self.members[-1]] - self.loads[self.members[0]]

    def balanced(self) -> bool:
        """Whether both ends have met."""
        return self.heavy_balance_topic - self.light_balance_topic <= 1

    def next_light(self) -> int:
        """The next least loaded subscriber; the caller gives it one partition."""
        if self.light_at >= self.light_end:
            self.light_balance_topic += 1
            while (
                self.light_end < len(self.members)
                and self.loads[self.members[self.light_end]] == self.light_balance_topic
            ):
                self.light_end += 1
            self.light_at = 0
        self.light_at += 1
        return self.members[self.light_at - 1]

    def next_heavy(self) -> int | None:
        """The next most loaded subscriber, or ``None`` if none is left."""
        if self.heavy_at < self.heavy_start:
            if self.heavy_end <= self.heavy_start and self.heavy_start > 0:
                self.heavy_balance_topic = self.loads[self.members[self.heavy_start - 1]]
            else:
                self.heavy_balance_topic -= 1
            while (
                self.heavy_start > 0
                and self.loads[self.members[self.heavy_start - 1]] == self.heavy_balance_topic
            ):
                self.heavy_start -= 1
            self.heavy_at = self.heavy_end - 1
        if self.heavy_at < 0:
            return None
        self.heavy_at -= 1
        return self.members[self.heavy_at + 1]

    def exclude_heavy(self) -> None:
        """Exclude the subscriber just returned by `next_heavy`: it has no partition of
        this topic.
        """
        seen, last = self.heavy_at + 1, self.heavy_end - 1
        self.members[seen], self.members[last] = self.members[last], self.members[seen]
        self.heavy_end -= 1
