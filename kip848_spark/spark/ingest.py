"""Ingest: raw records to the tables `records`, `group_records`, `gaps` and `topics`.

The source is passed over once. In a lake on this machine the Python workers write the files of all
three tables in that pass (`writing`). Elsewhere Spark writes `records`, and makes the others from
that: control records are few, and `records` keeps their raw bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, Row
from pyspark.sql import functions as F

from kip848_spark.cluster_answers import LiveTopic
from kip848_spark.errors import SourceError
from kip848_spark.spark.choosing import control_plan
from kip848_spark.spark.decoding import control_decoder, records_decoder
from kip848_spark.spark.direct import row_files
from kip848_spark.spark.files import DataFile
from kip848_spark.spark.gaps import TRANSACTION
from kip848_spark.spark.lake import Lake, with_run
from kip848_spark.spark.ledger import Counts, Run
from kip848_spark.spark.sources import KafkaSource, Source, capture_faults
from kip848_spark.spark.tables import CONTROL_FIELDS, PLACE, record_output
from kip848_spark.spark.workers import in_workers
from kip848_spark.spark.writing import REPORT, WRITTEN, records_writer
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.faults import UNREADABLE
from kip848_spark.wire.tables import OFFSET_COMMIT


def ingest(source: Source, lake: Lake, run: Run, keep_commits_raw: bool = False) -> Counts:
    """Writes what ``run`` plans to read; returns what became of the records.

    Raises SourceError if the topic is not empty and nothing of it could be read, or if records
    went missing between the source and the table.
    """
    seen = Observation("source")
    raw = source.read(lake.spark, run.ranges).observe(seen, F.count(F.lit(1)).alias("records"))
    write = _by_workers if lake.writes_directly(WRITTEN) else _by_spark
    return write(source, lake, run, raw, seen, keep_commits_raw)


def _by_workers(
    source: Source, lake: Lake, run: Run, raw: DataFrame, seen: Observation, keep_raw: bool
) -> Counts:
    """The Python workers write the tables' files; what they report is committed here."""
    targets = [lake.target(name, run.run_id, run.identity.cluster_id) for name in WRITTEN]
    writer = records_writer(
        control_plan(run.dialect), CONTROL_FIELDS, _starts(run), targets, keep_raw
    )
    with capture_faults(source.name), lake.faults("written"):
        report = in_workers(raw, writer, REPORT).collect()
    files = [DataFile(**row["file"].asDict()) for row in report if row["file"]]
    tally = [row["tally"] for row in report if row["tally"]]
    written = sum(file.rows for file in files if file.table == "records")
    counts = _counts(source, tally, run, int(seen.get["records"]), written)
    gaps = [target for target in targets if target.table == "gaps"]
    names = ("partition", "first_offset", "last_offset", "cause")
    tails = [dict(zip(names, tail, strict=True)) for tail in _tails(run, tally)]
    lake.add(WRITTEN, [*files, *row_files(gaps[0], tails)])
    return counts


def _by_spark(
    source: Source, lake: Lake, run: Run, raw: DataFrame, seen: Observation, keep_raw: bool
) -> Counts:
    """Spark writes: wherever its workers can't reach the tables' folders by themselves."""
    cluster = run.identity.cluster_id
    plan = control_plan(run.dialect)
    decoder = records_decoder(plan.plan, _starts(run), keep_raw)
    rows = in_workers(raw, decoder, pa.schema(list(record_output().items())))
    with capture_faults(source.name):
        lake.append("records", with_run(rows, run.run_id, cluster))

    written = lake.read("records").where(F.col("run_id") == run.run_id)
    lake.append("group_records", with_run(control_records(written, plan), run.run_id, cluster))
    tally = _tally(written)
    lake.append("gaps", with_run(_gaps(lake, written, run, tally), run.run_id, cluster))
    return _counts(source, tally, run, int(seen.get["records"]))


def _starts(run: Run) -> dict[int, int]:
    return {r.partition: r.start for r in run.ranges}


def control_records(records: DataFrame, plan: ControlPlan) -> DataFrame:
    """Rows of `records` to rows of `group_records`, without the columns of the run."""
    control = records.where(
        F.col("error").isNull() & F.col("raw_key").isNotNull() & (F.col("kind") != OFFSET_COMMIT)
    ).select("partition", "offset", "timestamp", "raw_key", "raw_value")
    schema = pa.schema([*PLACE.items(), *CONTROL_FIELDS.items()])
    return in_workers(control, control_decoder(plan, CONTROL_FIELDS), schema)


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
    inside = written.where(F.col("missing_before") > 0).select(
        "partition",
        (F.col("offset") - F.col("missing_before")).alias("first_offset"),
        (F.col("offset") - 1).alias("last_offset"),
        F.col("gap_cause").alias("cause"),
    )
    tail = lake.spark.createDataFrame(
        _tails(run, tally), "partition int, first_offset long, last_offset long, cause string"
    )
    return inside.unionByName(tail).coalesce(1)


def _tails(run: Run, tally: Sequence[Row]) -> list[tuple[int, int, int, str]]:
    """The holes between a partition's last record and the planned end."""
    ends: dict[int, int] = {}
    for row in tally:
        ends[row["partition"]] = max(ends.get(row["partition"], 0), row["last"] + 1)
    after = [(r.partition, max(r.start, ends.get(r.partition, r.start)), r.end) for r in run.ranges]
    return [(p, first, end - 1, TRANSACTION) for p, first, end in after if first < end]


def _counts(
    source: Source, tally: Sequence[Row], run: Run, read: int, written: int | None = None
) -> Counts:
    """Adds up the tally, and holds it against what the source gave (a capture may have a record
    twice, a topic may not) and, if that was not what was counted, what the files hold."""
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
    if written not in (None, total):
        raise SourceError(f"{total:,} records were decoded, but {written:,} written.")
    # Later on, a range may well hold nothing but an aborted transaction.
    if span and not total and all(r.start == 0 for r in run.ranges):
        raise SourceError(
            f"The topic {run.identity.topic} has offsets up to "
            f"{max(r.end for r in run.ranges)}, but none of its records could be read.",
            "Check that the client may read it (ACL READ on the topic).",
        )
    return Counts(total, **sums, missing=span - total, errors=errors, unknown_tags=tags)


def topic_rows(topics: Mapping[str, LiveTopic]) -> list[dict[str, Any]]:
    """Rows of `topics`: the cluster's topics now."""
    return [
        {
            "topic": t.name,
            "topic_id": t.topic_id,
            "partitions": t.partitions,
            "racks": [list(racks) for racks in t.racks] or None,
        }
        for t in topics.values()
        if not t.internal
    ]
