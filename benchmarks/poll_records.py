"""Measures how the records of a poll of Spark's Kafka consumers change the time of reading.

    python -m benchmarks.poll_records [RECORDS]

Spark's source asks the broker for the first and the last offset of the partition after each poll,
in two requests. Spark reads a topic of 50 partitions with each value of ``max.poll.records``, to
nowhere. One warm session; the values take turns, and the medians count. Beside the seconds it
prints the processor time of Spark's JVM and of the broker."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.topic import fill
from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.lake.ledger import plan_ranges
from kip848_spark.local.broker import Broker
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import KafkaSource

TOPIC = "offsets_like"
PARTITIONS = 50
RECORDS = 3_000_000
POLLS = (500, 2_500, 5_000, 10_000)
ROUNDS = 5
COLUMNS = ("seconds", "Spark's JVM, s", "broker, s")


def main(records: int = RECORDS) -> None:
    """Fills the topic, measures, prints the table and writes it as JSON beside this file."""
    console = Console(width=100)
    with Broker(offsets_partitions=1) as broker:
        fill(broker.bootstrap, TOPIC, PARTITIONS, records, int(time.time() * 1000))
        spark = local_session()
        try:
            driver = next(p for p in psutil.Process().children() if p.name() == "java")
            jvms = (driver, psutil.Process(broker.pid))
            found: dict[int, list[tuple[float, ...]]] = {poll: [] for poll in POLLS}
            for turn in range(ROUNDS + 1):
                for poll in POLLS:
                    settings = ClientSettings({"java.max.poll.records": str(poll)})
                    source = KafkaSource(broker.bootstrap, TOPIC, settings)
                    frame = source.read(spark, plan_ranges(None, source.extents(spark)))
                    before = _times(jvms)
                    frame.write.format("noop").mode("overwrite").save()
                    took = [b - a for a, b in zip(before, _times(jvms), strict=True)]
                    if turn:  # the first round warms up
                        found[poll].append(tuple(took))
        finally:
            spark.stop()
    table = Table("max.poll.records", *COLUMNS)
    for poll, rounds in found.items():
        medians = map(statistics.median, zip(*rounds, strict=True))
        table.add_row(str(poll), *(f"{value:.2f}" for value in medians))
    console.print(table)
    result = {"records": records, "partitions": PARTITIONS, "columns": COLUMNS, "rounds": found}
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


def _times(jvms: tuple[psutil.Process, ...]) -> list[float]:
    """The clock, and the processor time of each process, in seconds."""
    return [time.perf_counter(), *(sum(jvm.cpu_times()[:2]) for jvm in jvms)]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
