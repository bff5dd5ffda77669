"""Measures how the cost of a small night grows with the number of nights before it (part of `make
bench`).

    python -m benchmarks.many_nights [--records N] [--new N] [--nights N] [--partitions N]

A real broker on the loopback interface has a topic of N records (1 million), which a first night
reads. Each further night (40 of them) reads new records (10,000) and does everything that `run
--report` does, in the same warm session. Then the lake is maintained, and one more night follows.
The table has the seconds of each step, and the number of data files that a reader of the newest
version opens. The topic has 16 partitions, or as many as ``--partitions`` says (Kafka's default is
50)."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from benchmarks.night import ALL, PARTITIONS, WARM_UP, Nights, Seconds
from benchmarks.topic import TopicFiller
from kip848_spark.lake.tables import TABLES
from kip848_spark.local.broker import Broker
from kip848_spark.spark.maintenance import run_maintenance
from kip848_spark.spark.session import local_session
from kip848_spark.spark.storage.opening import open_lake

RECORDS, NEW, NIGHTS = 1_000_000, 10_000, 40
CONTROL_EVERY = 67
"""One of so many records is a control record, as in the simulated records of the audit's
benchmark."""
STEPS = ("ingest", "replay", "readiness", "audit", "live", "report", "other", ALL)


def main() -> None:
    """Measures, prints the table and writes it as JSON beside this file."""
    parser = argparse.ArgumentParser(description="What a small night costs after many others.")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--new", type=int, default=NEW)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kip848-bench-") as name,
        Broker(offsets_partitions=PARTITIONS) as broker,
    ):
        spark = local_session()
        try:
            place = str(Path(name, "lake"))
            nights = Nights(spark, broker.bootstrap, None, Path(name), CONTROL_EVERY)
            nights.measure("warm-up", str(Path(name, "warm-up")), WARM_UP)
            total = arguments.records + arguments.new * (arguments.nights + 1)
            now = int(time.time() * 1000)
            filler = TopicFiller(
                broker.bootstrap, "nights", arguments.partitions, total, now, CONTROL_EVERY
            )
            filler.send(arguments.records)
            nights.night("nights", place)
            found: dict[str, Seconds] = {}
            for number in range(1, arguments.nights + 1):
                filler.send(arguments.new)
                found[f"night {number}"] = nights.night("nights", place) | count_files(place)
            run_maintenance(open_lake(spark, place), 24)
            filler.send(arguments.new)
            found["after maintenance"] = nights.night("nights", place) | count_files(place)
        finally:
            spark.stop()
    show(found)
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")


def count_files(place: str) -> Seconds:
    """The number of data files of all tables of the lake at ``place``."""
    tables = (DeltaTable(str(Path(place, name))) for name in TABLES)
    return {"files": float(sum(len(table.file_uris()) for table in tables))}


def show(found: dict[str, Seconds]) -> None:
    """The table: each tenth night, its neighbours (a night varies), and the last one."""
    table = Table(title="seconds of the steps of a night of few new records, one warm session")
    for column in ("", *STEPS, "files"):
        table.add_column(column, justify="right" if column else "left")
    for number, (name, took) in enumerate(found.items(), 1):
        if number % 10 in (9, 0, 1) or number == len(found):
            steps = (f"{took.get(step, 0.0):.2f}" for step in STEPS)
            table.add_row(name, *steps, f"{took['files']:.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
