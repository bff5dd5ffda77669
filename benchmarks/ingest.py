"""Measures `ingest` against merely writing the topic's raw bytes to Delta (part of `make bench`).

    python -m benchmarks.ingest [RECORDS]

Everything happens in one run, with one warm Spark session and one broker on the loopback interface.
All variants are timed in turn, three times each after a warm-up; the ratio is that of the medians
of `ingest` and of the raw bytes. Creating the topic, the session and the lake's empty tables is not
timed. Both variants use Spark's compression (snappy by default); the raw table has Delta's default
statistics.

`ingest` is timed twice: with a lake on this machine, whose files the Python workers write, and with
the same folder as a URI, where Spark writes as it would to a remote store."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from rich.console import Console
from rich.table import Table

from benchmarks.memory import WorkerMemory
from benchmarks.topic import fill
from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.lake.ledger import Run, new_run_id, plan_ranges
from kip848_spark.local.broker import Broker
from kip848_spark.spark.jobs.ingest import ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.spark.storage.opening import open_lake
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.record_stream import STREAM_FIELDS, records_decoder

TOPIC = "offsets_like"
PARTITIONS = 16
RECORDS = 2_100_000
"""The number of records sent. Those of aborted transactions are not read: two million are left."""
ROUNDS = 3
RAW, INGEST = "raw bytes to Delta", "ingest"


def main(records: int = RECORDS) -> None:
    """Fills the topic, measures, prints the table and writes it as JSON beside this file."""
    console = Console(width=110)
    with Broker(offsets_partitions=PARTITIONS) as broker, tempfile.TemporaryDirectory() as folder:
        console.print(f"filling a topic with {records:,} records …")
        fill(broker.bootstrap, TOPIC, PARTITIONS, records, int(time.time() * 1000))
        spark = local_session()
        try:
            result = measure(spark, broker, Path(folder))
        finally:
            spark.stop()
    show(console, result)
    Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


def measure(spark: SparkSession, broker: Broker, folder: Path) -> dict[str, object]:
    """Seconds of each variant, medians of `ROUNDS` interleaved rounds, and the workers' peak
    memory."""
    source = KafkaSource(broker.bootstrap, TOPIC, ClientSettings())
    plan = Run(
        run_id="",
        source=source.name,
        identity=source.identity(),
        dialect="shipped",
        ranges=plan_ranges(None, source.extents(spark)),
        table_versions={},
        started_at=datetime.now(UTC),
    )
    read = 0

    def raw(path: str) -> None:
        frame = source.read(spark, plan.ranges).withColumn("topic", F.lit(TOPIC))
        frame.write.format("delta").save(path)

    def product(path: str) -> None:
        nonlocal read
        run = replace(plan, run_id=new_run_id(datetime.now(UTC)))
        read = ingest(source, open_lake(spark, path), run).records_read

    def by_spark(path: str) -> None:
        run = replace(plan, run_id=new_run_id(datetime.now(UTC)))
        ingest(source, open_lake(spark, path, by_spark=True), run)

    def scan(_: str) -> None:
        _drop(source.read(spark, plan.ranges))

    def handing_over(_: str) -> None:
        frame = source.read(spark, plan.ranges)
        _drop(frame.mapInArrow(lambda batches: batches, frame.schema))

    def decoding(_: str) -> None:
        starts = {r.partition: r.start for r in plan.ranges}
        schema = from_arrow_schema(pa.schema(list(STREAM_FIELDS.items())))
        decoder = records_decoder(control_plan("shipped").plan, starts)
        _drop(source.read(spark, plan.ranges).mapInArrow(decoder, schema))

    variants: dict[str, Callable[[str], None]] = {
        RAW: raw,
        INGEST: product,
        "ingest, written by Spark": by_spark,
        "scan, to nowhere": scan,
        "scan, to Python and back, to nowhere": handing_over,
        "scan and decode, to nowhere": decoding,
    }
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    sizes: dict[str, int] = {}
    with WorkerMemory() as memory:
        for turn in range(ROUNDS + 1):
            for name, variant in variants.items():
                path = folder / "lake"
                if variant in (product, by_spark):
                    open_lake(spark, str(path)).create()
                started = time.perf_counter()
                variant(str(path))
                if turn:  # the first round warms up
                    seconds[name].append(time.perf_counter() - started)
                if path.exists():
                    sizes[name] = sum(f.stat().st_size for f in path.rglob("*.parquet"))
                    shutil.rmtree(path)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        "records": read,
        "seconds": medians,
        "all_seconds": seconds,
        "bytes": sizes,
        "worker_peak_bytes": memory.peak,
        "workers_peak_bytes": memory.peak_of_all,
        "ratio": medians[INGEST] / medians[RAW],
    }


def _drop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def show(console: Console, result: dict[str, object]) -> None:
    """Prints the table."""
    seconds, sizes, records = result["seconds"], result["bytes"], result["records"]
    assert isinstance(seconds, dict)
    assert isinstance(sizes, dict)
    assert isinstance(records, int)
    table = Table(title=f"{records:,} records, median of {ROUNDS} rounds in turn, one warm session")
    for column in ("", "seconds", "records/s", "to raw bytes", "MB on disk"):
        table.add_column(column, justify="left" if not column else "right")
    base = seconds[RAW]
    for name, took in seconds.items():
        size = f"{sizes[name] / 1e6:.0f}" if name in sizes else ""
        table.add_row(name, f"{took:.1f}", f"{records / took:,.0f}", f"{took / base:.2f}", size)
    console.print(table)
    peak, of_all = result["worker_peak_bytes"], result["workers_peak_bytes"]
    assert isinstance(peak, int)
    assert isinstance(of_all, int)
    console.print(
        f"resident memory of the Python workers at most: {peak / 2**20:.0f} MiB the largest, "
        f"{of_all / 2**20:.0f} MiB all together"
    )
    console.print(f"ingest to raw bytes: {result['ratio']:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
