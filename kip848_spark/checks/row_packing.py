"""Packs the rows of a state table, so that a group has one row with all of them as JSON.

Most of what an audit task is given would otherwise be short rows of the state tables.
"""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa

from kip848_spark.checks.state import COMPARED, KEYS
from kip848_spark.wire.batches import Batches, BatchFunction

PACKED_ROWS = pa.schema(
    [
        ("group_id", pa.string()),
        ("partition", pa.int32()),
        ("kind", pa.string()),
        ("value", pa.string()),
    ]
)
"""``kind`` is the state table. ``value`` is JSON: a list of rows, each a list of the values in the
table's columns `KEYS` and `COMPARED`, in that order."""
_ROWS = 10_000


def packer(table: str) -> BatchFunction:
    """A function of Arrow batches: rows of a state table to `PACKED_ROWS`, with partition 0. A
    group whose rows are not adjacent gets more than one packed row."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for begin in range(0, batch.num_rows, _ROWS):
                yield pack(table, batch.slice(begin, _ROWS), 0)

    return run


def pack(table: str, rows: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """Rows of ``table``, all of ``partition``, as `PACKED_ROWS`. ``rows`` must not be empty."""
    columns = (rows.column(name).to_pylist() for name in (*KEYS[table], *COMPARED[table]))
    values = list(zip(*columns, strict=True))
    groups = rows.column("group_id")
    ids = groups.dictionary_encode().indices.to_numpy()
    ends = [*np.flatnonzero(np.diff(ids)) + 1, len(ids)]
    begins = [0, *ends[:-1]]
    packed = [orjson.dumps(values[a:b]).decode() for a, b in zip(begins, ends, strict=True)]
    kinds, partitions = pa.repeat(pa.scalar(table), len(ends)), pa.repeat(partition, len(ends))
    return pa.record_batch(
        [groups.take(pa.array(begins)), partitions.cast(pa.int32()), kinds, pa.array(packed)],
        schema=PACKED_ROWS,
    )
