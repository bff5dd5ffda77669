"""Ingest: raw records to the tables `records`, `group_records`, `gaps` and `topics`.

The source is passed over once. Control records are few; their wide form is made from the raw
bytes that `records` keeps of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.errors import SourceError
from kip848_spark.live import LiveTopic
from kip848_spark.spark.decoding import control_decoder, records_decoder
from kip848_spark.spark.lake import Lake, with_run
from kip848_spark.spark.ledger import Counts, Run
from kip848_spark.spark.sources import Source, capture_faults
from kip848_spark.spark.tables import CONTROL_PLAN, TABLES, record_output
from kip848_spark.wire.faults import UNREADABLE
from kip848_spark.wire.tables import OFFSET_COMMIT


def ingest(source: Source, lake: Lake, run: Run, keep_commits_raw: bool = False) -> Counts:
    """Writes what ``run`` plans to read; returns what became of the records.

    Raises SourceError if the topic is not empty and nothing of it could be read, or if records
    went missing between the source and the table.
    """
    spark = lake.spark
    cluster = run.identity.cluster_id
    seen = Observation("source")
    raw = source.read(spark, run.ranges).observe(seen, F.count(F.lit(1)).alias("records"))
    starts = {r.partition: r.start for r in run.ranges}
    decoder = records_decoder(CONTROL_PLAN.plan, starts, keep_commits_raw)
    schema = from_arrow_schema(pa.schema(list(record_output().items())))
    decoded = raw.mapInArrow(decoder, schema)
    with capture_faults(source.name):
        lake.append("records", with_run(decoded, run.run_id, cluster))

    written = lake.read("records").where(F.col("run_id") == run.run_id)
    lake.append("group_records", with_run(control_records(written), run.run_id, cluster))
    ends = _ends(written)
    lake.append("gaps", with_run(_gaps(lake, written, run, ends), run.run_id, cluster))
    return _counts(written, run, read=int(seen.get["records"]))


def control_records(records: DataFrame) -> DataFrame:
    """Rows of `records` to rows of `group_records`, without the columns of the run."""
    control = records.where(
        F.col("error").isNull() & F.col("raw_key").isNotNull() & (F.col("kind") != OFFSET_COMMIT)
    ).select("partition", "offset", "timestamp", "raw_key", "raw_value")
    schema = TABLES["control_state"].schema
    return control.mapInArrow(control_decoder(CONTROL_PLAN), schema)


def _ends(written: DataFrame) -> dict[int, int]:
    """The offset after the last record of each partition."""
    rows = written.groupBy("partition").agg(F.max("offset").alias("last")).collect()
    return {row["partition"]: row["last"] + 1 for row in rows}


def _gaps(lake: Lake, written: DataFrame, run: Run, ends: Mapping[int, int]) -> DataFrame:
    """Holes before records, and those between a partition's last record and the planned end."""
    inside = written.where(F.col("missing_before") > 0).select(
        "partition",
        (F.col("offset") - F.col("missing_before")).alias("first_offset"),
        (F.col("offset") - 1).alias("last_offset"),
        F.col("gap_cause").alias("cause"),
    )
    tails = [
        (r.partition, max(r.start, ends.get(r.partition, r.start)), r.end - 1, "transaction")
        for r in run.ranges
        if max(r.start, ends.get(r.partition, r.start)) < r.end
    ]
    tail = lake.spark.createDataFrame(
        tails, "partition int, first_offset long, last_offset long, cause string"
    )
    return inside.unionByName(tail).coalesce(1)


def _counts(written: DataFrame, run: Run, read: int) -> Counts:
    """Counts what is in the table, and holds it against what the source gave."""
    reason = F.split_part("error", F.lit(" "), F.lit(1))
    rows = (
        written.groupBy("kind", "tombstone", reason.alias("reason"))
        .agg(F.count(F.lit(1)).alias("records"), F.sum("unknown_tags").alias("tags"))
        .collect()
    )
    newer = {r.text for r in UNREADABLE}
    errors: dict[str, int] = {}
    tags: dict[str, int] = {}
    sums = dict.fromkeys(("decoded", "tombstones", "unknown", "quarantined"), 0)
    for row in rows:
        if row["reason"] is not None:
            errors[row["reason"]] = errors.get(row["reason"], 0) + row["records"]
            sums["unknown" if row["reason"] in newer else "quarantined"] += row["records"]
        else:
            sums["tombstones" if row["tombstone"] else "decoded"] += row["records"]
        if row["tags"]:
            tags[row["kind"]] = tags.get(row["kind"], 0) + row["tags"]
    total = sum(sums.values())
    span = sum(r.end - r.start for r in run.ranges)
    if total > read:
        raise SourceError(f"The source gave {read} records, the table has {total} of them.")
    # Later on, a range may well hold nothing but an aborted transaction.
    if span and not total and all(r.start == 0 for r in run.ranges):
        raise SourceError(
            f"The topic {run.identity.topic} has offsets up to "
            f"{max(r.end for r in run.ranges)}, but none of its records could be read.",
            "Check that the client may read it (ACL READ on the topic).",
        )
    return Counts(total, **sums, missing=span - total, errors=errors, unknown_tags=tags)


def topic_rows(lake: Lake, topics: Mapping[str, LiveTopic], run: Run) -> DataFrame:
    """Rows of `topics`: the cluster's topics at the time of ``run``."""
    rows = [
        (t.name, _kafka_form(t.topic_id), t.partitions, None)
        for t in topics.values()
        if not t.internal
    ]
    schema = "topic string, topic_id string, partitions int, racks array<array<string>>"
    frame = lake.spark.createDataFrame(rows, schema).coalesce(1)
    return with_run(frame, run.run_id, run.identity.cluster_id)


def _kafka_form(topic_id: str) -> str:
    """A topic id as Kafka prints it: the client library prints plain base64, not the URL's."""
    return topic_id.replace("+", "-").replace("/", "_")
