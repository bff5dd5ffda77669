"""Committed offsets and the ones that wait for a transaction's marker (facts F)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kip848_spark.coordinator.javahash import TimelineOrder
from kip848_spark.coordinator.records import OFFSET, Record, record, tombstone

Place = tuple[str, int]
"""A user's topic and partition."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """One committed offset; ``log_offset`` orders it against others of the same partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: str | None = None
    log_offset: int = -1


class OffsetStore:
    """Offsets of every group: those in force, and per producer those pending."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[Place, CommittedOffset]] = {}
        self.pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}
        self._orders: dict[tuple[str, ...], TimelineOrder] = {}
        self._counts: Counter[tuple[str, ...]] = Counter()

    def group(self, group_id: str) -> dict[Place, CommittedOffset]:
        """The offsets of a group by place."""
        return self.committed.get(group_id, {})

    def put(self, group_id: str, place: Place, offset: CommittedOffset, producer: int) -> None:
        """A commit: at once, or (with a producer) when its transaction commits."""
        if producer < 0:
            self._put(group_id, place, offset)
        else:
            self.pending.setdefault(producer, {}).setdefault(group_id, {})[place] = offset

    def _put(self, group_id: str, place: Place, offset: CommittedOffset) -> None:
        places = self.committed.setdefault(group_id, {})
        topic = place[0]
        if place not in places:
            if not self._counts[group_id, topic]:
                self._order(group_id).putting(self._counts[group_id,])
                self._counts[group_id,] += 1
            self._order(group_id, topic).putting(self._counts[group_id, topic])
            self._counts[group_id, topic] += 1
        places[place] = offset

    def _forget(self, group_id: str, place: Place) -> None:
        topic = place[0]
        self._counts[group_id, topic] -= 1
        if not self._counts[group_id, topic]:
            del self._counts[group_id, topic]
            self._orders.pop((group_id, topic), None)
            self._counts[group_id,] -= 1
            if not self._counts[group_id,]:
                del self._counts[group_id,]
                self._orders.pop((group_id,), None)

    def drop(self, group_id: str, place: Place) -> None:
        """A tombstone: the offset goes, and what any producer has pending there."""
        places = self.committed.get(group_id)
        if places is not None and places.pop(place, None) is not None:
            self._forget(group_id, place)
            if not places:
                del self.committed[group_id]
        for producer in list(self.pending):
            groups = self.pending[producer]
            waiting = groups.get(group_id)
            if waiting is None or waiting.pop(place, None) is None:
                continue
            if not waiting:
                del groups[group_id]
            if not groups:
                del self.pending[producer]

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        """A marker: apply what is newer than the offset in force, or throw all away."""
        groups = self.pending.pop(producer, None)
        if groups is None or not commit:
            return
        for group_id, waiting in groups.items():
            for place, offset in waiting.items():
                current = self.group(group_id).get(place)
                if current is None or current.log_offset < offset.log_offset:
                    self._put(group_id, place, offset)

    def walk(self, group_id: str) -> list[Place]:
        """The places in force, topic by topic, in the order a broker walks its tables."""
        places = self.group(group_id)
        topics = dict.fromkeys(topic for topic, _ in places)
        return [
            (topic, number)
            for topic in self._order(group_id).walk(topics)
            for number in self._order(group_id, topic).walk([n for t, n in places if t == topic])
        ]

    def _order(self, *path: str) -> TimelineOrder:
        """The order of the group's table of topics, or of one topic's table of partitions."""
        return self._orders.setdefault(path, TimelineOrder())

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Whether an open transaction holds an offset for this place."""
        return any(place in groups.get(group_id, ()) for groups in self.pending.values())

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction holds any offset of this group."""
        return any(group_id in groups for groups in self.pending.values())

    def places(self, group_id: str) -> Iterator[Place]:
        """Every place of a group, in force (in the order of a broker's tables) or pending."""
        seen = set()
        for place in self.walk(group_id):
            seen.add(place)
            yield place
        for groups in self.pending.values():
            for place in groups.get(group_id, ()):
                if place not in seen:
                    seen.add(place)
                    yield place


def offset_record(group_id: str, place: Place, offset: CommittedOffset, version: int) -> Record:
    """Key 1 of a commit in the value version its release writes (1 with an expiry of its own)."""
    if offset.expire_timestamp >= 0:
        version = 1
    value: dict[str, Any] = {"offset": offset.offset}
    if version >= 3:
        value["leaderEpoch"] = offset.leader_epoch
    value["metadata"] = offset.metadata
    value["commitTimestamp"] = offset.commit_timestamp
    if version == 1:
        value["expireTimestamp"] = offset.expire_timestamp
    if version >= 4 and offset.topic_id is not None:
        value["topicId"] = offset.topic_id
    topic, partition = place
    return record(
        OFFSET, version, {"group": group_id, "topic": topic, "partition": partition}, value
    )


def offset_tombstone(group_id: str, place: Place) -> Record:
    """The record that takes a committed offset away."""
    topic, partition = place
    return tombstone(OFFSET, group=group_id, topic=topic, partition=partition)
