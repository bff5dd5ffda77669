"""Checks that a source is the topic of a lake: by their ids, or else by their records.

Offsets start at 0 in every topic, so the offsets of another topic look as if they had been read. If
an id is missing on one side, records at the same partition and offset are compared. In the same
topic they are equal; in another one they differ at least in their timestamps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from kip848_spark.errors import UsageError
from kip848_spark.kafka.topic import OffsetRange, PartitionExtent, TopicIdentity
from kip848_spark.lake.ledger import Ledger, Run, were_names_erased
from kip848_spark.spark.capture_errors import translate_capture_errors
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.sources import KafkaSource, RecordSource
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.wire.control_plans import control_plan
from kip848_spark.wire.record_stream import STREAM_FIELDS, records_decoder

MAX_RECORDS = 2_000
"""The largest number of records that are compared."""
COMPARED_COLUMNS = (
    *("timestamp", "key_type", "group_id", "topic", "topic_partition"),
    *("tombstone", "committed_offset"),
)
"""Columns of `records` that are compared, and the raw bytes where the lake keeps them."""
RAW_COLUMNS = ("raw_key", "raw_value")
HINT = "Use one lake for each topic and cluster."


def check_same_source(
    lake: LakeTables,
    last: Run | None,
    source: RecordSource,
    identity: TopicIdentity,
    extents: Mapping[int, PartitionExtent],
) -> TopicIdentity:
    """The identity of the lake's topic: the source's ``identity``, completed by ids that the lake
    knows. ``last`` is the lake's last finished run. Writes nothing.

    Raises UsageError if the source is another topic, or CaptureError if it can't be read.
    """
    if last is None:
        return identity
    known = last.identity
    _compare_ids(known, identity)
    if not (known.topic_id and identity.topic_id):
        _compare_records(lake, last, source, extents)
    return replace(
        identity,
        cluster_id=identity.cluster_id or known.cluster_id,
        topic_id=identity.topic_id or known.topic_id,
    )


def _compare_ids(known: TopicIdentity, identity: TopicIdentity) -> None:
    pairs: Sequence[tuple[str, str | None, str | None]] = (
        ("cluster", known.cluster_id, identity.cluster_id),
        ("topic", known.topic, identity.topic),
        ("topic id", known.topic_id, identity.topic_id),
    )
    for what, old, new in pairs:
        if old and new and old != new:
            if what == "topic id" and known.cluster_id == identity.cluster_id:
                raise UsageError(
                    f"The topic {known.topic} was deleted and created again: this lake holds the "
                    f"records of topic id {old}, the source is of topic id {new}.",
                    f"{HINT} Give the new topic a new lake; this one stays readable.",
                )
            raise UsageError(
                f"This lake holds the records of {what} {old}, the source is of {what} {new}.",
                HINT,
            )


def new_partitions(
    ledger: Ledger, source: RecordSource, extents: Mapping[int, PartitionExtent]
) -> int:
    """How many partitions a cluster's topic has that it did not have when a run last asked the
    cluster. A capture does not tell how many partitions there were: 0.

    The number of partitions decides which of them a group is in, and Kafka leaves the old records
    of a group where they are.
    """
    if not isinstance(source, KafkaSource):
        return 0
    asked = [run for run in ledger.finished() if run.open_offsets is not None]
    if not asked:
        return 0
    return len(extents.keys() - {r.partition for r in asked[-1].ranges})


def _compare_records(
    lake: LakeTables, last: Run, source: RecordSource, extents: Mapping[int, PartitionExtent]
) -> None:
    """Compares records at the newest offsets of each partition that both sides have. If compaction
    has removed all of them from one side, compares a sample of all offsets that both may have."""
    read = {r.partition: r.end for r in last.ranges}
    both = [
        OffsetRange(partition, extent.first, end)
        for partition, extent in sorted(extents.items())
        if (end := min(extent.end, read.get(partition, 0))) > extent.first
    ]
    share = max(1, MAX_RECORDS // len(both)) if both else 0
    newest = [replace(r, start=max(r.start, r.end - share)) for r in both]
    for ranges in (newest, both) if newest != both else (both,):
        if ranges and (pairs := _joined_sample(lake, last, source, ranges)):
            for pair in sorted(pairs, key=lambda row: (row["partition"], row["offset"])):
                if pair["differs"]:
                    raise UsageError(_describe_difference(pair), HINT)
            return


def _joined_sample(
    lake: LakeTables, last: Run, source: RecordSource, ranges: Sequence[OffsetRange]
) -> list[Row]:
    """A row for each offset in ``ranges`` at which both have a record, of `MAX_RECORDS` records of
    the source: its group and timestamp on both sides, and the names of the columns that differ."""
    decoder = records_decoder(
        control_plan(last.dialect).plan, {r.partition: r.start for r in ranges}, True
    )
    schema = pa.schema(list(STREAM_FIELDS.items()))
    place = ("partition", "offset")
    columns = (*place, *COMPARED_COLUMNS, *RAW_COLUMNS, "error")
    sample = (
        map_in_arrow(source.read(lake.spark, ranges), decoder, schema)
        .select(*columns)
        .orderBy(F.xxhash64(*place), *place)
        .limit(MAX_RECORDS)
    )
    # Maintenance that erased names has changed texts and raw bytes, but no time and no group.
    erased = were_names_erased(lake.rows("runs"))
    compared = (*COMPARED_COLUMNS, *(() if erased else RAW_COLUMNS))
    held = lake.read("records").where(_in_ranges(ranges)).select(*columns)
    pairs = held.alias("lake").join(F.broadcast(sample).alias("source"), [*place], "inner")
    with translate_capture_errors(source.name):
        return _with_differences(pairs, compared).collect()


def _in_ranges(ranges: Sequence[OffsetRange]) -> Column:
    offset = F.col("offset")
    tests = [
        (F.col("partition") == r.partition) & (offset >= r.start) & (offset < r.end) for r in ranges
    ]
    return reduce(or_, tests)


def _with_differences(pairs: DataFrame, compared: Sequence[str]) -> DataFrame:
    """Compares the columns ``compared``: raw bytes where the lake has them, since they do not
    depend on the dialect. The lake has none of a decoded commit, and all dialects decode commits in
    the same way."""

    def both(name: str) -> tuple[Column, Column]:
        return F.col(f"lake.{name}"), F.col(f"source.{name}")

    has_raw = reduce(or_, [F.col(f"lake.{name}").isNotNull() for name in RAW_COLUMNS])

    def differs(name: str) -> Column:
        ours, theirs = both(name)
        if name in RAW_COLUMNS:
            return has_raw & ~ours.eqNullSafe(theirs)
        # The version that read the record may not have known what this one can decode.
        decoded = F.col("lake.error").isNull() & (F.lit(RAW_COLUMNS[0] not in compared) | ~has_raw)
        return (F.lit(name == "timestamp") | decoded) & ~ours.eqNullSafe(theirs)

    names = [F.when(differs(name), F.lit(name)) for name in compared]
    described = [
        column
        for side in ("lake", "source")
        for column in (
            F.col(f"{side}.group_id").alias(f"{side}_group"),
            F.unix_millis(f"{side}.timestamp").alias(f"{side}_time"),
        )
    ]
    return pairs.select(
        "partition", "offset", F.concat_ws(", ", *names).alias("differs"), *described
    )


def _describe_difference(pair: Row) -> str:
    ours, theirs = (
        _describe_record(pair[f"{s}_group"], pair[f"{s}_time"]) for s in ("lake", "source")
    )
    if ours == theirs:
        what = f"both have a record {ours}, with different {pair['differs']}"
    else:
        what = f"the lake has a record {ours}, the source one {theirs}"
    return (
        "The source is not the topic that this lake holds: "
        f"at partition {pair['partition']}, offset {pair['offset']} {what}."
    )


def _describe_record(group: str | None, milliseconds: int | None) -> str:
    """``of group a from 2026-01-31T10:00:00.123Z``."""
    owner = "without a group" if group is None else f"of group {group}"
    if milliseconds is None:
        return f"{owner} without a time"
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return f"{owner} from {time.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"
