"""Measures what waiting for further records costs at the end of each partition's range.

    python -m benchmarks.fetch_wait [RECORDS]

A Kafka consumer that has read the last record of a partition sends one more fetch, which the broker
answers after ``fetch.max.wait.ms``. A task that reads the next partition with the same consumer
waits for that answer. Spark reads a topic of 50 partitions with each value, to nowhere: all records
(a first run), and the last 200 of each partition (a night). One warm session; the values take
turns, three times, and the medians count."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.topic import fill
from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.ledger import plan_ranges
from kip848_spark.local.broker import Broker
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import KafkaSource

TOPIC = "offsets_like"
PARTITIONS = 50
RECORDS = 120_000
NEW = 200
"""The number of offsets of each partition that a night reads."""
WAITS_MS = (0, 1, 5, 10, 50, 500)
ROUNDS = 3


def main(records: int = RECORDS) -> None:
    """Fills the topic, measures, prints the table and writes it as JSON beside this file."""
    console = Console(width=100)
    with Broker(offsets_partitions=1) as broker:
        fill(broker.bootstrap, TOPIC, PARTITIONS, records, int(time.time() * 1000))
        spark = local_session()
        try:
            seconds: dict[int, dict[str, list[float]]] = {
                wait: {"all": [], "new": []} for wait in WAITS_MS
            }
            for turn in range(ROUNDS + 1):
                for wait in WAITS_MS:
                    settings = ClientSettings({"java.fetch.max.wait.ms": str(wait)})
                    source = KafkaSource(broker.bootstrap, TOPIC, settings)
                    whole = plan_ranges(None, source.extents(spark))
                    last = [
                        OffsetRange(r.partition, max(r.start, r.end - NEW), r.end) for r in whole
                    ]
                    for name, ranges in (("all", whole), ("new", last)):
                        started = time.perf_counter()
                        source.read(spark, ranges).write.format("noop").mode("overwrite").save()
                        if turn:  # the first round warms up
                            seconds[wait][name].append(time.perf_counter() - started)
        finally:
            spark.stop()
    medians = {
        wait: {name: statistics.median(times) for name, times in found.items()}
        for wait, found in seconds.items()
    }
    table = Table("fetch.max.wait.ms", "all records", f"the last {NEW} of each partition")
    for wait, found in medians.items():
        table.add_row(str(wait), f"{found['all']:.2f} s", f"{found['new']:.2f} s")
    console.print(table)
    result = {"records": records, "partitions": PARTITIONS, "seconds": medians, "all": seconds}
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
