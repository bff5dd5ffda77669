"""Checks whether a source can be read and a lake can be written."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kip848_spark.errors import LakeError, SourceError
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.ledger import Ledger
from kip848_spark.spark.jobs.integrity import REPAIR, check_counts, find_damage
from kip848_spark.spark.sources import RecordSource
from kip848_spark.spark.storage.tables import LakeTables

_PROBE = 1000
"""The number of offsets that are read, at the end of the fullest partition."""


def check_source(source: RecordSource, spark: SparkSession) -> str:
    """Describes the source in a sentence. Raises SourceError or CaptureError if it can't be
    read."""
    extents = source.extents(spark)
    offsets = sum(extent.end - extent.first for extent in extents.values())
    found = f"{source.identity().topic}: {len(extents)} partitions, {offsets:,} offsets"
    filled = {p: extent for p, extent in extents.items() if extent.end > extent.first}
    if not filled:
        return f"{found}; it is empty"
    partition, extent = max(filled.items(), key=lambda item: item[1].end - item[1].first)
    probe = OffsetRange(partition, max(extent.first, extent.end - _PROBE), extent.end)
    if not source.read(spark, [probe]).count():
        raise SourceError(
            f"{found}, but none of the last {_PROBE} of partition {partition} can be read.",
            "Check the ACL (READ on the topic).",
        )
    waiting = sum(extent.open for extent in extents.values())
    return found + (f"; {waiting:,} wait behind open transactions" if waiting else "")


def check_lake(lake: LakeTables) -> str:
    """Describes the lake in a sentence. Raises LakeError if it can't be written or is damaged, or
    UsageError if its path holds something else."""
    there = lake.exists()
    with lake.hold_lease():
        if not there:
            return f"{lake.path} can be created"
        ledger = Ledger(lake)
        last = ledger.last()
        if (unfinished := ledger.unfinished()) is not None:
            check_counts(lake, unfinished)
        elif found := find_damage(lake):
            raise LakeError(f"The lake {lake.path} is damaged: {'; '.join(found)}.", REPAIR)
    return f"{lake.path}: last run {last.run_id if last else 'none yet'}"
