"""Dumps the records of a source as JSON lines, which Spark's workers decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from kip848_spark.errors import UsageError
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.spark.capture_errors import translate_capture_errors
from kip848_spark.spark.jobs.capture import all_ranges
from kip848_spark.spark.jobs.detect_dialect import detect_dialect
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.offset_reader import bounded_offset_reader
from kip848_spark.spark.session_settings import prepared_session
from kip848_spark.spark.sources import RecordSource, client_of
from kip848_spark.wire.batches import Batches, BatchFunction
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.definitions import SHIPPED
from kip848_spark.wire.kafka_json import json_lines
from kip848_spark.wire.record_stream import without_repeats

BATCH_RECORDS = 500_000
"""The most records in one Spark job, unless a single partition has more."""


def dump_files(
    source: RecordSource,
    spark: SparkSession,
    folder: Path,
    partitions: Sequence[int] | None = None,
    dialect: str = SHIPPED,
) -> Iterator[Path]:
    """Decodes ``source`` into text files below ``folder`` and yields each complete file, in the
    order of partitions and offsets. A file is deleted before the next one is yielded.

    Raises UsageError if one of ``partitions`` has no record.
    """
    with prepared_session(spark):
        ranges = all_ranges(source, spark)
    if partitions:
        there = {r.partition for r in ranges}
        for wanted in partitions:
            if wanted not in there:
                raise UsageError(f"The source has no record in partition {wanted}.")
        ranges = [r for r in ranges if r.partition in partitions]
    with prepared_session(spark), bounded_offset_reader(spark, client_of(source)):
        plan = control_plan(detect_dialect(source, spark, ranges, dialect).variant)
    for number, some in enumerate(_batch_ranges(ranges)):
        yield from _dump_ranges(source, spark, plan, folder / str(number), some)


def _batch_ranges(ranges: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Splits ``ranges`` into batches of at most `BATCH_RECORDS` offsets: one Spark job for each."""
    some: list[OffsetRange] = []
    for one in ranges:
        if some and sum(r.end - r.start for r in [*some, one]) > BATCH_RECORDS:
            yield some
            some = []
        some.append(one)
    if some:
        yield some


def _dump_ranges(
    source: RecordSource,
    spark: SparkSession,
    plan: ControlPlan,
    folder: Path,
    some: Sequence[OffsetRange],
) -> Iterator[Path]:
    records = source.read(spark, some).coalesce(1)
    if len(some) > 1:
        records = records.sortWithinPartitions("partition", "offset")
    lines = map_in_arrow(records, _to_json_lines(plan), pa.schema({"value": pa.string()}))
    with (
        prepared_session(spark, 1),
        bounded_offset_reader(spark, client_of(source)),
        translate_capture_errors(source.name),
    ):
        lines.write.text(str(folder))
    for file in sorted(folder.glob("part-*")):
        yield file
        file.unlink()


def _to_json_lines(plan: ControlPlan) -> BatchFunction:
    def run(batches: Batches) -> Batches:
        for batch in without_repeats(batches):
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
