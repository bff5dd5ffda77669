"""The log of a broker whose default assignor is not one of Kafka's (``java/OneTakesAll.java``)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kip848_spark import KafkaSource, Lake, RunResult, run
from kip848_spark.checks.completed_target import OTHER_ASSIGNOR
from kip848_spark.checks.live_comparison import DEFAULT_ASSIGNOR
from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.results import LIVE, TARGETS
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.config import assignor_names
from kip848_spark.coordinator.topics import Topic
from kip848_spark.errors import UsageError
from kip848_spark.local import broker as local_broker
from kip848_spark.local.broker import CANONICAL, Broker
from kip848_spark.runtime.jars import broker_jars
from tests.audit.captured_logs import CONTROL, audit
from tests.coordinator.broker_comparison import BrokerComparison

SOURCE = Path(__file__).parents[1] / "java" / "OneTakesAll.java"
FOO, BAR = 6, 4
"""The partitions of two topics."""
BUSY, QUIET, VOTING = "busy", "quiet", "voting"


@pytest.fixture(scope="module")
def logged(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> tuple[list[LogEntry], KnownTopics, RunResult]:
    """A group that rebalances five times, one that does so once, and one whose members ask for the
    uniform assignor; and a run on this broker."""
    classes = tmp_path_factory.mktemp("classes")
    jars = broker_jars(CANONICAL)
    classpath = os.pathsep.join(str(jar) for jar in jars)
    compiled = ["javac", "-cp", classpath, "-d", str(classes), str(SOURCE)]
    subprocess.run(compiled, check=True, timeout=120)
    settings = {
        "group.consumer.assignors": "OneTakesAll,uniform",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.session.timeout.ms": "60000",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_broker, "broker_jars", lambda *_: [*jars, classes])
        broker = Broker(CANONICAL, settings=settings, offsets_partitions=1)
        with broker:
            # The reference has no such assignor: only the broker is asked.
            broker.settings.pop("group.consumer.assignors")
            comparison = BrokerComparison(broker, CANONICAL)
            ids = {name: comparison.topic(name, size) for name, size in _TOPICS.items()}
            for group, members in ((BUSY, 6), (QUIET, 2), (VOTING, 3)):
                for number in range(members):
                    comparison.send_to_broker(
                        "ConsumerGroupHeartbeat",
                        1,
                        {
                            "groupId": group,
                            "memberId": f"{group}-{number}",
                            "memberEpoch": 0,
                            "rebalanceTimeoutMs": 60_000,
                            "serverAssignor": "uniform" if group == VOTING else None,
                            "subscribedTopicNames": [*_TOPICS],
                            "topicPartitions": [],
                        },
                    )
            comparison.close()
            lake = Lake(tmp_path_factory.mktemp("run") / "lake")
            result = run(KafkaSource(broker.bootstrap), lake, spark=spark)
            entries = [
                log_entry(0, one.offset, one.timestamp, {"key": one.key, "value": one.payload})
                for one in broker.dump_all()
                if one.key is not None and one.key["type"] in CONTROL and one.group in _GROUPS
            ]
    topics = KnownTopics.of(Topic(name, ids[name], size) for name, size in _TOPICS.items())
    return entries, topics, result


@pytest.fixture
def log(
    logged: tuple[list[LogEntry], KnownTopics, RunResult],
) -> tuple[list[LogEntry], KnownTopics]:
    """The records and the topics."""
    return logged[:2]


_TOPICS = {"foo": FOO, "bar": BAR}
_GROUPS = (BUSY, QUIET, VOTING)


def test_targets_of_another_default_assignor_are_not_judged(
    log: tuple[list[LogEntry], KnownTopics],
) -> None:
    entries, topics = log
    tally = audit(entries, topics, assignors=assignor_names(["one-takes-all", " uniform"]))
    assert tally.findings == []
    targets = [e for e in entries if e.kind == "6" and e.value is not None]
    voting = [e for e in targets if e.group == VOTING]
    assert tally.verified[TARGETS] == len(voting) == 3
    assert tally.unverifiable[TARGETS, OTHER_ASSIGNOR] == len(targets) - len(voting) == 8


def test_a_run_asks_the_brokers_for_their_default(
    logged: tuple[list[LogEntry], KnownTopics, RunResult],
) -> None:
    result = logged[2]
    assert result.disagreed == 0, result.findings.to_pylist()
    (targets,) = (row for row in result.agreement.to_pylist() if row["check"] == TARGETS)
    assert targets["verified"] >= 3
    # Further groups tried whether the broker answers.
    assert dict(targets["reasons"])[OTHER_ASSIGNOR] >= 8
    (live,) = (row for row in result.agreement.to_pylist() if row["check"] == LIVE)
    assert live["verified"] > 0
    assert dict(live["reasons"])[DEFAULT_ASSIGNOR] >= len((BUSY, QUIET))


def test_another_default_assignor_is_learned_from_a_group_that_rebalances_often(
    log: tuple[list[LogEntry], KnownTopics],
) -> None:
    tally = audit(*log)
    assert {(f.group_id, f.check) for f in tally.findings} == {(QUIET, TARGETS)}
    assert tally.disagreed[TARGETS] == len(tally.findings) == 1
    assert tally.unverifiable[TARGETS, OTHER_ASSIGNOR] == 5  # one member alone gets the same of all


def test_targets_of_the_default_that_is_named_are_judged(
    log: tuple[list[LogEntry], KnownTopics],
) -> None:
    """If the uniform assignor were the default, all targets of several members would be wrong."""
    tally = audit(*log, assignors=("uniform",))
    assert {f.check for f in tally.findings} == {TARGETS}
    assert len(tally.findings) == 5 + 1


def test_names_of_assignors_are_needed() -> None:
    with pytest.raises(UsageError, match="no assignor"):
        assignor_names([" "])
