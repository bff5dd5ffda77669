"""Retention by age: removes rows that neither the state nor the history of the kept time needs.

Each partition of the topic has a *cut*: the offset of its first record that is younger than the
age. Of the records before the cut, the newest one of each key stays unless it is a tombstone. This
is what Kafka's log cleaner keeps, so a replay of what is left gives the same state at the cut and
at every later offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip848_spark.insight.commit_summary import KEY
from kip848_spark.lake.ledger import AUDIT, DONE, PARTIAL_AUDIT, READINESS, Run
from kip848_spark.spark.jobs.commit_activity import ACTIVITY, REWINDS
from kip848_spark.spark.jobs.commit_summaries import SUMMARIES
from kip848_spark.spark.jobs.saved_audits import AUDITED_GROUPS
from kip848_spark.spark.jobs.state_job import INTERVAL_TABLES
from kip848_spark.spark.storage.tables import LakeTables, TableRow
from kip848_spark.spark.storage.upkeep import AFFECTED, Rewrite, RowFunction
from kip848_spark.state import kinds
from kip848_spark.wire.offset_gaps import TRANSACTION

PLACE = ["partition", "offset"]
SORTED = {name: tuple(PLACE) for name in ("records", "group_records")}
"""The order of rows in new files, by table."""
SPLIT_BY = {ACTIVITY: "day"}
"""The column of which each file has one value, by table."""


@dataclass(frozen=True)
class Cut:
    """What a lake keeps: everything from ``since`` (UTC) on, which is from the offset ``offsets``
    of each partition on, and what defines the state there."""

    since: datetime
    offsets: Mapping[int, int]


def find_cut(lake: LakeTables, run: Run, since: datetime) -> Cut:
    """The cut of a lake whose last finished run is ``run``. It is never before an earlier one.
    Reads the partitions, offsets and timestamps of all records."""
    young = lake.read("records").where((F.col("timestamp") >= since) | F.col("timestamp").isNull())
    found = young.groupBy("partition").agg(F.min("offset").alias("offset")).collect()
    first = {row["partition"]: row["offset"] for row in found}
    before = run.kept_from or {}
    offsets = {
        r.partition: max(first.get(r.partition, r.end), before.get(r.partition, 0))
        for r in run.ranges
    }
    return Cut(max(since, run.kept_since) if run.kept_since else since, offsets)


def remove_old_rows(lake: LakeTables, cut: Cut) -> tuple[dict[str, int], dict[str, int]]:
    """Removes the rows that ``cut`` does not keep. Returns the number of removed rows by table, and
    that of rows of `records` by run. Raises LakeError."""
    removed: dict[str, int] = {}
    with _newest_of_keys(lake, cut) as newest:
        replaced = _unless_newest(cut, newest)
        by_run = _remove(lake, "records", replaced, removed)
        _remove(lake, "group_records", replaced, removed)
    _remove_summaries(lake, cut, removed)
    removed |= remove_closed_rows(lake, cut)
    _remove(lake, AUDITED_GROUPS, _where(_is_old(cut)), removed)
    _remove_gaps(lake, cut, removed)
    _remove_results(lake, cut, removed)
    return removed, by_run


def remove_closed_rows(lake: LakeTables, cut: Cut) -> dict[str, int]:
    """Removes the intervals and rebalances that ended before the cut, and the rewinds and the days
    of activity before it. A replay of all records that are left makes some of them again. Returns
    their number by table. Raises LakeError."""
    removed: dict[str, int] = {}
    for table in INTERVAL_TABLES:
        _remove(lake, table, _where(_is_old(cut, "to_offset")), removed)
    _remove(lake, REWINDS, _where(_is_old(cut)), removed)
    _remove(lake, ACTIVITY, _where(F.col("day") < F.lit(first_day(cut))), removed)
    return removed


def first_day(cut: Cut) -> date:
    """The day of the cut (UTC), the first one of `offset_activity`."""
    return cut.since.astimezone(UTC).date()


def _remove(
    lake: LakeTables,
    table: str,
    mark: RowFunction,
    removed: dict[str, int],
) -> dict[str, int]:
    """Removes the rows that ``mark`` marks. Returns their number by run, if they have one."""
    done = lake.rewrite(
        table, Rewrite(mark, sort=SORTED.get(table, ()), split_by=SPLIT_BY.get(table))
    )
    removed[table] = removed.get(table, 0) + sum(done.values())
    return done


def _where(condition: Column) -> RowFunction:
    return lambda rows: rows.withColumn(AFFECTED, F.coalesce(condition, F.lit(False)))


def _unless_newest(cut: Cut, newest: DataFrame) -> RowFunction:
    """Marks the rows before the cut whose place is not one of ``newest``."""
    places = newest.withColumn("stays", F.lit(True))

    def mark(rows: DataFrame) -> DataFrame:
        joined = rows.join(places, PLACE, "left")
        return joined.withColumn(AFFECTED, _is_old(cut) & F.col("stays").isNull()).drop("stays")

    return mark


def _is_old(cut: Cut, offset: str = "offset") -> Column:
    """True for rows with an ``offset`` before the cut of their ``partition``."""
    first = F.create_map(*(F.lit(number) for pair in cut.offsets.items() for number in pair))
    return F.coalesce(F.col(offset) < first[F.col("partition")], F.lit(False))


@contextmanager
def _newest_of_keys(lake: LakeTables, cut: Cut) -> Iterator[DataFrame]:
    """The partition and offset of the newest record of each key before the cut, except tombstones.
    If it could not be decoded, also those of the newest one that could: the state has it.

    A key of a commit is its group, topic and partition, since the raw bytes of most commits are not
    stored. Other records have the bytes of their key, which need not be readable."""
    is_commit = (F.col("kind") == kinds.COMMIT) & F.col("topic_partition").isNotNull()
    is_commit = F.coalesce(is_commit, F.lit(False))
    bytes_ = F.when(~is_commit, F.col("raw_key"))
    alone = F.when(~is_commit & F.col("raw_key").isNull(), F.col("offset"))
    key = [F.when(is_commit, F.col(name)).alias(name) for name in KEY]
    tombstone = F.coalesce("tombstone", F.lit(False)).alias("tombstone")
    old = lake.read("records").where(_is_old(cut))
    decoded = F.col("error").isNull().alias("decoded")
    rows = old.select(*PLACE, *key, bytes_.alias("bytes"), alone.alias("alone"), tombstone, decoded)
    newest = _newest_of_both(rows, [*KEY, "bytes", "alone"]).persist()
    try:
        yield newest
    finally:
        newest.unpersist()


def _newest_of_both(rows: DataFrame, key: list[str]) -> DataFrame:
    """The places of the newest of ``rows`` of each key that could be decoded, and of the newest one
    after it that could not. A tombstone only stays if it could not be decoded, and follows a value
    that could."""

    def newest(which: Column) -> Column:
        return F.max_by(F.struct("offset", "tombstone"), F.when(which, F.col("offset")))

    both = rows.groupBy("partition", *key).agg(
        newest(F.col("decoded")).alias("decoded"), newest(~F.col("decoded")).alias("other")
    )
    has_value = F.coalesce(~F.col("decoded.tombstone"), F.lit(False))
    later = F.col("other.offset") > F.coalesce("decoded.offset", F.lit(-1))
    stays = F.array(
        F.when(has_value, F.col("decoded.offset")),
        F.when(later & (has_value | ~F.col("other.tombstone")), F.col("other.offset")),
    )
    found = both.select("partition", F.explode(stays).alias("offset"))
    return found.where(F.col("offset").isNotNull())


def _newest(rows: DataFrame, key: list[str]) -> DataFrame:
    """The places of the newest of ``rows`` of each key, except tombstones."""
    newest = F.max_by(F.struct("offset", "tombstone"), "offset").alias("newest")
    found = rows.groupBy("partition", *key).agg(newest).where(~F.col("newest.tombstone"))
    return found.select("partition", F.col("newest.offset").alias("offset"))


def _remove_summaries(lake: LakeTables, cut: Cut, removed: dict[str, int]) -> None:
    """Of the summaries whose commits are all before the cut, the newest one of each key stays."""
    columns = ["partition", *KEY, "offset", "tombstone"]
    old = lake.read(SUMMARIES).where(_is_old(cut)).select(*columns)
    newest = _newest(old, list(KEY)).persist()
    try:
        _remove(lake, SUMMARIES, _unless_newest(cut, newest), removed)
    finally:
        newest.unpersist()


def _remove_gaps(lake: LakeTables, cut: Cut, removed: dict[str, int]) -> None:
    """Of the gaps before the cut, the last one of each run stays that may have hidden a control
    record: a replay of all records needs it."""
    last = lake.max_by_key("gaps", "last_offset", ("partition", "run_id"), "cause", TRANSACTION)
    key = ["partition", "run_id", "last_offset"]
    places = lake.spark.createDataFrame(
        [(*of, offset, True) for of, offset in last.items()],
        "partition int, run_id string, last_offset long, stays boolean",
    )

    def mark(rows: DataFrame) -> DataFrame:
        joined = rows.join(F.broadcast(places), key, "left")
        stays = F.col("stays").isNotNull() & (F.col("cause") != TRANSACTION)
        return joined.withColumn(AFFECTED, _is_old(cut, "last_offset") & ~stays).drop("stays")

    _remove(lake, "gaps", mark, removed)


def _remove_results(lake: LakeTables, cut: Cut, removed: dict[str, int]) -> None:
    """Removes what runs that finished before the cut have found, but not the newest results, and
    not the newest name of a topic."""
    runs = [row for row in lake.rows("runs") if row["outcome"] == DONE]
    old = {run["run_id"] for run in runs if _is_before(run, cut)}
    audits = {AUDIT, PARTIAL_AUDIT}
    for table, steps in (("agreement", audits), ("findings", audits), ("readiness", {READINESS})):
        newest = max((r["run_id"] for r in runs if steps & set(r["durations_ms"])), default="")
        if gone := sorted(old - {newest}):
            _remove(lake, table, _where(F.col("run_id").isin(gone)), removed)
    listed = lake.rows("topics")
    by_id: dict[str, str] = {}
    for row in listed:
        by_id[row["topic_id"]] = max(row["run_id"], by_id.get(row["topic_id"], ""))
    last = max((row["run_id"] for row in listed), default="")
    stale = {(i, r["run_id"]) for r in listed if (i := r["topic_id"]) and r["run_id"] != by_id[i]}
    if gone := sorted(pair for pair in stale if pair[1] in old - {last}):
        pairs = lake.spark.createDataFrame(
            [(*pair, True) for pair in gone], "topic_id string, run_id string, stale boolean"
        )

        def mark(rows: DataFrame) -> DataFrame:
            joined = rows.join(F.broadcast(pairs), ["topic_id", "run_id"], "left")
            return joined.withColumn(AFFECTED, F.col("stale").isNotNull()).drop("stale")

        _remove(lake, "topics", mark, removed)


def _is_before(run: TableRow, cut: Cut) -> bool:
    finished: datetime | None = run["finished_at"]
    return finished is not None and finished.timestamp() < cut.since.timestamp()
