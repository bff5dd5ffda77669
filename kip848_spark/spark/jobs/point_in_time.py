"""The state of a sample of groups at one earlier offset of each partition, replayed from `records`.

Every run compares the state at its end. This comparison shows that the replay was right in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.checks.context import BUCKETS
from kip848_spark.checks.row_packing import PACKED_ROWS, pack
from kip848_spark.checks.state import ASSIGNMENTS, GROUPS, MEMBERS
from kip848_spark.lake.ledger import Run
from kip848_spark.lake.rows_with import COMMITS
from kip848_spark.spark.jobs.replay import control_bytes
from kip848_spark.spark.jobs.sampling import PartitionSample, choose, in_sample
from kip848_spark.spark.jobs.state_job import sort_by_offset
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state.folded_rows import FoldedPartitions
from kip848_spark.state.partition_stream import fold_partitions
from kip848_spark.wire.batches import Batches

MOST_RECORDS = 20_000
"""Approximate number of control records that are replayed once more."""


def points_in_time(run: Run) -> dict[int, int]:
    """By partition: the offset at which the state is compared. It follows from the run's end
    offsets."""
    return {
        r.partition: choose(run, f"cut of partition {r.partition}", r.end)
        for r in PartitionSample.of(run).ranges
    }


def sampled_buckets(lake: LakeTables, run: Run) -> int:
    """How many of the `BUCKETS` have their groups' state compared, so that about `MOST_RECORDS`
    control records are replayed."""
    sampled, total = (
        sum(r.end for r in ranges) for ranges in (PartitionSample.of(run).ranges, run.ranges)
    )
    number = round(lake.count("group_records") * (sampled / max(total, 1)))
    return BUCKETS * MOST_RECORDS // max(number, MOST_RECORDS)


def state_at(lake: LakeTables, run: Run, offsets: Mapping[int, int], buckets: int) -> DataFrame:
    """Rows of `PACKED_ROWS`: the state tables as they would have been after ``offsets``, of the
    groups in the first ``buckets``."""
    last = F.create_map(*(F.lit(n) for pair in offsets.items() for n in pair))
    records = lake.read_later("records", None, COMMITS).where(
        F.col("partition").isin(*offsets)
        & F.col("raw_key").isNotNull()
        & F.col("error").isNull()
        & (F.col("offset") <= last[F.col("partition")])
        & in_sample(buckets)
    )
    rows = sort_by_offset(control_bytes(run, lake.rows("runs"), records))
    return map_in_arrow(rows, pack_state, PACKED_ROWS)


def pack_state(batches: Batches) -> Batches:
    """Rows of `control_state`, sorted by partition and offset, to `PACKED_ROWS` of the state tables
    that follow from them."""
    for folded in fold_partitions(batches):
        if isinstance(folded, FoldedPartitions):
            for table in (GROUPS, MEMBERS, ASSIGNMENTS):
                for rows in folded.rows(table, {}).to_batches():
                    yield pack(table, rows, folded.partitions[0])
