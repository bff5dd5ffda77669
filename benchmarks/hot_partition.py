"""Measures the ingest of a topic of which one partition has three quarters of all records (part of
`make bench`).

    python -m benchmarks.hot_partition [RECORDS]

One warm session. The topic is ingested with one task for each partition, and with the tasks of a
cluster of 16 cores, where several read the large partition; the two take turns, three times. It
prints the medians of the seconds, of the longest task and of the median one, and the largest
resident memory of a Python worker. Two cores are busy in both cases, so on two cores only the tasks
become shorter, and not the whole."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.memory import WorkerMemory
from benchmarks.stages import EVENT_LOG, stages
from benchmarks.topic import TopicFiller
from kip848_spark.local.broker import Broker
from kip848_spark.spark import split_partitions
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.opening import open_lake

CORES = 16
TOPIC, PARTITIONS, RECORDS, ROUNDS = "offsets_like", 16, 10_000_000, 3
SPLIT, WHOLE = "several tasks", "one task"


def main(records: int = RECORDS) -> None:
    """Fills the topic, measures, prints the table and writes it as JSON beside this file."""
    found: dict[str, list[dict[str, float]]] = {SPLIT: [], WHOLE: []}
    with (
        tempfile.TemporaryDirectory(prefix="kip848-bench-") as name,
        Broker(offsets_partitions=1) as broker,
        WorkerMemory() as memory,
    ):
        folder = Path(name)
        (folder / "events").mkdir()
        now_ms = int(time.time() * 1000)
        filler = TopicFiller(broker.bootstrap, TOPIC, PARTITIONS, records, now_ms, hot=True)
        filler.send(records)
        events = (folder / "events").as_uri()
        spark = local_session(
            {**EVENT_LOG, "spark.eventLog.dir": events, "spark.default.parallelism": str(CORES)}
        )
        try:
            for turn in range(ROUNDS + 1):
                for way, took in found.items():
                    row = ingest(spark, broker.bootstrap, folder, f"{way}-{turn}", way)
                    if turn:  # the first round warms up
                        took.append(row)
        finally:
            spark.stop()
    table = Table("tasks of the large partition", "seconds", "median task, s", "longest task, s")
    for way, rows in found.items():
        medians = (statistics.median(row[key] for row in rows) for key in rows[0])
        table.add_row(way, *(f"{median:.1f}" for median in medians))
    console = Console(width=100)
    console.print(table)
    console.print(f"the largest Python worker: {memory.peak >> 20} MiB")
    result = {"records": records, "rounds": found, "peak": memory.peak}
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


def ingest(
    spark: SparkSession, bootstrap: str, folder: Path, name: str, way: str
) -> dict[str, float]:
    """Seconds of an ingest into a new lake, and of the tasks of its longest stage."""
    lake = open_lake(spark, str(folder / name))
    at_least = sys.maxsize if way == WHOLE else split_partitions.MIN_OFFSETS
    started, started_ms = time.perf_counter(), time.time() * 1000
    with patch.object(split_partitions, "MIN_OFFSETS", at_least):
        run_ingest(KafkaSource(bootstrap, TOPIC), lake)
    seconds = time.perf_counter() - started
    tasks = stages(folder / "events", started_ms)[0][1]
    return {"seconds": seconds, "median": statistics.median(tasks), "longest": max(tasks)}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
