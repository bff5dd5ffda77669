"""Checks the metadata hash of a group's topics (key 3, since 4.1) by computing it from the topics.

That no known topics give the hash does not prove it wrong: the topics may have been others at the
time. The hash is wrong if the target of its epoch shows the topics that it must be of, or if the
topics before it equal those after it, or the current ones. Topics do not change back, but the racks
of their replicas may. See docs/kafka-facts.md#hashes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import OperationPart
from kip848_spark.checks.results import HASH
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.topics import Proven, hash_of, on_racks
from kip848_spark.coordinator import records
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.topics import Topic
from kip848_spark.wire.pseudonyms import ANONYMIZED, is_replaced_hash

TOPICS_THEN = "the topics at that time, or the racks of their replicas, are not known"


_MOST_PENDING = 1_000
"""HashChecker of a group that may wait for later records to explain them."""


@dataclass(frozen=True)
class _PendingHash:
    """A hash that no known topics gave when it was read."""

    entry: LogEntry
    epoch: int
    names: frozenset[str]
    before: tuple[frozenset[str], Proven] | None
    shown: Proven | None = None
    """The topics that the target of its epoch shows."""


class HashChecker(Stateful):
    """Checks the hashes of one group, some of them only after later records were read."""

    STATE = ("last",)

    def __init__(self, audited: AuditedGroup) -> None:
        self.audited = audited
        self._pending: list[_PendingHash] = []
        self.last: tuple[frozenset[str], Proven] | None = None
        """The names and topics of the last hash that was right."""

    @property
    def is_waiting(self) -> bool:
        """Whether later records may explain a hash."""
        return bool(self._pending)

    def check(self, part: OperationPart) -> None:
        """Checks the values of keys 3 and 4 in a part that was replayed, and takes the topics that
        its target shows."""
        audited = self.audited
        group = audited.consumer
        if group is None or not audited.past_gaps:
            return
        for entry in part.of(records.TOPICS):
            audited.prover.take(group.topic_metadata or ())
            self._check_topics(entry, group)
        for entry in part.of(records.GROUP):
            self._check_hash(entry)
        if part.of(records.TARGET_EPOCH):
            self._use_target(group.target_epoch)

    def _check_topics(self, entry: LogEntry, group: ConsumerGroup) -> None:
        """Checks a value of key 4: the topics that the group subscribes to, as far as they
        exist."""
        assert entry.value is not None
        names = {row["topicName"] for row in entry.value["topics"]}
        strangers = names - group.topic_names()
        if strangers and self.audited.complete:
            self.audited.tally.add_disagreement(
                HASH,
                "unsubscribed_topic",
                entry,
                sorted(group.topic_names()),
                sorted(names),
            )

    def _check_hash(self, entry: LogEntry) -> None:
        audited, group, value = self.audited, self.audited.consumer, entry.value
        assert group is not None
        assert value is not None
        metadata_hash = value.get("metadataHash", 0)
        if not metadata_hash and audited.any_release(lambda release: not release.metadata_hash):
            # 4.0 writes no hash. Without a key 4, the coordinator knew of no topic.
            if audited.complete and not group.topic_metadata:
                audited.prover.take(())
            return
        if not audited.complete:
            audited.tally.add_unverifiable(HASH, TOPICS_THEN)
            return
        if is_replaced_hash(metadata_hash):
            audited.prover.proven = None
            audited.tally.add_unverifiable(HASH, ANONYMIZED)
            return
        names = frozenset(group.topic_names())
        if audited.prover.prove(metadata_hash, names, self._counts):
            assert audited.prover.proven is not None
            self._decide_all((names, audited.prover.proven))
            audited.tally.add_verified(HASH)
            return
        self._pending.append(_PendingHash(entry, value["epoch"], names, self.last))
        if len(self._pending) > _MOST_PENDING:
            self._decide(self._pending.pop(0))

    def _counts(self) -> dict[str, int]:
        """The number of partitions of each topic, as far as the targets show it."""
        group = self.audited.consumer
        assert group is not None
        counts: dict[str, int] = {}
        for target in group.targets.values():
            for topic, numbers in target.items():
                if numbers:
                    counts[topic] = max(counts.get(topic, 0), max(numbers) + 1)
        return counts

    def _decide_all(self, now: tuple[frozenset[str], Proven]) -> None:
        """The hash of the topics ``now`` is right: an equal hash of the same names before it is
        right as well, and a pending hash is wrong if nothing changed between two right ones."""
        self.last = now
        names, topics = now
        right = hash_of(topics.values())
        # A subscribed topic that does not exist may have existed in between.
        constant = topics.keys() >= names and not on_racks(topics)
        since_right = False
        for pending in self._pending:
            same = pending.names == names
            if same and constant and _recorded(pending.entry) == right:
                since_right = True
                self.audited.tally.add_verified(HASH)
            elif same and constant and (since_right or pending.before == now):
                self._disagree(pending, topics)
            else:
                self._decide(pending)
        self._pending = []

    def _decide(self, pending: _PendingHash) -> None:
        """Decides on a hash that no later record explains: topics that were the same before it and
        are the same now were the same all the time."""
        shown = pending.shown
        if shown is not None and self.audited.prover.rackless and not on_racks(shown):
            self._disagree(pending, shown)
            return
        listed = self.audited.known_topics.listed
        before = pending.before[1] if pending.before is not None else {}
        constant = {n: t for n, t in before.items() if n in pending.names and listed.get(n) == t}
        if constant.keys() == pending.names and not on_racks(constant):
            self._disagree(pending, constant)
        else:
            self.audited.tally.add_unverifiable(HASH, TOPICS_THEN)

    def _use_target(self, epoch: int) -> None:
        """A target shows the topic ids and partition counts that the hash of its epoch is of."""
        audited = self.audited
        rest = []
        waiting, self._pending = self._pending, []
        for pending in waiting:
            if pending.epoch != epoch:
                rest.append(pending)
                continue
            counts = self._counts()
            shown = {}
            for topic_id, count in counts.items():
                name = audited.known_topics.name_of(topic_id)
                if name in pending.names:
                    assert name is not None
                    listed = audited.known_topics.listed.get(name)
                    racks = listed.racks if listed is not None else ()
                    shown[name] = Topic(name, topic_id, count, racks)
            if shown.keys() != pending.names:
                rest.append(pending)
                continue
            bare = {name: replace(topic, racks=()) for name, topic in shown.items()}
            recorded = _recorded(pending.entry)
            for topics in (shown, bare):
                if hash_of(topics.values()) == recorded:
                    audited.prover.accept(recorded, pending.names, topics)
                    self._pending, rest = rest, []
                    self._decide_all((pending.names, topics))
                    audited.tally.add_verified(HASH)
                    break
            else:
                # The replicas may be on unknown racks, unless some hash was right without racks.
                rest.append(replace(pending, shown=shown))
        self._pending = rest

    def _disagree(self, pending: _PendingHash, topics: Proven) -> None:
        value = pending.entry.value
        assert value is not None
        self.audited.tally.add_disagreement(
            HASH,
            "wrong_hash",
            pending.entry,
            {
                "metadataHash": hash_of(topics.values()),
                "topics": {topic.name: topic.partitions for topic in topics.values()},
            },
            {"metadataHash": value.get("metadataHash", 0)},
        )

    def finish(self, counts: Callable[[LogEntry], bool]) -> None:
        """Call this after the last record. ``counts`` says whether the verdict on a record is
        counted: an earlier audit has counted the others."""
        for pending in self._pending:
            if counts(pending.entry):
                self._decide(pending)
        self._pending = []


def _recorded(entry: LogEntry) -> int:
    found: int = (entry.value or {}).get("metadataHash", 0)
    return found
