"""Splits large partitions of a topic into ranges that several tasks read at once.

Each range but the first begins after a record that was seen, so no gap in the offsets is cut. The
cause of a gap depends on whether a key occurred twice before it (`wire.offset_gaps`), so a
partition is only split after a place where one did. (A task that reads a whole partition notices
this only if both records are in one Arrow batch. So it may give the first gaps after such a place
the cause `unknown`, and a task that reads a later range `transaction`.) The part that the log
cleaner has been through stays whole: it has few records for its offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.spark.collect import collect_rows
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.wire.batches import Batches

MIN_OFFSETS = 1_000_000
"""Ranges are planned to have about so many offsets at least: more tasks cost more than they
save."""
_MOST_RANGES = 32
"""Of one partition. Spark plans each further one like a source of its own."""
_RANGES_PER_CORE = 2
_TOLERATED = 2
"""A partition is split if it has more than so many times a core's share of all offsets. A task that
runs alone keeps two cores busy: the JVM reads while the Python worker decodes."""
_WINDOW = 20_000
"""So many offsets are read to find a key that occurs twice, after which a range can begin."""

Starts = dict[int, list[int]]
"""Offsets in ascending order, by partition."""

_FOUND = pa.schema([("partition", pa.int32()), ("last", pa.int64()), ("repeated", pa.bool_())])


def split_partitions(
    source: KafkaSource, spark: SparkSession, ranges: Sequence[OffsetRange]
) -> Starts:
    """The offsets at which further tasks begin to read the large partitions among ``ranges``. If
    there are such partitions, some of their records are read to find these offsets. Raises
    Spark's exceptions, as a read does."""
    planned = plan_splits(source.not_deleted(ranges), spark.sparkContext.defaultParallelism)
    if not planned:
        return {}
    windows = [OffsetRange(p, at, at + _WINDOW) for p, starts in planned.items() for at in starts]
    keys = source.read(spark, windows).select("partition", "offset", "key")
    rows = collect_rows(map_in_arrow(keys, _survey, _FOUND))
    splits: Starts = {}
    for partition in planned:
        found = sorted(
            (row["last"], row["repeated"]) for row in rows if row["partition"] == partition
        )
        splits[partition] = [last + 1 for last, _ in dropwhile(lambda window: not window[1], found)]
    return {partition: starts for partition, starts in splits.items() if starts}


def plan_splits(ranges: Sequence[OffsetRange], cores: int) -> Starts:
    """The offsets near which to split partitions, so that ``cores`` are busy to the end."""
    share = sum(r.end - r.start for r in ranges) / cores
    planned: Starts = {}
    for r in ranges:
        size = r.end - r.start
        parts = round(size / max(MIN_OFFSETS, share / _RANGES_PER_CORE))
        if size > share * _TOLERATED and parts > 1:
            step = size // min(parts, _MOST_RANGES)
            planned[r.partition] = list(range(r.start + step, r.end - step + 1, step))
    return planned


def split_ranges(
    ranges: Sequence[OffsetRange], splits: Mapping[int, Sequence[int]]
) -> list[OffsetRange]:
    """``ranges``, cut at the offsets of ``splits``."""
    return [
        OffsetRange(r.partition, start, end)
        for r in ranges
        for start, end in pairwise([r.start, *splits.get(r.partition, ()), r.end])
    ]


def _survey(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The rows of a window, all of one partition, in the order of their offsets, as one row: the
    last offset, and whether a key occurs twice."""
    with_rows = [batch for batch in batches if batch.num_rows]
    if with_rows:
        window = pa.Table.from_batches(with_rows)
        keys = window["key"].drop_null()
        last = window.slice(window.num_rows - 1)
        yield pa.RecordBatch.from_pydict(
            {
                "partition": last["partition"].combine_chunks(),
                "last": last["offset"].combine_chunks(),
                "repeated": [pc.count_distinct(keys).as_py() < len(keys)],
            },
            _FOUND,
        )
