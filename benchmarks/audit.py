"""Measures what the audit costs in relation to the ingest of the same records (part of `make
bench`).

    python -m benchmarks.audit [MILLIONS ...]

The records are those of `benchmarks.captures`. Each capture is ingested, replayed and audited in
full, one after another in one warm session, three times. The ratio is the time of the audit divided
by that of the ingest before it."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.captures import create_captures
from benchmarks.memory import WorkerMemory
from kip848_spark.lake.ledger import Run
from kip848_spark.spark.jobs.audit import AuditRequest, agreement_rows
from kip848_spark.spark.pipeline import RunOutcome, run_audit, run_ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import CaptureSource
from kip848_spark.spark.storage.opening import open_lake

MILLIONS = (1, 10, 30)
ROUNDS = 3

Row = dict[str, float]


def main(millions: tuple[int, ...] = MILLIONS) -> None:
    """Creates the captures, measures, prints the table and writes it as JSON beside this file."""
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="kip848-bench-") as name:
        folder = Path(name)
        warm_up, *captures = create_captures(folder, millions, console)
        spark = local_session()
        try:
            measure(spark, warm_up, folder)
            rows = [
                [measure(spark, capture, folder) for _ in range(ROUNDS)] for capture in captures
            ]
        finally:
            spark.stop()
    show(console, rows)
    Path(__file__).with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")


def measure(spark: SparkSession, capture: CaptureSource, folder: Path) -> Row:
    """Seconds of each step for one capture, and the workers' peak memory (bytes) in the audit."""
    path = folder / "lake"
    shutil.rmtree(path, ignore_errors=True)
    lake = open_lake(spark, str(path))
    with WorkerMemory() as while_read:
        read = _done(run_ingest(capture, lake, then_replay=True))
    with WorkerMemory() as while_audited:
        audited = _done(run_audit(lake, AuditRequest()))
    agreement = agreement_rows(lake, audited.run_id)
    wrong = sum(row["disagreed"] for row in agreement)
    if wrong:
        raise RuntimeError(f"{wrong} verdicts disagree on simulated records")
    assert read.counts is not None
    return {
        "records": read.counts.records_read,
        "control": lake.read("group_records").count(),
        "verdicts": sum(row["verified"] + row["unverifiable"] for row in agreement),
        "ingest": read.durations_ms["ingest"] / 1000,
        "replay": read.durations_ms["replay"] / 1000,
        "audit": audited.durations_ms["audit"] / 1000,
        "ratio": audited.durations_ms["audit"] / read.durations_ms["ingest"],
        "ingest_peak": while_read.peak,
        "audit_peak": while_audited.peak,
    }


def _done(outcome: RunOutcome) -> Run:
    assert outcome.run is not None
    return outcome.run


def show(console: Console, rows: list[list[Row]]) -> None:
    """The table: for each size the median of the rounds, and for the ratio its range."""
    table = Table(title=f"one warm session, medians of {ROUNDS}; seconds; largest Python worker")
    for column in (
        "records", "control records", "verdicts", "ingest", "replay", "audit", "audit / ingest",
        "MiB",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for rounds in rows:
        middle = {name: median(row[name] for row in rounds) for name in rounds[0]}
        ratios = sorted(row["ratio"] for row in rounds)
        table.add_row(
            *(f"{middle[name]:,.0f}" for name in ("records", "control", "verdicts")),
            *(f"{middle[name]:.1f}" for name in ("ingest", "replay", "audit")),
            f"{middle['ratio']:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})",
            f"{max(row['audit_peak'] for row in rounds) / 2**20:.0f}",
        )
    console.print(table)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or MILLIONS)
