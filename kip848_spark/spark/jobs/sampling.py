"""Which part of a large lake is audited where checking all of it would take too long.

A sample follows from the end offsets of the partitions alone: two audits of one lake, or of a copy
of it on another machine, take the same sample. After a run that read new records it is another one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from kip848_spark.checks.context import BUCKETS
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.ledger import Run

SAMPLE_RECORDS = 100_000
"""Approximate number of records in a sample."""


@dataclass(frozen=True)
class PartitionSample:
    """Ranges of offsets, at most one for each partition of the topic."""

    ranges: tuple[OffsetRange, ...]

    @classmethod
    def of(cls, run: Run) -> PartitionSample:
        """All partitions, or as many adjacent ones as hold `SAMPLE_RECORDS` records, from one that
        `choose` picks; of a larger partition, its last records.

        The lake's files are sorted by partition, so a query that needs adjacent partitions skips
        most of the others' files.
        """
        ends = _ends(run)
        first = choose(run, "partition", len(ends)) if ends else 0
        chosen: list[OffsetRange] = []
        left = SAMPLE_RECORDS
        for partition, end in ends[first:] + ends[:first]:
            if left > 0:
                chosen.append(OffsetRange(partition, max(end - SAMPLE_RECORDS, 0), end))
                left -= end
        return cls(tuple(chosen))

    @property
    def offsets(self) -> int:
        """The number of offsets in the sample: the most records that it can have."""
        return sum(r.end - r.start for r in self.ranges)

    @property
    def sql(self) -> str:
        """A SQL condition on the columns partition and offset: the row is in the sample."""
        if not self.ranges:
            return "false"
        tests = [f"partition IN ({', '.join(str(r.partition) for r in self.ranges)})"]
        tests += [
            f"(partition <> {r.partition} OR offset >= {r.start})" for r in self.ranges if r.start
        ]
        return " AND ".join(tests)


def choose(run: Run, what: str, below: int) -> int:
    """A number from 0 to ``below`` - 1 for the choice called ``what``. It follows from the end
    offsets of the partitions that have records, not from the run's id, the clock or Python's hash
    seed."""
    text = f"{what} {_ends(run)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % below


def _ends(run: Run) -> list[tuple[int, int]]:
    """Partition and end offset of each partition that has records, sorted."""
    return sorted((r.partition, r.end) for r in run.ranges if r.end)


def in_sample(buckets: int) -> Column:
    """Whether the bucket of a row's group is below ``buckets``, as `audit.context.bucket_of`
    computes it."""
    return F.crc32(F.col("group_id").cast("binary")) % BUCKETS < buckets
