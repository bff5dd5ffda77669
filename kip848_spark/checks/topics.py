"""The topics that a group subscribed to at some time: proven by a record of key 4, or by the hash.

A metadata hash cannot be inverted. But a set of topics that gives it is, for all practical
purposes, the set it was computed from. So the known names, ids and partition counts (current ones,
those in targets, earlier ones) are tried. Topics that give the hash are proven, and their ids and
counts then serve to check the targets as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kip848_spark.checks.stateful import Stateful
from kip848_spark.coordinator.topics import Topic, Topics

_MOST_COUNTS = 64
"""Partition counts that are tried for one topic, beside the known ones."""
_MOST_TRIES = 4096
"""Combinations of topics that are tried for one hash."""
_LIKELY = 3
"""Options of each topic that are tried first."""
MOST_PARTITIONS = 1_000_000
"""More partitions than a topic has: a higher number comes from a damaged record."""

Proven = dict[str, Topic]
"""Name -> topic, for the topics that the group subscribes to and that exist."""


@dataclass(frozen=True)
class KnownTopics:
    """What is known of the cluster's topics. ``listed``: all topics by name, as a run last listed
    them (empty if none did). ``names``: topic id to name, for every id in the records."""

    listed: Mapping[str, Topic] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, listed: Iterable[Topic], pairs: Iterable[tuple[str, str]] = ()) -> KnownTopics:
        """From the topics that the cluster listed, and further (topic id, name) pairs."""
        by_name = {topic.name: topic for topic in listed}
        names = {topic.topic_id: topic.name for topic in by_name.values()}
        return cls(by_name, dict(pairs) | names)

    def name_of(self, topic_id: str) -> str | None:
        """The name of a topic; None if it is not known. A topic id never changes its name."""
        return self.names.get(topic_id)

    def ids_of(self, name: str) -> list[str]:
        """Every known id of a topic of this name: a recreated topic has another id."""
        return self._ids.get(name, [])

    @cached_property
    def _ids(self) -> dict[str, list[str]]:
        ids: dict[str, list[str]] = {}
        for topic_id, name in self.names.items():
            ids.setdefault(name, []).append(topic_id)
        return ids


def hash_of(topics: Collection[Topic]) -> int:
    """The metadata hash of these topics (docs/kafka-facts.md#hashes)."""
    image = Topics()
    for topic in topics:
        image.put(topic)
    return image.hash_of(topic.name for topic in topics)


def on_racks(topics: Proven) -> bool:
    """Whether replicas of these topics are on racks; they may be moved between racks."""
    return any(any(topic.racks) for topic in topics.values())


@dataclass
class Prover(Stateful):
    """Finds the topics behind a group's metadata hashes, and caches them."""

    STATE = ("proven", "last", "found", "rackless")
    known: KnownTopics
    proven: Proven | None = None
    """The topics of the newest hash; None if they could not be found."""
    rackless: bool = False
    """True once a hash was right without racks."""

    def __post_init__(self) -> None:
        self.last: Proven = {}
        """The topics that were found or taken last."""
        self.found: dict[tuple[int, frozenset[str]], Proven] = {}
        """By hash and names: the topics of the last hash that was searched for."""
        self._missed: object = None
        """The last search that failed. If racks are not known, every search fails."""

    def prove(
        self, metadata_hash: int, names: frozenset[str], counted: Callable[[], Mapping[str, int]]
    ) -> bool:
        """Whether topics of these names give the hash. ``counted`` returns the partition
        counts that the targets show, by topic id."""
        key = (metadata_hash, names)
        found = self.found.get(key)
        if found is None:
            counts = counted()
            wanted = (*key, frozenset(counts.items()), tuple(self.last.values()))
            if wanted != self._missed:
                found = self._search(metadata_hash, sorted(names), counts)
                self._missed = None if found is not None else wanted
        self.proven = found
        if found is None:
            return False
        self.last = found
        self.rackless = self.rackless or (bool(found) and not on_racks(found))
        self.found = {key: found}  # the next hash is most likely the same
        return True

    def take(self, topics: Iterable[Topic]) -> None:
        """Takes the topics of a record of key 4."""
        taken = {topic.name: topic for topic in topics}
        if any(topic.partitions > MOST_PARTITIONS for topic in taken.values()):
            self.proven = None
            return
        self.proven = self.last = taken

    def accept(self, metadata_hash: int, names: frozenset[str], topics: Proven) -> None:
        """Takes topics of these names that give the hash, found by other means than `prove`."""
        self.proven = self.last = topics
        self.rackless = self.rackless or (bool(topics) and not on_racks(topics))
        self.found = {(metadata_hash, names): topics}  # the next hash is most likely the same

    def _search(
        self, metadata_hash: int, names: list[str], counts: Mapping[str, int]
    ) -> Proven | None:
        for chosen in self._candidates(names, counts):
            topics = [topic for topic in chosen if topic is not None]
            if len({topic.topic_id for topic in topics}) < len(topics):
                continue
            if hash_of(topics) == metadata_hash:
                return {topic.name: topic for topic in topics}
        return None

    def _candidates(
        self, names: list[str], counts: Mapping[str, int]
    ) -> Iterator[Sequence[Topic | None]]:
        """What the topics of these names may have been. First all of them from one source, because
        a group may have too many topics for combinations."""
        yield [self.last.get(name) for name in names]
        yield [next(self._shown(name, counts, []), self.last.get(name)) for name in names]
        yield [self.known.listed.get(name) for name in names]
        strangers = [topic for topic in counts if topic not in self.known.names]
        for most in (_LIKELY, None):
            options = (self._options(name, counts, strangers) for name in names)
            yield from _combinations(itertools.islice(tries, most) for tries in options)

    def _options(
        self, name: str, counts: Mapping[str, int], strangers: list[str]
    ) -> Iterator[Topic | None]:
        """What a topic may have been, the likeliest option first; None: it did not exist."""
        listed, last = self.known.listed.get(name), self.last.get(name)
        if last is not None:
            yield last
        yield from (shown for shown in self._shown(name, counts, strangers) if shown != last)
        if listed is not None and listed != last:
            yield listed
        yield None
        for topic_id in dict.fromkeys([*self.known.ids_of(name), *strangers]):
            most = max(counts.get(topic_id, 0) + 1, listed.partitions if listed else 0)
            racks = listed.racks if listed is not None and listed.topic_id == topic_id else ()
            for count in range(min(most, _MOST_COUNTS), 0, -1):
                yield Topic(name, topic_id, count, racks)
                if racks:
                    yield Topic(name, topic_id, count)

    def _shown(self, name: str, counts: Mapping[str, int], strangers: list[str]) -> Iterator[Topic]:
        """The topics of this name, or of no known name, with the partitions that targets show."""
        listed = self.known.listed.get(name)
        for topic_id in dict.fromkeys([*self.known.ids_of(name), *strangers]):
            racks = listed.racks if listed is not None and listed.topic_id == topic_id else ()
            if topic_id in counts and counts[topic_id] <= MOST_PARTITIONS:
                yield Topic(name, topic_id, counts[topic_id], racks)


def _combinations(
    options: Iterable[Iterable[Topic | None]],
) -> Iterator[Sequence[Topic | None]]:
    """Each combination of one option of each topic; none if there are more than `_MOST_TRIES`."""
    tries: list[dict[Topic | None, None]] = []
    number = 1
    for topic in options:
        found: dict[Topic | None, None] = {}
        for option in topic:
            found[option] = None
            if number * len(found) > _MOST_TRIES:
                return
        number *= len(found)
        tries.append(found)
    yield from itertools.product(*tries)
