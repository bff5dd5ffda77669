"""The log of a broker whose default assignor is not one of Kafka's (``java/OneTakesAll.java``)."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from kip848_spark import KafkaSource, Lake, RunResult, api, run
from kip848_spark.checks.completed_target import OTHER_ASSIGNOR
from kip848_spark.checks.live_comparison import DEFAULT_ASSIGNOR
from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.results import LIVE, TARGETS
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.assignors import (
    AssignmentSpec,
    CustomAssignor,
    GroupSpec,
    MemberSpec,
    find_assignors,
)
from kip848_spark.coordinator.topics import Topic
from kip848_spark.errors import UsageError
from kip848_spark.local import broker as local_broker
from kip848_spark.local.broker import CANONICAL, Broker
from kip848_spark.runtime.jars import broker_jars
from tests.audit import one_takes_all
from tests.audit.captured_logs import CONTROL, audit
from tests.coordinator.broker_comparison import BrokerComparison
from tests.coordinator.normalize import Difference

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[1] / "java" / "OneTakesAll.java"
FOO, BAR = 6, 4
"""The partitions of two topics."""
BUSY, QUIET, VOTING = "busy", "quiet", "voting"
PYTHON = "tests.audit.one_takes_all:OneTakesAll"


Logged = tuple[list[LogEntry], KnownTopics, RunResult, Lake, list[Difference]]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Logged:
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
            broker.settings["group.consumer.assignors"] = f"{PYTHON},uniform"  # the reference's
            comparison = BrokerComparison(broker, CANONICAL)
            ids = {name: comparison.topic(name, size) for name, size in _TOPICS.items()}
            for group, members in ((BUSY, 6), (QUIET, 2), (VOTING, 3)):
                for number in range(members):
                    comparison.send(
                        "client",
                        "ConsumerGroupHeartbeat",
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
            comparison.compare_logs()
            comparison.close()
            lake = Lake(tmp_path_factory.mktemp("run") / "lake")
            result = run(KafkaSource(broker.bootstrap), lake, spark=spark)
            entries = [
                log_entry(0, one.offset, one.timestamp, {"key": one.key, "value": one.payload})
                for one in broker.dump_all()
                if one.key is not None and one.key["type"] in CONTROL and one.group in _GROUPS
            ]
    topics = KnownTopics.of(Topic(name, ids[name], size) for name, size in _TOPICS.items())
    return entries, topics, result, lake, comparison.differences


@pytest.fixture
def log(
    logged: Logged,
) -> tuple[list[LogEntry], KnownTopics]:
    """The records and the topics."""
    return logged[:2]


@pytest.fixture
def differences(logged: Logged) -> list[Difference]:
    """Those between the broker and the reference."""
    return logged[4]


_TOPICS = {"foo": FOO, "bar": BAR}
_GROUPS = (BUSY, QUIET, VOTING)


def test_targets_of_another_default_assignor_are_not_judged(
    log: tuple[list[LogEntry], KnownTopics],
) -> None:
    entries, topics = log
    tally = audit(entries, topics, assignors=find_assignors(["one-takes-all", " uniform"]))
    assert tally.findings == []
    targets = [e for e in entries if e.kind == "6" and e.value is not None]
    voting = [e for e in targets if e.group == VOTING]
    assert tally.verified[TARGETS] == len(voting) == 3
    assert tally.unverifiable[TARGETS, OTHER_ASSIGNOR] == len(targets) - len(voting) == 8


def test_a_run_asks_the_brokers_for_their_default(
    logged: Logged,
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
    tally = audit(*log, assignors=find_assignors(["uniform"]))
    assert {f.check for f in tally.findings} == {TARGETS}
    assert len(tally.findings) == 5 + 1


def test_names_of_assignors_are_needed() -> None:
    with pytest.raises(UsageError, match="no assignor"):
        find_assignors([" "])


def test_targets_of_a_python_assignor_are_judged_exactly(
    log: tuple[list[LogEntry], KnownTopics],
) -> None:
    """The broker ran the Java class, the audit runs its Python counterpart."""
    entries, topics = log
    custom = find_assignors([PYTHON, "uniform"])
    tally = audit(entries, topics, assignors=custom)
    assert tally.findings == []
    targets = [e for e in entries if e.kind == "6" and e.value is not None]
    assert tally.verified[TARGETS] == len(targets) == 11

    def backwards(group: GroupSpec) -> dict[str, dict[str, list[int]]]:
        last = max(group.members)
        return {last: {t: list(range(one.partitions)) for t, one in group.topics.items()}}

    python = custom["one-takes-all"]
    assert isinstance(python, CustomAssignor)
    other = replace(python, assignor=SimpleNamespace(name="x", assign=backwards))
    tally = audit(entries, topics, assignors={"one-takes-all": other})
    assert {f.check for f in tally.findings} == {TARGETS}
    assert len(tally.findings) == 5 + 1  # all targets of several members


def test_the_reference_runs_a_python_assignor_as_the_broker_runs_the_java_class(
    differences: list[Difference],
) -> None:
    assert differences == []


def test_a_run_of_the_audit_judges_a_python_assignor(
    logged: Logged,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its module is in the current folder only: the workers cannot import it."""
    text = Path(one_takes_all.__file__).read_text()
    (tmp_path / "only_here.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assignors = ["only_here:OneTakesAll", "uniform"]
    result = api.audit(logged[3], groups=[BUSY], assignors=assignors, spark=spark)
    assert result.disagreed == 0, result.findings.to_pylist()
    (targets,) = (row for row in result.agreement.to_pylist() if row["check"] == TARGETS)
    assert (targets["verified"], targets["unverifiable"]) == (6, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere:Here", "can't be loaded"),
        ("tests.audit.one_takes_all:Nobody", "can't be loaded"),
        ("tests.audit.one_takes_all:NotAnAssignor", "is not an assignor"),
        ("tests.audit.one_takes_all:Needs", "can't be created"),
        ("tests.audit.one_takes_all:Uniform", "as one of Kafka's own"),
        (f"{PYTHON},{PYTHON}", "Two assignors"),
    ],
)
def test_what_is_not_an_assignor_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_assignors(text.split(","))


def test_a_failing_assignor_is_named() -> None:
    spec = AssignmentSpec((MemberSpec("A", None, {}, {}),), {}, homogeneous=True)
    failing = find_assignors(["tests.audit.one_takes_all:Failing"])["failing"]
    assert failing is not None
    with pytest.raises(UsageError, match="Failing failed: ValueError: no rack"):
        failing(spec)
