"""Infers the tombstones that the log cleaner removed before a run could read them.

The cleaner keeps a tombstone for ``delete.retention.ms`` after it has first processed it. If runs
were missed for longer, no run reads that a group, a member or an offset was deleted. Before such a
run is planned, it lists the offsets that the topic still has. A key of which the lake's newest
record is no longer there, although the run has not read a newer one, was deleted
(`lake.inferred_tombstones`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kip848_spark.insight.commit_summary import KEY
from kip848_spark.kafka.topic import OffsetRange, PartitionExtent
from kip848_spark.lake.arrow_files import RowWriter
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.inferred_tombstones import GAPS_AND_KEYS, write_inferred
from kip848_spark.lake.ledger import Ledger, RecordCounts, Run
from kip848_spark.lake.record_writer import RECORD_TABLES
from kip848_spark.spark.sources import KafkaSource, RecordSource
from kip848_spark.spark.split_partitions import split_partitions, split_ranges
from kip848_spark.spark.steps import Steps
from kip848_spark.spark.storage.table_job import WriteMode
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state import kinds
from kip848_spark.wire.batches import Batches
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.offset_gaps import COMPACTION, TRANSACTION, UNDECIDED

RETENTION = timedelta(hours=24)
"""Kafka's default of ``delete.retention.ms``."""
LATE = timedelta(hours=6)
"""A nightly job may start this much later than the night before: no night was missed."""


@dataclass(frozen=True)
class Survey:
    """What is known before a late run is planned. ``since`` is the start of the last run that read
    records. ``offsets`` (a partition and an offset in each row) are those that the topic still has
    of the offsets that the lake has read, from ``first`` on in each partition. They are None for a
    capture, which may be a part of the topic."""

    since: datetime
    offsets: DataFrame | None = None
    first: Mapping[int, int] = field(default_factory=dict)


@contextmanager
def survey_if_late(
    source: RecordSource, ledger: Ledger, extents: Mapping[int, PartitionExtent], steps: Steps
) -> Iterator[Survey | None]:
    """Lists the offsets that the topic still has, in the partitions that have grown, if the last
    run that read records is longer ago than Kafka keeps tombstones; else None.

    Ask for the end of the topic and plan the run after this: the run must read each record because
    of which the log cleaner has removed an offset that is missing here."""
    read = [run for run in ledger.finished() if run.counts is not None and run.counts.records_read]
    last = max(read, key=lambda run: run.started_at, default=None)
    if last is None or datetime.now(UTC) - last.started_at <= RETENTION + LATE:
        yield None
        return
    ranges = [
        OffsetRange(r.partition, extent.first, r.end)
        for r in ledger.finished()[-1].ranges
        if (extent := extents.get(r.partition)) and extent.first < r.end < extent.end
    ]
    if not ranges or not isinstance(source, KafkaSource):
        yield Survey(last.started_at)
        return
    spark = SparkSession.active()
    with steps.step("survey", "listing the offsets that the topic still has"):
        splits = split_partitions(source, spark, ranges)
        rows = source.read(spark, split_ranges(ranges, splits)).select("partition", "offset")
        rows = rows.persist(StorageLevel.DISK_ONLY)
        rows.count()
    try:
        yield Survey(last.started_at, rows, {r.partition: r.start for r in ranges})
    finally:
        rows.unpersist()


def add_lost_tombstones(
    lake: LakeTables, run: Run, counts: RecordCounts, survey: Survey | None, steps: Steps
) -> tuple[RecordCounts, datetime | None]:
    """Adds the tombstones that ``run``, which has read its records, could not read. Returns its
    ``counts`` with their number; and the start of the run before it, if deletions since then may
    be missing in the lake. Raises LakeError."""
    partitions = _cleaned_partitions(lake, run) if survey else set()
    if survey is None or not partitions:
        return counts, None
    if survey.offsets is None:
        return counts, survey.since
    with steps.step("infer", "looking for keys that the topic no longer has"):
        first = {p: offset for p, offset in survey.first.items() if p in partitions}
        inferred, left = _infer(lake, run, survey.offsets, first) if first else (0, 0)
    return replace(counts, inferred=inferred), survey.since if left else None


def _cleaned_partitions(lake: LakeTables, run: Run) -> set[int]:
    """The partitions from which the log cleaner may have removed records that ``run`` would have
    read."""
    of_run = Condition("run_id", "equals", run.run_id)
    cleaned = Condition("cause", "among", (COMPACTION, UNDECIDED))
    return {partition for (partition,) in lake.distinct("gaps", ["partition"], [of_run, cleaned])}


def _infer(
    lake: LakeTables, run: Run, present: DataFrame, first: Mapping[int, int]
) -> tuple[int, int]:
    """Adds the tombstones of the partitions of ``first``. ``present`` and ``first`` are those of a
    `Survey`. Returns their number, and the number of deleted keys
    for which no offset was missing. Reads the keys of all records of these partitions."""
    starts = {r.partition: r.start for r in run.ranges}
    records = lake.read("records").where(F.col("partition").isin(*first))
    old = F.col("offset") < _by_partition(starts)
    new = records.where(~old)
    deleted = (
        _newest_of_keys(records)
        .where(old & ~F.col("tombstone") & F.col("decoded"))
        .where(F.col("offset") >= _by_partition(first))
        .join(present, ["partition", "offset"], "left_anti")
    )
    rows = _gaps(new).unionByName(_in_order(deleted, new), allowMissingColumns=True)
    order = ("first_offset", "deadline", "ends_group", "offset")  # a key has no first offset
    rows = rows.repartition("partition").sortWithinPartitions(
        "partition", *(F.asc_nulls_last(name) for name in order)
    )
    job = _InferredJob(control_plan(run.dialect))
    done = lake.run_job(job, rows.select(*GAPS_AND_KEYS), run.run_id, run.identity.cluster_id)
    inferred, left = (sum(report[name] for report in done.reports) for name in ("placed", "left"))
    return inferred, left


@dataclass(frozen=True)
class _InferredJob:
    """A `TableJob` from gaps and deleted keys to tombstones."""

    plan: ControlPlan

    @property
    def modes(self) -> Mapping[str, WriteMode]:
        """See `TableJob`."""
        return {name: "append" for name in RECORD_TABLES if name != "gaps"}

    def write_tables(
        self, batches: Batches, writers: Mapping[str, RowWriter]
    ) -> list[dict[str, Any]]:
        return write_inferred(self.plan, batches, writers)


def _by_partition(offsets: Mapping[int, int]) -> Column:
    """The number that ``offsets`` has for the partition of a row."""
    return F.create_map(*(F.lit(n) for pair in offsets.items() for n in pair))[F.col("partition")]


def _newest_of_keys(records: DataFrame) -> DataFrame:
    """The newest record of each key, with ``decoded``: whether it could be decoded. A key of a
    commit is its group, topic and partition, since the raw bytes of most commits are not stored."""
    is_commit = (F.col("kind") == kinds.COMMIT) & F.col("topic_partition").isNotNull()
    is_commit = F.coalesce(is_commit, F.lit(False))
    names = [*KEY, "raw_key"]
    key = [F.when(is_commit, F.col(name)).alias(f"key_{name}") for name in KEY]
    key.append(F.when(~is_commit, F.col("raw_key")).alias("key_raw_key"))
    values = ["offset", "tombstone", "kind", "group_id"]
    rows = records.select("partition", *key, *values, F.col("error").isNull().alias("decoded"))
    newest = F.max_by(F.struct(*values, "decoded"), "offset").alias("newest")
    found = (
        rows.where(F.col("key_raw_key").isNotNull() | F.col("key_topic_partition").isNotNull())
        .groupBy("partition", *(f"key_{name}" for name in names))
        .agg(newest)
    )
    others = [F.col(f"key_{name}").alias(name) for name in names if name != "group_id"]
    return found.select("partition", *others, "newest.*")


def _in_order(deleted: DataFrame, new: DataFrame) -> DataFrame:
    """``deleted`` keys with ``deadline`` and ``ends_group``, by which to sort them.

    A tombstone that deletes a group would also delete one of another type that has its name since.
    So it, and those of the group's members, come before the first of the ``new`` control records of
    this name: that is the deadline. (There are enough missing offsets before each deadline, since
    the real tombstones were there.)"""
    of_group = ["partition", "group_id"]
    begun = (
        new.where(F.col("raw_key").isNotNull() & (F.col("kind") != kinds.COMMIT))
        .groupBy(*of_group)
        .agg(F.min("offset").alias("begun"))
    )
    is_control = F.col("raw_key").isNotNull()
    ends_group = F.col("kind").isin(kinds.CLASSIC, *kinds.GROUP_EPOCHS)
    all_of_it = F.max("ends_group").over(Window.partitionBy(*of_group))
    return (
        deleted.withColumn("ends_group", ends_group)
        .withColumn("all_of_it", all_of_it)
        .join(begun, of_group, "left")
        .withColumn("deadline", F.when(is_control & F.col("all_of_it"), F.col("begun")))
        .select("partition", "raw_key", *KEY, "deadline", "ends_group", "offset")
    )


def _gaps(new: DataFrame) -> DataFrame:
    """The gaps before ``new`` records from which the log cleaner may have removed tombstones."""
    cleaned = F.col("missing_before").isNotNull() & (F.col("gap_cause") != TRANSACTION)
    return new.where(cleaned).select(
        "partition",
        (F.col("offset") - F.col("missing_before")).alias("first_offset"),
        F.col("missing_before").alias("missing"),
        "timestamp",
    )
