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
    """Partitions of the topic and how many records each may have: all of them, or from one at
    random on as many as have `ENOUGH`, other ones in each run. Records of the rest need not be
    read; of neighbours, which stand side by side in the lake's files, few others are.
    """
    ends = sorted((r.partition, r.end) for r in run.ranges if r.end)
    first = random.Random(run.run_id).randrange(len(ends)) if ends else 0
    chosen: dict[int, int] = {}
    for partition, end in ends[first:] + ends[:first]:
        if sum(chosen.values()) < ENOUGH:
            chosen[partition] = end
    return chosen


def sampled(share: int) -> Column:
    """Whether the group of a row takes part; `audit.settings.bucket_of` says the same."""
    return F.crc32(F.col("group_id").cast("binary")) % BUCKETS < share
