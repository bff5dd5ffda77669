"""The records of a source as JSON lines, decoded by Spark, a file a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from kip848_spark.errors import UsageError
from kip848_spark.spark.capturing import whole
from kip848_spark.spark.choosing import chosen, control_plan
from kip848_spark.spark.sources import Range, Source, capture_faults
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.definitions import SHIPPED
from kip848_spark.wire.kafka_json import json_lines


def dump_files(
    source: Source,
    spark: SparkSession,
    folder: Path,
    partitions: Sequence[int] | None = None,
    dialect: str = SHIPPED,
) -> Iterator[Path]:
    """Decodes ``source`` into files below ``folder``; gives each one when it is whole, in the
    order of partitions, the records of each in offset order. A file is removed when the next is
    asked for.

    Raises UsageError if one of ``partitions`` is not there.
    """
    ranges = whole(source, spark)
    if partitions:
        there = {r.partition for r in ranges}
        for wanted in partitions:
            if wanted not in there:
                raise UsageError(f"The source has no record in partition {wanted}.")
        ranges = [r for r in ranges if r.partition in partitions]
    plan = control_plan(chosen(source, spark, ranges, dialect).variant)
    for one in ranges:
        yield from _dumped(source, spark, plan, folder / str(one.partition), one)


def _dumped(
    source: Source, spark: SparkSession, plan: ControlPlan, folder: Path, one: Range
) -> Iterator[Path]:
    lines = source.read(spark, [one]).coalesce(1).mapInArrow(_liner(plan), "value string")
    with capture_faults(source.name):
        lines.write.text(str(folder))
    for file in sorted(folder.glob("part-*")):
        yield file
        file.unlink()


def _liner(
    plan: ControlPlan,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            times = batch.column("timestamp").cast(pa.int64()).fill_null(-1000).to_numpy()
            lines = json_lines(
                plan,
                batch.column("partition").to_numpy(),
                batch.column("offset").to_numpy(),
                np.floor_divide(times, 1000),
                batch.column("key"),
                batch.column("value"),
            )
            text = pa.array(list(lines), pa.binary()).cast(pa.string())
            yield pa.RecordBatch.from_pydict({"value": text})

    return run
