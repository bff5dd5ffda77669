"""The state of share and streams groups in columns against the reference's: at the end of real
logs, cut anywhere, and cleaned up to anywhere. Two programs that share no code must say the same.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip848_spark.checks import release as releases
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import SHARE_STREAMS_KEY_TYPES, LogEntry, log_entry
from kip848_spark.checks.results import Tally
from kip848_spark.checks.state import GROUPS, Reference, StateRow, named_values
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator import records
from tests.audit import raw_records
from tests.audit.test_state import LOG_KEY, audits_of, compare_by_group, vectorized
from tests.captures import COMMITTED
from tests.conftest import DATA

TYPES = {"share", "streams"}
CAPTURES = sorted(
    path.name for kind in ("shares", "streams", "others") for path in DATA.glob(f"{kind}-*")
)

MOMENTS = 40
"""So many of a group's first records are compared one by one."""
SOME = 3
"""Of this many groups, one is compared: a second of Python for a thousand records."""


def records_of(capture: str) -> pa.Table:
    """The control records of some share and streams groups of a capture."""
    table = raw_records.control_rows(DATA / capture / COMMITTED)
    kinds, groups = table["kind"].to_pylist(), table["group_id"].to_pylist()
    newer = [kind.startswith(("share_group", "streams_group")) for kind in kinds]
    some = sorted({group for group, mine in zip(groups, newer, strict=True) if mine})[::SOME]
    kept = [mine and group in some for group, mine in zip(groups, newer, strict=True)]
    return table.filter(pa.array(kept))


def replayed(entries: Iterable[LogEntry]) -> list[StateRow]:
    """The rows of the reference."""
    groups: dict[str, Reference] = {}
    for entry in entries:
        assert entry.kind in SHARE_STREAMS_KEY_TYPES
        found = groups.setdefault(entry.group, Reference(entry.group, releases.candidates(None)))
        found.defer(entry)
    rows = [row for reference in groups.values() for row in reference.rows()]
    assert not any(reference.fault for reference in groups.values())
    return rows


def entries_of(table: pa.Table) -> list[LogEntry]:
    found = (raw_records.entry_of(row) for row in table.to_pylist())
    return [entry for entry in found if entry is not None]


def cut(table: pa.Table, seed: int) -> pa.Table:
    """The whole log, a part of it, or the log as the cleaner left it (with tombstones or without)
    up to some offset."""
    rng, way = random.Random(seed), seed % 4
    log = list(zip(*(table[name].to_pylist() for name in LOG_KEY), strict=True))
    upto = {partition: rng.randint(0, max(row[1] for row in log)) for partition, *_ in log}
    if way == 0:
        return table
    if way == 1:
        return table.filter(pa.array([row[1] <= upto[row[0]] for row in log]))
    last = {(row[0], *row[2:6]): row[1] for row in log if row[1] < upto[row[0]]}
    kept = [
        row[1] >= upto[row[0]] or (last[(row[0], *row[2:6])] == row[1] and (way == 2 or not row[6]))
        for row in log
    ]
    return table.filter(pa.array(kept))


@pytest.mark.parametrize("capture", CAPTURES)
def test_both_say_the_same_wherever_the_log_ends_or_was_cleaned(capture: str) -> None:
    table = records_of(capture)
    for seed in range(4):
        part = cut(table, seed)
        ours, tally = vectorized(part), Tally()
        compare_by_group(tally, ours, replayed(entries_of(part)))
        assert tally.findings == [], seed
        if seed == 0:
            assert {named_values(row)["type"] for row in ours if row[0] == GROUPS} <= TYPES
            assert len(ours) > 0


def test_the_audit_replays_them_too() -> None:
    table = records_of("streams-4.3.1")
    ours, tally = vectorized(table), Tally()
    theirs = [row for audit in audits_of(KnownTopics(), table) for row in audit.reference.rows()]
    compare_by_group(tally, ours, theirs)
    assert tally.findings == []
    assert tally.verified.total() == len(ours)


@pytest.mark.parametrize("capture", ["shares-4.2.2", "streams-4.2.2", "streams-4.3.1"])
def test_each_moment_of_a_group_is_compared_before_the_next_record(capture: str) -> None:
    """Also between the records of one operation: the group epoch is there, its target's is not."""
    table = records_of(capture)
    entries = entries_of(table)
    name = entries[0].group
    table = table.filter(pc.equal(table["group_id"], name))
    entries = [entry for entry in entries if entry.group == name][:MOMENTS]
    for number, newest in enumerate(entries[1:], 1):
        group, early = Reference(name, releases.candidates(None)), Tally()
        for entry in entries[: number + 1]:
            group.defer(entry)
        mine = vectorized(table.slice(0, number))
        compare_by_group(early, mine, group.rows(newest.offset))
        assert early.findings == [], number
        assert early.verified.total() == len(mine)


@pytest.mark.parametrize("capture", ["shares-4.3.1", "streams-4.3.1"])
def test_a_deleted_consumer_group_of_the_same_name(capture: str) -> None:
    """Its tombstones are replayed before the records of the new group, at any offset."""
    entries = entries_of(records_of(capture))
    entries = [entry for entry in entries if entry.group == entries[0].group][:MOMENTS]
    name, first = entries[0].group, entries[0]
    group = {"groupId": name}
    before = [
        records.record("3", 0, group, {"epoch": 1}),
        records.record("6", 0, group, {"assignmentEpoch": 1}),
        records.tombstone("6", **group),
        records.tombstone("3", **group),
    ]
    deleted = [
        log_entry(first.partition, first.offset - 4 + n, first.timestamp - 4000 + n // 2, one)
        for n, one in enumerate(before)
    ]
    context = AuditContext(Coverage.of((), {}), KnownTopics())
    for number in range(1, len(entries)):
        audit = GroupAudit(first.partition, name, context)
        for entry in [*deleted, *entries[: number + 1]]:
            audit.add(entry)
        rows = audit.reference.rows(entries[number].offset)
        assert [row[2] in TYPES for row in rows if row[0] == GROUPS] == [True]
        assert audit.reference.fault is None


def test_a_wrong_row_is_found() -> None:
    table = records_of("shares-4.3.1")
    number, lost = next(
        (number, entry)
        for number, entry in enumerate(entries_of(table))
        if entry.kind == "14" and entry.value is not None
    )
    table = table.slice(0, number + 1)
    entries = entries_of(table)
    value = {**(lost.value or {}), "memberEpoch": 999}
    wrong = lost._replace(
        value=value, record={**lost.record, "value": {"version": "0", "data": value}}
    )
    tally = Tally()
    theirs = replayed([*entries[:-1], wrong])
    compare_by_group(tally, vectorized(table), theirs)
    (finding,) = tally.findings
    assert (finding.reason, finding.group_id) == ("row_differs", lost.group)
    assert dataclasses.asdict(finding)["member_id"] == lost.member
