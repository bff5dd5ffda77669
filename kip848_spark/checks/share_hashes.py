"""Checks the metadata hash of a share group's topics (key 11), as `hashes` does for consumer
groups: a hash is wrong if the topics before it equal those after it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from kip848_spark.checks.hashes import TOPICS_THEN
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import HASH, Tally
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.topics import (
    MOST_PARTITIONS,
    KnownTopics,
    Proven,
    Prover,
    hash_of,
    on_racks,
)
from kip848_spark.coordinator.share_group import ShareGroup
from kip848_spark.coordinator.topics import Topic
from kip848_spark.wire.pseudonyms import ANONYMIZED, is_replaced_hash

_MOST_PENDING = 1_000
_MOST_SHOWN = 3
"""The most topics of which every subset is tried for a hash."""
_Topics = tuple[frozenset[str], Proven]


@dataclass(frozen=True)
class _PendingShareHash:
    entry: LogEntry
    names: frozenset[str]
    before: _Topics | None
    shown: Proven | None
    """The topics that the share state shows after the operation; None if they may be others."""
    asked: bool
    """Whether the operation has asked for the state of every subscribed partition."""

    def is_wrong(self, now: Proven) -> bool:
        """Whether the topics ``now`` prove that the hash is of none that existed. A topic that has
        as many partitions now as its share state had partitions then was the same all the time."""
        if self.shown is None or self.before is None:
            return False
        if on_racks(self.before[1]) or on_racks(now):
            return False
        same = all(now.get(name) == self.shown.get(name) for name in self.names)
        return self.asked or (same and self.shown.keys() == self.names)


class ShareHashes(Stateful):
    """The hashes of one share group, some of them checked only after later records were read."""

    STATE = ("_last",)

    def __init__(self, known: KnownTopics) -> None:
        self.prover = Prover(known)
        self._pending: list[_PendingShareHash] = []
        self._last: _Topics | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether later records may explain a hash."""
        return bool(self._pending)

    def check(
        self, tally: Tally, entry: LogEntry, group: ShareGroup, *, asked: bool
    ) -> Proven | None:
        """Checks a value of key 11, after the operation that has it was replayed. ``asked``: the
        operation would have asked for the state of every subscribed partition. Returns the topics
        of the group by name; None if they are not known."""
        assert entry.value is not None
        recorded = entry.value["metadataHash"]
        if is_replaced_hash(recorded):
            tally.add_unverifiable(HASH, ANONYMIZED)
            return None
        names = frozenset(group.topic_names())

        def counts() -> dict[str, int]:
            found: dict[str, int] = {}
            for topics in (group.share_state.initialized, group.share_state.initializing):
                for topic_id, topic in topics.items():
                    most = max(topic.partitions, default=-1) + 1
                    if most <= MOST_PARTITIONS:
                        found[topic_id] = max(found.get(topic_id, 0), most)
            return found

        shown = _shown(group, names, counts())
        if shown is not None and hash_of(shown.values()) == recorded:
            self.prover.accept(recorded, names, shown)
        elif not self.prover.prove(recorded, names, counts):
            if shown is not None and _some_give(shown, recorded):
                shown = None
            self._pending.append(_PendingShareHash(entry, names, self._last, shown, asked))
            if len(self._pending) > _MOST_PENDING:
                self._pending.pop(0)
                tally.add_unverifiable(HASH, TOPICS_THEN)
            return None
        assert self.prover.proven is not None
        now = names, self.prover.proven
        for pending in self._pending:
            self._decide(tally, pending, now)
        self._pending, self._last = [], now
        tally.add_verified(HASH)
        return now[1]

    def _decide(self, tally: Tally, pending: _PendingShareHash, now: _Topics | None) -> None:
        topics = {} if now is None else now[1]
        if now is not None and pending.shown is not None and pending.is_wrong(topics):
            self._disagree(tally, pending, pending.shown)
            return
        # A subscribed topic that does not exist may have existed in between.
        constant = topics.keys() >= pending.names and not on_racks(topics)
        if now is None or not constant or pending.before != now or pending.names != now[0]:
            tally.add_unverifiable(HASH, TOPICS_THEN)
            return
        self._disagree(tally, pending, topics)

    def _disagree(self, tally: Tally, pending: _PendingShareHash, topics: Proven) -> None:
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

    def forget(self, tally: Tally, counts: Callable[[LogEntry], bool]) -> None:
        """Records may be missing here: topics before it prove nothing after it. ``counts`` says
        whether the verdict on a record is counted."""
        self.finish(tally, counts)
        self._last = None

    def finish(self, tally: Tally, counts: Callable[[LogEntry], bool]) -> None:
        """Call this after the last record."""
        for pending in self._pending:
            if counts(pending.entry):
                self._decide(tally, pending, None)
        self._pending = []


def _shown(group: ShareGroup, names: frozenset[str], counts: dict[str, int]) -> Proven | None:
    """The subscribed topics in the share state; None if one of them was recreated, or if its number
    of partitions is not among ``counts``."""
    found: Proven = {}
    state = group.share_state
    for topic_id, topic in [*state.initialized.items(), *state.initializing.items()]:
        if topic.name in names:
            known = found.get(topic.name)
            if (known is not None and known.topic_id != topic_id) or topic_id not in counts:
                return None
            found[topic.name] = Topic(topic.name, topic_id, counts[topic_id])
    return found


def _some_give(shown: Proven, recorded: int) -> bool:
    """Whether the other topics may have been deleted already; unknown counts as yes."""
    if len(shown) > _MOST_SHOWN:
        return True
    return any(
        hash_of(chosen) == recorded
        for size in range(len(shown))
        for chosen in itertools.combinations(shown.values(), size)
    )
