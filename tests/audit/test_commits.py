"""Offset commits: those of real brokers are right, and faults that are put into them are found."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from kip848_spark.checks.commits import BY_VERSION
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.results import COMMITS
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.records import OFFSET, tombstone
from kip848_spark.coordinator.topics import Topic
from tests.audit.captured_logs import CHURNED, MOVING, RELEASES, UPGRADED, churned_topics
from tests.audit.commit_logs import audit_with_commits, with_commits
from tests.audit.log_cuts import ends_of
from tests.audit.test_cleaned import CLEANED

CAPTURES = [*(f"kafka-{release}" for release in RELEASES), *CHURNED, *MOVING, *CLEANED, *UPGRADED]
INSTANCES = 25
Log = list[LogEntry]
Fault = Callable[[Log, int, KnownTopics, random.Random], bool]
"""Edits the commit at a place; False if it is no place for this fault."""


@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES)
def test_no_commit_of_a_real_log_is_said_to_be_wrong(capture: str) -> None:
    log, known = with_commits(capture), churned_topics(capture)
    release = None if capture in (*CLEANED, *UPGRADED) else capture.rpartition("-")[2]
    for given in {None, release}:
        tally = audit_with_commits(log, known, release=given)
        assert [f for f in tally.findings if f.check == COMMITS] == []
    judged = tally.verified[COMMITS] + sum(
        number for (check, _), number in tally.unverifiable.items() if check == COMMITS
    )
    assert judged == sum(item.kind == OFFSET for item in log) > 0


@pytest.mark.parametrize("capture", ["kafka-4.0.2", "kafka-4.3.1", "churn-4.4.0"])
def test_no_commit_of_a_log_that_begins_late_is_said_to_be_wrong(capture: str) -> None:
    log, known = with_commits(capture), churned_topics(capture)
    for seed in range(10):
        rng = random.Random(seed)
        first = {p: rng.randint(0, end) for p, end in ends_of(list(log)).items()}
        kept = [e for e in log if e.offset >= first[e.partition]]
        holes = [(p, offset - 1) for p, offset in first.items() if offset]
        tally = audit_with_commits(kept, known, Coverage.of(holes, ends_of(kept)))
        assert tally.findings == []


def test_without_a_list_of_topics_no_commit_is_judged_by_its_topic() -> None:
    log = with_commits("churn-4.3.1")
    tally = audit_with_commits(log, KnownTopics())
    assert tally.disagreed[COMMITS] == 0
    commits = sum(entry.kind == OFFSET and entry.value is not None for entry in log)
    assert tally.notes[COMMITS, BY_VERSION] == commits > 1
    assert tally.findings == []


def value_of(log: Log, at: int) -> dict[str, Any]:
    value = log[at].value
    assert value is not None
    return value


def replace_commit(log: Log, at: int, record: dict[str, Any]) -> None:
    item = log[at]
    log[at] = log_entry(item.partition, item.offset, item.timestamp, record)


def name_of(item: LogEntry) -> str:
    return str(item.record["key"]["data"]["topic"])


def earlier(log: Log, at: int) -> list[LogEntry]:
    """The commits of the same group and topic before this one that have the same topic id."""
    item = log[at]
    return [
        e
        for e in log[:at]
        if (e.kind, e.group) == (OFFSET, item.group)
        and name_of(e) == name_of(item)
        and e.value is not None
        and e.value["topicId"] == value_of(log, at)["topicId"] is not None
    ]


def id_of_another_topic(log: Log, at: int, known: KnownTopics, rng: random.Random) -> bool:
    """An id of a topic that exists."""
    others = [t.topic_id for t in known.listed.values() if t.name != name_of(log[at])]
    if value_of(log, at)["topicId"] is None:
        return False
    value_of(log, at)["topicId"] = rng.choice(others)
    return True


def unknown_topic_id(log: Log, at: int, known: KnownTopics, rng: random.Random) -> bool:
    """An id that no topic has, after the group has committed with the right one."""
    listed = known.listed.get(name_of(log[at]))
    right = value_of(log, at)["topicId"]
    if listed is None or right != listed.topic_id or not earlier(log, at):
        return False
    value_of(log, at)["topicId"] = "".join(rng.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 22))
    return True


def partition_that_does_not_exist(
    log: Log, at: int, known: KnownTopics, rng: random.Random
) -> bool:
    """Of a topic whose id the commit has."""
    listed = known.listed.get(name_of(log[at]))
    if listed is None or value_of(log, at)["topicId"] != listed.topic_id:
        return False
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["partition"] = listed.partitions + rng.randint(0, 5)
    replace_commit(log, at, record)
    return True


def value_version_of_another_release(
    log: Log, at: int, known: KnownTopics, rng: random.Random
) -> bool:
    """Between two commits of the group within two seconds."""
    item = log[at]
    own = [e for e in log if (e.kind, e.group) == (OFFSET, item.group) and e.value is not None]
    here = own.index(item)
    if not 0 < here < len(own) - 1 or own[here + 1].timestamp - own[here - 1].timestamp >= 2_000:
        return False
    record = copy.deepcopy(item.record)
    assert record["value"] is not None
    record["value"]["version"] = "3" if record["value"]["version"] == "4" else "4"
    replace_commit(log, at, record)
    return True


def tombstone_while_subscribed(log: Log, at: int, known: KnownTopics, rng: random.Random) -> bool:
    """While a member of a consumer group owns a partition of the topic."""
    item = log[at]
    listed = known.listed.get(name_of(item))
    members: dict[str, LogEntry] = {}
    targets: dict[str, LogEntry] = {}
    for before in log[:at]:
        if (before.partition, before.group) == (item.partition, item.group):
            table = {"5": members, "7": targets}.get(before.kind, {})
            table[before.member] = before
            if before.kind in ("2", "3") and before.value is None:
                members, targets = {}, {}
    subscribed = any(
        name_of(item) in (e.value or {"subscribedTopicNames": ()})["subscribedTopicNames"]
        for e in members.values()
    )
    shown = listed is not None and any(
        row["topicId"] == listed.topic_id
        for e in targets.values()
        for row in (e.value or {"topicPartitions": ()})["topicPartitions"]
    )
    if not (subscribed and shown):
        return False
    replace_commit(log, at, tombstone(OFFSET, **item.record["key"]["data"]))
    return True


REASONS: dict[Fault, str] = {
    id_of_another_topic: "commit_topic_id",
    unknown_topic_id: "commit_topic_id",
    partition_that_does_not_exist: "partition_does_not_exist",
    value_version_of_another_release: "value_version",
    tombstone_while_subscribed: "deleted_while_subscribed",
}


@pytest.mark.parametrize("fault", REASONS)
def test_a_fault_in_a_commit_is_found(fault: Fault) -> None:
    injected = 0
    rng = random.Random(fault.__name__)
    for capture in [*(f"kafka-{release}" for release in RELEASES), *CHURNED]:
        known = churned_topics(capture)
        whole = with_commits(capture)
        places = [i for i, e in enumerate(whole) if e.kind == OFFSET and e.value is not None]
        rng.shuffle(places)
        used = 0
        for at in places:
            group = whole[at].partition, whole[at].group
            log = copy.deepcopy([e for e in whole if (e.partition, e.group) == group])
            here = next(i for i, e in enumerate(log) if e.offset == whole[at].offset)
            if not fault(log, here, known, rng):
                continue
            tally = audit_with_commits(log, known)
            found = [(f.reason, f.offset) for f in tally.findings]
            assert found == [(REASONS[fault], whole[at].offset)], capture
            used += 1
            if used == INSTANCES:
                break
        injected += used
    assert injected >= INSTANCES


def test_the_version_of_a_given_release() -> None:
    """With --release, every commit of another release is a finding."""
    tally = audit_with_commits(
        with_commits("kafka-4.3.1"), churned_topics("kafka-4.3.1"), None, "4.0"
    )
    assert {f.reason for f in tally.findings if f.check == COMMITS} == {"value_version"}


def test_a_topic_that_was_recreated_has_two_ids() -> None:
    """The commits of the topic before are right, and so is a partition that it had."""
    known = KnownTopics.of([Topic("t", "B" * 22, 1)], [("A" * 22, "t")])

    def commit(offset: int, topic_id: str | None, number: int) -> LogEntry:
        value = {"offset": 1, "metadata": "", "commitTimestamp": offset, "topicId": topic_id}
        key = {"group": "g", "topic": "t", "partition": number}
        record = {
            "key": {"type": OFFSET, "data": key},
            "value": {"version": "4", "data": value},
        }
        return log_entry(0, offset, offset, record)

    log = [commit(0, "A" * 22, 3), commit(1, None, 3), commit(2, "B" * 22, 0)]
    tally = audit_with_commits(log, known)
    assert tally.findings == []
    assert (tally.verified[COMMITS], tally.notes[COMMITS, BY_VERSION]) == (3, 2)
    late = audit_with_commits([*log, commit(3, "A" * 22, 0)], known)
    assert [(f.reason, f.offset) for f in late.findings] == [("commit_topic_id", 3)]
