"""Checks the metadata hash of a streams group (key 17) by computing it from the topics that its
topology names. As in `hashes`, a hash that no known topics give is wrong only if the topics before
it equal those after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kip848_spark.checks.hashes import TOPICS_THEN
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import HASH
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.streams_state import AuditedStreams
from kip848_spark.checks.topics import KnownTopics, Proven, Prover, hash_of, on_racks
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.streams_topology import configure
from kip848_spark.coordinator.topics import Topics
from kip848_spark.wire.pseudonyms import ANONYMIZED, is_replaced_hash

_NO_COUNTS: Mapping[str, int] = {}
_MOST_PENDING = 1_000


class _Pending(NamedTuple):
    """A hash that no known topics gave when it was read, and the topics before it."""

    entry: LogEntry
    before: tuple[frozenset[str], Proven] | None


class StreamsHashes(Stateful):
    """Checks the hashes of one group, some of them only after later records were read."""

    STATE = ("_last",)

    def __init__(self, known: KnownTopics) -> None:
        self._known = known
        self.prover = Prover(known)
        self._last: tuple[frozenset[str], Proven] | None = None
        self._pending: list[_Pending] = []

    @property
    def is_waiting(self) -> bool:
        """Whether later records may explain a hash."""
        return bool(self._pending)

    def check(self, audited: AuditedStreams, entry: LogEntry) -> None:
        """Checks a value of key 17, which was replayed. If its topics can be proven, the audit
        knows from then on how many tasks the topology has with this hash."""
        assert entry.value is not None
        metadata_hash = entry.value.get("metadataHash") or 0
        names = required_topics(audited.group.topology)
        lost = not metadata_hash and audited.any_release(lambda r: not r.streams_configs)
        if names is None or lost:
            audited.tally.add_unverifiable(HASH, TOPICS_THEN)
            return
        if is_replaced_hash(metadata_hash):
            audited.tally.add_unverifiable(HASH, ANONYMIZED)
            return
        if self.prover.prove(metadata_hash, names, lambda: _NO_COUNTS):
            assert self.prover.proven is not None
            assert audited.group.topology is not None
            self._decide_all(audited, (names, self.prover.proven))
            image = Topics()
            for topic in self.prover.proven.values():
                image.put(topic)
            configured = configure(audited.group.topology, image)
            if configured.ready:
                audited.tasks_of_hash[metadata_hash] = configured.tasks
            audited.tally.add_verified(HASH)
            return
        self._pending.append(_Pending(entry, self._last))
        if len(self._pending) > _MOST_PENDING:
            self._decide(audited, self._pending.pop(0), None)

    def forget(self, audited: AuditedStreams) -> None:
        """Records may be missing here, or the group has ended."""
        self._decide_all(audited, None)
        self._last = None

    def finish(self, audited: AuditedStreams, counts: Callable[[LogEntry], bool]) -> None:
        """Call this after the last record. ``counts`` says whether the verdict on a record is
        counted: an earlier audit has counted the others."""
        self._pending = [one for one in self._pending if counts(one.entry)]
        now: tuple[frozenset[str], Proven] | None = None
        if self._last is not None:
            names = self._last[0]
            listed = self._known.listed
            now = names, {name: listed[name] for name in names if name in listed}
        self._decide_all(audited, now)

    def _decide_all(
        self, audited: AuditedStreams, now: tuple[frozenset[str], Proven] | None
    ) -> None:
        for pending in self._pending:
            self._decide(audited, pending, now)
        self._pending = []
        self._last = now

    def _decide(
        self,
        audited: AuditedStreams,
        pending: _Pending,
        now: tuple[frozenset[str], Proven] | None,
    ) -> None:
        if now is None or pending.before != now or not _is_fixed(*now):
            audited.tally.add_unverifiable(HASH, TOPICS_THEN)
            return
        topics = now[1]
        audited.tally.add_disagreement(
            HASH,
            "wrong_hash",
            pending.entry,
            {
                "metadataHash": hash_of(topics.values()),
                "topics": {topic.name: topic.partitions for topic in topics.values()},
            },
            {"metadataHash": (pending.entry.value or {}).get("metadataHash", 0)},
        )


def _is_fixed(names: frozenset[str], topics: Proven) -> bool:
    """Whether topics that are the same at two times were the same in between: all exist, so none
    came and went, and none is on a rack, from which it could have been moved and back."""
    return len(topics) == len(names) and bool(names) and not on_racks(topics)


def required_topics(topology: Json | None) -> frozenset[str] | None:
    """The names of the topics that a topology needs; None if they are not known."""
    if topology is None:
        return None
    names: set[str] = set()
    for row in topology["subtopologies"]:
        if row["sourceTopicRegex"]:
            return None
        names.update(row["sourceTopics"])
        for field in ("repartitionSourceTopics", "stateChangelogTopics"):
            names.update(topic["name"] for topic in row[field])
    return frozenset(names)
