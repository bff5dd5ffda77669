"""The row of a run in the ledger, from its plan to its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from kip848_spark.kafka.topic import OffsetRange, PartitionExtent, TopicIdentity
from kip848_spark.lake.ledger import DONE, LAKE, Ledger, Run, new_run_id, plan_ranges
from kip848_spark.spark.steps import Steps
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.wire.control_plans import control_plan


def plan_run(
    source: str,
    identity: TopicIdentity,
    ranges: tuple[OffsetRange, ...],
    dialect: str,
    last: Run | None,
    lake: LakeTables,
) -> Run:
    """A new run after the finished run ``last``, with the tables at their newest versions. It is
    not in the ledger yet."""
    now = datetime.now(UTC)
    return Run(
        run_id=new_run_id(now, last),
        source=source,
        identity=identity,
        dialect=dialect,
        ranges=ranges,
        table_versions=lake.versions(),
        started_at=now,
        replayed_through=last.replayed_through if last else None,
        kept_since=last.kept_since if last else None,
        kept_from=last.kept_from if last else None,
        formats=known_formats(dialect),
    )


def plan_lake_run(last: Run, lake: LakeTables) -> Run:
    """As `plan_run`, for a run that reads no source: it works on what the lake has."""
    ends = {part.partition: PartitionExtent(0, part.end) for part in last.ranges}
    return plan_run(LAKE, last.identity, plan_ranges(last, ends), last.dialect, last, lake)


def known_formats(dialect: str) -> str:
    """The record formats of a dialect that this version of the program knows. Raises KeyError if
    there is no such dialect."""
    return control_plan(dialect).plan.known_formats


def offset_count(run: Run) -> int:
    """The sum of the partitions' end offsets in ``run``."""
    return sum(part.end for part in run.ranges)


def new_offsets(run: Run) -> int:
    """The number of offsets that ``run`` reads."""
    return sum(part.end - part.start for part in run.ranges)


def undo_run(ledger: Ledger, unfinished: Run) -> str:
    """Restores the tables as they were before a run, and deletes its plan. Returns its id. Raises
    LakeError."""
    ledger.restore(unfinished)
    ledger.delete(unfinished)
    return unfinished.run_id


def finish_run(ledger: Ledger, plan: Run, steps: Steps, corrected: Iterable[Run] = ()) -> Run:
    """Marks a run as done: from now on, readers see the tables as they are. Replaces the rows of
    earlier runs by ``corrected``, in the same commit. Raises LakeError."""
    done = replace(
        plan,
        outcome=DONE,
        table_versions=ledger.lake.versions(),
        finished_at=datetime.now(UTC),
        durations_ms=steps.durations_ms,
    )
    ledger.write(done, *corrected)
    return done
