"""The state in columns against the reference's, at the end of real logs and in between.

Nothing here expects a value: two programs that share no code must say the same.
"""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from kip848_spark.audit.coverage import Coverage
from kip848_spark.audit.entries import entry, from_row
from kip848_spark.audit.group import GroupAudit
from kip848_spark.audit.settings import Settings
from kip848_spark.audit.state import (
    ASSIGNMENTS,
    GROUPS,
    JUDGED_TYPES,
    MEMBERS,
    StateRow,
    state_row,
)
from kip848_spark.audit.topics import KnownTopics
from kip848_spark.replay.assignments import assignments
from kip848_spark.replay.fold import Fold
from kip848_spark.replay.groups import groups
from kip848_spark.replay.members import members
from tests.audit import raw
from tests.audit.logs import RELEASES, topics
from tests.audit.logs import entries as dumped
from tests.captures import COMMITTED
from tests.conftest import DATA

PLACE = ("partition", "offset")


def control_rows(release: str) -> pa.Table:
    """The rows of `group_records` that the codec makes of a capture."""
    return raw.control_rows(DATA / f"kafka-{release}" / COMMITTED)


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
        judged = {row["group_id"] for row in own if row["type"] in JUDGED_TYPES}
        derived: list[tuple[str, list[dict[str, Any]]]] = [
            (GROUPS, own),
            (MEMBERS, members(carried).to_pylist()),
            (ASSIGNMENTS, assignments(carried).to_pylist()),
        ]
        for name, rows in derived:
            found |= {state_row(name, row) for row in rows if row["group_id"] in judged}
    return found


def referenced(known: KnownTopics, table: pa.Table) -> set[StateRow]:
    """The same rows by the reference, which reads the same records one by one."""
    audits: dict[str, GroupAudit] = {}
    for row in table.to_pylist():
        item = from_row(row, round(row["timestamp"].timestamp() * 1000))
        if item is None:
            continue
        if item.group not in audits:
            settings = Settings(Coverage(), known)
            audits[item.group] = GroupAudit(item.partition, item.group, settings)
        audits[item.group].add(item)
    found: set[StateRow] = set()
    for audit in audits.values():
        audit.finish()
        assert audit.reference.fault is None
        found |= set(audit.reference.rows())
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_rows_of_group_records_are_the_records_kafka_reads(release: str) -> None:
    rows = control_rows(release).to_pylist()
    told = {(item.partition, item.offset): item for item in dumped(release)}
    assert len(rows) == len(told)
    for row in rows:
        item = from_row(row, round(row["timestamp"].timestamp() * 1000))
        kafkas = told[row["partition"], row["offset"]]
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
        assert sorted(map(str, ours - theirs)) == []
        assert sorted(map(str, theirs - ours)) == []
        rows += len(ours)
    return rows


def test_an_entry_is_the_same_from_either_source() -> None:
    record = {"key": {"type": "8", "data": {"groupId": "g", "memberId": "m"}}, "value": None}
    row = {
        "kind": "consumer_group_current_member_assignment",
        "group_id": "g",
        "member_id": "m",
        "regular_expression": None,
        "tombstone": True,
        "partition": 1,
        "offset": 2,
    }
    assert from_row(row, 3) == entry(1, 2, 3, record)
