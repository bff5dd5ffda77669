"""Compacts a partition's log as Kafka's log cleaner does.

The cleaner skips the active segment (here the last tenth). From the rest it keeps the last record
of each key. It also removes tombstones older than the delete retention, which is one day by default
in Kafka and a quarter of the log's time span here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ACTIVE = 0.1
RETAINED = 0.25


def clean(path: Path) -> int:
    """Compact a partition's file in place; returns the number of records left. Holds all keys in
    memory.
    """
    source = pq.ParquetFile(path)
    count = source.metadata.num_rows
    active = count - max(1, int(count * ACTIVE))
    last, oldest, newest = _last_of(source, active)
    forget_before = newest - int((newest - oldest) * RETAINED)
    new = path.with_suffix(".cleaned")
    kept = 0
    with pq.ParquetWriter(new, source.schema_arrow, compression="zstd") as writer:
        begin = 0
        for batch in source.iter_batches(1 << 17):
            row = np.arange(begin, begin + batch.num_rows)
            begin += batch.num_rows
            newest_of = np.array([last.get(key, -1) for key in batch.column("key").to_pylist()])
            stays = (row >= active) | (newest_of == row)
            tombstone = pc.is_null(batch.column("value")).to_numpy(zero_copy_only=False)
            time = batch.column("timestamp").cast(pa.int64()).to_numpy()
            stays &= (row >= active) | ~tombstone | (time >= forget_before)
            if stays.any():
                writer.write_batch(batch.filter(pa.array(stays)))
                kept += int(stays.sum())
    source.close()
    new.replace(path)
    return kept


def _last_of(source: pq.ParquetFile, active: int) -> tuple[dict[bytes, int], int, int]:
    """The last row of each key before the active segment, and the log's first and last
    time in µs.
    """
    last: dict[bytes, int] = {}
    begin, oldest, newest = 0, None, 0
    for batch in source.iter_batches(1 << 17, columns=["timestamp", "key"]):
        times = batch.column("timestamp").cast(pa.int64())
        oldest = times[0].as_py() if oldest is None else oldest
        newest = times[-1].as_py()
        keys = batch.column("key").slice(0, max(0, active - begin)).to_pylist()
        for number, key in enumerate(keys, begin):
            last[key] = number
        begin += batch.num_rows
    return last, oldest or 0, newest
