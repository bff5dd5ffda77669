"""Rows of the state tables, those of a group in one: most of what an audit's tasks are given would
otherwise be rows that say little each.
"""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa

from kip848_spark.checks.state import COMPARED, KEYS
from kip848_spark.wire.batches import Batches, BatchFunction

PACKED = pa.schema(
    [
        ("group_id", pa.string()),
        ("partition", pa.int32()),
        ("kind", pa.string()),
        ("value", pa.string()),
    ]
)
"""``kind`` is the state table; ``value`` is JSON, a list of rows, each a list of what stands in the
table's columns `KEYS` and `COMPARED`."""
_ROWS = 10_000


def packed(table: str) -> BatchFunction:
    """Rows of a state table to rows of `PACKED`, of partition 0; a group whose rows do not stand
    side by side has more than one."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for begin in range(0, batch.num_rows, _ROWS):
                yield pack(table, batch.slice(begin, _ROWS), 0)

    return run


def pack(table: str, rows: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """Rows of ``table``, all of ``partition``, to rows of `PACKED`."""
    columns = (rows.column(name).to_pylist() for name in (*KEYS[table], *COMPARED[table]))
    told = list(zip(*columns, strict=True))
    groups = rows.column("group_id")
    ids = groups.dictionary_encode().indices.to_numpy()
    ends = [*np.flatnonzero(np.diff(ids)) + 1, len(ids)]
    begins = [0, *ends[:-1]]
    values = [orjson.dumps(told[a:b]).decode() for a, b in zip(begins, ends, strict=True)]
    kind, place = pa.repeat(pa.scalar(table), len(ends)), pa.repeat(partition, len(ends))
    return pa.record_batch(
        [groups.take(pa.array(begins)), place.cast(pa.int32()), kind, pa.array(values)],
        schema=PACKED,
    )
