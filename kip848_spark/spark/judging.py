"""The functions of an audit that run in Spark's Python workers: rows in, verdicts out.

A task gets whole groups, one after the other, each in the order of its offsets, and holds the
state of one group at a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.audit.entries import KINDS, Entry, entry, from_row
from kip848_spark.audit.group import GroupAudit
from kip848_spark.audit.results import STATE, Tally
from kip848_spark.audit.settings import Settings
from kip848_spark.audit.state import StateRow, state_row
from kip848_spark.coordinator.records import OFFSET, record
from kip848_spark.replay import kinds
from kip848_spark.wire.tables import TIMESTAMP

Batches = Iterator[pa.RecordBatch]

VERIFIED, UNVERIFIABLE, DISAGREED, NOTE, FINDING, ROW, REFUSED = (
    "verified", "unverifiable", "disagreed", "note", "finding", "row", "refused",
)  # fmt: skip

VERDICT = pa.schema(
    [
        ("verdict", pa.string()),
        ("check", pa.string()),
        ("reason", pa.string()),
        ("number", pa.int64()),
        ("severity", pa.string()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("expected", pa.string()),
        ("recorded", pa.string()),
        ("explanation", pa.string()),
    ]
)
"""One line of what a worker says: a count, a finding, or a row of the reference's state (its table
in ``check``, its key in ``expected``, its columns in ``recorded``)."""

STATE_ROW = pa.schema(
    [("table", pa.string()), ("group_id", pa.string()), ("key", pa.string()), ("row", pa.string())]
)
_PLACE = ("partition", "offset", "timestamp", "kind", "group_id", "member_id")
_MOST_LINES = 4096


def judge(settings: Settings) -> Callable[[Batches], Batches]:
    """Rows of `group_records` (and of commits that make a group), sorted by group and offset, to
    lines of `VERDICT`."""

    def run(batches: Batches) -> Batches:
        lines: list[dict[str, Any]] = []
        tally = Tally()
        for one in _groups(batches, settings):
            found = one.finish()
            lines += _group_lines(one, found)
            tally.add(dataclasses.replace(found, findings=[]))
            if len(lines) >= _MOST_LINES:
                yield pa.RecordBatch.from_pylist(lines, schema=VERDICT)
                lines = []
        lines += _counts(tally)
        yield pa.RecordBatch.from_pylist(lines, schema=VERDICT)

    return run


def _groups(batches: Batches, settings: Settings) -> Iterator[GroupAudit]:
    """The audits of the groups in ``batches``, one at a time, all their records added."""
    current: GroupAudit | None = None
    for item in _entries(batches):
        if current is None or (current.partition, current.group_id) != (item.partition, item.group):
            if current is not None:
                yield current
            current = GroupAudit(item.partition, item.group, settings)
        if item.kind == OFFSET:
            current.commit(item)
        else:
            current.add(item)
    if current is not None:
        yield current


def _entries(batches: Batches) -> Iterator[Entry]:
    for batch in batches:
        names = batch.schema.names
        base = batch.select([*_PLACE, "regular_expression", "tombstone"])
        millis = batch.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        kind = batch.column("kind")
        values: dict[int, Any] = {}
        for name in KINDS:
            if name in names:
                rows = pc.indices_nonzero(pc.equal(kind, name))
                column = batch.column(name).take(rows)
                values |= dict(zip(rows.to_pylist(), column.to_pylist(), strict=True))
        for index, (row, at) in enumerate(zip(base.to_pylist(), millis.to_pylist(), strict=True)):
            if row["kind"] == kinds.COMMIT:
                yield _commit(row, at)
                continue
            item = from_row({**row, row["kind"]: values.get(index)}, at)
            if item is not None:
                yield item


def _commit(row: dict[str, Any], at: int) -> Entry:
    """A commit, as far as it matters to a group: it makes a simple one where there is none."""
    key = {"group": row["group_id"], "topic": "", "partition": 0}
    value = {"offset": 0, "metadata": "", "commitTimestamp": at}
    return entry(row["partition"], row["offset"], at, record(OFFSET, 3, key, value))


def _group_lines(one: GroupAudit, tally: Tally) -> Iterator[dict[str, Any]]:
    for finding in tally.findings:
        line = dataclasses.asdict(finding)
        line["timestamp"] *= 1000
        yield {"verdict": FINDING, **line}
    group = {"group_id": one.group_id}
    if one.reference.fault is not None:
        yield {"verdict": REFUSED, "check": STATE, "reason": one.reference.fault, **group}
    for row in one.reference.rows():
        yield {
            "verdict": ROW, "check": row.table, "expected": row.key, "recorded": row.row, **group,
        }  # fmt: skip


def _counts(tally: Tally) -> Iterator[dict[str, Any]]:
    for check, number in tally.verified.items():
        yield {"verdict": VERIFIED, "check": check, "number": number}
    for check, number in tally.disagreed.items():
        yield {"verdict": DISAGREED, "check": check, "number": number}
    for (check, reason), number in tally.unverifiable.items():
        yield {"verdict": UNVERIFIABLE, "check": check, "reason": reason, "number": number}
    for (check, reason), number in tally.notes.items():
        yield {"verdict": NOTE, "check": check, "reason": reason, "number": number}


def state_rows(table: str) -> Callable[[Batches], Batches]:
    """Rows of a state table to rows of `STATE_ROW`."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            yield pa.RecordBatch.from_pylist(_plain(table, batch.to_pylist()), schema=STATE_ROW)

    return run


def _plain(table: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[StateRow] = [state_row(table, row) for row in rows]
    return [dataclasses.asdict(row) for row in found]
