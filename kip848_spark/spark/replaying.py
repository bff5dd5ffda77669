"""Replay: new control records and commits folded into the state tables.

Control records go, as bytes, to the tasks that fold them, a partition of the topic after the other.
Committed offsets are reduced by Spark itself: the newest record of each group and partition wins.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kip848_spark.replay import kinds
from kip848_spark.spark.folding import CARRIED, FOLDED, state_rows, state_writer
from kip848_spark.spark.lake import Lake
from kip848_spark.spark.ledger import Run
from kip848_spark.spark.tables import TABLES
from kip848_spark.spark.workers import in_workers


def replay(lake: Lake, run: Run, after: str | None) -> None:
    """Folds what runs later than ``after`` (all of them if None) wrote into the state tables:
    ``run``, which is under way, and those that only ingested."""
    new = F.lit(True) if after is None else F.col("run_id") > after
    records = lake.read("records").where(new & F.col("error").isNull())
    commits = records.where(F.col("kind") == kinds.COMMIT)
    cluster_id = run.identity.cluster_id
    lake.overwrite("offsets", _offsets(lake, commits, cluster_id))
    names = {row["topic_id"]: row["topic"] for row in topic_names(lake).collect()}
    rows = (
        lake.read(CARRIED)
        .unionByName(control_bytes(lake, run, records))
        .unionByName(_last_commits(commits))
    )
    if lake.writes_directly(FOLDED):
        targets = [lake.target(name, run.run_id, cluster_id) for name in FOLDED]
        lake.write_files(FOLDED, in_order(rows), state_writer(targets, names), "overwrite")
        return
    for table in FOLDED:
        schema = T.StructType([f for f in TABLES[table].schema if f.name != "cluster_id"])
        folded = in_workers(in_order(rows), state_rows(table, names), schema)
        if "cluster_id" in TABLES[table].fields:
            folded = folded.withColumn("cluster_id", F.lit(cluster_id).cast("string"))
        lake.overwrite(table, folded)
        rows = lake.read(CARRIED)


def in_order(rows: DataFrame) -> DataFrame:
    """``rows``, each partition of the topic in one task, in the order of its offsets."""
    return rows.repartition("partition").sortWithinPartitions("partition", "offset")


def _dialects(lake: Lake, run: Run) -> Column:
    """The dialect that each record's run read it by."""
    told = {row["run_id"]: row["dialect"] for row in lake.rows("runs")}
    column = F.lit(run.dialect)
    for name in set(told.values()) - {run.dialect}:
        runs = [run_id for run_id, its in told.items() if its == name]
        column = F.when(F.col("run_id").isin(runs), name).otherwise(column)
    return column


def control_bytes(lake: Lake, run: Run, records: DataFrame) -> DataFrame:
    """The control records among ``records``, as `control_state` has them."""
    control = records.where(F.col("raw_key").isNotNull() & (F.col("kind") != kinds.COMMIT))
    dialect = _dialects(lake, run)
    return control.withColumn("dialect", dialect).select(*TABLES[CARRIED].fields)


def _last_commits(commits: DataFrame) -> DataFrame:
    """A row a group for its newest commit: a group may be known by its commits alone."""
    return (
        commits.where(~F.col("tombstone"))
        .groupBy("partition", "group_id")
        .agg(F.max("offset").alias("offset"), F.max_by("timestamp", "offset").alias("timestamp"))
        .withColumn("kind", F.lit(kinds.COMMIT))
        .withColumns({name: F.lit(None) for name in ("dialect", "raw_key", "raw_value")})
    )


def _offsets(lake: Lake, commits: DataFrame, cluster_id: str | None) -> DataFrame:
    """The newest commit of each group, topic and partition, unless it is a tombstone."""
    values = [
        "committed_offset",
        "leader_epoch",
        "metadata",
        "commit_timestamp",
        "expire_timestamp",
        "topic_id",
        "partition",
        "offset",
    ]
    key = ["group_id", "topic", "topic_partition"]
    before = lake.read("offsets").select(*key, *values, F.lit(False).alias("tombstone"))
    newest = (
        before.unionByName(commits.select(*key, *values, "tombstone"))
        .groupBy(*key)
        .agg(F.max_by(F.struct(*values, "tombstone"), "offset").alias("newest"))
    )
    return (
        newest.where(~F.col("newest.tombstone"))
        .select(*key, *(F.col(f"newest.{name}") for name in values))
        .withColumn("cluster_id", F.lit(cluster_id).cast("string"))
    )


def topic_names(lake: Lake) -> DataFrame:
    """topic_id, topic: every pair that the cluster, a commit or a 4.0 broker's records name."""
    told = lake.read("topics").select("topic_id", "topic")
    committed = lake.read("offsets").select("topic_id", "topic")
    topics: Column = F.explode(F.col(f"{kinds.PARTITIONS}.topics"))
    described = (
        lake.read("group_records")
        .where(F.col("kind") == kinds.PARTITIONS)
        .select(topics.alias("t"))
        .select("t.topic_id", F.col("t.topic_name").alias("topic"))
    )
    pairs = told.unionByName(committed).unionByName(described)
    return (
        pairs.where(F.col("topic_id").isNotNull())
        .groupBy("topic_id")
        .agg(F.max("topic").alias("topic"))
    )
