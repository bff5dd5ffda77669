"""Summaries of commits (the table `commit_summaries`): those that the ingest did not write, and
what replay takes from them.

The Python workers summarize commits while they decode them. For runs of versions without this
table, the summaries are made from `records`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kip848_spark.insight.commit_summary import (
    COMMIT_FIELDS,
    COMMIT_SUMMARY_FIELDS,
    KEY,
    NEWEST,
    CommitSummary,
)
from kip848_spark.lake.ledger import DONE, REPLAY, Run
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.state import kinds
from kip848_spark.wire.batches import Batches

SUMMARIES = "commit_summaries"
_RUN = ("run_id", "cluster_id")
_GROUP = ["partition", "group_id"]


def summaries_of(records: DataFrame) -> DataFrame:
    """The rows of `commit_summaries` for rows of `records`, with their ``run_id`` and
    ``cluster_id``. Together they say what the rows of an ingest say."""
    commits = records.where(F.col("error").isNull() & (F.col("kind") == kinds.COMMIT))
    names = [name for name in COMMIT_FIELDS if name != "size"]
    sorted_ = (
        commits.select(*names, _size().alias("size"), *_RUN)
        .repartition("partition")
        .sortWithinPartitions("partition", "offset")
    )
    schema = pa.schema([*COMMIT_SUMMARY_FIELDS.items(), *((name, pa.string()) for name in _RUN)])
    return map_in_arrow(sorted_, _summarize, schema)


def _size() -> Column:
    """The bytes of a commit's key and value. Versions of this program that did not store them
    stored all that was encoded, so the lengths can be computed from the layouts in `schemas`."""
    texts = F.octet_length("group_id") + F.octet_length("topic")
    key = F.lit(2 + 2 + 2 + 4) + texts
    metadata = F.octet_length("metadata")
    topic_id = F.when(F.col("topic_id").isNotNull(), F.lit(2 + 16)).otherwise(0)
    compact = F.when(metadata < 127, 1).when(metadata < 16383, 2).otherwise(3)
    fixed = F.lit(2 + 8 + 8)
    value = (
        F.when(F.col("value_version") == 1, fixed + 2 + metadata + 8)
        .when(F.col("value_version") == 3, fixed + 2 + metadata + 4)
        .when(F.col("value_version") >= 4, fixed + compact + metadata + 4 + 1 + topic_id)
        .otherwise(fixed + 2 + metadata)
    )
    computed = key + F.when(F.col("tombstone"), 0).otherwise(value)
    return F.coalesce(F.col("size"), computed).cast("int")


def _summarize(batches: Batches) -> Batches:
    """Rows of `records`, sorted by partition and offset, to rows of `commit_summaries`. The rows of
    each run are summarized on their own."""
    done: list[pa.RecordBatch] = []
    summary, run = None, None
    for batch in batches:
        runs = pc.fill_null(batch.column("run_id"), "")
        code = pc.dictionary_encode(runs).indices.to_numpy()
        for rows in np.split(np.arange(batch.num_rows), np.flatnonzero(np.diff(code)) + 1):
            if not len(rows):
                continue
            part = batch.slice(rows[0], len(rows))
            here = tuple(part.column(name)[0] for name in _RUN)
            if summary is None or here != run:
                if summary is not None:
                    summary.finish()
                summary, run = CommitSummary(_collector(done, here)), here
            summary.add({name: part.column(name) for name in COMMIT_FIELDS})
        yield from done
        done.clear()
    if summary is not None:
        summary.finish()
    yield from done


def _collector(
    to: list[pa.RecordBatch], run: Sequence[pa.Scalar]
) -> Callable[[dict[str, pa.Array]], None]:
    def emit(columns: dict[str, pa.Array]) -> None:
        count = len(columns["offset"])
        constants = {name: pa.repeat(value, count) for name, value in zip(_RUN, run, strict=True)}
        to.append(pa.RecordBatch.from_pydict(columns | constants))

    return emit


def add_missing_summaries(lake: LakeTables) -> tuple[str, ...]:
    """Adds the summaries of finished runs by versions of this program that wrote none, and returns
    the ids of these runs. Raises LakeError."""
    found = [Run.from_row(row) for row in lake.rows("runs") if row["outcome"] == DONE]
    with_table = [run for run in found if SUMMARIES in run.table_versions]
    # The first replay of a version with this table completes it.
    complete = max((run.run_id for run in with_table if REPLAY in run.durations_ms), default="")
    candidates = {run.run_id for run in found if run.run_id > complete}
    candidates -= {run.run_id for run in with_table}
    if not candidates:
        return ()
    present = {row["run_id"] for row in lake.read(SUMMARIES).select("run_id").distinct().collect()}
    missing = tuple(sorted(candidates - present))
    if missing:
        records = lake.read("records").where(F.col("run_id").isin(list(missing)))
        lake.append(SUMMARIES, summaries_of(records).select(*TABLES[SUMMARIES].fields))
    return missing


def commits_of_groups(summaries: DataFrame) -> DataFrame:
    """Rows of `control_state` for commits of each group, which may have nothing else: the first
    one, the newest one, and the first ones after tombstones of commits. The first commit of a group
    that was deleted before is one of these."""
    first, last = (_commit(side) for side in ("first", "last"))
    groups = summaries.groupBy(*_GROUP).agg(
        F.min(first).alias("first"), F.max(last).alias("last"), F.max("tombstone").alias("deleted")
    )
    ends = groups.where(F.col("first").isNotNull()).select(
        *_GROUP, F.inline(F.array_distinct(F.array("first", "last")))
    )
    return (
        ends.unionByName(_commits_after_tombstones(summaries, groups.where("deleted")))
        .withColumn("kind", F.lit(kinds.COMMIT))
        .withColumns({name: F.lit(None) for name in ("dialect", "raw_key", "raw_value")})
    )


def _commits_after_tombstones(summaries: DataFrame, groups: DataFrame) -> DataFrame:
    """The commits of ``groups`` that follow a tombstone in the order of offsets and begin a row of
    the summary, but for the ``first`` and the ``last`` one. A tombstone is the end of its row, so
    the first commit of a key after it begins one."""
    last = F.when(F.col("tombstone"), _position("offset", "timestamp"))
    begin = F.struct(_commit("first").alias("at"), F.lit(False).alias("is_end"))
    end = F.struct(last.alias("at"), F.lit(True).alias("is_end"))
    in_order = Window.partitionBy(*_GROUP).orderBy("at.offset")
    return (
        summaries.join(groups, _GROUP)
        .select(*_GROUP, "first", "last", F.inline(F.array(begin, end)))
        .where(F.col("at").isNotNull())
        .withColumn("after_tombstone", F.lag("is_end").over(in_order))
        .where("after_tombstone AND NOT is_end AND at > first AND at < last")
        .select(*_GROUP, "at.*")
    )


def _commit(side: str) -> Column:
    """The position of the first or the last commit of a row; null without one."""
    offset = f"{side}_commit_offset"
    return F.when(F.col(offset).isNotNull(), _position(offset, f"{side}_commit_timestamp"))


def _position(offset: str, timestamp: str) -> Column:
    names = F.col(offset).alias("offset"), F.col(timestamp).alias("timestamp")
    return F.struct(*names).cast("struct<offset:bigint,timestamp:timestamp>")


def fold_offsets(before: DataFrame, summaries: DataFrame, cluster_id: str | None) -> DataFrame:
    """The rows of `offsets`: the newest commit of each key, unless it is a tombstone. ``before``
    are those of the run before."""
    values = [*NEWEST, "partition", "offset"]
    earlier = before.select(*KEY, *values, F.lit(False).alias("tombstone"))
    newest = (
        earlier.unionByName(summaries.select(*KEY, *values, "tombstone"))
        .groupBy(*KEY)
        .agg(F.max_by(F.struct(*values, "tombstone"), "offset").alias("newest"))
    )
    return (
        newest.where(~F.col("newest.tombstone"))
        .select(*KEY, *(F.col(f"newest.{name}") for name in values))
        .withColumn("cluster_id", F.lit(cluster_id).cast("string"))
    )
