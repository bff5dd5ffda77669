"""Ingest where the Python workers write the tables' files themselves: one job, three tables.

A worker decodes a batch, writes its rows of `records`, `group_records` and `gaps`, and counts. All
that goes back to the driver is a report: which files there are, and what became of the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.spark.decoding import PLACE, Columns, read
from kip848_spark.spark.files import FILE, Target, writers
from kip848_spark.spark.workers import Batches, Function
from kip848_spark.wire.control import ControlPlan, control_columns
from kip848_spark.wire.decode import Decoded, Plan
from kip848_spark.wire.faults import Reason, Rows
from kip848_spark.wire.tables import OFFSET_COMMIT, kind_column, row_types

WRITTEN = ("records", "group_records", "gaps")
"""The tables whose files the workers write."""

TALLY = pa.struct(
    {
        "partition": pa.int32(),
        "kind": pa.string(),
        "tombstone": pa.bool_(),
        "reason": pa.string(),
        "records": pa.int64(),
        "tags": pa.int64(),
        "last": pa.int64(),
    }
)
"""How many records of a partition were of a kind, tombstones or not, and unreadable for a reason
or not; their unknown tags, and the last of their offsets."""
REPORT = pa.schema({"file": FILE, "tally": TALLY})
"""A row tells of a file, or of a number of records."""

_SAME = ("partition", "type", "tombstone", "reason")
_SUMS = [("records", "sum"), ("tags", "sum"), ("last", "max")]


def records_writer(
    plan: ControlPlan,
    fields: Mapping[str, pa.DataType],
    starts: Mapping[int, int],
    targets: Sequence[Target],
    keep_commits_raw: bool = False,
) -> Function:
    """Raw records to files of the tables `WRITTEN`, and a `REPORT` of them.

    ``fields`` are the columns of control records, ``starts`` the partitions' first offsets.
    """
    commits = [key for key, record in plan.plan.records.items() if record.kind == OFFSET_COMMIT]

    def run(batches: Batches) -> Batches:
        tally: list[pa.Table] = []
        with writers(targets) as tables:
            for decoded, columns in read(plan.plan, starts, keep_commits_raw, batches):
                tables["records"].write(columns)
                types = row_types(decoded)
                control = np.flatnonzero(~np.isin(types, commits) & (decoded.reason == 0))
                if len(control):
                    tables["group_records"].write(_control(plan, fields, columns, control))
                tables["gaps"].write(_gaps(columns))
                tally.append(_tally(decoded, columns, types))
            files = [asdict(file) for writer in tables.values() for file in writer.close()]
        report = [{"file": file} for file in files]
        report += [{"tally": row} for row in _told(plan.plan, tally)]
        if report:
            yield pa.RecordBatch.from_pylist(report, schema=REPORT)

    return run


def _control(
    plan: ControlPlan, fields: Mapping[str, pa.DataType], columns: Columns, rows: Rows
) -> Columns:
    taken = {name: columns[name].take(pa.array(rows)) for name in (*PLACE, "raw_key", "raw_value")}
    wide = control_columns(plan, fields, taken.pop("raw_key"), taken.pop("raw_value"))
    return taken | wide


def _gaps(columns: Columns) -> Columns:
    missing = columns["missing_before"]
    rows = pc.indices_nonzero(missing.is_valid())
    offset, missing = columns["offset"].take(rows), missing.take(rows)
    return {
        "partition": columns["partition"].take(rows),
        "first_offset": pc.subtract(offset, missing),
        "last_offset": pc.subtract(offset, 1),
        "cause": columns["gap_cause"].take(rows),
    }


def _tally(decoded: Decoded, columns: Columns, types: npt.NDArray[np.int32]) -> pa.Table:
    counted = pa.table(
        {
            "partition": columns["partition"],
            "type": pa.array(types),
            "tombstone": pa.array(decoded.tombstone),
            "reason": pa.array(decoded.reason),
            "records": pa.repeat(pa.scalar(1), decoded.count),
            "tags": columns["unknown_tags"],
            "last": columns["offset"],
        }
    )
    return _summed(counted)


def _summed(counted: pa.Table) -> pa.Table:
    summed = counted.group_by(_SAME, use_threads=False).aggregate(_SUMS)
    return summed.rename_columns([*_SAME, *(name for name, _ in _SUMS)])


def _told(plan: Plan, tally: Sequence[pa.Table]) -> list[dict[str, object]]:
    if not tally:
        return []
    summed = _summed(pa.concat_tables(tally))
    kinds = kind_column(plan, summed["type"].to_numpy())
    told = []
    for row, kind in zip(summed.to_pylist(), kinds.to_pylist(), strict=True):
        reason = Reason(row["reason"])
        row |= {"kind": kind, "reason": reason.text if reason else None}
        del row["type"]
        told.append(row)
    return told
