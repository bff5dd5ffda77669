"""Streams groups: nothing found in real logs of any release, at no cut of them; faults are."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kip848_spark.checks.completed_target import BY_PROPERTIES
from kip848_spark.checks.finding_text import with_texts
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import (
    CAUSES,
    EPOCHS,
    HASH,
    ORDER,
    OWNERSHIP,
    TARGETS,
    TRANSITIONS,
)
from kip848_spark.checks.streams_operations import split_operation
from tests.audit.captured_logs import audit
from tests.audit.fault_rates import instances, rate
from tests.audit.faults.streams import STREAMS_FAULTS
from tests.audit.root_rates import linked
from tests.audit.streams_logs import CAPTURES, faulty_logs, streams_log, streams_topics
from tests.audit.test_sweeps import WAYS, sweep

QUICK = [name for name in CAPTURES if name not in ("streams-4.1.1", "streams-4.3.0")]
FEW, MANY = 8, 250
LEAST = 0.99


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_real_log(capture: str) -> None:
    """Every record is judged, and every target computed: 4.1 breaks ties by what it does not
    record, and forgets the hash when a member leaves."""
    log = streams_log(capture)
    tally = audit(log, streams_topics(capture))
    assert tally.findings == []
    values = [entry for entry in log if entry.value is not None]

    def count(*kinds: str) -> int:
        return sum(entry.kind in kinds for entry in values)

    taken_over = sum(
        (before.kind, after.kind) == ("19", "21")
        and before.value is not None
        and after.value is not None
        and before.member == after.member
        for before, after in pairwise(log)
    )
    assert tally.verified[ORDER] == len(log) > 2_000
    assert tally.verified[EPOCHS] == count("17", "20", "22")
    assert tally.verified[CAUSES] >= count("17")
    assert tally.verified[TRANSITIONS] == tally.verified[OWNERSHIP] == count("22") > 400
    # A static member that returns takes over a target in an operation that computes none.
    assert tally.verified[TARGETS] == count("20") + taken_over > 200
    old = capture.startswith("streams-4.1.")
    assert {check for check, _ in tally.unverifiable} == ({HASH} if old else set())
    assert bool(tally.notes[TARGETS, BY_PROPERTIES]) == old
    assert tally.verified[HASH] >= (80 if old else 300)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("capture", QUICK)
def test_anything_missing(capture: str, way) -> None:  # type: ignore[no-untyped-def]
    assert sweep(streams_log(capture), streams_topics(capture), way, 1).verified.total() > 500


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("capture", CAPTURES)
def test_anything_missing_at_many_places(capture: str, way) -> None:  # type: ignore[no-untyped-def]
    assert sweep(streams_log(capture), streams_topics(capture), way, 40).verified.total() > 500


@pytest.mark.parametrize("name", STREAMS_FAULTS)
def test_a_fault_is_found(name: str) -> None:
    found = rate(name, STREAMS_FAULTS[name], FEW, faulty_logs())
    assert found.injected == FEW
    assert found.found >= FEW - 1, found.missed


@pytest.mark.long
@pytest.mark.parametrize("name", STREAMS_FAULTS)
def test_hundreds_of_faults_are_found(name: str) -> None:
    found = rate(name, STREAMS_FAULTS[name], MANY, faulty_logs())
    # A broker may give each of two members in one bucket the target of the other (docs/audit.md).
    assert len(found.missed) <= max(2, (1 - LEAST) * found.injected), found.missed


@pytest.mark.parametrize("name", STREAMS_FAULTS)
def test_a_fault_has_a_text_and_a_root(name: str) -> None:
    """No raw JSON, and two sides that differ."""
    for log, _, own in instances(name, STREAMS_FAULTS[name], 2, faulty_logs()):
        for finding in with_texts(linked(own, log.topics), log.topics.names):
            lines = finding.explanation.split("\n")
            assert len(lines) == 5
            assert not any(sign in finding.explanation for sign in '{}["]'), finding.explanation
            expected, recorded = (line.split(": ", 1)[1] for line in lines[1:3])
            assert "" != expected != recorded != "", finding.explanation


def test_two_heartbeats_in_one_millisecond() -> None:
    """The first member changes its metadata and still has tasks to give up, so its assignment stays
    as it is; the assignment after it belongs to another heartbeat."""

    def entry(offset: int, kind: str, member: str) -> LogEntry:
        return LogEntry(0, offset, 1, {}, kind, "app", member, {})

    first = [entry(1, "19", "a"), entry(2, "17", ""), entry(3, "20", "")]
    for member, parts in (("a", ["19 17 20 22"]), ("b", ["19 17 20", "22"])):
        operation = split_operation([*first, entry(4, "22", member)])
        assert [" ".join(one.kind for one in part.entries) for part in operation] == parts
