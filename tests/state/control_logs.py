"""Control rows of logs for tests of the history, and what a plain replay says about them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kip848_spark.state import kinds
from kip848_spark.state.assignments import assignments
from kip848_spark.state.fold import ControlChunk, Fold
from kip848_spark.state.folded_rows import CONTROL_STATE_FIELDS
from kip848_spark.state.groups import groups
from kip848_spark.state.history import HISTORY_FIELDS, HistoryFold
from kip848_spark.state.history_fields import INTERVAL_FIELDS
from kip848_spark.state.members import members
from kip848_spark.state.partition_fold import CARRY, pack_carry, unpack_carry
from kip848_spark.wire.control import control_columns
from kip848_spark.wire.control_plans import CONTROL_FIELDS, CONTROL_PLAN
from kip848_spark.wire.offset_gaps import TRANSACTION
from kip848_spark.wire.record_stream import decode_batches
from kip848_spark.wire.tables import TIMESTAMP

DERIVED = {"group_history": groups, "member_history": members, "assignment_history": assignments}
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        *CONTROL_FIELDS.items(),
    ]
)
CONTROL_STATE_SCHEMA = pa.schema(list(CONTROL_STATE_FIELDS.items()))
Counts = dict[str, Counter[str]]
"""Rows of the history tables' state columns, by table, as JSON, and how often each occurs."""


def read_logs(path: Path, starts: Mapping[int, int] | None = None) -> dict[int, pa.Table]:
    """The rows that a replay is given for each partition of a capture's file: control records, a
    row for each commit, and gaps that are no transaction. Reading began at ``starts`` (or at 0)."""
    return logs_of(pq.read_table(path), starts)


def logs_of(capture: pa.Table, starts: Mapping[int, int] | None = None) -> dict[int, pa.Table]:
    """The same for the raw records of a capture."""
    capture = capture.sort_by([("partition", "ascending"), ("offset", "ascending")])
    columns = ["partition", "offset", "timestamp", "key", "value"]
    capture = capture.select(columns).combine_chunks()
    capture = capture.set_column(2, "timestamp", capture["timestamp"].cast(TIMESTAMP))
    if starts is None:
        starts = dict.fromkeys(pc.unique(capture["partition"]).to_pylist(), 0)
    parts = []
    for (_, decoded), raw in zip(
        decode_batches(CONTROL_PLAN.plan, starts, False, iter(capture.to_batches())),
        capture.to_batches(),
        strict=True,
    ):
        parts.append(_rows_of(pa.table(decoded), pa.table(raw)))
    rows = pa.concat_tables(parts).sort_by([("partition", "ascending"), ("offset", "ascending")])
    return {
        partition: rows.filter(pc.field("partition") == partition).combine_chunks()
        for partition in pc.unique(rows["partition"]).to_pylist()
    }


def _rows_of(decoded: pa.Table, raw: pa.Table) -> pa.Table:
    is_commit = pc.equal(decoded["kind"], kinds.COMMIT).fill_null(False)
    good = pc.is_null(decoded["error"])
    control = pc.and_(good, pc.and_(pc.is_valid(decoded["kind"]), pc.invert(is_commit)))
    records = raw.filter(control).combine_chunks()
    keys, values = (records[name].combine_chunks() for name in ("key", "value"))
    columns = {name: records[name] for name in ("partition", "offset", "timestamp")}
    columns |= control_columns(CONTROL_PLAN, CONTROL_FIELDS, keys, values)
    commits = decoded.filter(pc.and_(is_commit, pc.invert(decoded["tombstone"])))
    gap = pc.and_(
        pc.is_valid(decoded["gap_cause"]), pc.not_equal(decoded["gap_cause"], TRANSACTION)
    )
    before = decoded.filter(gap.fill_null(False))
    return pa.concat_tables(
        [
            pa.table(columns).cast(SCHEMA),
            fill(
                {
                    **{name: commits[name] for name in ("partition", "offset", "timestamp")},
                    "kind": [kinds.COMMIT] * commits.num_rows,
                    "group_id": commits["group_id"],
                },
                commits.num_rows,
            ),
            fill(
                {
                    "partition": before["partition"],
                    "offset": pc.subtract(before["offset"], 1),
                    "kind": [kinds.GAP] * before.num_rows,
                },
                before.num_rows,
            ),
        ]
    )


def fill(columns: Mapping[str, Any], count: int) -> pa.Table:
    """A table of control rows; columns that are not given are null."""
    columns = {"tombstone": [False] * count, **columns}
    return pa.table(
        [
            pa.chunked_array(columns[f.name]).cast(f.type)
            if isinstance(columns.get(f.name), pa.ChunkedArray)
            else pa.array(columns[f.name], f.type)
            if f.name in columns
            else pa.nulls(count, f.type)
            for f in SCHEMA
        ],
        schema=SCHEMA,
    )


def history_of(
    log: pa.Table, cuts: Sequence[int] = (), runs: Iterable[int] = ()
) -> dict[str, pa.Table]:
    """All rows of the history of a partition. The log is folded in chunks that end at the row
    numbers ``cuts``; at those of ``runs`` the run ends, and its state is stored."""
    rows: dict[str, list[pa.Table]] = {name: [] for name in HISTORY_FIELDS}
    fold, history = Fold(), HistoryFold({0: {}})
    last = -1
    bounds = sorted({0, *(min(at, log.num_rows) for at in (*cuts, *runs)), log.num_rows})
    for start, end in pairwise(bounds):
        part = log.slice(start, end - start)
        last = part["offset"][-1].as_py()
        _collect(rows, history, fold.add(part))
        _collect(rows, history, fold.settle())
        if end in runs:
            stored = pack_carry({"h": history.carries()[0]}, CONTROL_STATE_SCHEMA, 0)
            fold, history = Fold(fold.carried(), last), HistoryFold({0: unpack_carry(stored)["h"]})
    _collect(rows, history, fold.settle())
    for name, table in history.finish(fold.carried()).items():
        rows[name].append(table)
    return {name: pa.concat_tables(tables) for name, tables in rows.items()}


def _collect(
    rows: dict[str, list[pa.Table]], history: HistoryFold, chunk: ControlChunk | None
) -> None:
    if chunk is not None:
        for name, table in history.add(chunk).items():
            rows[name].append(table)


def carry_rows(stored: pa.Table) -> dict[int, Counts]:
    """The rows of each table of the carries in rows of `control_state`, by partition."""
    carry = stored.filter(pc.equal(stored["kind"], CARRY))
    return {
        partition: {
            f"{fold}/{name}": _counts(table, set())
            for fold, tables in unpack_carry(
                carry.filter(pc.equal(carry["partition"], partition))
            ).items()
            for name, table in tables.items()
        }
        for partition in pc.unique(carry["partition"]).to_pylist()
    }


def all_rows(history: Mapping[str, pa.Table]) -> Counts:
    """Every row with its interval."""
    return {name: _counts(table, set()) for name, table in history.items()}


def at_offset(history: Mapping[str, pa.Table], offset: int) -> Counts:
    """The rows that were true after the record at ``offset``."""
    ended = pc.field("to_offset").is_null() | (pc.field("to_offset") > offset)
    return _valid(history, (pc.field("from_offset") <= offset) & ended)


def at_time(history: Mapping[str, pa.Table], time: datetime) -> Counts:
    """The rows that were true at ``time``."""
    moment = pa.scalar(time, TIMESTAMP)
    ended = pc.field("valid_to").is_null() | (pc.field("valid_to") > moment)
    return _valid(history, (pc.field("valid_from") <= moment) & ended)


def open_rows(history: Mapping[str, pa.Table]) -> Counts:
    """The rows that are still true."""
    return _valid(history, pc.field("to_offset").is_null())


def unseen_ends(history: Mapping[str, pa.Table]) -> Counts:
    """The rows whose true end was not seen."""
    return _valid(history, pc.field("known_to").is_valid())


def _valid(history: Mapping[str, pa.Table], condition: pc.Expression) -> Counts:
    interval = set(INTERVAL_FIELDS)
    return {name: _counts(table.filter(condition), interval) for name, table in history.items()}


def replayed(log: pa.Table, upto: int) -> Counts:
    """The state after the first ``upto`` rows of a log, by a fold of these rows alone."""
    fold = Fold()
    fold.add(log.slice(0, upto))
    carried = fold.carried()
    if carried is None:
        return {name: Counter() for name in DERIVED}
    newest = {"last_offset", "updated_at"}
    return {name: _counts(derive(carried), newest) for name, derive in DERIVED.items()}


def _counts(table: pa.Table, without: set[str]) -> Counter[str]:
    names = [name for name in table.column_names if name not in without]
    return Counter(
        json.dumps(row, default=str, sort_keys=True) for row in table.select(names).to_pylist()
    )


def times_of(log: pa.Table) -> list[datetime | None]:
    """The time of each row, record by record: the latest timestamp so far. A commit counts if it
    creates a group."""
    existing: dict[str, set[Any]] = {}
    times: list[datetime | None] = []
    now: datetime | None = None
    columns = ["timestamp", "kind", "group_id", "member_id", "regular_expression", "tombstone"]
    for row in log.select(columns).to_pylist():
        kind = row["kind"]
        if kind == kinds.GAP:
            times.append(now)
            continue
        records = existing.setdefault(row["group_id"], set())
        counts = kind != kinds.COMMIT or not records
        _replay(records, row)
        if counts and row["timestamp"] is not None:
            now = row["timestamp"] if now is None else max(now, row["timestamp"])
        times.append(now)
    return times


def _replay(records: set[Any], row: Mapping[str, Any]) -> None:
    """Applies a record to the keys that its group has."""
    kind, dead, member = row["kind"], row["tombstone"], row["member_id"]
    if kind == kinds.CLASSIC or (kind in kinds.GROUP_EPOCHS and dead):
        records.clear()
    if kind in kinds.MEMBERS and dead:
        for current in kinds.CURRENTS:
            records.discard((current, member, None))
    key = kind, member, row["regular_expression"]
    if dead:
        records.discard(key)
    else:
        records.add(key)


def sample_rows(log: pa.Table, most: int, seed: int = 7) -> list[int]:
    """Up to ``most`` numbers of rows, the last one among them."""
    count = log.num_rows
    if count <= most:
        return list(range(count))
    chosen = np.random.default_rng(seed).choice(count, most - 1, replace=False).tolist()
    return sorted({*chosen, count - 1})
