"""Which part of a large lake is audited where all of it would take too long.

A sample follows from the data alone: two audits of one lake, or of a copy of it, take the same
sample on any machine and come to the same numbers. Once there are new records it is another one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from kip848_spark.checks.settings import BUCKETS
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.ledger import Run

ENOUGH = 100_000
"""Records that are looked at, about."""


@dataclass(frozen=True)
class Sampled:
    """Partitions of the topic, and the offsets of each one that are looked at."""

    ranges: tuple[OffsetRange, ...]

    @classmethod
    def of(cls, run: Run) -> Sampled:
        """All there are, or from a partition that `drawn` chooses on as many as have `ENOUGH`
        records; of a partition that has more by itself, the last ones.

        Records of the rest need not be read; of neighbours, which stand side by side in the lake's
        files, few others are.
        """
        there = _ends(run)
        first = drawn(run, "partition", len(there)) if there else 0
        chosen: list[OffsetRange] = []
        left = ENOUGH
        for partition, end in there[first:] + there[:first]:
            if left > 0:
                chosen.append(OffsetRange(partition, max(end - ENOUGH, 0), end))
                left -= end
        return cls(tuple(chosen))

    @property
    def records(self) -> int:
        """How many there may be."""
        return sum(r.end - r.start for r in self.ranges)

    @property
    def sql(self) -> str:
        """Whether a row with a partition and an offset is looked at."""
        if not self.ranges:
            return "false"
        tests = [f"partition IN ({', '.join(str(r.partition) for r in self.ranges)})"]
        tests += [
            f"(partition <> {r.partition} OR offset >= {r.start})" for r in self.ranges if r.start
        ]
        return " AND ".join(tests)


def drawn(run: Run, what: str, below: int) -> int:
    """A number from 0 to ``below`` - 1 for the choice ``what``. It follows from the end offsets of
    the partitions that have records: not from the run's id, the clock or Python's own hashes."""
    text = f"{what} {_ends(run)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % below


def _ends(run: Run) -> list[tuple[int, int]]:
    """Partition and end offset of each partition that has records, in their order."""
    return sorted((r.partition, r.end) for r in run.ranges if r.end)


def sampled(share: int) -> Column:
    """Whether the group of a row takes part; `audit.settings.bucket_of` says the same."""
    return F.crc32(F.col("group_id").cast("binary")) % BUCKETS < share
