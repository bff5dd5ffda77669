"""Which part of a large lake is looked at where all of it would take too long."""

from __future__ import annotations

import random

from pyspark.sql import Column
from pyspark.sql import functions as F

from kip848_spark.audit.settings import BUCKETS
from kip848_spark.spark.ledger import Run

ENOUGH = 1_000_000
"""Records of the partitions that are looked at, about."""


def some_partitions(run: Run) -> dict[int, int]:
    """Partitions of the topic and how many records each may have: all of them, or at random as many
    as have `ENOUGH`, other ones in each run. Records of the rest need not be read."""
    ends = [(r.partition, r.end) for r in run.ranges if r.end]
    random.Random(run.run_id).shuffle(ends)
    chosen: dict[int, int] = {}
    for partition, end in ends:
        if sum(chosen.values()) < ENOUGH:
            chosen[partition] = end
    return chosen


def sampled(share: int) -> Column:
    """Whether the group of a row takes part; `audit.settings.bucket_of` says the same."""
    return F.crc32(F.col("group_id").cast("binary")) % BUCKETS < share
