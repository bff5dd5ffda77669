"""Replay: folds new control records and commits into the state tables.

The raw bytes of control records are shuffled to tasks, which fold one partition of the topic after
the other. Of the commits, only their summaries are read (`commit_summaries`).
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip848_spark.lake.ledger import Run
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.jobs.commit_activity import add_owners, write_activity
from kip848_spark.spark.jobs.commit_summaries import (
    SUMMARIES,
    add_missing_summaries,
    commits_of_groups,
    fold_offsets,
)
from kip848_spark.spark.jobs.state_job import FOLDS, StateJob, sort_by_offset
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state import kinds
from kip848_spark.state.history_fields import ASSIGNMENT_HISTORY, GROUP_HISTORY
from kip848_spark.state.partition_stream import CONTROL_STATE
from kip848_spark.wire.offset_gaps import COMPACTION, UNDECIDED

SCANS = 1
"""How often a replay reads all new records: for the control records among them."""


def replay(lake: LakeTables, run: Run, after: str | None) -> None:
    """Folds the records of all runs later than ``after`` (of all runs if None) into the state
    tables: those of ``run``, which is in progress, and of runs that only ingested. Raises
    LakeError."""
    late = list(add_missing_summaries(lake))
    cluster_id = run.identity.cluster_id
    new = lake.read_later(SUMMARIES, after)
    unseen = new
    if late:
        unseen = lake.read(SUMMARIES).where(_later_than(after) | F.col("run_id").isin(late))
    before = lake.read("offsets")
    with ThreadPoolExecutor(1) as pool:  # Spark plans one job while it runs another
        activity = pool.submit(write_activity, lake, unseen, before, cluster_id)
        if not lake.pins_reads:
            activity.result()
        topic_ids = _replay_state(lake, run, after, new)
        add_owners(lake, activity.result(), topic_ids)


def _replay_state(lake: LakeTables, run: Run, after: str | None, new: DataFrame) -> DataFrame:
    """Brings `offsets` and the tables of `StateJob` up to date. ``new`` are the rows of
    `commit_summaries` of the runs later than ``after``. Returns `topic_names`."""
    cluster_id = run.identity.cluster_id
    lake.overwrite("offsets", fold_offsets(lake.read("offsets"), new, cluster_id))
    topic_ids = topic_names(lake)
    names = {row["topic_id"]: row["topic"] for row in topic_ids.collect()}
    # A lake of an earlier version of this program has no history yet: it is made of all records.
    from_scratch = after is None or not run.table_versions.get(GROUP_HISTORY)
    since = None if from_scratch else after
    records = lake.read_later("records", since).where(F.col("error").isNull())
    rows = (
        control_bytes(lake, run, records)
        .unionByName(commits_of_groups(lake.read_later(SUMMARIES, since)))
        .unionByName(_gap_rows(lake, since))
    )
    if not from_scratch:
        rows = rows.unionByName(lake.read(CONTROL_STATE))
        _add_new_names(lake, topic_ids, names)
    job = StateJob(names, from_scratch, FOLDS)
    lake.run_job(job, sort_by_offset(rows), run.run_id, cluster_id)
    return topic_ids


def _add_new_names(lake: LakeTables, topic_ids: DataFrame, known: Mapping[str, str]) -> None:
    """Adds the names of topics to rows of `assignment_history` that earlier runs have written
    without them. ``known`` are the rows of ``topic_ids``."""
    history = lake.read(ASSIGNMENT_HISTORY)
    unnamed = history.where(F.col("topic").isNull()).select("topic_id").distinct().collect()
    ids = [row["topic_id"] for row in unnamed if row["topic_id"] in known]
    if ids:
        names = F.broadcast(topic_ids.withColumnRenamed("topic", "name"))
        rows = history.where(F.col("topic_id").isin(ids)).join(names, "topic_id")
        named = rows.withColumn("topic", F.coalesce("topic", "name"))
        lake.replace_values(ASSIGNMENT_HISTORY, named, "topic_id", ids)


def _gap_rows(lake: LakeTables, after: str | None) -> DataFrame:
    """A row for each gap in the runs later than ``after`` (in all runs if None) from which the log
    cleaner may have removed control records.

    A gap of unknown cause counts in the first run only, where it is near the beginning of the log,
    and if it is longer than the marker of a transaction.
    """
    first = min(row["run_id"] for row in lake.rows("runs"))
    length = F.col("last_offset") - F.col("first_offset") + 1
    at_start = (F.col("run_id") == first) & ((length > 1) | (F.col("first_offset") == 0))
    counts = (F.col("cause") == COMPACTION) | ((F.col("cause") == UNDECIDED) & at_start)
    absent = ("timestamp", "group_id", "dialect", "raw_key", "raw_value")
    return (
        lake.read_later("gaps", after)
        .where(counts)
        .select("partition", F.col("last_offset").alias("offset"), F.lit(kinds.GAP).alias("kind"))
        .withColumns({name: F.lit(None) for name in absent})
    )


def _later_than(after: str | None) -> Column:
    return F.lit(True) if after is None else F.col("run_id") > after


def _dialect_column(lake: LakeTables, run: Run) -> Column:
    """The dialect by which each record was decoded."""
    dialects = {row["run_id"]: row["dialect"] for row in lake.rows("runs")}
    column = F.lit(run.dialect)
    for name in set(dialects.values()) - {run.dialect}:
        runs = [run_id for run_id, its in dialects.items() if its == name]
        column = F.when(F.col("run_id").isin(runs), name).otherwise(column)
    return column


def control_bytes(lake: LakeTables, run: Run, records: DataFrame) -> DataFrame:
    """The control records among ``records``, with the columns of `control_state`."""
    control = records.where(F.col("raw_key").isNotNull() & (F.col("kind") != kinds.COMMIT))
    dialect = _dialect_column(lake, run)
    return control.withColumn("dialect", dialect).select(*TABLES[CONTROL_STATE].fields)


def topic_names(lake: LakeTables) -> DataFrame:
    """Pairs of topic_id and topic from the cluster, from commits, and from records of 4.0
    brokers."""
    asked = lake.read("topics").select("topic_id", "topic")
    committed = lake.read("offsets").select("topic_id", "topic")
    topics: Column = F.explode(F.col(f"{kinds.PARTITIONS}.topics"))
    described = (
        lake.read("group_records")
        .where(F.col("kind") == kinds.PARTITIONS)
        .select(topics.alias("t"))
        .select("t.topic_id", F.col("t.topic_name").alias("topic"))
    )
    pairs = asked.unionByName(committed).unionByName(described)
    return (
        pairs.where(F.col("topic_id").isNotNull())
        .groupBy("topic_id")
        .agg(F.max("topic").alias("topic"))
    )
