"""The option by which `run` writes metrics, and what happens if they can't be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import warn
from kip848_spark.errors import CRASHED, INTERRUPTED, TERMINATED, Kip848Error, Terminated
from kip848_spark.lake.metrics import (
    check_metrics_path,
    metrics_text,
    now_seconds,
    write_failure,
    write_metrics,
)

if TYPE_CHECKING:
    from kip848_spark.lake.ledger import Run
    from kip848_spark.spark.storage.tables import LakeTables

MetricsOption = Annotated[
    Path | None,
    typer.Option(
        "--metrics", help="Also write metrics for the node exporter (.prom).", metavar="FILE"
    ),
]


@contextmanager
def noted_failure(metrics: Path | None) -> Iterator[None]:
    """Notes in the metrics, if they are written, that the block failed: with an exit code other
    than `FINDINGS`. Raises UsageError before the block if the file can't be written."""
    if metrics is None:
        yield
        return
    check_metrics_path(metrics)
    try:
        yield
    except (typer.Exit, SystemExit):
        raise
    except BaseException as error:
        with _warned():
            write_failure(metrics, _exit_code(error))
        raise


def _exit_code(error: BaseException) -> int:
    if isinstance(error, Kip848Error):
        return error.exit_code
    if isinstance(error, Terminated):
        return TERMINATED
    return CRASHED if isinstance(error, Exception) else INTERRUPTED


def write_result(metrics: Path, lake: LakeTables, run: Run | None, exit_code: int) -> None:
    """Writes `run_metrics`. If that fails, prints a warning: the run has finished, and its result
    and exit code stay."""
    with _warned():
        write_metrics(metrics, run_metrics(lake, run, exit_code))


@contextmanager
def _warned() -> Iterator[None]:
    try:
        yield
    except Kip848Error as error:
        warn(error.message)


def run_metrics(lake: LakeTables, run: Run | None, exit_code: int) -> str:
    """The metrics of the last finished ``run`` of a lake, with the result of the last run that
    audited."""
    from kip848_spark.lake.conditions import Condition
    from kip848_spark.lake.ledger import Ledger
    from kip848_spark.spark.jobs.audit import agreement_rows

    agreement: list[dict[str, Any]] = []
    findings: dict[str, int] = {}
    audited, _ = Ledger(lake).last_audited()
    if audited is not None:
        agreement = agreement_rows(lake, audited)
        own = Condition("run_id", "equals", audited)
        found = lake.columns("findings", ["severity"], [own])["severity"]
        findings = {row["values"]: row["counts"] for row in found.value_counts().to_pylist()}
    return metrics_text(run, agreement, findings, exit_code, now_seconds())
