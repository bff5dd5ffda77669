"""The state of some groups as it was at an offset in between, folded once more out of `records`.

What a run carries on is compared at every run's end; this tells of the time between.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.checks.row_packing import PACKED, pack
from kip848_spark.checks.settings import BUCKETS
from kip848_spark.checks.state import ASSIGNMENTS, GROUPS, MEMBERS
from kip848_spark.lake.ledger import Run
from kip848_spark.spark.jobs.replay import control_bytes, sort_by_offset
from kip848_spark.spark.jobs.sampling import Sampled, drawn, sampled
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state.partition_stream import derive_rows, fold_partitions
from kip848_spark.wire.batches import Batches

MOST_RECORDS = 20_000
"""Control records that are folded once more, about: beyond, those of some of the groups."""


def cuts_of(run: Run) -> dict[int, int]:
    """An offset in each partition that is looked at: the same one whenever the data are."""
    return {
        r.partition: drawn(run, f"cut of partition {r.partition}", r.end)
        for r in Sampled.of(run).ranges
    }


def share_of(lake: LakeTables, run: Run) -> int:
    """How many of `BUCKETS` may take part."""
    looked_at = sum(r.end for r in Sampled.of(run).ranges) / max(sum(r.end for r in run.ranges), 1)
    number = round(lake.count("group_records") * looked_at)
    return BUCKETS * MOST_RECORDS // max(number, MOST_RECORDS)


def state_then(lake: LakeTables, run: Run, cuts: Mapping[int, int], share: int) -> DataFrame:
    """Rows of `PACKED`: what the state tables would have held at ``cuts``."""
    cut = F.create_map(*(F.lit(n) for pair in cuts.items() for n in pair))
    records = lake.read("records").where(
        F.col("partition").isin(*cuts)
        & F.col("raw_key").isNotNull()
        & F.col("error").isNull()
        & (F.col("offset") <= cut[F.col("partition")])
        & sampled(share)
    )
    rows = sort_by_offset(control_bytes(lake, run, records))
    return map_in_arrow(rows, packed_then, PACKED)


def packed_then(batches: Batches) -> Batches:
    """Rows of `control_state`, sorted by partition and offset, to rows of `PACKED`."""
    for carried in fold_partitions(batches):
        if not carried.num_rows:
            continue
        partition = carried["partition"][0].as_py()
        for table in (GROUPS, MEMBERS, ASSIGNMENTS):
            for rows in derive_rows(table, carried, {}).to_batches():
                yield pack(table, rows, partition)
