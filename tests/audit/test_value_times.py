"""Times inside values: all those of real brokers are right, and wrong ones of commits are found.

Wrong times of control records are among the faults of `test_faults.py`.
"""

from __future__ import annotations

import copy

import pytest

from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.results import VALUE_TIMES, Tally
from kip848_spark.checks.topics import KnownTopics
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
from tests.audit.faults.times import FIELDS, MINUTE
from tests.captures import DUMP, read_dump
from tests.conftest import DATA


def logs() -> dict[str, tuple[list[LogEntry], KnownTopics]]:
    scenarios = {name: (entries(name), topics(name)) for name in RELEASES}
    return scenarios | {n: (churned(n), churned_topics(n)) for n in (*CHURNED, *MOVING)}


def test_every_time_of_a_real_log_is_verified() -> None:
    kinds = set()
    for log, known in logs().values():
        tally = audit(log, known)
        timed = [e for e in log if (e.value or {}).get(FIELDS.get(e.kind, ""))]
        assert tally.disagreed[VALUE_TIMES] == 0
        assert tally.verified[VALUE_TIMES] == len(timed)
        kinds |= {e.kind for e in timed}
    assert kinds == set(FIELDS)


def commits(release: str) -> list[LogEntry]:
    """The commits of a capture that have a value."""
    return [
        log_entry(
            line["partition"],
            line["offset"],
            line["timestamp"],
            {"key": line["key"], "value": copy.deepcopy(line["payload"])},
        )
        for line in read_dump(DATA / f"kafka-{release}" / DUMP)
        if "key" in line and line["key"]["type"] == "1" and line["payload"] is not None
    ]


def audit_commits(log: list[LogEntry]) -> Tally:
    tally = Tally()
    for entry in log:
        one = GroupAudit(entry.partition, entry.group, AuditContext(Coverage(), KnownTopics.of(())))
        one.commit(entry)
        tally.add(one.finish())
    return tally


@pytest.mark.parametrize("release", RELEASES)
def test_times_of_commits(release: str) -> None:
    log = commits(release)
    tally = audit_commits(log)
    assert (tally.verified[VALUE_TIMES], tally.findings) == (len(log), [])
    for shift in (-2 * MINUTE, 2 * MINUTE):
        wrong = copy.deepcopy(log)
        for entry in wrong:
            assert entry.value is not None
            entry.value["commitTimestamp"] += shift
        tally = audit_commits(wrong)
        assert [f.offset for f in tally.findings] == [entry.offset for entry in log]
        assert {(f.check, f.reason) for f in tally.findings} == {(VALUE_TIMES, "time_in_value")}


def test_a_commit_that_expires_before_it_was_made() -> None:
    (entry, *_) = commits(RELEASES[0])
    assert entry.value is not None
    for expires, findings in ((1, 0), (0, 0), (-1, 1)):
        entry.value["expireTimestamp"] = entry.value["commitTimestamp"] + expires
        assert len(audit_commits([entry]).findings) == findings


@pytest.mark.parametrize("release", RELEASES)
def test_a_record_with_another_time_than_its_neighbours(release: str) -> None:
    log = entries(release)
    at = next(
        i
        for i in range(1, len(log) - 1)
        if len({entry.timestamp for entry in log[i - 1 : i + 2]}) == 1
        and [entry.offset - log[i].offset for entry in log[i - 1 : i + 2]] == [-1, 0, 1]
        and len({(entry.partition, entry.group) for entry in log[i - 1 : i + 2]}) == 1
        and log[i].kind == "8"
    )
    for shift, found in ((MINUTE + 1, 1), (-MINUTE - 1, 1), (MINUTE, 0), (-MINUTE, 0)):
        wrong = list(log)
        wrong[at] = log[at]._replace(timestamp=log[at].timestamp + shift)
        tally = audit(wrong, topics(release))
        places = [f.offset for f in tally.findings if f.reason == "record_time"]
        assert places == [log[at].offset] * found
