"""What the brokers answered about their release, as a sign beside those in the log."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from kip848_spark.checks.context import AuditContext, KnownLine
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group import BY_ANSWER, GroupAudit
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import CAUSES, ORDER, Tally
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.insight.readiness_versions import line_of_levels
from kip848_spark.kafka.topic import OffsetRange, TopicIdentity
from kip848_spark.lake.ledger import Run
from kip848_spark.spark.jobs.audit import known_lines
from tests.audit.captured_logs import UPGRADED, churned, churned_topics
from tests.audit.faults import FAULTS
from tests.audit.faults.injection import NoPlaceError

_LAST = 1 << 40
PARTITIONS = range(50)


def everywhere(line: str, start: int = 0, end: int = _LAST) -> KnownLine:
    return KnownLine(line, dict.fromkeys(PARTITIONS, start), dict.fromkeys(PARTITIONS, end))


def audit(log: list[LogEntry], topics: KnownTopics, *lines: KnownLine) -> Tally:
    groups: dict[tuple[int, str], GroupAudit] = {}
    context = AuditContext(Coverage(), topics, known_lines=lines)
    for entry in log:
        place = entry.partition, entry.group
        if place not in groups:
            groups[place] = GroupAudit(*place, context)
        groups[place].add(entry)
    tally = Tally()
    for one in groups.values():
        tally.add(one.finish())
    return tally


@pytest.mark.parametrize("capture", ["churn-4.4.0", "moving-4.0.2"])
def test_a_right_answer_raises_no_alarm(capture: str) -> None:
    line = capture.rpartition("-")[2].rpartition(".")[0]
    log, topics = churned(capture), churned_topics(capture)
    told = audit(log, topics, everywhere(line))
    assert told.findings == []
    assert told.notes[ORDER, BY_ANSWER] > 100
    untold = audit(log, topics)
    assert untold.notes[ORDER, BY_ANSWER] == 0
    assert told.unverifiable[CAUSES, "gap"] <= untold.unverifiable[CAUSES, "gap"]


@pytest.mark.parametrize("capture", UPGRADED)
def test_the_log_decides_where_the_answer_is_of_another_time(capture: str) -> None:
    """The brokers answered the first of three releases at the beginning, and the last one at the
    end. What was true of these parts is not carried over to the part without an answer."""
    log, topics = churned(capture), churned_topics(capture)
    last = capture.rpartition("-")[2].rpartition(".")[0]
    ends: dict[int, int] = {}
    for entry in log:
        ends[entry.partition] = max(ends.get(entry.partition, 0), entry.offset)
    late = {partition: 9 * end // 10 for partition, end in ends.items()}
    first = capture.split("-")[1].rpartition(".")[0]
    early = {partition: end // 10 for partition, end in ends.items()}
    told = audit(
        log,
        topics,
        KnownLine(first, dict.fromkeys(ends, 0), early),
        KnownLine(last, late, dict.fromkeys(ends, _LAST)),
    )
    assert told.findings == []
    assert told.notes[ORDER, BY_ANSWER] > 0


def test_an_answer_rules_out_what_only_another_release_does() -> None:
    """Two members vote for two assignors. From 4.4 on, an epoch without any other cause is right;
    brokers that answer 4.3 cannot have written it."""
    log, topics = churned("churn-4.3.1"), churned_topics("churn-4.3.1")
    told = untold = 0
    for seed in range(12):
        rng = random.Random(seed)
        groups = sorted({entry.group for entry in log})
        own = rng.sample(groups, 5)
        try:
            injection = FAULTS["epoch_bump_without_cause"](
                [entry for entry in churned("churn-4.3.1") if entry.group in own], rng
            )
        except NoPlaceError:
            continue
        edited = [entry for entry in injection.log if entry.group == injection.group]
        told += injection.found_by(audit(edited, topics, everywhere("4.3")))
        untold += injection.found_by(audit(edited, topics))
    assert told >= untold > 0


def test_brokers_of_one_line_give_a_line() -> None:
    """Levels of ``metadata.version``: those of 4.2 and 4.3, and one of an unknown release."""
    assert line_of_levels([30, 30]) == "4.3"
    assert line_of_levels([29]) == "4.2"
    assert line_of_levels([29, 30]) is None
    assert line_of_levels([30, 99]) is None
    assert line_of_levels([]) is None


def test_only_equal_answers_before_and_after_count() -> None:
    def run(
        number: int, end: int, line: str | None, source: str = "kafka:one:9092", more: int = 0
    ) -> Run:
        return Run(
            run_id=f"run-{number}",
            source=source,
            identity=TopicIdentity("__consumer_offsets", "cluster", None),
            dialect="shipped",
            ranges=(OffsetRange(0, 0, end), *([OffsetRange(1, 0, more)] if more else [])),
            table_versions={},
            started_at=datetime(2026, 1, 1, tzinfo=UTC),
            broker_line=line,
        )

    runs = [
        run(1, 10, "4.2"),
        run(2, 20, "4.2"),
        run(3, 20, None, "lake"),  # an audit asks nobody
        run(4, 30, "4.2", more=5),  # the topic has a partition more
        run(5, 35, "4.2", more=6),
        run(6, 40, None),  # the brokers differ: they are being upgraded
        run(7, 50, "4.2"),
        run(8, 60, "4.3"),
    ]
    assert known_lines(runs[::-1]) == (KnownLine("4.2", {0: 10, 1: 5}, {0: 35, 1: 6}),)
    context = AuditContext(Coverage(), KnownTopics(), known_lines=known_lines(runs))
    found = [context.line_at(0, offset) for offset in (9, 10, 34, 35, 55)]
    assert found == [None, "4.2", "4.2", None, None]
    assert [context.line_at(1, offset) for offset in (4, 5, 6)] == [None, "4.2", None]
