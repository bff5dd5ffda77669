"""The maintenance of a lake, as a run of its own: under the lease, and in the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from kip848_spark.errors import LakeError, UsageError
from kip848_spark.kafka.topic import PartitionExtent
from kip848_spark.lake.ledger import Ledger, RecordCounts, Run, plan_ranges
from kip848_spark.spark.jobs.integrity import check_counts
from kip848_spark.spark.jobs.maintain import UpkeepResult, compact_tables, vacuum_tables
from kip848_spark.spark.jobs.retention import find_cut, remove_old_rows
from kip848_spark.spark.pipeline import finish_run, plan_run, undo_run
from kip848_spark.spark.session_settings import in_prepared_session
from kip848_spark.spark.steps import Progress, Steps
from kip848_spark.spark.storage.tables import LakeTables

LEAST_HOURS = 24
"""Files stay at least so long. A reader may be at work on a version that a run has just replaced,
and files of a write in progress are named by no commit."""


@in_prepared_session
def run_maintenance(
    lake: LakeTables,
    retain_hours: int,
    progress: Progress = lambda _: None,
    keep_since: datetime | None = None,
) -> UpkeepResult:
    """Merges small files, and deletes files that only versions need which are older than
    ``retain_hours``. The version of the last finished run stays. With ``keep_since`` (UTC), removes
    the history before that time first (`jobs.retention`); without it, no row changes.

    Killed at any moment, it leaves a lake that the next run or maintenance continues with. Raises
    UsageError if ``retain_hours`` is less than `LEAST_HOURS`, and LakeError.
    """
    if retain_hours < LEAST_HOURS:
        raise UsageError(
            f"Files must stay for at least {LEAST_HOURS} hours, not {retain_hours}.",
            "Readers and runs may still need younger files: --retain 1d.",
        )
    steps = Steps(progress)
    lake.require()
    with lake.hold_lease():
        lake.upgrade()
        ledger = Ledger(lake)
        if (unfinished := ledger.unfinished()) is not None:
            undo_run(ledger, unfinished)
        check_counts(lake)
        last = ledger.last()
        if last is None:
            return UpkeepResult({}, {})
        if keep_since is not None:
            _require_replayed(lake, last)
        ends = {r.partition: PartitionExtent(0, r.end) for r in last.ranges}
        plan = plan_run("lake", last.identity, plan_ranges(last, ends), last.dialect, last, lake)
        ledger.write(plan)
        steps.run_started(plan.run_id)
        removed: dict[str, int] = {}
        if keep_since is not None:
            with steps.step("retention", "removing rows that are older than the kept time"):
                cut = find_cut(lake, last, keep_since)
                removed, by_run = remove_old_rows(lake, cut)
            plan = replace(plan, kept_since=cut.since, kept_from=cut.offsets, removed=by_run)
        merged = compact_tables(lake, steps)
        kept = [last.table_versions, plan.table_versions, lake.versions()]
        deleted = vacuum_tables(lake, retain_hours, kept, steps)
        replayed = last.replayed_through == last.run_id
        plan = replace(
            plan,
            counts=RecordCounts(),
            open_offsets=last.open_offsets,
            replayed_through=plan.run_id if replayed else last.replayed_through,
        )
        finish_run(ledger, plan, steps)
        return UpkeepResult(merged, deleted, removed)


def _require_replayed(lake: LakeTables, last: Run) -> None:
    if last.replayed_through != last.run_id:
        raise LakeError(
            f"Not all records of the lake {lake.path} were replayed, so maintenance can't tell "
            "which ones the state needs.",
            "Run `kip848 replay` first.",
        )
