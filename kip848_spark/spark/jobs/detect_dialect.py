"""Chooses the dialect of a source: by name, from the lake's ledger, or from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.sources import RecordSource
from kip848_spark.wire.batches import Batches, BatchFunction
from kip848_spark.wire.decode import DecodePlan
from kip848_spark.wire.dialects import (
    AUTO,
    DISTINCTIVE_KEY_TYPES,
    DialectChoice,
    candidate_plans,
    choose_dialect,
    count_readable,
)

TALLY = pa.schema({"variant": pa.string(), "records": pa.int64(), "read": pa.int64()})


def detect_dialect(
    source: RecordSource,
    spark: SparkSession,
    ranges: Sequence[OffsetRange],
    dialect: str,
    before: str | None = None,
) -> DialectChoice:
    """The variant of ``dialect`` by which to decode ``ranges``. With ``auto``, a lake keeps the
    variant of its earlier runs, ``before``. The records are read only if neither decides.

    Raises UsageError if the records don't decide either.
    """
    plans = candidate_plans(dialect)
    if len(plans) == 1:
        return DialectChoice(next(iter(plans)), "it was named")
    if dialect == AUTO and before is not None:
        return DialectChoice(before, "this lake was read by it before")
    key_type = F.conv(F.hex(F.substring("key", 1, 2)), 16, 10).cast("int")
    distinctive = (
        source.read(spark, ranges)
        .where(key_type.isin(list(DISTINCTIVE_KEY_TYPES)) & F.col("value").isNotNull())
        .select("key", "value")
    )
    counts = map_in_arrow(distinctive, _count_by_variant(plans), TALLY)
    rows = counts.groupBy("variant").agg(F.sum("records"), F.sum("read")).collect()
    total = max((row[1] for row in rows), default=0)
    return choose_dialect({row[0]: row[2] for row in rows} or dict.fromkeys(plans, 0), total)


def _count_by_variant(plans: Mapping[str, DecodePlan]) -> BatchFunction:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            read = count_readable(plans, batch.column("key"), batch.column("value"))
            yield pa.RecordBatch.from_pydict(
                {
                    "variant": pa.array(list(read), pa.string()),
                    "records": pa.array([batch.num_rows] * len(read), pa.int64()),
                    "read": pa.array(list(read.values()), pa.int64()),
                }
            )

    return run
