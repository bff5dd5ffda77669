"""Repairs a lake that two programs wrote to at once, from its own records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kip848_spark.errors import LakeError
from kip848_spark.lake.ledger import Ledger, Run, removed_records
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.jobs.commit_activity import ACTIVITY
from kip848_spark.spark.jobs.commit_summaries import SUMMARIES, summaries_of
from kip848_spark.spark.jobs.ingest import control_records
from kip848_spark.spark.jobs.integrity import (
    finished_ranges,
    in_finished_range,
    split_finished_runs,
)
from kip848_spark.spark.jobs.replay import replay
from kip848_spark.spark.jobs.retention import Cut, first_day, remove_closed_rows
from kip848_spark.spark.jobs.saved_audits import AUDITED_GROUPS
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.wire.control_plans import control_plan

_INCREMENTAL_TABLES = ("control_state", "offsets", "offset_activity", "rewinds")
"""The tables that a replay updates: a replay rebuilds them if they are empty."""
_KEYS: dict[str, list[str] | None] = {
    "topics": ["run_id", "topic"],
    "agreement": ["run_id", "check"],
    "findings": None,
    "readiness": ["run_id", "group_id"],
}
"""The key columns of tables that each run writes once; None for all columns."""


@dataclass(frozen=True)
class RepairResult:
    """The damage, as sentences, the number of rows removed from `records`, and the ids of the runs
    removed from the ledger: the next run reads their offsets again."""

    damage: tuple[str, ...] = ()
    removed: int = 0
    dropped_runs: tuple[str, ...] = ()


def repair(
    lake: LakeTables, plan: Run, progress: Callable[[str], None]
) -> tuple[int, tuple[str, ...]]:
    """Keeps one row of `records` for each offset in the ranges of the finished runs, and rebuilds
    the other tables from them. ``plan`` is the row of this repair in the ledger. Returns the number
    of removed rows and the ids of the removed runs.

    Raises LakeError before it writes anything if records of a finished run are lost.
    """
    follows, others = split_finished_runs(lake)
    windows = finished_ranges(lake)
    once = _deduplicate(lake.read("records"), windows)
    _require_complete(lake, once, follows)
    before = lake.count("records")
    progress("removing duplicate rows")
    lake.overwrite("records", once)
    _rebuild_group_records(lake, follows)
    summaries = summaries_of(lake.read("records")).select(*TABLES[SUMMARIES].fields)
    lake.overwrite(SUMMARIES, summaries)
    found = lake.read("gaps").join(F.broadcast(windows), in_finished_range("first_offset"))
    gaps = found.withColumn("run_id", F.col("owner")).select(*TABLES["gaps"].fields)
    lake.overwrite("gaps", gaps.dropDuplicates(["partition", "first_offset"]))
    of_runs = F.col("run_id").isin([run.run_id for run in follows])
    for name, key in _KEYS.items():
        lake.overwrite(name, lake.read(name).where(of_runs).dropDuplicates(key))
    lake.overwrite(AUDITED_GROUPS, lake.read(AUDITED_GROUPS).limit(0))
    progress("replaying control records")
    replay_from_scratch(lake, plan)
    for run in others:
        Ledger(lake).delete(run)
    return before - lake.count("records"), tuple(run.run_id for run in others)


def replay_from_scratch(lake: LakeTables, plan: Run) -> None:
    """Rebuilds the state tables and the history from the records of all runs; ``plan`` is the run
    that does it. What retention has removed from them stays removed. Raises LakeError."""
    for name in _INCREMENTAL_TABLES:
        lake.overwrite(name, lake.read(name).limit(0))
    replay(lake, plan, None)
    if plan.kept_since is not None:
        cut = Cut(plan.kept_since, plan.kept_from or {})
        remove_closed_rows(lake, cut)
        _restore_first_day(lake, plan, first_day(cut))


def _restore_first_day(lake: LakeTables, plan: Run, day: date) -> None:
    """Restores the rows of `offset_activity` for the first day that retention has left: some of the
    commits of this day are no longer in the lake, so they could not be counted again."""
    counted = lake.read(ACTIVITY, plan.table_versions[ACTIVITY])
    lake.replace_values(ACTIVITY, counted.where(F.col("day") == F.lit(day)), "day", [day])


def _deduplicate(rows: DataFrame, windows: DataFrame) -> DataFrame:
    """One row for each offset that a finished run has read, with that run's id."""
    of_run = (F.col("run_id") == F.col("owner")).cast("int")
    order = Window.partitionBy("partition", "offset").orderBy(of_run.desc(), "run_id")
    return (
        rows.join(F.broadcast(windows), in_finished_range())
        .withColumn("copy", F.row_number().over(order))
        .where(F.col("copy") == 1)
        .withColumn("run_id", F.col("owner"))
        .select(*rows.columns)
    )


def _require_complete(lake: LakeTables, once: DataFrame, runs: list[Run]) -> None:
    removed = removed_records(lake.rows("runs"))
    there = {row["run_id"]: row["count"] for row in once.groupBy("run_id").count().collect()}
    for run in runs:
        read = run.counts.records_read + run.counts.inferred if run.counts else 0
        lost = read - removed[run.run_id] - there.get(run.run_id, 0)
        if lost:
            raise LakeError(
                f"The lake {lake.path} can't be repaired: of {read:,} records that run "
                f"{run.run_id} has read, {lost:,} are lost.",
                "Create a new lake from the topic or from a capture. This lake was not changed.",
            )


def _rebuild_group_records(lake: LakeTables, runs: list[Run]) -> None:
    """Rebuilds `group_records` from the raw bytes in `records`, by the dialect of each run."""
    records = lake.read("records")
    of_run = records.select("partition", "offset", "run_id", "cluster_id")
    decoded = [
        control_records(
            records.where(F.col("run_id").isin([r.run_id for r in runs if r.dialect == dialect])),
            control_plan(dialect),
        )
        for dialect in sorted({run.dialect for run in runs})
    ]
    rows = reduce(DataFrame.unionByName, decoded).join(of_run, ["partition", "offset"])
    lake.overwrite("group_records", rows)
