"""Reads the findings of a lake's audits, without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from kip848_spark.errors import LakeError, UsageError, near
from kip848_spark.insight.severities import SEVERITIES
from kip848_spark.lake.ledger import AUDIT, PARTIAL_AUDIT
from kip848_spark.lake.snapshot import LakeSnapshot

LAST, ALL = "last", "all"
"""In place of a run's id: the last run that audited, and all runs."""
FINDING_ORDER = (
    "partition", "offset", "group_id", "check", "member_id", "expected", "recorded",
)  # fmt: skip
"""The columns by which findings of one severity are sorted."""


def find_findings(
    snapshot: LakeSnapshot, run: str = LAST, groups: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The findings of the run with the id ``run``, of `LAST` or of `ALL`, as rows of the table
    `findings`: the newest run first, then the most severe. ``groups`` selects groups.

    Raises UsageError if no run with this id has audited, and LakeError if none has, or if the table
    can't be read.
    """
    audited = _audited_runs(snapshot)
    if not audited:
        raise LakeError(
            f"No run of the lake {snapshot.path} has audited it.", "Start one with `kip848 audit`."
        )
    if run not in (LAST, ALL, *audited):
        raise UsageError(
            f"No run {run} of the lake {snapshot.path} has audited it.",
            near(run, audited, f"The last one that did is {audited[-1]}."),
        )
    wanted = audited if run == ALL else [audited[-1] if run == LAST else run]
    condition = pc.field("run_id").isin(wanted)
    if groups:
        condition &= pc.field("group_id").isin(list(groups))
    rows: list[dict[str, Any]] = snapshot.select("findings", condition).to_pylist()
    rows.sort(key=lambda row: [(row[name] is not None, row[name]) for name in FINDING_ORDER])
    rows.sort(key=lambda row: -SEVERITIES.index(row["severity"]))
    return sorted(rows, key=lambda row: str(row["run_id"]), reverse=True)


def partial_audit(snapshot: LakeSnapshot) -> tuple[str, str | None] | None:
    """If the last audit was one of a part of the lake: its run id, and that of the last complete
    audit (None if there was none)."""
    last = _audited_runs(snapshot)[-1]
    complete = [
        row["run_id"] for row in snapshot.rows("runs") if AUDIT in (row["durations_ms"] or {})
    ]
    return None if last in complete else (last, max(complete, default=None))


def _audited_runs(snapshot: LakeSnapshot) -> list[str]:
    """The ids of the runs that audited all or a part of the lake, the oldest first."""
    return sorted(
        row["run_id"]
        for row in snapshot.rows("runs")
        if not {AUDIT, PARTIAL_AUDIT}.isdisjoint(row["durations_ms"] or {})
    )
