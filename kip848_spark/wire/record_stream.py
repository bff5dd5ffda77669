"""Functions over record batches: raw records in, rows of `records` and `group_records` out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.errors import CaptureError
from kip848_spark.wire.batches import Batches, BatchFunction
from kip848_spark.wire.control import ControlPlan, control_columns
from kip848_spark.wire.decode import Decoded, DecodePlan, decode
from kip848_spark.wire.offset_gaps import GapFinder
from kip848_spark.wire.tables import RECORD_FIELDS, TIMESTAMP, record_columns

Columns = dict[str, pa.Array]
POSITION_FIELDS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
}
"""The columns that identify a record in the topic, and their Arrow types."""
GAP_FIELDS: dict[str, pa.DataType] = {"missing_before": pa.int64(), "gap_cause": pa.string()}
"""Columns that describe the missing offsets before a record, and their Arrow types."""
SIZE_FIELDS: dict[str, pa.DataType] = {"size": pa.int32()}
"""The number of bytes of key and value, and its Arrow type."""
STREAM_FIELDS: dict[str, pa.DataType] = {
    **POSITION_FIELDS,
    **RECORD_FIELDS,
    **GAP_FIELDS,
    **SIZE_FIELDS,
}
"""The columns that `records_decoder` yields, and their Arrow types."""


def records_decoder(
    plan: DecodePlan, starts: Mapping[int, int], keep_commits_raw: bool = False
) -> BatchFunction:
    """A function from raw records to rows of `records` (`STREAM_FIELDS`).

    Its input has the columns partition (int32), offset (int64), timestamp (timestamp[us, UTC]), key
    and value (binary), sorted by partition and offset. A record that occurs twice in a row, as in
    overlapping captures, is taken once (see `without_repeats`). ``starts``: the first offset of
    each partition. ``keep_commits_raw``: see `record_columns`."""

    def run(batches: Batches) -> Batches:
        for _, columns in decode_batches(plan, starts, keep_commits_raw, batches):
            yield pa.RecordBatch.from_pydict(columns)

    return run


def decode_batches(
    plan: DecodePlan,
    starts: Mapping[int, int],
    keep_commits_raw: bool,
    batches: Batches,
    splits: Mapping[int, Sequence[int]] | None = None,
    resumed: Mapping[int, bool] | None = None,
) -> Iterator[tuple[Decoded, Columns]]:
    """What the function of `records_decoder` does, as pairs of the decoded batch and its
    columns. ``splits`` and ``resumed``: see `GapFinder`."""
    gaps = GapFinder(starts, splits, resumed)
    for batch in without_repeats(batches):
        if not batch.num_rows:
            continue
        keys, values = batch.column("key"), batch.column("value")
        decoded = decode(plan, keys, values)
        missing, cause = gaps.find(
            batch.column("partition").to_numpy(),
            batch.column("offset").to_numpy(),
            decoded.key_of,
        )
        yield (
            decoded,
            {
                **{name: batch.column(name) for name in POSITION_FIELDS},
                **record_columns(plan, decoded, keys, values, keep_commits_raw),
                "missing_before": missing,
                "gap_cause": cause,
                "size": _sizes(keys, values),
            },
        )


def _sizes(keys: pa.Array, values: pa.Array) -> pa.Array:
    """int32[n]: the number of bytes of key and value; a null has none."""
    lengths = [pc.binary_length(column) for column in (keys, values)]
    filled = [length.fill_null(0) if length.null_count else length for length in lengths]
    return pc.add(*filled).cast(pa.int32())


def without_repeats(batches: Batches) -> Batches:
    """``batches`` of raw records, in the order of partition and offset, with each record once.

    Raises CaptureError if two records with the same partition and offset differ in key or value."""
    previous: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows:
            yield _drop_repeats(batch, previous)
            previous = batch.slice(batch.num_rows - 1)


def _drop_repeats(batch: pa.RecordBatch, previous: pa.RecordBatch | None) -> pa.RecordBatch:
    """``batch`` without the rows that repeat the row before. ``previous`` is the last row of the
    batch before."""
    partition = batch.column("partition").to_numpy()
    offset = batch.column("offset").to_numpy()
    same = np.zeros(len(offset), bool)
    same[1:] = (offset[1:] == offset[:-1]) & (partition[1:] == partition[:-1])
    if previous is not None:
        last = (previous.column("partition")[0].as_py(), previous.column("offset")[0].as_py())
        same[0] = (int(partition[0]), int(offset[0])) == last
    if not same.any():
        return batch
    rows = np.flatnonzero(same)
    for name in ("key", "value"):
        column = batch.column(name)
        before = column.take(pa.array(rows - 1, mask=rows == 0))
        if same[0] and previous is not None:
            before = pa.concat_arrays([previous.column(name), before[1:]])
        here = column.take(pa.array(rows))
        equal = pc.equal(here, before).fill_null(False).to_numpy(zero_copy_only=False)
        null = pc.and_(here.is_null(), before.is_null()).to_numpy(zero_copy_only=False)
        different = np.flatnonzero(~(equal | null))
        if len(different):
            row = rows[different[0]]
            raise CaptureError(
                f"The capture has two different records at offset {offset[row]} of partition "
                f"{partition[row]}."
            )
    return batch.filter(pa.array(~same))


def control_decoder(plan: ControlPlan, fields: Mapping[str, pa.DataType]) -> BatchFunction:
    """A function from raw control records to rows of `group_records`: the columns `POSITION_FIELDS`
    and ``fields``.

    Its input has the columns of `POSITION_FIELDS`, raw_key and raw_value (binary)."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            if batch.num_rows:
                columns = {name: batch.column(name) for name in POSITION_FIELDS}
                columns |= control_columns(
                    plan, fields, batch.column("raw_key"), batch.column("raw_value")
                )
                yield pa.RecordBatch.from_pydict(columns)

    return run
