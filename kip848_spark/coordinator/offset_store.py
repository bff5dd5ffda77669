"""Committed offsets, and offsets pending until a transaction's marker
(docs/kafka-facts.md#offsets).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kip848_spark.coordinator.javahash import TimelineOrder
from kip848_spark.coordinator.records import OFFSET, Record, record, tombstone

TopicPartition = tuple[str, int]
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
    """The offsets of every group: committed ones, and pending ones per producer."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self.pending: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}
        self._orders: dict[tuple[str, ...], TimelineOrder] = {}
        self._counts: Counter[tuple[str, ...]] = Counter()

    def group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group by partition."""
        return self.committed.get(group_id, {})

    def put(
        self, group_id: str, partition: TopicPartition, offset: CommittedOffset, producer: int
    ) -> None:
        """Store a commit: at once, or (with a producer) when its transaction commits."""
        if producer < 0:
            self._put(group_id, partition, offset)
        else:
            self.pending.setdefault(producer, {}).setdefault(group_id, {})[partition] = offset

    def _put(self, group_id: str, partition: TopicPartition, offset: CommittedOffset) -> None:
        partitions = self.committed.setdefault(group_id, {})
        topic = partition[0]
        if partition not in partitions:
            if not self._counts[group_id, topic]:
                self._order(group_id).record_put(self._counts[group_id,])
                self._counts[group_id,] += 1
            self._order(group_id, topic).record_put(self._counts[group_id, topic])
            self._counts[group_id, topic] += 1
        partitions[partition] = offset

    def _forget(self, group_id: str, partition: TopicPartition) -> None:
        topic = partition[0]
        self._counts[group_id, topic] -= 1
        if not self._counts[group_id, topic]:
            del self._counts[group_id, topic]
            self._orders.pop((group_id, topic), None)
            self._counts[group_id,] -= 1
            if not self._counts[group_id,]:
                del self._counts[group_id,]
                self._orders.pop((group_id,), None)

    def drop(self, group_id: str, partition: TopicPartition) -> None:
        """Apply a tombstone: delete the offset and what any producer has pending for
        the partition.
        """
        partitions = self.committed.get(group_id)
        if partitions is not None and partitions.pop(partition, None) is not None:
            self._forget(group_id, partition)
            if not partitions:
                del self.committed[group_id]
        for producer in list(self.pending):
            groups = self.pending[producer]
            waiting = groups.get(group_id)
            if waiting is None or waiting.pop(partition, None) is None:
                continue
            if not waiting:
                del groups[group_id]
            if not groups:
                del self.pending[producer]

    def end_transaction(self, producer: int, *, commit: bool) -> None:
        """Apply a marker: commit offsets newer than the committed ones, or drop all of them."""
        groups = self.pending.pop(producer, None)
        if groups is None or not commit:
            return
        for group_id, waiting in groups.items():
            for partition, offset in waiting.items():
                current = self.group(group_id).get(partition)
                if current is None or current.log_offset < offset.log_offset:
                    self._put(group_id, partition, offset)

    def walk(self, group_id: str) -> list[TopicPartition]:
        """Committed partitions, topic by topic, in the order in which a broker iterates its hash
        tables.
        """
        partitions = self.group(group_id)
        topics = dict.fromkeys(topic for topic, _ in partitions)
        return [
            (topic, number)
            for topic in self._order(group_id).walk(topics)
            for number in self._order(group_id, topic).walk(
                [n for t, n in partitions if t == topic]
            )
        ]

    def _order(self, *path: str) -> TimelineOrder:
        """The order of the group's table of topics, or of one topic's table of partitions."""
        return self._orders.setdefault(path, TimelineOrder())

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction has an offset for this partition."""
        return any(partition in groups.get(group_id, ()) for groups in self.pending.values())

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has any offset of this group."""
        return any(group_id in groups for groups in self.pending.values())

    def partitions(self, group_id: str) -> Iterator[TopicPartition]:
        """Every partition of a group with a committed offset (in a broker's order) or a
        pending one.
        """
        seen = set()
        for partition in self.walk(group_id):
            seen.add(partition)
            yield partition
        for groups in self.pending.values():
            for partition in groups.get(group_id, ()):
                if partition not in seen:
                    seen.add(partition)
                    yield partition


def offset_record(
    group_id: str, partition: TopicPartition, offset: CommittedOffset, version: int
) -> Record:
    """Key 1 of a commit in the value version that its release writes (1 if it has its own expiry
    time).
    """
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
    topic, number = partition
    return record(OFFSET, version, {"group": group_id, "topic": topic, "partition": number}, value)


def offset_tombstone(group_id: str, partition: TopicPartition) -> Record:
    """The tombstone of a committed offset."""
    topic, number = partition
    return tombstone(OFFSET, group=group_id, topic=topic, partition=number)
