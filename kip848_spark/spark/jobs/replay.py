"""Replay: folds new control records and commits into the state tables.

The raw bytes of control records are shuffled to tasks, which fold one partition of the topic after
the other. Spark reduces commits to the newest one for each group, topic and partition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip848_spark.lake.arrow_files import TableWriter
from kip848_spark.lake.ledger import Run
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.tables import LakeTables, WriteMode
from kip848_spark.state import kinds
from kip848_spark.state.partition_stream import (
    CONTROL_STATE,
    FOLDED_TABLES,
    STATE_FIELDS,
    derive_rows,
    fold_partitions,
)
from kip848_spark.wire.batches import Batches, BatchFunction

SCANS = 2
"""How often a replay reads all new records: for the newest commit of each partition, and for the
newest one of each group. Control records are few."""


def replay(lake: LakeTables, run: Run, after: str | None) -> None:
    """Folds the records of all runs later than ``after`` (of all runs if None) into the state
    tables: those of ``run``, which is in progress, and of runs that only ingested. Raises
    LakeError."""
    new = F.lit(True) if after is None else F.col("run_id") > after
    records = lake.read("records").where(new & F.col("error").isNull())
    commits = records.where(F.col("kind") == kinds.COMMIT)
    cluster_id = run.identity.cluster_id
    lake.overwrite("offsets", _fold_offsets(lake, commits, cluster_id))
    names = {row["topic_id"]: row["topic"] for row in topic_names(lake).collect()}
    rows = (
        lake.read(CONTROL_STATE)
        .unionByName(control_bytes(lake, run, records))
        .unionByName(_last_commits(commits))
    )
    lake.run_job(StateJob(names), sort_by_offset(rows), run.run_id, cluster_id)


@dataclass(frozen=True)
class StateJob:
    """Rows of `control_state`, sorted by partition and offset, to the tables `FOLDED_TABLES`: a
    `TableJob`. Rows that an earlier run carried and new ones come together.

    ``names`` are the names of topics by their ids. Raises OutOfOrderError if rows are not sorted.
    """

    names: Mapping[str, str]

    tables: Sequence[str] = FOLDED_TABLES
    mode: WriteMode = "overwrite"

    def write_tables(
        self, batches: Batches, writers: Mapping[str, TableWriter]
    ) -> list[dict[str, Any]]:
        for carried in fold_partitions(batches):
            for name, writer in writers.items():
                writer.write(_column_arrays(derive_rows(name, carried, self.names)))
        return []

    def yield_tables(
        self, rows: DataFrame, read: Callable[[str], DataFrame]
    ) -> Generator[tuple[str, DataFrame], None, list[dict[str, Any]]]:
        """See `TableJob`. All other tables are derived from the first one, `control_state`."""
        for table in self.tables:
            schema = pa.schema(list(STATE_FIELDS[table].items()))
            yield table, map_in_arrow(rows, self._rows_of(table), schema)
            rows = sort_by_offset(read(CONTROL_STATE))
        return []

    def _rows_of(self, table: str) -> BatchFunction:
        def run(batches: Batches) -> Batches:
            for carried in fold_partitions(batches):
                yield from derive_rows(table, carried, self.names).to_batches()

        return run


def _column_arrays(table: pa.Table) -> dict[str, pa.Array]:
    columns = table.combine_chunks()
    return {
        name: column.chunk(0) if column.num_chunks else pa.array([], column.type)
        for name, column in zip(columns.column_names, columns.columns, strict=True)
    }


def sort_by_offset(rows: DataFrame) -> DataFrame:
    """``rows`` with each partition of the topic in one task, in offset order."""
    return rows.repartition("partition").sortWithinPartitions("partition", "offset")


def _dialect_column(lake: LakeTables, run: Run) -> Column:
    """The dialect by which each record was decoded."""
    told = {row["run_id"]: row["dialect"] for row in lake.rows("runs")}
    column = F.lit(run.dialect)
    for name in set(told.values()) - {run.dialect}:
        runs = [run_id for run_id, its in told.items() if its == name]
        column = F.when(F.col("run_id").isin(runs), name).otherwise(column)
    return column


def control_bytes(lake: LakeTables, run: Run, records: DataFrame) -> DataFrame:
    """The control records among ``records``, with the columns of `control_state`."""
    control = records.where(F.col("raw_key").isNotNull() & (F.col("kind") != kinds.COMMIT))
    dialect = _dialect_column(lake, run)
    return control.withColumn("dialect", dialect).select(*TABLES[CONTROL_STATE].fields)


def _last_commits(commits: DataFrame) -> DataFrame:
    """One row for the newest commit of each group: a group may have nothing but commits."""
    return (
        commits.where(~F.col("tombstone"))
        .groupBy("partition", "group_id")
        .agg(F.max("offset").alias("offset"), F.max_by("timestamp", "offset").alias("timestamp"))
        .withColumn("kind", F.lit(kinds.COMMIT))
        .withColumns({name: F.lit(None) for name in ("dialect", "raw_key", "raw_value")})
    )


def _fold_offsets(lake: LakeTables, commits: DataFrame, cluster_id: str | None) -> DataFrame:
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


def topic_names(lake: LakeTables) -> DataFrame:
    """Pairs of topic_id and topic from the cluster, from commits, and from records of 4.0
    brokers."""
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
