"""Measures what a night costs beside writing the topic's raw bytes to Delta (part of `make bench`).

    python -m benchmarks.night [--records N] [--rounds N] [--control-every N] [--s3]

A real broker on the loopback interface has a topic of N records (10 million). Each round has five
measurements in the same warm session: Spark writes the raw bytes of the topic to Delta, with the
consumer settings of the program and then with Kafka's own; a first night with everything (ingest,
replay with history and rebalances, readiness, audit, live comparison, report) into a new lake; a
second night of 1% new records; a third night without news. Filling the topic is not timed, and
neither is the start of the session. A small topic warms the session up before. One of
``--control-every`` records is a control record (of 20, if not given).

The topic is no `__consumer_offsets`, so the live comparison asks the broker for groups that it does
not have: it sends the same requests, but the answers are short. ``--s3`` puts the lake and the raw
table on a local S3 server (moto's), which is slower than a disk and shares the machine."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.memory import WorkerMemory
from benchmarks.topic import CONTROL_EVERY, TopicFiller
from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.config.storage import StorageSettings
from kip848_spark.lake.ledger import plan_ranges
from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.local.broker import Broker
from kip848_spark.report.data import ReportOptions
from kip848_spark.report.files import write_report
from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.opening import open_lake
from tests.spark.s3 import s3_server

RECORDS = 10_000_000
ROUNDS = 3
PARTITIONS = 16
WARM_UP = 100_000
NEW = 100
"""A second night has one new record for so many."""
FIRST, SECOND, THIRD = "first night", "1% new records", "no news"
RAW, OTHER, REPORT, ALL = "raw bytes to Delta", "other", "report", "all"
PLAIN = "the same with Kafka's own settings"
KAFKAS = {"java.fetch.max.wait.ms": "500", "java.max.poll.records": "500"}
"""The consumer settings of Kafka where the program has others."""
Seconds = dict[str, float]
Place = Callable[[str], str]


def main() -> None:
    """Measures, prints the tables and writes them as JSON beside this file."""
    parser = argparse.ArgumentParser(description="What a night costs.")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--control-every", type=int, default=CONTROL_EVERY)
    parser.add_argument("--s3", action="store_true", help="the lake is on a local S3 server")
    arguments = parser.parse_args()
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="kip848-bench-") as name:
        folder = Path(name)
        with (
            _place(folder, arguments.s3) as (place, storage),
            Broker(offsets_partitions=PARTITIONS) as broker,
            WorkerMemory() as memory,
        ):
            spark = local_session(storage=storage, s3=arguments.s3)
            try:
                nights = Nights(spark, broker.bootstrap, storage, folder, arguments.control_every)
                nights.measure("warm-up", place("warm-up"), WARM_UP)
                rounds = [
                    nights.measure(f"round-{number}", place(f"round-{number}"), arguments.records)
                    for number in range(arguments.rounds)
                ]
            finally:
                spark.stop()
    show(console, arguments.records, rounds)
    sizes = ("driver_peak", "jvm_peak", "peak")
    console.print(
        "resident memory at most, MiB: the driver's Python {}, the JVM {}, the largest Python "
        "worker {}".format(*(getattr(memory, size) >> 20 for size in sizes))
    )
    found = {
        "records": arguments.records,
        "control_every": arguments.control_every,
        "s3": arguments.s3,
        "rounds": rounds,
        **{size: getattr(memory, size) for size in sizes},
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")


@contextmanager
def _place(folder: Path, s3: bool) -> Iterator[tuple[Place, StorageSettings | None]]:
    """Where lakes are, by their names, and the settings of their store."""
    if not s3:
        yield lambda name: str(folder / name), None
        return
    with s3_server(folder / "s3.log") as server:
        os.environ.update(server.storage_options)
        yield server.path, StorageSettings()


class Nights:
    """Measures nights in one session against one broker."""

    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str,
        storage: StorageSettings | None,
        folder: Path,
        control_every: int = CONTROL_EVERY,
    ) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._storage = storage
        self._folder = folder
        self._control_every = control_every

    def measure(self, topic: str, place: str, records: int) -> dict[str, Seconds]:
        """Seconds of the steps of each night, of a topic of ``records`` in a lake at ``place``. The
        raw bytes are written before the first night, without a lake's files in the page cache."""
        new = records // NEW
        now = int(time.time() * 1000)
        filler = TopicFiller(
            self._bootstrap, topic, PARTITIONS, records + new, now, self._control_every
        )
        filler.send(records)
        raw = {RAW: self._raw(topic, f"{place}-raw", {})}
        found = {RAW: raw | {PLAIN: self._raw(topic, f"{place}-plain", KAFKAS)}}
        found[FIRST] = self.night(topic, place)
        filler.send(new)
        found[SECOND] = self.night(topic, place)
        found[THIRD] = self.night(topic, place)
        whole = {night: took.get(ALL, took.get(RAW, 0.0)) for night, took in found.items()}
        print(topic, *(f"{night}: {took:.1f} s" for night, took in whole.items()), sep="  ")
        return found

    def _raw(self, topic: str, place: str, settings: dict[str, str]) -> float:
        source = KafkaSource(self._bootstrap, topic, ClientSettings(settings))
        ranges = plan_ranges(None, source.extents(self._spark))
        started = time.perf_counter()
        frame = source.read(self._spark, ranges).withColumn("topic", F.lit(topic))
        frame.write.format("delta").save(place)
        return time.perf_counter() - started

    def night(self, topic: str, place: str) -> Seconds:
        """Seconds by step. ``other`` is what belongs to no step: the plan, the lease, the tables'
        versions, the ledger."""
        started = time.perf_counter()
        lake = open_lake(self._spark, place, storage=self._storage)
        outcome = run_ingest(self._source(topic), lake, then_replay=True, then_audit=True)
        ran = time.perf_counter()
        if outcome.changed:
            options = ReportOptions(readiness=outcome.readiness)
            page = self._folder / "night.html"
            stored = None if self._storage is None else self._storage.delta(os.environ)
            write_report(LakeSnapshot(locate(place), storage=stored), page, options)
        ended = time.perf_counter()
        assert outcome.run is not None
        steps = outcome.run.durations_ms if outcome.changed else {}
        took = {name: ms / 1000 for name, ms in steps.items()}
        other = ran - started - sum(took.values())
        return {**took, OTHER: other, REPORT: ended - ran, ALL: ended - started}

    def _source(self, topic: str) -> KafkaSource:
        return KafkaSource(self._bootstrap, topic, ClientSettings())


def show(console: Console, records: int, rounds: list[dict[str, Seconds]]) -> None:
    """The table: the median of the seconds of each step, and its ratio to the raw bytes."""
    table = Table(title=f"{records:,} records, one warm session, medians of {len(rounds)}")
    for column in ("", "step", "seconds", "to raw bytes"):
        table.add_column(column, justify="left" if column in ("", "step") else "right")
    raw = median(found[RAW][RAW] for found in rounds)
    plain = median(found[RAW][PLAIN] for found in rounds)
    table.add_row(RAW, "", f"{raw:.1f}", "1.00")
    table.add_row(PLAIN, "", f"{plain:.1f}", f"{plain / raw:.2f}")
    for night in (FIRST, SECOND, THIRD):
        table.add_section()
        for step in rounds[0][night]:
            took = median(found[night].get(step, 0.0) for found in rounds)
            table.add_row(night if step == ALL else "", step, f"{took:.2f}", f"{took / raw:.3f}")
    console.print(table)
    share = [found[SECOND][ALL] / found[FIRST][ALL] for found in rounds]
    console.print(f"a night of 1% new records to the first one: {median(share):.3f}")


if __name__ == "__main__":
    main()
