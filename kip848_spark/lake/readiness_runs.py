"""What changed in migration readiness between two runs, from the table `readiness`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.errors import LakeError, NotFoundError, near
from kip848_spark.insight.readiness import verdict_counts
from kip848_spark.insight.readiness_changes import readiness_changes
from kip848_spark.insight.readiness_rules import RULE_LISTS
from kip848_spark.lake.snapshot import LakeSnapshot

LAST = "last"
"""Stands for the run before the newest one."""
_COLUMNS = ("group_id", "verdict", *RULE_LISTS)


@dataclass(frozen=True)
class RunChanges:
    """The groups that changed from run ``before`` to run ``after`` (run ids), as rows with the
    columns `CHANGE_COLUMNS`, and the number of groups by verdict in both runs."""

    before: str
    after: str
    changes: Sequence[Mapping[str, Any]]
    counts_before: Mapping[str, int]
    counts_after: Mapping[str, int]


def changes_since(snapshot: LakeSnapshot, run: str) -> RunChanges:
    """What changed from ``run``, a run id or `LAST`, to the newest run that has verdicts.

    Raises LakeError if the lake has no verdicts, and NotFoundError if ``run`` has none."""
    runs = runs_with_verdicts(snapshot)
    if not runs:
        raise LakeError(
            f"The lake {snapshot.path} has no verdicts of earlier runs to compare with.",
            "Each `kip848 run` that reads new records adds its verdicts to the table readiness.",
        )
    after = runs[-1]
    if run == LAST and len(runs) == 1:
        raise NotFoundError(
            f"Only one run, {after}, has verdicts in the table readiness.",
            "The next `kip848 run` that reads new records adds its own.",
        )
    before = runs[-2] if run == LAST else run
    if before not in runs:
        raise NotFoundError(
            f"The table readiness has no run {before}.",
            near(before, runs, f"It has {', '.join(runs[-3:])}."),
        )
    old, new = (
        snapshot.select("readiness", pc.field("run_id") == one, _COLUMNS) for one in (before, after)
    )
    changes = readiness_changes(old.to_pylist(), new.to_pylist())
    return RunChanges(before, after, changes, verdict_counts(old), verdict_counts(new))


def runs_with_verdicts(snapshot: LakeSnapshot) -> list[str]:
    """The ids of the runs that have rows in `readiness`, the oldest first."""
    if not snapshot.has("readiness"):
        return []
    column: pa.ChunkedArray = snapshot.select("readiness", columns=["run_id"])["run_id"]
    found: list[str] = sorted(column.unique().to_pylist())
    return found
