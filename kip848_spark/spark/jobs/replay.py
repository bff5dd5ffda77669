"""Replay: folds new control records and commits into the state tables.

The raw bytes of control records are shuffled to tasks, which fold one partition of the topic after
the other. Of the commits, only their summaries are read (`commit_summaries`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.ledger import Run
from kip848_spark.lake.rows_with import COMMITS
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.jobs.commit_activity import add_owners, names_frame, write_activity
from kip848_spark.spark.jobs.commit_summaries import (
    SUMMARIES,
    add_missing_summaries,
    commits_of_groups,
    fold_offsets,
)
from kip848_spark.spark.jobs.state_job import FOLDS, StateJob, sort_by_offset
from kip848_spark.spark.storage.tables import LakeTables, TableRow
from kip848_spark.state import kinds
from kip848_spark.state.folded_rows import CONTROL_STATE
from kip848_spark.state.history_fields import ASSIGNMENT_HISTORY, GROUP_HISTORY
from kip848_spark.wire.offset_gaps import COMPACTION, UNDECIDED

_NAMED = ("topic_id", "topic")
_NAMED_INSIDE = (
    (kinds.PARTITIONS, "topics"),
    (kinds.SHARE_STATE, "initializing_topics"),
    (kinds.SHARE_STATE, "initialized_topics"),
    (kinds.SHARE_STATE, "deleting_topics"),
)
"""The lists of `group_records` that name topics with their ids."""


def replay(lake: LakeTables, run: Run, after: str | None) -> None:
    """Folds the records of all runs later than ``after`` (of all runs if None) into the state
    tables: those of ``run``, which is in progress, and of runs that only ingested. Raises
    LakeError."""
    late = list(add_missing_summaries(lake))
    cluster_id = run.identity.cluster_id
    new = lake.read_later(SUMMARIES, after)
    before = lake.read("offsets")
    # A lake of an earlier version of this program has no history yet: it is made of all records.
    from_scratch = after is None or not run.table_versions.get(GROUP_HISTORY)
    with ThreadPoolExecutor(3) as pool:  # Spark plans a job while it runs others
        names = pool.submit(_known_names, lake, after)
        activity = pool.submit(_write_new_activity, lake, after, late, before, cluster_id)
        if not lake.pins_reads:
            activity.result()
        offsets = pool.submit(lake.overwrite, "offsets", fold_offsets(before, new, cluster_id))
        rows = sort_by_offset(_rows_to_fold(lake, run, new, after, from_scratch))
        if not from_scratch:
            _add_new_names(lake, names.result())
        job = StateJob(names.result(), from_scratch, FOLDS)
        lake.run_job(job, rows, run.run_id, cluster_id)
        offsets.result()
        add_owners(lake, activity.result(), names.result())


def _write_new_activity(
    lake: LakeTables,
    after: str | None,
    late: Sequence[str],
    before: DataFrame,
    cluster_id: str | None,
) -> list[str]:
    """`write_activity` for the summaries of the runs later than ``after``, and of those ``late``,
    whose summaries were added by this run."""
    summaries = lake.read_later(SUMMARIES, after)
    days = lake.distinct(SUMMARIES, ("day",), _later_than(after))
    if late:
        is_late = F.col("run_id").isin(late)
        later = F.lit(True) if after is None else F.col("run_id") > after
        summaries = lake.read(SUMMARIES).where(later | is_late)
        days |= lake.distinct(SUMMARIES, ("day",), [Condition("run_id", "among", late)])
    return write_activity(lake, summaries, sorted(day for (day,) in days), before, cluster_id)


def _known_names(lake: LakeTables, after: str | None) -> Mapping[str, str]:
    """`topic_names`, also of topics that commits of runs later than ``after`` name: these are not
    in `offsets` yet, or were deleted since."""
    return topic_names(lake, lake.distinct(SUMMARIES, _NAMED, _later_than(after)))


def _rows_to_fold(
    lake: LakeTables, run: Run, new: DataFrame, after: str | None, from_scratch: bool
) -> DataFrame:
    """The input of `StateJob`, in no order. ``new`` are the rows of `commit_summaries` of the runs
    later than ``after``."""
    since = None if from_scratch else after
    runs = lake.rows("runs")
    records = lake.read_later("records", since, COMMITS).where(F.col("error").isNull())
    summaries = new if since == after else lake.read(SUMMARIES)
    rows = (
        control_bytes(run, runs, records)
        .unionByName(commits_of_groups(summaries))
        .unionByName(_gap_rows(lake, run, runs, since))
    )
    return rows if from_scratch else rows.unionByName(lake.read(CONTROL_STATE))


def _add_new_names(lake: LakeTables, names: Mapping[str, str]) -> None:
    """Adds the ``names`` of topics to rows of `assignment_history` that earlier runs have written
    without them."""
    pairs = lake.distinct(ASSIGNMENT_HISTORY, _NAMED)
    ids = sorted(topic_id for topic_id, topic in pairs if topic is None and topic_id in names)
    if ids:
        rows = lake.read(ASSIGNMENT_HISTORY).where(F.col("topic_id").isin(ids))
        named = F.broadcast(names_frame(lake, {id_: names[id_] for id_ in ids}))
        rows = rows.join(named, "topic_id").withColumn("topic", F.coalesce("topic", "name"))
        lake.replace_values(ASSIGNMENT_HISTORY, rows, "topic_id", ids)


def _gap_rows(lake: LakeTables, run: Run, runs: Sequence[TableRow], after: str | None) -> DataFrame:
    """A row for each gap in the runs later than ``after`` (in all runs if None) from which the log
    cleaner may have removed control records.

    A gap of unknown cause counts in the first run only, where it is near the beginning of the log,
    and if it is longer than the marker of a transaction. There is also a gap before and after the
    inferred tombstones of a run: it is not known where the real ones were.
    """
    first = min(row["run_id"] for row in runs)
    length = F.col("last_offset") - F.col("first_offset") + 1
    at_start = (F.col("run_id") == first) & ((length > 1) | (F.col("first_offset") == 0))
    counts = (F.col("cause") == COMPACTION) | ((F.col("cause") == UNDECIDED) & at_start)
    absent = ("timestamp", "group_id", "dialect", "raw_key", "raw_value")
    found = lake.read_later("gaps", after).where(counts)
    places = found.select("partition", F.col("last_offset").alias("offset"))
    if any(row.get("inferred") for row in runs) or (run.counts is not None and run.counts.inferred):
        inferred = lake.read_later("records", after).where("inferred")
        of_run = inferred.groupBy("partition", "run_id")
        around = of_run.agg(F.array(F.min("offset") - 1, F.max("offset")).alias("offsets"))
        around = around.select("partition", F.explode("offsets").alias("offset"))
        places = places.union(around).distinct()
    return places.withColumn("kind", F.lit(kinds.GAP)).withColumns(
        {name: F.lit(None) for name in absent}
    )


def _later_than(after: str | None) -> list[Condition]:
    """The condition for rows of runs later than ``after`` (of all runs if None)."""
    return [] if after is None else [Condition("run_id", "above", after)]


def _dialect_column(run: Run, runs: Sequence[TableRow]) -> Column:
    """The dialect by which each record was decoded."""
    dialects = {row["run_id"]: row["dialect"] for row in runs}
    column = F.lit(run.dialect)
    for name in set(dialects.values()) - {run.dialect}:
        of_dialect = [run_id for run_id, its in dialects.items() if its == name]
        column = F.when(F.col("run_id").isin(of_dialect), name).otherwise(column)
    return column


def control_bytes(run: Run, runs: Sequence[TableRow], records: DataFrame) -> DataFrame:
    """The control records among ``records``, with the columns of `control_state`. ``runs`` are the
    rows of the table `runs`, in which ``run`` may not be finished."""
    control = records.where(F.col("raw_key").isNotNull() & (F.col("kind") != kinds.COMMIT))
    with_dialect = control.withColumn("dialect", _dialect_column(run, runs))
    return with_dialect.select(*TABLES[CONTROL_STATE].fields)


def topic_names(
    lake: LakeTables, more: Set[tuple[str | None, str | None]] = frozenset()
) -> dict[str, str]:
    """The name of each topic id that the cluster, commits, records of 4.0 brokers, or records of
    share groups name; and the pairs ``more``. Of several names, the one that sorts last."""
    found = [lake.distinct(table, _NAMED) for table in ("topics", "offsets", ASSIGNMENT_HISTORY)]
    described = lake.distinct(
        "group_records",
        ("topic_id", "topic_name"),
        [Condition("kind", "among", (kinds.PARTITIONS, kinds.SHARE_STATE))],
        inside=_NAMED_INSIDE,
    )
    pairs = set(more).union(described, *found)
    return dict(sorted((id_, name) for id_, name in pairs if id_ is not None and name is not None))
