"""Measures what history, rebalances and the activity of commits cost (part of `make bench`).

    python -m benchmarks.history [MILLIONS]

The records are those of `benchmarks.captures`. They are ingested once; then they are replayed in
turn with and without these tables, each time from the first record, in one warm session. The ratio
is (ingest + complete replay) / (ingest + replay of the state alone). Then a lake of three times as
many records is created, the questions that these tables answer are asked of it, each in a process
of its own, and their seconds are shown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from unittest import mock

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.captures import create_captures
from benchmarks.memory import WorkerMemory
from kip848_spark.lake.lake import Lake
from kip848_spark.lake.ledger import Run, new_run_id
from kip848_spark.spark.jobs import replay
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import CaptureSource
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.spark.storage.tables import LakeTables

MILLIONS = 10
ROUNDS = 3
Row = dict[str, float]


def main(millions: int = MILLIONS) -> None:
    """Creates the capture, measures, prints the tables and writes them as JSON beside this file."""
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="kip848-bench-") as name:
        folder = Path(name)
        warm_up, capture, large = create_captures(folder, (millions, 3 * millions), console)
        spark = local_session()
        try:
            measure(spark, warm_up, folder)
            rows = [measure(spark, capture, folder) for _ in range(ROUNDS)]
            _ingest(spark, large, folder)
        finally:
            spark.stop()
        answers = ask(folder / "lake")
    show(console, rows, answers)
    result = {"rounds": rows, "answers": answers}
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


def measure(spark: SparkSession, capture: CaptureSource, folder: Path) -> Row:
    """Seconds of the ingest and of both replays, and the workers' peak memory (bytes) in the
    complete one."""
    lake, run = _ingest(spark, capture, folder)
    assert run.counts is not None
    state_only = _replay(lake, run, complete=False)
    with WorkerMemory() as memory:
        complete = _replay(lake, run, complete=True)
    ingest = run.durations_ms["ingest"] / 1000
    return {
        "records": run.counts.records_read,
        "ingest": ingest,
        "state": state_only,
        "complete": complete,
        "ratio": (ingest + complete) / (ingest + state_only),
        "peak": memory.peak,
    }


def _ingest(spark: SparkSession, capture: CaptureSource, folder: Path) -> tuple[LakeTables, Run]:
    """A new lake with the records of ``capture``, and the run that read them."""
    path = folder / "lake"
    shutil.rmtree(path, ignore_errors=True)
    lake = open_lake(spark, str(path))
    run = run_ingest(capture, lake, then_replay=True).run
    assert run is not None
    return lake, run


def _replay(lake: LakeTables, run: Run, *, complete: bool) -> float:
    """Seconds of a replay of all records."""
    run = Run(
        run_id=new_run_id(datetime.now(UTC)),
        source=run.source,
        identity=run.identity,
        dialect=run.dialect,
        ranges=run.ranges,
        table_versions=lake.versions(),
        started_at=datetime.now(UTC),
    )
    with ExitStack() as patches:
        if not complete:
            patches.enter_context(mock.patch.object(replay, "FOLDS", {}))
            patches.enter_context(mock.patch.object(replay, "write_activity"))
            patches.enter_context(mock.patch.object(replay, "add_owners"))
        started = time.perf_counter()
        replay.replay(lake, run, None)
        return time.perf_counter() - started


def ask(path: Path) -> Row:
    """Seconds that each command needs in a process of its own: the median of three."""
    rebalances = Lake(path).rebalances().sort_by("started_at")
    group = rebalances["group_id"][0].as_py()
    moment = rebalances["started_at"][len(rebalances) // 2].as_py().isoformat()
    commands = {
        "groups --as-of": ["groups", "--as-of", moment],
        "groups --describe --as-of": ["groups", "--describe", group, "--as-of", moment],
        "explain": ["explain", group],
        "history": ["history", group],
        "rebalances --top 10": ["rebalances", "--top", "10"],
        "hygiene": ["hygiene"],
        "sql (DuckDB)": ["sql", "SELECT count(*) FROM records"],
    }
    return {name: _seconds([*words, "--lake", str(path)]) for name, words in commands.items()}


def _seconds(words: list[str]) -> float:
    took = []
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "kip848_spark", *words],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        took.append(time.perf_counter() - started)
    return median(took)


def show(console: Console, rows: list[Row], answers: Row) -> None:
    """The tables: medians of the rounds, for the ratio with its range; seconds of each command."""
    table = Table(title=f"one warm session, medians of {ROUNDS}; seconds; largest Python worker")
    for column in ("records", "ingest", "state only", "complete replay", "ratio", "MiB"):
        table.add_column(column, justify="right")
    middle = {name: median(row[name] for row in rows) for name in rows[0]}
    ratios = sorted(row["ratio"] for row in rows)
    table.add_row(
        f"{middle['records']:,.0f}",
        *(f"{middle[name]:.1f}" for name in ("ingest", "state", "complete")),
        f"{middle['ratio']:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})",
        f"{max(row['peak'] for row in rows) / 2**20:.0f}",
    )
    console.print(table)
    commands = Table(title="commands without a JVM, each in a process of its own; seconds")
    for name in answers:
        commands.add_column(name, justify="right")
    commands.add_row(*(f"{seconds:.1f}" for seconds in answers.values()))
    console.print(commands)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
