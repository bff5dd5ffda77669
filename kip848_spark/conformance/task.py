"""The task that judges groups: functions of Arrow batches for Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.conformance.judge import judge
from kip848_spark.conformance.records import NotModelledError, trace_of
from kip848_spark.conformance.words import describe
from kip848_spark.wire.array_types import Int32Array
from kip848_spark.wire.batches import Batches, BatchFunction
from kip848_spark.wire.control_plans import CONTROL_PLAN
from kip848_spark.wire.kafka_json import json_lines
from kip848_spark.wire.offset_gaps import TRANSACTION, find_first_repeat
from kip848_spark.wire.record_stream import decode_batches
from kip848_spark.wire.tables import OFFSET_COMMIT

CONFORMS, DOES_NOT_CONFORM, NOT_JUDGED = "conforms", "does_not_conform", "not_judged"
RECORD, GAP, REPEAT = "record", "gap", "repeat"
_MOST_ALLOWED = 20
"""Records that a verdict lists as allowed, at most."""

ROW = pa.schema(
    {
        "kind": pa.string(),
        "group_id": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "line": pa.binary(),
    }
)
"""What `control_lines` gives. ``kind``: a control record as JSON; or a place in the log: the last
offset of a gap in which control records may be missing, or the first offset from which on the log
cleaner was not at work."""

VERDICT = pa.schema(
    {
        "kind": pa.string(),
        "group_id": pa.string(),
        "partition": pa.int32(),
        "first_offset": pa.int64(),
        "records": pa.int64(),
        "verdict": pa.string(),
        "reason": pa.string(),
        "release": pa.string(),
        "offset": pa.int64(),
        "timestamp": pa.int64(),
        "member_id": pa.string(),
        "recorded": pa.string(),
        "allowed": pa.list_(pa.string()),
    }
)
"""What `judged` gives: a verdict on a group, or a place as in `ROW` (its offset is
``first_offset``). ``timestamp`` is in ms since the epoch."""


def control_lines(starts: Mapping[int, int], groups: frozenset[str] | None) -> BatchFunction:
    """A function from raw records, each partition in offset order, to `ROW`. ``starts``: the first
    offset of each partition. ``groups``: only records of these; None: of all."""

    def run(batches: Batches) -> Batches:
        repeated: set[int] = set()
        for decoded, columns in decode_batches(CONTROL_PLAN.plan, starts, False, batches):
            places = [*_gaps(columns), *_repeats(columns, decoded.key_of, repeated)]
            if places:
                yield pa.RecordBatch.from_pylist(places, schema=ROW)
            wanted = pc.and_(pc.is_valid(columns["kind"]), pc.is_null(columns["error"]))
            wanted = pc.and_(wanted, pc.is_valid(columns["raw_key"]))
            wanted = pc.and_(wanted, pc.not_equal(columns["kind"], OFFSET_COMMIT))
            if groups is not None:
                wanted = pc.and_(wanted, pc.is_in(columns["group_id"], pa.array(sorted(groups))))
            names = ("partition", "offset", "timestamp", "raw_key", "raw_value", "group_id")
            found = pa.table({name: columns[name] for name in names})
            found = found.filter(pc.fill_null(wanted, False)).combine_chunks()
            if found.num_rows:
                yield from _lines(found)

    return run


def _lines(found: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in found.to_batches():
        times = batch.column("timestamp").cast(pa.int64()).fill_null(-1000).to_numpy()
        lines = json_lines(
            CONTROL_PLAN,
            batch.column("partition").to_numpy(),
            batch.column("offset").to_numpy(),
            np.floor_divide(times, 1000),
            batch.column("raw_key"),
            batch.column("raw_value"),
        )
        columns = [
            pa.array([RECORD] * batch.num_rows),
            *(batch.column(name) for name in ("group_id", "partition", "offset")),
            pa.array(list(lines), pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=ROW)


def _gaps(columns: Mapping[str, pa.Array]) -> Iterator[dict[str, Any]]:
    """The last offset of each gap that is no transaction's, and undecodable records."""
    cause, error = columns["gap_cause"], columns["error"]
    missing = pc.fill_null(pc.not_equal(cause, TRANSACTION), False)
    for mask, shift in ((missing, 1), (pc.is_valid(error), 0)):
        found = pa.table({n: columns[n] for n in ("partition", "offset")}).filter(mask)
        for row in found.to_pylist():
            place = {"partition": row["partition"], "offset": row["offset"] - shift}
            yield {"kind": GAP, "group_id": "", **place}


def _repeats(
    columns: Mapping[str, pa.Array], keys: Int32Array, repeated: set[int]
) -> Iterator[dict[str, Any]]:
    """For each partition, the first record whose key occurred before in the batch: the log cleaner
    has not come that far (docs/kafka-facts.md#compaction). ``keys``: a number for each key."""
    partitions = columns["partition"].to_numpy()
    for partition in set(np.unique(partitions).tolist()) - repeated:
        rows = np.flatnonzero(partitions == partition)
        first = find_first_repeat(keys[rows])
        if first < len(rows):
            repeated.add(partition)
            offset = int(columns["offset"][int(rows[first])].as_py())
            yield {"kind": REPEAT, "group_id": "", "partition": partition, "offset": offset}


def judged(release: str | None) -> BatchFunction:
    """A function from `ROW`, sorted by group, partition and offset, to `VERDICT`; ``release``: see
    `judge`."""

    def run(batches: Batches) -> Batches:
        found: list[dict[str, Any]] = []
        for (group, partition, kind), rows in groupby(_rows(batches), itemgetter(0, 1, 2)):
            if kind != RECORD:
                found += [_place(kind, partition, row[3]) for row in rows]
                continue
            lines = [orjson.loads(row[4]) for row in rows]
            found.append(_verdict(group, partition, lines, release))
            if len(found) >= 1_000:
                yield pa.RecordBatch.from_pylist(found, schema=VERDICT)
                found = []
        yield pa.RecordBatch.from_pylist(found, schema=VERDICT)

    return run


def _rows(batches: Batches) -> Iterator[tuple[str, int, str, int, bytes]]:
    for batch in batches:
        names = ("group_id", "partition", "kind", "offset", "line")
        yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def _place(kind: str, partition: int, offset: int) -> dict[str, Any]:
    return {"kind": kind, "group_id": "", "partition": partition, "first_offset": offset}


def _verdict(
    group: str, partition: int, lines: list[dict[str, Any]], release: str | None
) -> dict[str, Any]:
    """The row of a group."""
    row: dict[str, Any] = {
        "kind": RECORD, "group_id": group, "partition": partition,
        "first_offset": lines[0]["offset"], "records": len(lines), "allowed": [],
    }  # fmt: skip
    try:
        trace = trace_of(lines)
    except NotModelledError as why:
        return {**row, "verdict": NOT_JUDGED, "reason": str(why)}
    verdict = judge(trace, release)
    row["release"] = verdict.release
    if verdict.at is None:
        return {**row, "verdict": CONFORMS}
    record = trace.records[verdict.at]
    return {
        **row,
        "verdict": DOES_NOT_CONFORM,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "member_id": record.name or None,
        "recorded": describe(record),
        "allowed": list(dict.fromkeys(map(describe, verdict.allowed)))[:_MOST_ALLOWED],
    }
