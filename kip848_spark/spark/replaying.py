"""Replay: new control records and commits folded into the state tables.

Control state goes through a grouped map, a task a partition of the topic. Committed offsets are
reduced by Spark itself: the newest record of each group and partition wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kip848_spark.replay import kinds
from kip848_spark.replay.assignments import assignments
from kip848_spark.replay.fold import Fold
from kip848_spark.replay.groups import groups
from kip848_spark.replay.members import members
from kip848_spark.spark.lake import Lake
from kip848_spark.spark.tables import TABLES

_DERIVED: dict[str, Callable[[pa.Table], pa.Table]] = {
    "groups": groups,
    "members": members,
    "assignments": assignments,
}
_SORT = {
    "groups": ("group_id",),
    "members": ("group_id", "member_id"),
    "assignments": ("group_id", "member_id", "role", "topic_id", "topic", "topic_partition"),
}


def replay(lake: Lake, after: str | None, cluster_id: str | None) -> None:
    """Folds what runs later than ``after`` (all of them if None) wrote into the state tables."""
    new = F.lit(True) if after is None else F.col("run_id") > after
    commits = lake.read("records").where(
        new & (F.col("kind") == kinds.COMMIT) & F.col("error").isNull()
    )
    lake.overwrite("offsets", _offsets(lake, commits, cluster_id))
    control = lake.read("group_records").where(new)
    lake.overwrite("control_state", _control_state(lake, control, commits))
    carried = lake.read("control_state").repartition("partition")
    carried = carried.sortWithinPartitions("partition", "offset")
    names = topic_names(lake)
    for table, derive in _DERIVED.items():
        fields = TABLES[table].fields
        schema = T.StructType([f for f in TABLES[table].schema if f.name != "cluster_id"])
        rows = carried.mapInArrow(_deriving(derive), schema)
        rows = rows.withColumn("cluster_id", F.lit(cluster_id).cast("string"))
        if "topic" in fields:
            rows = _named(rows, names)
        lake.overwrite(table, rows.coalesce(1).sortWithinPartitions(*_SORT[table]))


def _deriving(
    derive: Callable[[pa.Table], pa.Table],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        carried = list(batches)
        if carried:
            yield from derive(pa.Table.from_batches(carried)).to_batches()

    return run


def _control_state(lake: Lake, control: DataFrame, commits: DataFrame) -> DataFrame:
    schema = TABLES["control_state"].schema
    rows = (
        lake.read("control_state")
        .unionByName(control.select(schema.names))
        .unionByName(_last_commits(commits), allowMissingColumns=True)
    )
    return (
        rows.repartition("partition")
        .sortWithinPartitions("partition", "offset")
        .groupBy("partition")
        .applyInArrow(_fold, schema)
    )


def _fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    fold = Fold()
    for batch in batches:
        fold.add(batch)
    yield from fold.batches()


def _last_commits(commits: DataFrame) -> DataFrame:
    """A row a group for its newest commit: a group may be known by its commits alone."""
    return (
        commits.where(~F.col("tombstone"))
        .groupBy("partition", "group_id")
        .agg(F.max("offset").alias("offset"), F.max_by("timestamp", "offset").alias("timestamp"))
        .withColumns({"kind": F.lit(kinds.COMMIT), "tombstone": F.lit(False)})
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
        lake.read("control_state")
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


def _named(rows: DataFrame, names: DataFrame) -> DataFrame:
    """``rows`` with the topic's name where only its id was known."""
    known = F.broadcast(names.withColumnRenamed("topic", "_name"))
    joined = rows.join(known, "topic_id", "left")
    return joined.withColumn("topic", F.coalesce("topic", "_name")).drop("_name")
