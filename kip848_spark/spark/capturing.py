"""A capture: the raw records of a source as Parquet, with the columns of Spark's Kafka source."""

from __future__ import annotations

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from kip848_spark.spark.sources import Range, Source, capture_faults

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")


def whole(source: Source, spark: SparkSession) -> list[Range]:
    """All there is of each partition."""
    extents = source.extents(spark)
    return [Range(p, e.first, e.end) for p, e in sorted(extents.items()) if e.end > e.first]


def write_capture(source: Source, spark: SparkSession, path: str) -> int:
    """Writes every record of ``source`` to new Parquet files in ``path``; returns how many."""
    ranges = whole(source, spark)
    topic = source.identity().topic
    if not ranges:
        frame = spark.createDataFrame([], "partition int, offset long, timestamp timestamp, "
                                          "key binary, value binary")  # fmt: skip
    else:
        frame = source.read(spark, ranges)
    seen = Observation("capture")
    frame = frame.observe(seen, F.count(F.lit(1)).alias("records"))
    with capture_faults(source.name):
        frame.withColumn("topic", F.lit(topic)).select(*COLUMNS).write.mode("append").parquet(path)
    return int(seen.get["records"])
