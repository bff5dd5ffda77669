"""Records whose bytes decode but whose values make no sense: the audit judges them, and goes on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from kip848_spark.checks import group_task
from kip848_spark.checks.audit_rows import AUDIT_ROWS, GROUP_RECORDS
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import LOADING, WARNING
from kip848_spark.checks.topics import KnownTopics
from tests.audit import captured_logs
from tests.audit.memory import bounded_memory
from tests.audit.raw_records import entries_of
from tests.audit.test_share_streams import CAPTURES as SHARE_STREAMS_KEY_TYPES
from tests.captures import COMMITTED
from tests.conftest import DATA

INTEGERS = (0, -1, -2, 1, 7, 99_999, 2**15, 2**31 - 2, 2**31 - 1, -(2**31))
TEXTS = ("", "x", "\0", "é", "([", "a" * 300)
IDS = ("A" * 22, "AAAAAAAAAAAAAAAAAAAAAQ")
BYTES = ("subscription", "assignment", "metadata", "userData")
"""Fields that hold base64, which the damage here leaves alone."""


def damaged(rng: random.Random, value: Any) -> Any:
    """``value`` with one thing in it another one of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice((value + 1, value - 1, *INTEGERS))
        case str():
            return rng.choice(IDS if len(value) == 22 else (*TEXTS, value + "x", value[:-1]))
        case dict():
            if names := [name for name in value if name not in BYTES]:
                name = rng.choice(names)
                value[name] = damaged(rng, value[name])
        case [_, *_]:
            at = rng.randrange(len(value))
            match rng.randrange(5):
                case 0:
                    return []
                case 1:
                    return [*value, value[at]]
                case 2:
                    return [*value[:at], *value[at + 1 :]]
                case _:
                    value[at] = damaged(rng, value[at])
    return value


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("release", captured_logs.RELEASES)
def test_no_value_stops_the_audit(release: str, seed: int) -> None:
    rng = random.Random(seed)
    log = captured_logs.entries(release)
    for at in rng.sample(range(len(log)), 25):
        if log[at].value is None:
            continue
        log[at].record["value"]["data"] = damaged(rng, log[at].value)
    for at in sorted(rng.sample(range(len(log)), 5), reverse=True):
        del log[at]
    with bounded_memory():
        tally = captured_logs.audit(log, captured_logs.topics(release))
    assert sum(tally.disagreed.values())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("release", captured_logs.RELEASES)
def test_what_could_not_be_read_is_no_disagreement(release: str, seed: int) -> None:
    _lose_some(captured_logs.entries(release), captured_logs.topics(release), seed)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("capture", SHARE_STREAMS_KEY_TYPES)
def test_nor_in_share_and_streams_groups(capture: str, seed: int) -> None:
    _lose_some(entries_of(DATA / capture / COMMITTED), KnownTopics(), 10 * seed)


def _lose_some(log: list[LogEntry], topics: KnownTopics, number: int) -> None:
    lost = set(random.Random(number).sample(range(len(log)), 1 + number))
    context = AuditContext(Coverage(), topics)
    audits: dict[str, GroupAudit] = {}
    for at, item in enumerate(log):
        audit = audits.setdefault(item.group, GroupAudit(item.partition, item.group, context))
        if at in lost:
            audit.unreadable(item.offset, item.timestamp)
        else:
            audit.add(item)
    tallies = [audit.finish() for audit in audits.values()]
    assert [found for tally in tallies for found in tally.findings] == []
    assert sum(sum(tally.unverifiable.values()) for tally in tallies) > 0


def two_groups() -> pa.RecordBatch:
    """What a task is given: a record each of the groups ``bad`` and ``good``."""
    rows = [
        {
            "group_id": name,
            "partition": 0,
            "offset": at,
            "millis": 0,
            "kind": "consumer_group_metadata",
            "dialect": "shipped",
            "stage": GROUP_RECORDS,
            "key": b"\0\3" + len(name).to_bytes(2, "big") + name.encode(),
            "value": b"\0\0" + (1).to_bytes(4, "big") + b"\0",
        }
        for at, name in enumerate(("bad", "good"))
    ]
    return pa.RecordBatch.from_pylist(rows, AUDIT_ROWS)


def test_rows_that_cannot_be_read_are_no_groups_failure() -> None:
    """The task must fail then: the groups that follow would be missing, and nobody would know."""

    def rows() -> Iterator[pa.RecordBatch]:
        yield two_groups()
        raise OSError("the stream ended")

    with pytest.raises(OSError, match="the stream ended"):
        list(group_task.audit_groups(AuditContext(Coverage(), KnownTopics()))(rows()))


def test_a_failure_of_the_audit_is_one_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of one group run into a failure: a finding says so, and the other is judged."""
    add = group_task.GroupAudit.add

    def refuse(self: Any, item: Any) -> None:
        if item.group == "bad":
            raise ZeroDivisionError("nobody thought of this")
        add(self, item)

    monkeypatch.setattr(group_task.GroupAudit, "add", refuse)
    task = group_task.audit_groups(AuditContext(Coverage(), KnownTopics()))
    lines = [line for batch in task(iter([two_groups()])) for line in batch.to_pylist()]
    failed = [line for line in lines if line["reason"] == group_task.AUDIT_FAILED]
    assert [(line["verdict"], line["check"], line["number"]) for line in failed] == [
        (group_task.UNVERIFIABLE, LOADING, 1)
    ]
    [reported] = [line for line in lines if line["severity"] == WARNING]
    assert (reported["group_id"], reported["offset"], reported["severity"]) == ("bad", 0, WARNING)
    assert "nobody thought of this" in reported["recorded"]
    assert any(line["verdict"] == group_task.VERIFIED for line in lines)
