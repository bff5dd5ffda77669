"""Measures how the cost of a record grows with the size of the topic, and what a second core saves
(part of `make bench`).

    python -m benchmarks.scale [SMALL LARGE]

The records are those of `benchmarks.captures`, SMALL and LARGE million of them (3 and 30): one of
the 50 partitions has half of all records, and there is a group for every 2,000 records. Each
measurement is a process of its own with a warm session: each capture with one task at a time on one
CPU, and with two tasks on two CPUs. The driver, the JVM and the Python workers share these CPUs. It
ingests, replays and audits everything. It prints the seconds, the microseconds for each record, the
largest resident memory of the driver's Python, of the JVM and of a Python worker, and how long the
longest task of each large stage took beside the median one."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.audit import measure
from benchmarks.captures import create_captures
from benchmarks.memory import WorkerMemory
from benchmarks.stages import EVENT_LOG, Stage, stages
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import CaptureSource

MILLIONS = (3, 30)
STEPS = ("ingest", "replay", "audit")

Found = dict[str, float]


def main(small: int, large: int) -> None:
    """Creates the captures, measures, prints the tables and writes them as JSON beside this
    file."""
    console = Console(width=110)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="kip848-bench-") as name:
        folder = Path(name)
        captures = create_captures(folder, (small, large), console)
        found = {}
        for cores, number in ((1, 1), (2, 1), (1, 2), (2, 2)):
            with context.Pool(1) as pool:
                row = pool.apply(in_session, (cores, captures[0], captures[number], folder))
            found[f"{(small, large)[number - 1]} million, CPUs: {cores}"] = row
    show(console, found)
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")


def in_session(
    cores: int, warm_up: CaptureSource, capture: CaptureSource, folder: Path
) -> tuple[Found, list[Stage]]:
    """What `benchmarks.audit.measure` finds for ``capture`` with so many ``cores`` (CPUs), with the
    peaks of memory (bytes), and the tasks of the stages with the longest ones."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    events = folder / f"events-{cores}-{Path(capture.path).name}"
    events.mkdir()
    settings = {
        "spark.master": f"local[{cores}]",
        **EVENT_LOG,
        "spark.eventLog.dir": events.as_uri(),
    }
    with WorkerMemory() as memory:
        spark = local_session(settings)
        measure(spark, warm_up, folder)
        started = time.time() * 1000
        found = measure(spark, capture, folder)
        spark.stop()
    peaks = ("driver_peak", "jvm_peak", "peak")
    return found | {peak: getattr(memory, peak) for peak in peaks}, stages(events, started)


def show(console: Console, found: dict[str, tuple[Found, list[Stage]]]) -> None:
    """The tables of costs and of tasks."""
    table = Table(title="one run each, in a warm session")
    for column in ("", *STEPS, "all, s", "µs a record", "driver MiB", "JVM MiB", "worker MiB"):
        table.add_column(column, justify="right")
    for name, (row, _) in found.items():
        whole = sum(row[step] for step in STEPS)
        table.add_row(
            name,
            *(f"{row[step]:.1f}" for step in STEPS),
            f"{whole:.1f}",
            f"{whole / row['records'] * 1e6:.2f}",
            *(f"{row[peak] / 2**20:,.0f}" for peak in ("driver_peak", "jvm_peak", "peak")),
        )
    console.print(table)
    tasks = Table(title="stages with the longest tasks")
    for column in ("", "stage", "tasks", "median, s", "longest, s"):
        tasks.add_column(column, justify="right")
    for name, (_, longest_stages) in found.items():
        for stage, seconds in longest_stages:
            middle, longest = f"{median(seconds):.1f}", f"{max(seconds):.1f}"
            tasks.add_row(name, stage, f"{len(seconds)}", middle, longest)
    console.print(tasks)


if __name__ == "__main__":
    main(*(tuple(map(int, sys.argv[1:])) or MILLIONS))
