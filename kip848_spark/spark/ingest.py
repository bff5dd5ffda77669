"""Ingest: raw records to the tables `records`, `group_records`, `gaps` and `topics`.

The source is passed over once. Control records are few; their wide form is made from the raw
bytes that `records` keeps of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kip848_spark.errors import SourceError
from kip848_spark.live import LiveTopic
from kip848_spark.spark.choosing import control_plan
from kip848_spark.spark.decoding import control_decoder, records_decoder
from kip848_spark.spark.lake import Lake, with_run
from kip848_spark.spark.ledger import Counts, Run
from kip848_spark.spark.sources import KafkaSource, Source, capture_faults
from kip848_spark.spark.tables import CONTROL_FIELDS, TABLES, record_output
from kip848_spark.wire.control import ControlPlan
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
    plan = control_plan(run.dialect)
    decoder = records_decoder(plan.plan, starts, keep_commits_raw)
    schema = from_arrow_schema(pa.schema(list(record_output().items())))
    decoded = raw.mapInArrow(decoder, schema)
    with capture_faults(source.name):
        lake.append("records", with_run(decoded, run.run_id, cluster))

    written = lake.read("records").where(F.col("run_id") == run.run_id)
    lake.append("group_records", with_run(control_records(written, plan), run.run_id, cluster))
    tally = _tally(written)
    lake.append("gaps", with_run(_gaps(lake, written, run, tally), run.run_id, cluster))
    return _counts(source, tally, run, read=int(seen.get["records"]))


def control_records(records: DataFrame, plan: ControlPlan) -> DataFrame:
    """Rows of `records` to rows of `group_records`, without the columns of the run."""
    control = records.where(
        F.col("error").isNull() & F.col("raw_key").isNotNull() & (F.col("kind") != OFFSET_COMMIT)
    ).select("partition", "offset", "timestamp", "raw_key", "raw_value")
    schema = TABLES["control_state"].schema
    return control.mapInArrow(control_decoder(plan, CONTROL_FIELDS), schema)


def _tally(written: DataFrame) -> list[Row]:
    """One look at what was written: a row for each partition, kind, tombstone or not, and reason,
    with the records, their unknown tags and the last offset."""
    reason = F.split_part("error", F.lit(" "), F.lit(1))
    return (
        written.groupBy("partition", "kind", "tombstone", reason.alias("reason"))
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.sum("unknown_tags").alias("tags"),
            F.max("offset").alias("last"),
        )
        .collect()
    )


def _gaps(lake: Lake, written: DataFrame, run: Run, tally: Sequence[Row]) -> DataFrame:
    """Holes before records, and those between a partition's last record and the planned end."""
    ends: dict[int, int] = {}
    for row in tally:
        ends[row["partition"]] = max(ends.get(row["partition"], 0), row["last"] + 1)
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


def _counts(source: Source, tally: Sequence[Row], run: Run, read: int) -> Counts:
    """Counts what is in the table, and holds it against what the source gave: a capture may have
    a record twice, a topic may not."""
    newer = {r.text for r in UNREADABLE}
    errors: dict[str, int] = {}
    tags: dict[str, int] = {}
    sums = dict.fromkeys(("decoded", "tombstones", "unknown", "quarantined"), 0)
    for row in tally:
        if row["reason"] is not None:
            errors[row["reason"]] = errors.get(row["reason"], 0) + row["records"]
            sums["unknown" if row["reason"] in newer else "quarantined"] += row["records"]
        else:
            sums["tombstones" if row["tombstone"] else "decoded"] += row["records"]
        if row["tags"]:
            tags[row["kind"]] = tags.get(row["kind"], 0) + row["tags"]
    total = sum(sums.values())
    span = sum(r.end - r.start for r in run.ranges)
    if total != read and (total > read or isinstance(source, KafkaSource)):
        raise SourceError(f"The source gave {read:,} records, but the table has {total:,}.")
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
    rows = [(t.name, t.topic_id, t.partitions, None) for t in topics.values() if not t.internal]
    schema = "topic string, topic_id string, partitions int, racks array<array<string>>"
    frame = lake.spark.createDataFrame(rows, schema).coalesce(1)
    return with_run(frame, run.run_id, run.identity.cluster_id)
