"""Writes raw records as rows of `records`, `group_records`, `gaps` and `commit_summaries`, in one
pass.

Spark's Python workers do this, and report a summary of their records to the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.commit_summary import CommitSummary
from kip848_spark.lake.arrow_files import RowWriter
from kip848_spark.wire.array_types import Int64Array
from kip848_spark.wire.batches import Batches
from kip848_spark.wire.control import ControlPlan, control_columns
from kip848_spark.wire.control_plans import CONTROL_FIELDS
from kip848_spark.wire.decode import Decoded, DecodePlan
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.record_stream import POSITION_FIELDS, Columns, decode_batches
from kip848_spark.wire.tables import OFFSET_COMMIT, kind_column, row_types

RECORD_TABLES = ("records", "group_records", "gaps", "commit_summaries")
"""The tables that one pass over the source writes."""

_TALLY_KEY = ("partition", "type", "tombstone", "reason")
_SUMS = [("records", "sum"), ("tags", "sum"), ("last", "max")]


def write_records(
    plan: ControlPlan,
    starts: Mapping[int, int],
    batches: Batches,
    writers: Mapping[str, RowWriter],
    keep_commits_raw: bool = False,
    splits: Mapping[int, Sequence[int]] | None = None,
    resumed: Mapping[int, bool] | None = None,
) -> list[dict[str, object]]:
    """Decodes raw records (see `decode_batches`) and writes rows of `RECORD_TABLES`.

    ``starts`` has the first offset of each partition. ``splits`` and ``resumed``: see `GapFinder`.

    Returns a row for each ``partition``, ``kind``, ``tombstone`` (true or false) and ``reason`` why
    records could not be decoded (None if they were): the number of ``records``, the number of their
    unknown ``tags``, and the ``last`` offset.
    """
    commits = [key for key, record in plan.plan.records.items() if record.kind == OFFSET_COMMIT]
    tally: list[pa.Table] = []
    summary = CommitSummary(writers["commit_summaries"].write)
    for decoded, columns in decode_batches(
        plan.plan, starts, keep_commits_raw, batches, splits, resumed
    ):
        not_inferred = {"inferred": pa.nulls(decoded.count, pa.bool_())}
        writers["records"].write({**columns, **not_inferred})
        types = row_types(decoded)
        is_commit, read = np.isin(types, commits), decoded.reason == 0
        control = np.flatnonzero(~is_commit & read)
        if len(control):
            writers["group_records"].write(_control_rows(plan, columns, control))
        committed = np.flatnonzero(is_commit & read)
        # A key type is a part of the encoded key, and no part of what is committed for.
        one_type = len(np.intersect1d(decoded.key_types, commits)) == 1
        summary.add(columns, committed, decoded.key_of[committed] if one_type else None)
        writers["gaps"].write(_gap_rows(columns))
        tally.append(_tally_batch(decoded, columns, types))
    summary.finish()
    return _report_rows(plan.plan, tally)


def _control_rows(plan: ControlPlan, columns: Columns, rows: Int64Array) -> Columns:
    taken = {
        name: columns[name].take(pa.array(rows))
        for name in (*POSITION_FIELDS, "raw_key", "raw_value")
    }
    wide = control_columns(plan, CONTROL_FIELDS, taken.pop("raw_key"), taken.pop("raw_value"))
    return taken | wide


def _gap_rows(columns: Columns) -> Columns:
    missing = columns["missing_before"]
    rows = pc.indices_nonzero(missing.is_valid())
    offset, missing = columns["offset"].take(rows), missing.take(rows)
    return {
        "partition": columns["partition"].take(rows),
        "first_offset": pc.subtract(offset, missing),
        "last_offset": pc.subtract(offset, 1),
        "cause": columns["gap_cause"].take(rows),
    }


def _tally_batch(decoded: Decoded, columns: Columns, types: npt.NDArray[np.int32]) -> pa.Table:
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
    return _sum_tally(counted)


def _sum_tally(counted: pa.Table) -> pa.Table:
    summed = counted.group_by(_TALLY_KEY, use_threads=False).aggregate(_SUMS)
    return summed.rename_columns([*_TALLY_KEY, *(name for name, _ in _SUMS)])


def _report_rows(plan: DecodePlan, tally: Sequence[pa.Table]) -> list[dict[str, object]]:
    if not tally:
        return []
    summed = _sum_tally(pa.concat_tables(tally))
    kinds = kind_column(plan, summed["type"].to_numpy())
    summary: list[dict[str, object]] = []
    for row, kind in zip(summed.to_pylist(), kinds.to_pylist(), strict=True):
        reason = Reason(row["reason"])
        row |= {"kind": kind, "reason": reason.text if reason else None}
        del row["type"]
        summary.append(row)
    return summary
