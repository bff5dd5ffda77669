"""Writes a capture: the raw records of a source as Parquet, with the columns of Spark's Kafka
source."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from kip848_spark.kafka.capture_origin import Origin, derived_id
from kip848_spark.kafka.topic import OffsetRange, TopicIdentity
from kip848_spark.lake.folders import require_empty
from kip848_spark.spark.capture_errors import translate_capture_errors
from kip848_spark.spark.capture_origin import write_origin
from kip848_spark.spark.hadoop import folder_of, location_of
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.session_settings import in_prepared_session, size_tasks
from kip848_spark.spark.sources import COLUMNS as SOURCE_COLUMNS
from kip848_spark.spark.sources import RecordSource
from kip848_spark.wire.anonymize import NameCollector, Pseudonyms, rewrite
from kip848_spark.wire.batches import Batches, BatchFunction
from kip848_spark.wire.control_plans import CONTROL_PLAN
from kip848_spark.wire.tables import TIMESTAMP

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
ROW = pa.schema(
    {
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": TIMESTAMP,
        "key": pa.binary(),
        "value": pa.binary(),
    }
)
NAMED = pa.schema({"category": pa.string(), "name": pa.string()})


def all_ranges(source: RecordSource, spark: SparkSession) -> list[OffsetRange]:
    """The offsets of each partition that has records."""
    extents = source.extents(spark)
    return [OffsetRange(p, e.first, e.end) for p, e in sorted(extents.items()) if e.end > e.first]


@in_prepared_session
def write_capture(
    source: RecordSource, spark: SparkSession, path: str, anonymous: bool = False
) -> tuple[int, int]:
    """Writes the records of ``source`` to new Parquet files in ``path``, with an origin file.
    Returns the number of records that were read and of those that were written.

    With ``anonymous``, names and the ids in the origin are replaced. A value that does not decode
    is replaced by one that does not decode either. A record whose key does not decode is left out,
    because the names in it are unknown. The source is then read twice, first for the names. Raises
    UsageError if ``path`` exists, and SourceError or CaptureError.
    """
    place = location_of(spark, path)
    require_empty(folder_of(spark, place), path)
    ranges = all_ranges(source, spark)
    size_tasks(spark, sum(r.end - r.start for r in ranges))
    identity = source.identity()
    frame = source.read(spark, ranges) if ranges else spark.createDataFrame(ROW.empty_table())
    read, written = Observation("read"), Observation("written")
    count = F.count(F.lit(1)).alias("records")
    with translate_capture_errors(source.name):
        kept = frame.observe(read, count)
        if anonymous:
            pseudonyms = _pseudonyms(frame)
            identity = _anonymize_identity(identity, pseudonyms.secret)
            kept = map_in_arrow(kept, _pseudonymize(pseudonyms), ROW)
        kept = kept.observe(written, count).withColumn("topic", F.lit(identity.topic))
        kept.select(*COLUMNS).write.mode("append").parquet(place.uri)
    origin = Origin(
        topic=identity.topic,
        cluster_id=identity.cluster_id,
        topic_id=identity.topic_id,
        captured_at=datetime.now(UTC),
        ends={r.partition: r.end for r in ranges},
    )
    write_origin(spark, path, origin)
    return int(read.get["records"]), int(written.get["records"])


def _anonymize_identity(identity: TopicIdentity, secret: bytes) -> TopicIdentity:
    """Ids that are derived from the secret of the pseudonyms. No two anonymized captures have the
    same ids, because equal pseudonyms in them stand for different groups."""
    return replace(
        identity,
        cluster_id=derived_id(f"cluster {identity.cluster_id}".encode(), secret),
        topic_id=derived_id(f"topic {identity.topic_id}".encode(), secret),
    )


def _pseudonyms(frame: DataFrame) -> Pseudonyms:
    """Pseudonyms for all names in ``frame``. Only the distinct names are collected to the
    driver."""
    rows = map_in_arrow(frame, _collect_names, NAMED).distinct().collect()
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["category"], set()).add(row["name"])
    return Pseudonyms.of(found, secrets.token_bytes(16))


def _collect_names(batches: Batches) -> Batches:
    names = NameCollector()
    for batch in batches:
        rewrite(CONTROL_PLAN, batch.column("key"), batch.column("value"), names)
    pairs = [(category, name) for category, some in names.found.items() for name in some]
    yield pa.RecordBatch.from_pydict(
        {
            "category": pa.array([category for category, _ in pairs], pa.string()),
            "name": pa.array([name for _, name in pairs], pa.string()),
        }
    )


def _pseudonymize(pseudonyms: Pseudonyms) -> BatchFunction:
    def run(batches: Batches) -> Batches:
        for batch in batches:
            keys, values, _ = rewrite(
                CONTROL_PLAN, batch.column("key"), batch.column("value"), pseudonyms
            )
            columns = {name: batch.column(name) for name in SOURCE_COLUMNS}
            columns |= {"key": keys, "value": values}
            yield pa.RecordBatch.from_pydict(columns).filter(keys.is_valid())

    return run
