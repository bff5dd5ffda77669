"""Checks the metadata hash of a share group's topics (key 11), as `hashes` does for consumer
groups: a hash is wrong if the topics before it equal those after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kip848_spark.checks.hashes import TOPICS_THEN
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import HASH, Tally
from kip848_spark.checks.topics import KnownTopics, Proven, Prover, hash_of, on_racks
from kip848_spark.coordinator.share_group import ShareGroup

_MOST_PENDING = 1_000
_Topics = tuple[frozenset[str], Proven]


@dataclass(frozen=True)
class _PendingHash:
    entry: LogEntry
    names: frozenset[str]
    before: _Topics | None


class ShareHashes:
    """The hashes of one share group, some of them checked only after later records were read."""

    def __init__(self, known: KnownTopics) -> None:
        self._prover = Prover(known)
        self._pending: list[_PendingHash] = []
        self._last: _Topics | None = None

    def check(self, tally: Tally, entry: LogEntry, group: ShareGroup) -> None:
        """Checks a value of key 11, after the operation that has it was replayed."""
        assert entry.value is not None
        names = frozenset(group.topic_names())

        def counts() -> dict[str, int]:
            found: dict[str, int] = {}
            for topics in (group.share_state.initialized, group.share_state.initializing):
                for topic_id, topic in topics.items():
                    most = max(topic.partitions, default=-1) + 1
                    found[topic_id] = max(found.get(topic_id, 0), most)
            return found

        if not self._prover.prove(entry.value["metadataHash"], names, counts):
            self._pending.append(_PendingHash(entry, names, self._last))
            if len(self._pending) > _MOST_PENDING:
                self._pending.pop(0)
                tally.add_unverifiable(HASH, TOPICS_THEN)
            return
        assert self._prover.proven is not None
        now = names, self._prover.proven
        for pending in self._pending:
            self._decide(tally, pending, now)
        self._pending, self._last = [], now
        tally.add_verified(HASH)

    def _decide(self, tally: Tally, pending: _PendingHash, now: _Topics | None) -> None:
        topics = {} if now is None else now[1]
        # A subscribed topic that does not exist may have existed in between.
        constant = topics.keys() >= pending.names and not on_racks(topics)
        if now is None or not constant or pending.before != now or pending.names != now[0]:
            tally.add_unverifiable(HASH, TOPICS_THEN)
            return
        assert pending.entry.value is not None
        tally.add_disagreement(
            HASH,
            "wrong_hash",
            pending.entry,
            {
                "metadataHash": hash_of(topics.values()),
                "topics": {topic.name: topic.partitions for topic in topics.values()},
            },
            {"metadataHash": pending.entry.value["metadataHash"]},
        )

    def forget(self, tally: Tally) -> None:
        """Records may be missing here: topics before it prove nothing after it."""
        for pending in self._pending:
            self._decide(tally, pending, None)
        self._pending, self._last = [], None

    def finish(self, tally: Tally, counts: Callable[[LogEntry], bool]) -> None:
        """Call this after the last record."""
        for pending in self._pending:
            if counts(pending.entry):
                self._decide(tally, pending, None)
        self._pending = []
