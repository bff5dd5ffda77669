"""The state in columns against the reference's, at the end of real logs and in between.

Nothing here expects a value: two programs that share no code must say the same.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import control_entry, log_entry
from kip848_spark.checks.results import Tally
from kip848_spark.checks.state import (
    ASSIGNMENTS,
    GROUPS,
    MEMBERS,
    StateRow,
    state_row,
)
from kip848_spark.checks.state_comparison import compare_rows
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.state.assignments import assignments
from kip848_spark.state.fold import Fold
from kip848_spark.state.groups import groups
from kip848_spark.state.members import members
from tests.audit import raw_records
from tests.audit.captured_logs import CHURNED, MOVING, RELEASES, UPGRADED, topics
from tests.audit.captured_logs import entries as dumped
from tests.audit.raw_records import entry_of
from tests.captures import COMMITTED
from tests.conftest import DATA

PLACE = ("partition", "offset")
TARGET = "target"
LOG_KEY = (*PLACE, "kind", "group_id", "member_id", "regular_expression", "tombstone")


def control_rows(release: str) -> pa.Table:
    """The rows of `group_records` that the codec makes of a capture."""
    return raw_records.control_rows(DATA / f"kafka-{release}" / COMMITTED)


def vectorized(table: pa.Table) -> set[StateRow]:
    """The rows of the state tables, out of columns."""
    found: set[StateRow] = set()
    for partition in sorted(set(table["partition"].to_pylist())):
        fold = Fold()
        fold.add(table.filter(pa.compute.equal(table["partition"], partition)))
        carried = fold.carried()
        if carried is None or not carried.num_rows:
            continue
        own = groups(carried).to_pylist()
        derived: list[tuple[str, list[dict[str, Any]]]] = [
            (GROUPS, own),
            (MEMBERS, members(carried).to_pylist()),
            (ASSIGNMENTS, assignments(carried).to_pylist()),
        ]
        for name, rows in derived:
            found |= {state_row(name, row["group_id"], row) for row in rows}
    return found


def audits_of(known: KnownTopics, table: pa.Table) -> list[GroupAudit]:
    """The finished audits of the groups in a table."""
    audits: dict[str, GroupAudit] = {}
    for row in table.to_pylist():
        item = entry_of(row)
        if item is None:
            continue
        if item.group not in audits:
            context = AuditContext(Coverage(), known)
            audits[item.group] = GroupAudit(item.partition, item.group, context)
        audits[item.group].add(item)
    for audit in audits.values():
        audit.finish()
    return list(audits.values())


def referenced(known: KnownTopics, table: pa.Table) -> set[StateRow]:
    """The same rows by the reference, which reads the same records one by one."""
    return {row for audit in audits_of(known, table) for row in audit.reference.rows()}


@pytest.mark.parametrize("release", RELEASES)
def test_rows_of_group_records_are_the_records_kafka_reads(release: str) -> None:
    rows = control_rows(release).to_pylist()
    reported = {(item.partition, item.offset): item for item in dumped(release)}
    assert len(rows) == len(reported)
    for row in rows:
        item = entry_of(row)
        kafkas = reported[row["partition"], row["offset"]]
        assert item is not None
        assert (item.key, item.group, item.timestamp) == (
            kafkas.key,
            kafkas.group,
            kafkas.timestamp,
        )
        if item.kind in ("3", "6", "7") and item.value is not None:
            assert item.value == {**item.value, **(kafkas.value or {})}


def ends_of_operations(table: pa.Table) -> dict[int, list[int]]:
    """The offsets behind which an operation of each partition ends."""
    rows = table.select(["partition", "offset", "group_id", "timestamp"]).to_pylist()
    ends: dict[int, list[int]] = {}
    for row, after in itertools.pairwise([*rows, None]):
        same = ("partition", "group_id", "timestamp")
        if after is None or any(row[name] != after[name] for name in same):
            ends.setdefault(row["partition"], []).append(row["offset"])
    return ends


@pytest.mark.parametrize("release", RELEASES)
def test_both_say_the_same_at_the_end_and_in_between(release: str) -> None:
    table = control_rows(release)
    assert compared(table, topics(release)) > 500


def compare_by_group(tally: Tally, ours: Iterable[StateRow], theirs: Iterable[StateRow]) -> None:
    """`compare_rows`, group by group, as the workers do it."""
    sides: dict[str, tuple[list[StateRow], list[StateRow]]] = {}
    for side, rows in enumerate((ours, theirs)):
        for row in rows:
            sides.setdefault(row[1], ([], []))[side].append(row)
    for own, other in sides.values():
        compare_rows(tally, own, other)


def compared(table: pa.Table, known: KnownTopics) -> int:
    """Compare at six places of the log; how many rows there were."""
    ends = ends_of_operations(table)
    rows = 0
    for part_of_log in (0.1, 0.3, 0.5, 0.7, 0.9, 1):
        upto = {p: found[round(part_of_log * (len(found) - 1))] for p, found in ends.items()}
        kept = [o <= upto[p] for p, o in zip(*(table[n].to_pylist() for n in PLACE), strict=True)]
        part = table.filter(pa.array(kept))
        ours = vectorized(part)
        theirs = referenced(known, part)
        tally = Tally()
        compare_by_group(tally, ours, theirs)
        assert tally.findings == []
        rows += len(ours)
    return rows


@pytest.mark.parametrize(
    ("capture", "until"),
    [
        ("upgraded-4.2.0-4.3.1-4.2.0", 1795428197076),
        ("upgraded-4.1.2-4.3.1-4.1.2", 1795428087963),
    ],
)
def test_members_with_and_without_assignment_epochs(capture: str, until: int) -> None:
    """During a rolling upgrade, brokers with and without these epochs write to one group. ``until``
    is a time (ms) at which a group has members of both kinds."""
    table = raw_records.control_rows(DATA / capture / COMMITTED)
    part = table.filter(pa.compute.less_equal(table["timestamp"].cast(pa.int64()), until * 1000))
    ours = vectorized(part)
    given = {(row[1], row[-1] is None) for row in ours if row[0] == ASSIGNMENTS if row[3] != TARGET}
    assert any({(group, False), (group, True)} <= given for group, _ in given)
    tally = Tally()
    compare_by_group(tally, ours, referenced(KnownTopics(), part))
    assert tally.findings == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "capture", [*(f"kafka-{r}" for r in RELEASES), *CHURNED, *MOVING, *UPGRADED]
)
def test_both_say_the_same_wherever_the_log_ends_or_was_cleaned(capture: str, seed: int) -> None:
    """A broker may refuse a log that the cleaner is at work on; there is nothing to compare then,
    and it does not happen often."""
    table = raw_records.control_rows(DATA / capture / COMMITTED)
    rng = random.Random(seed)
    log = list(zip(*(table[name].to_pylist() for name in LOG_KEY), strict=True))
    ends: dict[int, int] = {}
    for partition, offset, *_ in log:
        ends[partition] = max(offset, ends.get(partition, 0))
    upto = {partition: rng.randint(0, end) for partition, end in ends.items()}
    if seed % 3 == 0:
        kept = [row[1] <= upto[row[0]] for row in log]
    else:
        last = {(row[0], *row[2:6]): row[1] for row in log if row[1] < upto[row[0]]}
        kept = [
            row[1] >= upto[row[0]]
            or (last[(row[0], *row[2:6])] == row[1] and (seed % 3 == 1 or not row[6]))
            for row in log
        ]
    part = table.filter(pa.array(kept))
    theirs, refused = [], set()
    for audit in audits_of(KnownTopics(), part):
        if audit.reference.fault is not None:
            refused.add(audit.group_id)
        theirs += audit.reference.rows()
    tally = Tally()
    ours = [row for row in vectorized(part) if row[1] not in refused]
    compare_by_group(tally, ours, theirs)
    assert tally.findings == []
    assert len(refused) <= 5


def test_an_entry_is_the_same_from_either_source() -> None:
    record = {"key": {"type": "8", "data": {"groupId": "g", "memberId": "m"}}, "value": None}
    kind = "consumer_group_current_member_assignment"
    assert control_entry((1, 2, 3), kind, "g", "m", None, None) == log_entry(1, 2, 3, record)
