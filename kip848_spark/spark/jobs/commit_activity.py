"""The tables `offset_activity` and `rewinds`, from the summaries of commits.

The summaries hold what the tasks saw. A commit that is lower than the last one of another task, or
of an earlier run, is found here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kip848_spark.insight.commit_summary import KEY
from kip848_spark.spark.storage.tables import LakeTables

ACTIVITY, REWINDS = "offset_activity", "rewinds"
_PLACE = ("partition", *KEY)
_FARTHEST = 2**63 - 1
_NAMES = [("topic_id", pa.string()), ("name", pa.string())]
_OWNING = ("assigned", "pending_revocation")
"""The roles in which a member owns a partition: it commits until it has given the partition up."""


def with_boundaries(summaries: DataFrame, before: DataFrame) -> DataFrame:
    """The rows ``summaries`` of `commit_summaries`. Their ``rewinds`` also have the one at the
    start of the row, if its first commit is lower than the last commit before the row.

    ``before`` are the rows of `offsets` before these summaries."""
    earlier = before.select(
        *_PLACE,
        "offset",
        F.col("offset").alias("first_offset"),
        "committed_offset",
        F.lit(True).alias("is_earlier"),
    )
    rows = summaries.withColumn("is_earlier", F.lit(False)).unionByName(
        earlier, allowMissingColumns=True
    )
    order = Window.partitionBy(*_PLACE).orderBy("first_offset", "is_earlier")
    previous = F.lag("committed_offset").over(order)
    at_start = F.struct(
        F.col("first_offset").alias("offset"),
        F.col("first_timestamp").alias("at"),
        F.col("previous").alias("from_committed"),
        F.col("first_committed").alias("to_committed"),
    )
    inside = F.coalesce("rewinds", F.filter(F.array(at_start), lambda _: F.lit(False)))
    went_back = F.col("first_committed") < F.col("previous")
    return (
        rows.withColumn("previous", previous)
        .where(~F.col("is_earlier"))
        .withColumn(
            "rewinds", F.when(went_back, F.concat(F.array(at_start), inside)).otherwise(inside)
        )
        .select(*summaries.columns)
    )


def write_activity(
    lake: LakeTables,
    summaries: DataFrame,
    days: Sequence[date],
    before: DataFrame,
    cluster_id: str | None,
) -> list[str]:
    """Adds rows ``summaries`` of `commit_summaries` to `offset_activity` and `rewinds`, without the
    owners of partitions. Returns the ids of the runs that have read rewinds.

    ``days`` are those of the summaries, and ``before`` the rows of `offsets` before them. Raises
    LakeError."""
    if not days:
        return []
    rows = with_boundaries(summaries, before).persist()
    try:
        return _write_activity(lake, rows, days, cluster_id)
    finally:
        rows.unpersist()


def _write_activity(
    lake: LakeTables, rows: DataFrame, days: Sequence[date], cluster_id: str | None
) -> list[str]:
    # PySpark can't send Spark a date of a year below 1000.
    known = F.col("day").isin([F.lit(day.isoformat()).cast("date") for day in days])
    activity = _add_activity(lake.read(ACTIVITY).where(known), rows)
    lake.replace_values(ACTIVITY, _with_cluster(activity, cluster_id), "day", days)
    found = rows.where(F.size("rewinds") > 0)
    runs = sorted(row["run_id"] for row in found.select("run_id").distinct().collect())
    if runs:
        found = found.select("run_id", *_PLACE, F.inline("rewinds"))
        found = found.withColumn("owner", F.lit(None).cast("string"))
        lake.replace_values(REWINDS, _with_cluster(found, cluster_id), "run_id", runs)
    return runs


def _add_activity(there: DataFrame, rows: DataFrame) -> DataFrame:
    """The rows ``there`` of `offset_activity` and what ``rows`` (see `with_boundaries`) add to
    them: a day may grow in several runs."""
    distances = F.transform("rewinds", _distance)
    new = rows.select(
        *_PLACE, "day", "commits", "tombstones", "bytes", "first_offset",
        F.col("offset").alias("last_offset"),
        F.size("rewinds").cast("long").alias("rewinds"),
        F.coalesce(F.array_max(distances), F.lit(0)).alias("largest_rewind"),
    )  # fmt: skip
    functions = {"first_offset": F.min, "last_offset": F.max, "largest_rewind": F.max}
    key = (*_PLACE, "day")
    sums = [functions.get(n, F.sum)(n).alias(n) for n in new.columns if n not in key]
    return there.select(*new.columns).unionByName(new).groupBy(*key).agg(*sums)


def _distance(rewind: Column) -> Column:
    """By how much a commit went back: at most `_FARTHEST`, since a client may commit any number."""
    distance = F.try_subtract(rewind["from_committed"], rewind["to_committed"])
    return F.coalesce(distance, F.lit(_FARTHEST))


def names_frame(lake: LakeTables, names: Mapping[str, str]) -> DataFrame:
    """topic_id, name: the ``names`` of topics by their ids."""
    pairs = pa.table([[*names], [*names.values()]], pa.schema(_NAMES))
    return lake.spark.createDataFrame(pairs)


def add_owners(lake: LakeTables, runs: Sequence[str], names: Mapping[str, str]) -> None:
    """Adds the owners of the partitions to the rows of `rewinds` that ``runs`` have read, by
    `assignment_history`, which is up to date. ``names`` are the names of topics by their ids.
    Raises LakeError."""
    if runs:
        found = lake.read(REWINDS).where(F.col("run_id").isin(list(runs))).drop("owner")
        owned = with_owners(found, lake.read("assignment_history"), names_frame(lake, names))
        lake.replace_values(REWINDS, owned, "run_id", runs)


def with_owners(rewinds: DataFrame, history: DataFrame, names: DataFrame) -> DataFrame:
    """``rewinds`` with the column ``owner``: the member that owned the partition at the offset of
    the commit; null if there is none. ``names``: see `names_frame`."""
    owners = (
        history.where(F.col("role").isin(*_OWNING))
        .join(F.broadcast(names), "topic_id", "left")
        .select(
            F.col("partition").alias("of"),
            F.col("group_id").alias("group"),
            F.coalesce("topic", "name").alias("owned_topic"),
            F.col("topic_partition").alias("owned_partition"),
            "member_id",
            "from_offset",
            "to_offset",
        )
    )
    here = [
        F.col("of") == F.col("partition"),
        F.col("group") == F.col("group_id"),
        F.col("owned_topic") == F.col("topic"),
        F.col("owned_partition") == F.col("topic_partition"),
        F.col("from_offset") <= F.col("offset"),
        F.coalesce(F.col("to_offset") > F.col("offset"), F.lit(True)),
    ]
    condition: Column = reduce(Column.__and__, here)
    # One row at most owns a partition; if the log says otherwise, the latest one counts.
    found = (
        owners.join(F.broadcast(rewinds), condition)
        .groupBy("partition", "offset")
        .agg(F.max_by("member_id", F.struct("from_offset", "member_id")).alias("owner"))
    )
    return rewinds.join(F.broadcast(found), ["partition", "offset"], "left")


def _with_cluster(rows: DataFrame, cluster_id: str | None) -> DataFrame:
    return rows.withColumn("cluster_id", F.lit(cluster_id).cast("string"))
