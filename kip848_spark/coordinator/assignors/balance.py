"""The ``uniform`` assignor for members with different subscriptions (facts D, "heterogeneous").

Three steps: keep what is still subscribed to, fill each topic's free partitions into its least
loaded subscribers, then move partitions from the most to the least loaded subscribers of a topic
until nothing moves any more.
"""

from __future__ import annotations

from kip848_spark.coordinator.assignors.model import AssignmentSpec, GroupAssignment, Share
from kip848_spark.coordinator.javahash import copied_size, int_order, uuid_halves

_PASSES = 16


def assign_heterogeneous(spec: AssignmentSpec) -> GroupAssignment:
    """The most even target there is for these subscriptions (up to 16 balancing passes)."""
    return _Leveller(spec).run()


class _Leveller:
    """Members by their index in the order of visits; a load is a count over all topics."""

    def __init__(self, spec: AssignmentSpec) -> None:
        self.spec = spec
        self.loads = [0] * len(spec.members)
        self.shares = [Share(member) for member in spec.members]
        self.subscribers: dict[str, list[int]] = {}
        for index, member in enumerate(spec.members):
            for topic in member.topics:
                self.subscribers.setdefault(topic, []).append(index)
        self.topics = sorted(self.subscribers, key=self._rank)

    def _rank(self, topic: str) -> tuple[float, int, tuple[int, int]]:
        """Most partitions a subscriber first, then fewest subscribers, then topic id."""
        count = len(self.subscribers[topic])
        return -self.spec.partitions[topic] / count, count, uuid_halves(topic)

    def run(self) -> GroupAssignment:
        self._keep()
        for topic in self.topics:
            self._fill(topic)
        self._balance()
        return {
            member.member_id: share.listed()
            for member, share in zip(self.spec.members, self.shares, strict=True)
        }

    def _room(self, topic: str) -> int:
        """Buckets for a topic new to a member: enough for an even share of it."""
        share = -(-self.spec.partitions[topic] // len(self.subscribers[topic]))
        return copied_size(share, 1)

    def _give(self, index: int, topic: str, number: int) -> None:
        self.shares[index].add(topic, number, self._room(topic))
        self.loads[index] += 1

    def _keep(self) -> None:
        for index, member in enumerate(self.spec.members):
            for topic, numbers in member.target.items():
                if topic in member.topics:
                    kept = int_order(numbers, copied_size(len(numbers)))
                    self.shares[index].keep(topic, kept)
                    self.loads[index] += len(numbers)

    def _fill(self, topic: str) -> None:
        """Free partitions, ascending, raise the least loaded subscribers level by level."""
        owned: set[int] = set()
        for index in self.subscribers[topic]:
            owned |= self.shares[index].partitions.get(topic, {}).keys()
        scale = _Scale(self.subscribers[topic], self.loads)
        for number in range(self.spec.partitions[topic]):
            if number not in owned:
                self._give(scale.next_light(), topic, number)

    def _balance(self) -> None:
        shared = [topic for topic in self.topics if len(self.subscribers[topic]) > 1]
        quiet = -1  # the very first topic counts as a change
        for _ in range(_PASSES):
            for topic in shared:
                if quiet == len(shared) - 1:
                    return
                quiet = 0 if self._level(topic) or quiet < 0 else quiet + 1

    def _level(self, topic: str) -> bool:
        """Move partitions of one topic from its most to its least loaded subscribers."""
        scale = _Scale(self.subscribers[topic], self.loads)
        if scale.spread() <= 1:
            return False
        owned = {
            i: sorted(self.shares[i].partitions.get(topic, ())) for i in self.subscribers[topic]
        }
        moved = False
        while not scale.balanced():
            giver = scale.next_heavy()
            while giver is not None and not owned[giver]:
                scale.exclude_heavy()
                giver = scale.next_heavy()
            if giver is None:
                break
            number = owned[giver].pop()
            receiver = scale.next_light()
            if scale.balanced():
                break
            self.shares[giver].take(topic, number)
            self.loads[giver] -= 1
            self._give(receiver, topic, number)
            moved = True
        return moved


class _Scale:
    """One topic's subscribers by load, walked from both ends, level by level.

    The light ones are a growing head of the list that is visited in turn, each visit raising
    one; when all stand at the same level, those who were there already join. The heavy ones are
    the tail, likewise, from its end and downwards.
    """

    def __init__(self, subscribers: list[int], loads: list[int]) -> None:
        self.loads = loads
        self.members = sorted(subscribers, key=lambda index: (loads[index], index))
        self.light_end = 0
        self.light_level = loads[self.members[0]] - 1
        self.light_at = 0
        self.heavy_start = len(self.members)
        self.heavy_end = len(self.members)
        self.heavy_level = loads[self.members[-1]] + 1
        self.heavy_at = len(self.members) - 1

    def spread(self) -> int:
        """Load of the heaviest less load of the lightest."""
        return self.loads[self.members[-1]] - self.loads[self.members[0]]

    def balanced(self) -> bool:
        """The two ends have met."""
        return self.heavy_level - self.light_level <= 1

    def next_light(self) -> int:
        """The next least loaded subscriber; the caller gives it one partition."""
        if self.light_at >= self.light_end:
            self.light_level += 1
            while (
                self.light_end < len(self.members)
                and self.loads[self.members[self.light_end]] == self.light_level
            ):
                self.light_end += 1
            self.light_at = 0
        self.light_at += 1
        return self.members[self.light_at - 1]

    def next_heavy(self) -> int | None:
        """The next most loaded subscriber, or ``None`` when none is left."""
        if self.heavy_at < self.heavy_start:
            if self.heavy_end <= self.heavy_start and self.heavy_start > 0:
                self.heavy_level = self.loads[self.members[self.heavy_start - 1]]
            else:
                self.heavy_level -= 1
            while (
                self.heavy_start > 0
                and self.loads[self.members[self.heavy_start - 1]] == self.heavy_level
            ):
                self.heavy_start -= 1
            self.heavy_at = self.heavy_end - 1
        if self.heavy_at < 0:
            return None
        self.heavy_at -= 1
        return self.members[self.heavy_at + 1]

    def exclude_heavy(self) -> None:
        """Take out the heavy subscriber just seen: it has none of this topic to give."""
        seen, last = self.heavy_at + 1, self.heavy_end - 1
        self.members[seen], self.members[last] = self.members[last], self.members[seen]
        self.heavy_end -= 1
