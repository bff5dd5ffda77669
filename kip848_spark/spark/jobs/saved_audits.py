"""The table `audited_groups`: saved audits, from which later ones go on (`checks.saved_audit`)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.checks.group_task import SAVED
from kip848_spark.checks.saved_audit import rules_id
from kip848_spark.lake.ledger import Run
from kip848_spark.spark.schemas import with_constants
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.upkeep import AFFECTED, Rewrite

AUDITED_GROUPS = "audited_groups"


def find_saved(lake: LakeTables, after: str) -> DataFrame | None:
    """The audits that were saved in the run ``after`` or before it, by the rules of this program;
    None if the table is empty."""
    if not lake.count(AUDITED_GROUPS):
        return None
    rows = lake.read(AUDITED_GROUPS)
    return rows.where((F.col("run_id") <= after) & (F.col("rules") == rules_id()))


def newest_saved(saved: DataFrame) -> DataFrame:
    """The place of the newest of the ``saved`` audits of each group: its run, and the partition and
    offset of the last record that it has checked."""
    place = F.max_by(F.struct("run_id", "partition", "offset"), "run_id").alias("place")
    return saved.groupBy("group_id").agg(place).select("group_id", "place.*")


def without_checked(records: DataFrame, newest: DataFrame) -> DataFrame:
    """The ``records`` of groups that the saved audits at the places ``newest`` have not checked."""
    last = newest.select(
        "group_id", F.col("partition").alias("at"), F.col("offset").alias("through")
    )
    joined = records.join(F.broadcast(last), "group_id", "left")
    checked = (F.col("partition") == F.col("at")) & (F.col("offset") <= F.col("through"))
    return joined.where(~F.coalesce(checked, F.lit(False))).drop("at", "through")


def add_saved(lake: LakeTables, verdicts: DataFrame, run: Run) -> None:
    """Adds the saved audits among the results of audit tasks."""
    saved = verdicts.where(F.col("verdict") == SAVED)
    rows = saved.select("group_id", "partition", "offset", "timestamp", "saved")
    rows = rows.withColumn("rules", F.lit(rules_id()))
    cluster_id = run.identity.cluster_id
    lake.append(AUDITED_GROUPS, with_constants(AUDITED_GROUPS, rows, run.run_id, cluster_id))


def remove_superseded(lake: LakeTables) -> int:
    """Removes the saved audits of groups that have a newer one, and those by other rules. Returns
    their number. Raises LakeError."""
    if not lake.count(AUDITED_GROUPS):
        return 0
    valid = lake.read(AUDITED_GROUPS).where(F.col("rules") == rules_id())
    newest = valid.groupBy("group_id").agg(F.max("run_id").alias("newest")).persist()

    def mark(rows: DataFrame) -> DataFrame:
        joined = rows.join(newest, "group_id", "left")
        stays = (F.col("run_id") == F.col("newest")) & (F.col("rules") == rules_id())
        return joined.withColumn(AFFECTED, ~F.coalesce(stays, F.lit(False))).drop("newest")

    try:
        return sum(lake.rewrite(AUDITED_GROUPS, Rewrite(mark)).values())
    finally:
        newest.unpersist()
