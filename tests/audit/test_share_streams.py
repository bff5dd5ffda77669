"""Share and streams groups: nothing found in real logs, at no cut of them; faults are."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import CAUSES, EPOCHS, ORDER, OWNERSHIP, Tally
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import audit
from tests.audit.raw_records import entries_of
from tests.audit.test_sweeps import WAYS, sweep
from tests.captures import COMMITTED
from tests.conftest import DATA

CAPTURES = ("others-4.3.1", "others-4.2.0")
STREAMS = tuple(map(str, range(17, 24)))
GROUP, CURRENT = ("11", "17"), ("14", "22")


def log_of(capture: str) -> list[LogEntry]:
    return entries_of(DATA / capture / COMMITTED)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_real_log(capture: str) -> None:
    log = [e for e in log_of(capture) if e.kind in STREAMS]
    tally = audit(log, KnownTopics())
    assert tally.findings == []
    values = [e for e in log if e.value is not None]
    epochs = sum(e.kind in (*GROUP, *CURRENT, "12", "20") for e in values)
    assert tally.verified[EPOCHS] == epochs > 200
    assert tally.verified[ORDER] == len(log)
    assert tally.verified[OWNERSHIP] == sum(e.kind == "22" for e in values) > 100
    assert {check for check, _ in tally.unverifiable} <= {"metadata_hash"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("capture", CAPTURES)
def test_anything_missing(capture: str, way) -> None:  # type: ignore[no-untyped-def]
    assert sweep(log_of(capture), KnownTopics(), way, 4).verified.total() > 500


def _first(tally: Tally, item: LogEntry) -> bool:
    return any((f.group_id, f.offset) == (item.group, item.offset) for f in tally.findings)


def _group_copy(log: list[LogEntry], at: int) -> tuple[list[LogEntry], dict[str, Any]]:
    """A copy of the log of one group, and the value in it of the entry ``log[at]``."""
    own = copy.deepcopy([e for e in log if e.group == log[at].group])
    value = own[sum(e.group == log[at].group for e in log[:at])].value
    assert value is not None
    return own, value


def _edited(capture: str, kinds: tuple[str, ...], field: str, by: int) -> None:
    log = log_of(capture)
    places = [i for i, e in enumerate(log) if e.kind in kinds and e.value is not None]
    for at in random.Random(capture).sample(places, 25):
        own, value = _group_copy(log, at)
        value[field] += by
        assert _first(audit(own, KnownTopics()), log[at]), (log[at].group, log[at].offset)


@pytest.mark.parametrize("capture", CAPTURES)
def test_wrong_epochs_are_found(capture: str) -> None:
    _edited(capture, GROUP, "epoch", 2)
    _edited(capture, ("12", "20"), "assignmentEpoch", -1)
    _edited(capture, CURRENT, "memberEpoch", 20)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_task_that_two_members_process_is_found(capture: str) -> None:
    log = log_of(capture)
    held: dict[tuple[str, str], list[dict[str, object]]] = {}
    found = tried = 0
    for at, item in enumerate(log):
        if item.kind != "22":
            continue
        tasks = (item.value or {}).get("activeTasks", [])
        others = [rows for (g, m), rows in held.items() if g == item.group and m != item.member]
        if item.value is not None and any(others):
            own, value = _group_copy(log, at)
            value["activeTasks"] = copy.deepcopy(next(rows for rows in others if rows))
            tried += 1
            tally = audit(own, KnownTopics())
            found += any(
                f.check == OWNERSHIP and f.offset == item.offset and f.severity == "critical"
                for f in tally.findings
            )
        held[item.group, item.member] = tasks
    assert found == tried > 20


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_lost_member_is_found(capture: str) -> None:
    log = log_of(capture)
    joins = [i for i, e in enumerate(log) if e.kind in ("10", "19") and e.value is not None]
    fresh = [
        i
        for i in joins
        if i + 1 < len(log) and log[i + 1].offset == log[i].offset + 1 and log[i + 1].kind in GROUP
    ]
    found = 0
    for at in fresh:
        before = [e for e in log[:at] if (e.group, e.key) == (log[at].group, log[at].key)]
        if before and before[-1].value is not None:
            continue  # its older record stands in
        own = [e for i, e in enumerate(log) if i != at and e.group == log[at].group]
        findings = audit(own, KnownTopics()).findings
        assert findings, (log[at].group, log[at].offset)
        assert findings[0].check in (ORDER, CAUSES)
        found += 1
    assert found > 20
