"""Ingest: decodes raw records into `records`, `group_records`, `gaps` and `commit_summaries`. The
source is read once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from kip848_spark.errors import SourceError
from kip848_spark.kafka.snapshot import LiveTopic
from kip848_spark.kafka.topic import OffsetRange
from kip848_spark.lake.arrow_files import RowWriter
from kip848_spark.lake.ledger import Ledger, RecordCounts, Run
from kip848_spark.lake.record_writer import RECORD_TABLES, write_records
from kip848_spark.spark.capture_errors import translate_capture_errors
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.progress import Measure, WorkerCount
from kip848_spark.spark.sources import COLUMNS, KafkaSource, RecordSource
from kip848_spark.spark.split_partitions import split_partitions, split_ranges
from kip848_spark.spark.storage.table_job import WriteMode
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.wire.batches import Batches
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.control_plans import CONTROL_FIELDS, control_plan
from kip848_spark.wire.faults import UNKNOWN_REASONS
from kip848_spark.wire.offset_gaps import (
    COMPACTION,
    LARGE_GAP,
    TRANSACTION,
    UNDECIDED,
    begin_of_range,
)
from kip848_spark.wire.record_stream import POSITION_FIELDS, control_decoder
from kip848_spark.wire.tables import OFFSET_COMMIT

OFFSETS_PER_TASK = 100_000
"""Partitions of a topic with few new records share a task of about so many offsets."""
_RECENT = timedelta(days=1)
"""How long what the cluster said about open transactions explains missing offsets."""
_MOST = 2**63 - 1
"""The largest number in a column of the ledger."""


def ingest(
    source: RecordSource,
    lake: LakeTables,
    run: Run,
    keep_commits_raw: bool = False,
    count: WorkerCount | None = None,
) -> RecordCounts:
    """Writes the records that ``run`` plans to read, and returns their counts. ``count`` counts the
    offsets that the workers have reached.

    Raises SourceError if the topic is not empty and none of its records could be read, or if
    records were lost between the source and the table.
    """
    seen = Observation("source")
    splits = {}
    if isinstance(source, KafkaSource):
        splits = split_partitions(source, lake.spark, run.ranges)
    ranges = split_ranges(run.ranges, splits)
    raw = source.read(lake.spark, ranges)
    if isinstance(source, KafkaSource) and not splits:
        raw = raw.coalesce(_tasks(ranges))
    raw = _with_two_types(raw.observe(seen, F.count(F.lit(1)).alias("records")))
    starts = {r.partition: r.start for r in run.ranges}
    plan = control_plan(run.dialect)
    resumed = _resumed(Ledger(lake).finished(), run)
    job = RecordsJob(run.run_id, plan, starts, splits, resumed, keep_commits_raw, count)
    with translate_capture_errors(source.name):
        written = lake.run_job(job, raw, run.run_id, run.identity.cluster_id)
    names = ("partition", "first_offset", "last_offset", "cause")
    tails = [
        dict(zip(names, tail, strict=True)) for tail in _trailing_gaps(run, ranges, written.reports)
    ]
    lake.append_rows("gaps", tails, run.run_id, run.identity.cluster_id)
    return _check_and_count(
        source, written.reports, run, int(seen.get["records"]), written.rows.get("records")
    )


def _with_two_types(raw: DataFrame) -> DataFrame:
    """The columns of a source with numbers and times as longs. Spark writes Arrow batches value by
    value; with only two types of columns, the JVM's compiler can inline the methods that do it."""
    numbers = F.col("partition").cast("long"), F.col("offset"), F.unix_micros("timestamp")
    return raw.select(*numbers, "key", "value").toDF(*COLUMNS)


def _with_source_types(batches: Batches) -> Batches:
    """Undoes `_with_two_types`."""
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= {name: columns[name].cast(type_) for name, type_ in POSITION_FIELDS.items()}
        yield pa.RecordBatch.from_pydict(columns)


def _resumed(finished: Sequence[Run], run: Run) -> dict[int, bool]:
    """The partitions that ``run`` reads from where the last of the runs ``finished`` ended, and
    whether the cluster had an open transaction there less than a day ago: later, the log cleaner
    may have been there as well."""
    if not finished:
        return {}
    ends = {r.partition: r.end for r in finished[-1].ranges}
    asked = [one for one in finished if one.open_offsets is not None]
    open_then: Mapping[int, int] = {}
    if asked and run.started_at - asked[-1].started_at < _RECENT:
        open_then = asked[-1].open_offsets or {}
    return {
        r.partition: open_then.get(r.partition, 0) > 0
        for r in run.ranges
        if 0 < r.start == ends.get(r.partition)
    }


def _tasks(ranges: Sequence[OffsetRange]) -> int:
    """How many tasks read ``ranges`` at most, each whole partitions. A night of few records must
    not leave a file of each table for each partition, since every later run opens them all."""
    return max(1, math.ceil(sum(r.end - r.start for r in ranges) / OFFSETS_PER_TASK))


@dataclass(frozen=True)
class RecordsJob:
    """A `TableJob` from raw records, with the types of `_with_two_types`, to `RECORD_TABLES`.
    ``splits``: see `split_partitions`; ``resumed``: see `GapFinder`."""

    run_id: str
    plan: ControlPlan
    starts: Mapping[int, int]
    splits: Mapping[int, Sequence[int]]
    resumed: Mapping[int, bool]
    keep_commits_raw: bool
    count: WorkerCount | None = None

    @property
    def modes(self) -> Mapping[str, WriteMode]:
        """See `TableJob`."""
        return dict.fromkeys(RECORD_TABLES, "append")

    def write_tables(
        self, batches: Batches, writers: Mapping[str, RowWriter]
    ) -> list[dict[str, Any]]:
        counted = self._counted(_with_source_types(batches))
        return write_records(
            self.plan,
            self.starts,
            counted,
            writers,
            self.keep_commits_raw,
            self.splits,
            self.resumed,
        )

    def _counted(self, batches: Batches) -> Batches:
        if self.count is None:
            return batches
        return self.count.count(batches, _offsets_reached(self.starts, self.splits))


def _offsets_reached(starts: Mapping[int, int], splits: Mapping[int, Sequence[int]]) -> Measure:
    """Counts offsets rather than records: a compacted topic has many offsets without a record."""
    reached: dict[int, int] = {}

    def measure(batch: pa.RecordBatch) -> int:
        partition = batch.column("partition").to_numpy()
        last = np.flatnonzero(np.append(partition[1:] != partition[:-1], True))
        for number, offset in zip(
            partition[last].tolist(), batch.column("offset").to_numpy()[last].tolist(), strict=True
        ):
            begin = begin_of_range(offset, starts[number], splits.get(number, ()))
            reached[number] = offset + 1 - begin
        return sum(reached.values())

    return measure


def control_records(records: DataFrame, plan: ControlPlan) -> DataFrame:
    """Decodes rows of `records` into rows of `group_records`, without ``run_id`` and
    ``cluster_id``."""
    control = records.where(
        F.col("error").isNull() & F.col("raw_key").isNotNull() & (F.col("kind") != OFFSET_COMMIT)
    ).select("partition", "offset", "timestamp", "raw_key", "raw_value")
    schema = pa.schema([*POSITION_FIELDS.items(), *CONTROL_FIELDS.items()])
    return map_in_arrow(control, control_decoder(plan, CONTROL_FIELDS), schema)


def _trailing_gaps(
    run: Run, ranges: Sequence[OffsetRange], tally: Sequence[Mapping[str, Any]]
) -> list[tuple[int, int, int, str]]:
    """The gaps between the last record of each of the ``ranges`` and its end. Where the range of a
    partition was split, a record was seen before the split: only the log cleaner can have removed
    it since. It may also have removed many records at the very end, if they have newer ones."""
    ends = {(r.partition, r.end) for r in run.ranges}
    gaps = []
    for r in ranges:
        of_range = [
            row
            for row in tally
            if row["partition"] == r.partition and r.start <= row["last"] < r.end
        ]
        first = max((row["last"] for row in of_range), default=r.start - 1) + 1
        missing = r.end - first
        if not missing:
            continue
        large = missing >= max(LARGE_GAP, 1 + sum(row["records"] for row in of_range))
        at_end = UNDECIDED if large else TRANSACTION
        cause = at_end if (r.partition, r.end) in ends else COMPACTION
        gaps.append((r.partition, first, r.end - 1, cause))
    return gaps


def _check_and_count(
    source: RecordSource,
    tally: Sequence[Mapping[str, Any]],
    run: Run,
    read: int,
    written: int | None,
) -> RecordCounts:
    """Adds up the tally. Raises SourceError if the sum differs from the number of records that the
    source returned (``read``; a capture may have a record twice) or that were ``written``."""
    newer = {r.text for r in UNKNOWN_REASONS}
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
        raise SourceError(f"The source returned {read:,} records, but the table has {total:,}.")
    if written not in (None, total):
        raise SourceError(f"{total:,} records were decoded, but {written:,} written.")
    # A later range may consist of an aborted transaction.
    if span and not total and all(r.start == 0 for r in run.ranges):
        raise SourceError(
            f"The topic {run.identity.topic} has offsets up to "
            f"{max(r.end for r in run.ranges)}, but none of its records could be read.",
            "Check that the client may read it (ACL READ on the topic).",
        )
    missing = min(span - total, _MOST)
    return RecordCounts(total, **sums, missing=missing, errors=errors, unknown_tags=tags)


def topic_rows(topics: Mapping[str, LiveTopic]) -> list[dict[str, Any]]:
    """Rows of `topics`: the current topics of the cluster, without internal ones."""
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
