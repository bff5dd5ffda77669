"""The cluster's topics as the coordinator knows them, and the hash of their metadata.

KIP-848 "Group Epoch": a metadata change of a subscribed topic bumps the group epoch. 4.0 stores the
metadata in a record of key 4; from 4.1 on the epoch record stores a hash of it
(docs/kafka-facts.md#hashes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import xxhash

from kip848_spark.coordinator.javahash import string_order, table_size, uuid_halves


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its id, its number of partitions, and the racks of each partition's replicas."""

    name: str
    topic_id: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()

    def metadata_hash(self) -> int:
        """XXH3-64 over version 0, id, name, and each partition with its sorted replica racks."""
        return _metadata_hash(self)


@lru_cache(maxsize=1 << 12)
def _metadata_hash(topic: Topic) -> int:
    """Cached: a search for the topics of a hash tries the same ones again and again."""
    high, low = uuid_halves(topic.topic_id)
    parts = [b"\0", struct.pack("<qq", high, low), _text(topic.name)]
    parts.append(struct.pack("<i", topic.partitions))
    for partition in range(topic.partitions):
        parts.append(struct.pack("<i", partition))
        racks = topic.racks[partition] if partition < len(topic.racks) else ()
        for rack in sorted(racks):
            text = _text(rack)  # its length precedes it and, as for any text, follows it
            parts.append(text[-4:] + text)
    return _xxh3(b"".join(parts))


def _text(text: str) -> bytes:
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw + struct.pack("<i", len(raw) // 2)


def _xxh3(data: bytes) -> int:
    value: int = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value


class Topics:
    """The topics that exist; ``version`` rises with every change."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[str, Topic] = {}
        self._hashes: dict[str, int] = {}
        self.version = 0
        self.version_with_new_topics = 0

    def put(self, topic: Topic) -> None:
        """Create a topic, change it, or recreate it with another id."""
        self.version += 1
        old = self._by_name.get(topic.name)
        if old is None or old.topic_id != topic.topic_id:
            self.version_with_new_topics = self.version
        if old is not None:
            del self._by_id[old.topic_id]
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._hashes.pop(topic.name, None)

    def delete(self, name: str) -> Topic | None:
        """Delete a topic; returns it, or ``None`` if it does not exist."""
        self.version += 1
        topic = self._by_name.pop(name, None)
        if topic is not None:
            del self._by_id[topic.topic_id]
            self._hashes.pop(name, None)
        return topic

    def named(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: str) -> Topic | None:
        """The topic of that id."""
        return self._by_id.get(topic_id)

    def names(self) -> list[str]:
        """The names of all topics."""
        return list(self._by_name)

    def ids_of(self, names: Iterable[str]) -> set[str]:
        """The ids of those named topics that exist."""
        found = (self._by_name.get(name) for name in names)
        return {topic.topic_id for topic in found if topic is not None}

    def hash_of(self, names: Iterable[str]) -> int:
        """The metadata hash of a group that subscribes to these topics; 0 if none of
        them exists.
        """
        hashes = []
        for name in sorted(names):
            topic = self._by_name.get(name)
            if topic is None:
                continue
            if name not in self._hashes:
                self._hashes[name] = topic.metadata_hash()
            hashes.append(self._hashes[name])
        return _xxh3(struct.pack(f"<{len(hashes)}q", *hashes)) if hashes else 0

    def subscription_metadata(self, names: Sequence[str]) -> list[Topic]:
        """What a group that subscribes to these topics stores of them in 4.0, in 4.0's order."""
        return [
            Topic(topic.name, topic.topic_id, topic.partitions)
            for name in string_order(names, table_size(len(names)))
            if (topic := self._by_name.get(name)) is not None
        ]
