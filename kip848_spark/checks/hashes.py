"""The hash of a group's topics (key 3, from 4.1 on), made again from the topics.

Where the topics as they were can't be found, that alone proves nothing. The hash is wrong if the
target made at its epoch shows the topics it must be of, or if the topics before it are those after
it, or those of now: topics do not change back, but for the racks of their replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kip848_spark.checks.group_case import Case
from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.operations import Part
from kip848_spark.checks.results import HASH
from kip848_spark.checks.topics import Proven, hash_of, on_racks
from kip848_spark.coordinator import records
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.topics import Topic

TOPICS_THEN = "the topics as they were then, or the racks of their replicas, are not known"


_MOST_OPEN = 1_000
"""Hashes of a group that may wait for later records to explain them."""


@dataclass(frozen=True)
class _Open:
    entry: Entry
    epoch: int
    names: frozenset[str]
    before: tuple[frozenset[str], Proven] | None
    shown: Proven | None = None
    """The topics that the target of its epoch shows."""


class Hashes:
    """Judges the hashes of one group, some of them only when later records are there."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._open: list[_Open] = []
        self._last: tuple[frozenset[str], Proven] | None = None

    def judge(self, part: Part) -> None:
        """The records of key 3 in a part that was replayed, and what its target tells."""
        case = self.case
        group = case.consumer
        if group is None or not case.sure:
            return
        for entry in part.of(records.TOPICS):
            case.prover.take(group.topic_metadata or ())
            self._topics(entry, group)
        for entry in part.of(records.GROUP):
            self._epoch(entry)
        if part.of(records.TARGET_EPOCH):
            self._target(group.target_epoch)

    def _topics(self, entry: Entry, group: ConsumerGroup) -> None:
        """Key 4: the topics that the group asks for, as far as they exist."""
        assert entry.value is not None
        names = {row["topicName"] for row in entry.value["topics"]}
        strangers = names - group.topic_names()
        if strangers and self.case.census:
            self.case.tally.wrong(
                HASH,
                entry,
                f"Topic {min(strangers)} is in the group's topic metadata, but no member asks for "
                "it: a record of key 5 or 16 is lost; restart one consumer of the group.",
                sorted(group.topic_names()),
                sorted(names),
            )

    def _epoch(self, entry: Entry) -> None:
        case, group, value = self.case, self.case.consumer, entry.value
        assert group is not None
        assert value is not None
        metadata_hash = value.get("metadataHash", 0)
        if not metadata_hash and case.may_be(lambda release: not release.metadata_hash):
            # 4.0 has no hash: without a key 4, the coordinator knew of no topic, like any release.
            if case.census and not group.topic_metadata:
                case.prover.take(())
            return
        if not case.census:
            case.tally.unknown(HASH, TOPICS_THEN)
            return
        names = frozenset(group.topic_names())
        if case.prover.prove(metadata_hash, names, self._counts):
            assert case.prover.proven is not None
            self._close((names, case.prover.proven))
            case.tally.right(HASH)
            return
        self._open.append(_Open(entry, value["epoch"], names, self._last))
        if len(self._open) > _MOST_OPEN:
            self._settle(self._open.pop(0))

    def _counts(self) -> dict[str, int]:
        """Partitions of each topic as far as the targets show them."""
        group = self.case.consumer
        assert group is not None
        counts: dict[str, int] = {}
        for target in group.targets.values():
            for topic, numbers in target.items():
                if numbers:
                    counts[topic] = max(counts.get(topic, 0), max(numbers) + 1)
        return counts

    def _close(self, now: tuple[frozenset[str], Proven]) -> None:
        """A hash is right: those before it are wrong if nothing changed in between."""
        self._last = now
        for open_ in self._open:
            # A subscribed topic that is not there may have come and gone in between.
            there = now[1].keys() >= now[0]
            same = open_.before == now and open_.names == now[0] and there
            if same and not on_racks(now[1]):
                self._wrong(open_, now[1])
            else:
                self._settle(open_)
        self._open = []

    def _settle(self, open_: _Open) -> None:
        """No later record tells what the topics were; but what was so before and is so now was so
        all the time."""
        shown = open_.shown
        if shown is not None and self.case.prover.rackless and not on_racks(shown):
            self._wrong(open_, shown)
            return
        listed = self.case.known.listed
        before = open_.before[1] if open_.before is not None else {}
        constant = {n: t for n, t in before.items() if n in open_.names and listed.get(n) == t}
        if constant.keys() == open_.names and not on_racks(constant):
            self._wrong(open_, constant)
        else:
            self.case.tally.unknown(HASH, TOPICS_THEN)

    def _target(self, epoch: int) -> None:
        """A target shows the ids and partition counts that its epoch's hash is of."""
        case = self.case
        rest = []
        for open_ in self._open:
            if open_.epoch != epoch:
                rest.append(open_)
                continue
            counts = self._counts()
            shown = {}
            for topic_id, count in counts.items():
                name = case.known.name_of(topic_id)
                if name in open_.names:
                    assert name is not None
                    listed = case.known.listed.get(name)
                    racks = listed.racks if listed is not None else ()
                    shown[name] = Topic(name, topic_id, count, racks)
            if shown.keys() != open_.names:
                rest.append(open_)
                continue
            bare = {name: replace(topic, racks=()) for name, topic in shown.items()}
            said = open_.entry.record["value"]["data"]["metadataHash"]
            for topics in (shown, bare):
                if hash_of(topics.values()) == said:
                    case.tally.right(HASH)
                    case.prover.proven = topics
                    self._last = (open_.names, topics)
                    break
            else:
                # Replicas may be on racks that nobody told of, until some hash was right without.
                rest.append(replace(open_, shown=shown))
        self._open = rest

    def _wrong(self, open_: _Open, topics: Proven) -> None:
        value = open_.entry.value
        assert value is not None
        self.case.tally.wrong(
            HASH,
            open_.entry,
            "The metadata hash is not that of the group's topics "
            f"({', '.join(sorted(topics)) or 'none'}): the next heartbeat will rebalance the "
            "group for no reason; compare the brokers' versions.",
            hash_of(topics.values()),
            value.get("metadataHash", 0),
        )

    def finish(self, counts: Callable[[Entry], bool]) -> None:
        """What no later record explained stays unknown; what was said before is not said again."""
        for open_ in self._open:
            if counts(open_.entry):
                self._settle(open_)
        self._open = []
