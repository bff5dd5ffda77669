"""Metadata hashes in a lake that was made from a capture: no run has listed the topics."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kip848_spark.checks import topics as checked_topics
from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.results import HASH, Tally
from kip848_spark.checks.topics import KnownTopics, Prover, hash_of
from kip848_spark.coordinator import records
from kip848_spark.coordinator.topics import Topic
from tests.audit.captured_logs import (
    CHURNED,
    MOVING,
    RELEASES,
    audit,
    churned,
    churned_topics,
    entries,
    topics,
)

ORDERS = Topic("orders", "cGqFWoKIRp2CA1lBob-T_g", 3)
GROWN = Topic("orders", "cGqFWoKIRp2CA1lBob-T_g", 4)
NAMES = KnownTopics(names={ORDERS.topic_id: "orders"})
WRONG = 77


def member(client: str, topic: str) -> records.Record:
    value: dict[str, Any] = {
        "instanceId": None,
        "rackId": None,
        "clientId": client,
        "clientHost": "/127.0.0.1",
        "subscribedTopicNames": [topic],
        "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": 45000,
        "serverAssignor": None,
        "classicMemberMetadata": None,
    }
    return records.record("5", 0, {"groupId": "g", "memberId": "m"}, value)


def hashes_before_a_target(
    hashes: list[int], shown: Topic, subscribed: str = "orders"
) -> list[LogEntry]:
    """A group whose epoch rises with each of ``hashes``, and that gets its first target after the
    last of them. In the middle it is subscribed to another topic."""
    log: list[LogEntry] = []

    def write(*written: records.Record) -> None:
        for record in written:
            log.append(log_entry(0, len(log) + operations, 1000 * operations, record))

    for epoch, metadata_hash in enumerate(hashes, 2):
        operations = epoch
        topic = subscribed if epoch == 3 else "orders"
        write(member(f"client-{epoch}", topic), records.group_epoch("g", epoch, metadata_hash))
    part = [{"topicId": shown.topic_id, "partitions": list(range(shown.partitions))}]
    target = {"groupId": "g", "memberId": "m"}
    write(
        records.record("7", 0, target, {"topicPartitions": part}),
        records.record("6", 0, {"groupId": "g"}, {"assignmentEpoch": len(hashes) + 1}),
    )
    return log


def verdict(log: list[LogEntry]) -> tuple[int, int, list[int]]:
    """Verified and unverifiable hashes, and the epochs of those that are said to be wrong."""
    tally = audit(log, NAMES)
    epochs = {entry.offset: (entry.value or {}).get("epoch") for entry in log if entry.kind == "3"}
    wrong = [epochs[f.offset] for f in tally.findings if f.check == HASH and f.offset in epochs]
    return tally.verified[HASH], _unverifiable(tally), [epoch for epoch in wrong if epoch]


def _unverifiable(tally: Tally) -> int:
    return sum(number for (check, _), number in tally.unverifiable.items() if check == HASH)


def test_a_hash_between_two_right_ones_is_wrong() -> None:
    """The target comes after all three, and shows the topics of the first and the third."""
    right = hash_of([ORDERS])
    assert verdict(hashes_before_a_target([right, WRONG, right], ORDERS)) == (2, 0, [3])


def test_right_hashes_are_right() -> None:
    right = hash_of([ORDERS])
    assert verdict(hashes_before_a_target([right, right, right], ORDERS)) == (3, 0, [])


@pytest.mark.parametrize("first", [hash_of([ORDERS]), WRONG])
def test_a_hash_before_the_first_right_one_may_be_of_other_topics(first: int) -> None:
    """The topic had three partitions, then four: its first hash is of topics that no record
    shows."""
    grown = hash_of([GROWN])
    assert verdict(hashes_before_a_target([first, grown, grown], GROWN)) == (2, 1, [])


def test_a_hash_of_another_subscription_is_not_compared() -> None:
    right = hash_of([ORDERS])
    log = hashes_before_a_target([right, WRONG, right], ORDERS, subscribed="payments")
    assert verdict(log) == (2, 1, [])


@pytest.mark.parametrize("capture", [*RELEASES, *CHURNED, *MOVING, "racks-4.3.1"])
def test_no_hash_of_a_real_log_is_said_to_be_wrong(capture: str) -> None:
    if capture in RELEASES:
        log, known = entries(capture), topics(capture)
    else:
        log, known = churned(capture), churned_topics(capture)
    tally = audit(log, KnownTopics(names=known.names))
    assert [f for f in tally.findings if f.check == HASH] == []
    assert tally.findings == []
    if not capture.startswith(("racks", "4.0", "churn-4.0", "moving-4.0")):
        assert tally.verified[HASH] > _unverifiable(tally)


def many(count: int, partitions: int) -> dict[str, Topic]:
    """Topics by name; their ids are made of their numbers."""
    ids = [base64.urlsafe_b64encode(bytes(12) + n.to_bytes(4, "big"))[:22] for n in range(count)]
    return {f"t{n}": Topic(f"t{n}", ids[n].decode(), partitions) for n in range(count)}


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("source", ["listed", "shown by a target", "as before"])
def test_the_topics_of_a_large_group_are_found(source: str, count: int) -> None:
    """More topics than could be tried in combinations; other counts of each are known as well."""
    right, other = many(count, 6), many(count, 4)
    listed = right if source == "listed" else other
    prover = Prover(KnownTopics.of(listed.values()))
    prover.take((right if source == "as before" else other).values())
    shown = right if source == "shown by a target" else other
    counts = {topic.topic_id: topic.partitions for topic in shown.values()}
    assert prover.prove(hash_of(right.values()), frozenset(right), lambda: counts)
    assert prover.proven == right


def test_a_search_among_many_topics_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all options of all topics are listed before there turn out to be too many."""
    topics = many(1000, 3)
    made: list[str] = []

    class Counted(Topic):
        def __post_init__(self) -> None:
            made.append(self.name)

    prover = Prover(KnownTopics.of(topics.values()))
    monkeypatch.setattr(checked_topics, "Topic", Counted)
    assert not prover.prove(WRONG, frozenset(topics), lambda: {})
    assert len(set(made)) < 20


def test_accepted_topics_are_not_searched_again() -> None:
    topics = many(20, 3)
    prover, names = Prover(KnownTopics()), frozenset(topics)
    prover.accept(hash_of(topics.values()), names, topics)
    prover.take(())
    assert prover.prove(hash_of(topics.values()), names, lambda: {})
    assert prover.proven == topics
