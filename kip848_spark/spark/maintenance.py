"""The maintenance of a lake, as a run of its own: under the lease, and in the ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime

from kip848_spark.errors import LakeError, UsageError
from kip848_spark.lake.ledger import ERASURE, FORGET, RETENTION, Ledger, RecordCounts, Run
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.jobs.erasure import Erased, ErasedNames, erase, require_replaceable
from kip848_spark.spark.jobs.integrity import check_counts
from kip848_spark.spark.jobs.maintain import (
    UpkeepResult,
    compact_tables,
    delete_old_log,
    vacuum_tables,
)
from kip848_spark.spark.jobs.retention import find_cut, remove_old_rows
from kip848_spark.spark.plans import finish_run, plan_lake_run, undo_run
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
    erased: ErasedNames | None = None,
) -> UpkeepResult:
    """Merges small files, and deletes files that only versions need which are older than
    ``retain_hours``. The version of the last finished run stays. With ``keep_since`` (UTC), removes
    the history before that time first (`jobs.retention`). With ``erased``, removes these names
    (`jobs.erasure`), and then all versions of the tables but the newest. Without both, no row
    changes.

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
            if erased:
                raise LakeError(
                    f"No run of the lake {lake.path} has ever finished, so nothing was erased.",
                    "Delete its folder: an unfinished run may have left files with the names.",
                )
            return UpkeepResult({}, {})
        if keep_since is not None:
            _require_replayed(lake, last)
        if erased:
            require_replaceable(lake, erased)
        done, result = _maintain(lake, ledger, last, retain_hours, keep_since, erased, steps)
        if erased:
            _forget(lake, ledger, done, steps)
        return result


def _maintain(
    lake: LakeTables,
    ledger: Ledger,
    last: Run,
    retain_hours: int,
    keep_since: datetime | None,
    erased: ErasedNames | None,
    steps: Steps,
) -> tuple[Run, UpkeepResult]:
    """A run after ``last`` that keeps, erases, merges and deletes."""
    plan = _plan(lake, ledger, last, steps)
    removed: dict[str, int] = {}
    by_run: Counter[str] = Counter()
    if keep_since is not None:
        with steps.step(RETENTION, "removing rows that are older than the kept time"):
            cut = find_cut(lake, last, keep_since)
            removed, counts = remove_old_rows(lake, cut)
            by_run.update(counts)
        plan = replace(plan, kept_since=cut.since, kept_from=cut.offsets)
    found = Erased()
    if erased:
        with steps.step(ERASURE, "removing names"):
            found = erase(lake, erased, last.dialect)
            by_run.update(found.removed_records)
    merged = compact_tables(lake, steps)
    kept = [last.table_versions, plan.table_versions, lake.versions()]
    deleted = vacuum_tables(lake, retain_hours, kept, steps)
    done = _finish(ledger, replace(plan, removed=by_run), last, steps)
    return done, UpkeepResult(merged, deleted, removed, found.rows, found.present)


def _forget(lake: LakeTables, ledger: Ledger, last: Run, steps: Steps) -> None:
    """A run after ``last`` after which only the newest version of each table can be read. An older
    one may have what was erased, in its files or in the statistics of Delta's log."""
    steps = Steps(steps.progress)
    plan = _plan(lake, ledger, last, steps)
    with steps.step(FORGET, "deleting all older versions"):
        tables = [name for name in TABLES if name != "runs"]
        for name in tables:
            lake.forget_versions(name)
    done = _finish(ledger, plan, last, steps)
    for name in tables:
        delete_old_log(lake, name, done.table_versions[name])


def _plan(lake: LakeTables, ledger: Ledger, last: Run, steps: Steps) -> Run:
    plan = plan_lake_run(last, lake)
    ledger.write(plan)
    steps.run_started(plan.run_id)
    return plan


def _finish(ledger: Ledger, plan: Run, last: Run, steps: Steps) -> Run:
    plan = replace(
        plan,
        counts=RecordCounts(),
        open_offsets=last.open_offsets,
        replayed_through=plan.run_id if last.is_replayed else last.replayed_through,
    )
    return finish_run(ledger, plan, steps)


def _require_replayed(lake: LakeTables, last: Run) -> None:
    if not last.is_replayed:
        raise LakeError(
            f"Not all records of the lake {lake.path} were replayed, so maintenance can't tell "
            "which ones the state needs.",
            "Run `kip848 replay` first.",
        )
