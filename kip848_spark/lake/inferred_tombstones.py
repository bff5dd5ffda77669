"""Writes tombstones that the log cleaner removed before a run could read them.

A key that is in the lake and no longer in the topic was deleted: the log cleaner never removes the
newest record of a key, but for a tombstone. Where the tombstone was is not known. It is given one
of the offsets that are missing among the new records of its partition, and the time of the record
after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.arrow_files import RowWriter
from kip848_spark.lake.record_writer import write_records
from kip848_spark.wire.array_types import Int64Array
from kip848_spark.wire.batches import Batches
from kip848_spark.wire.control import ControlPlan
from kip848_spark.wire.encode import encode_keys
from kip848_spark.wire.record_stream import GAP_FIELDS
from kip848_spark.wire.tables import OFFSET_COMMIT, TIMESTAMP

GAPS_AND_KEYS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "first_offset": pa.int64(),
    "missing": pa.int64(),
    "timestamp": TIMESTAMP,
    "raw_key": pa.binary(),
    "group_id": pa.string(),
    "topic": pa.string(),
    "topic_partition": pa.int32(),
}
"""The columns of the input. A row is a gap: its first missing offset, their number, and the time of
the record after it. Or it is a deleted key, whose ``missing`` is null: the bytes of a control
record's key, or the group, topic and partition of a commit."""

_RAW = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def write_inferred(
    plan: ControlPlan, batches: Batches, writers: Mapping[str, RowWriter]
) -> list[dict[str, Any]]:
    """Writes a tombstone for each deleted key, as `write_records` writes those that were read.

    ``batches`` have the columns `GAPS_AND_KEYS`, sorted by partition. In each partition the gaps
    come first, in offset order, then the keys in the order in which they are to be deleted. Returns
    one row: the number of keys that were given an offset (``placed``), and of those for which none
    was missing (``left``).
    """
    places = _Places()
    marked: dict[str, RowWriter] = {"records": _Marked(writers["records"]), "gaps": _Discard()}
    write_records(plan, {}, _tombstones(plan, batches, places), {**writers, **marked})
    return [{"placed": places.placed, "left": places.left}]


@dataclass
class _Places:
    """The missing offsets of one partition, of which the first ``used`` have been taken."""

    first: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    end: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64[gaps]: the number of missing offsets up to the end of each gap."""
    time: pa.Array = field(default_factory=lambda: pa.array([], TIMESTAMP))
    used: int = 0
    placed: int = 0
    """The number of keys, of all partitions, that were given an offset."""
    left: int = 0
    """The number of those for which there was none."""

    def start(self) -> None:
        """Forgets the gaps of the partition before."""
        fresh = _Places()
        self.first, self.end, self.time, self.used = fresh.first, fresh.end, fresh.time, 0

    def add(self, gaps: pa.RecordBatch) -> None:
        """Adds gaps that follow those before."""
        before = int(self.end[-1]) if len(self.end) else 0
        self.first = np.append(self.first, gaps.column("first_offset").to_numpy())
        self.end = np.append(self.end, before + np.cumsum(gaps.column("missing").to_numpy()))
        self.time = pa.concat_arrays([self.time, gaps.column("timestamp")])

    def take(self, count: int) -> tuple[Int64Array, pa.Array]:
        """int64[n] and timestamp[n]: the next ``count`` missing offsets, or all that are left."""
        there = int(self.end[-1]) if len(self.end) else 0
        number = np.arange(self.used, min(self.used + count, there))
        self.placed += len(number)
        self.left += count - len(number)
        self.used += len(number)
        gap = np.searchsorted(self.end, number, "right")
        start = np.append(0, self.end)[gap]
        return self.first[gap] + number - start, self.time.take(pa.array(gap))


def _tombstones(plan: ControlPlan, batches: Batches, places: _Places) -> Iterator[pa.RecordBatch]:
    """The raw records of the tombstones."""
    current = None
    for batch in batches:
        partition = batch.column("partition").to_numpy()
        for rows in np.split(np.arange(len(partition)), np.flatnonzero(np.diff(partition)) + 1):
            if not len(rows):
                continue
            part = batch.slice(rows[0], len(rows))
            if current != partition[rows[0]]:
                current = partition[rows[0]]
                places.start()
            is_gap = part.column("missing").is_valid()
            places.add(part.filter(is_gap))
            deleted = part.filter(pc.invert(is_gap))
            offset, time = places.take(len(deleted))
            keys = _keys(plan, deleted.slice(0, len(offset)))
            columns = [pa.repeat(pa.scalar(current, pa.int32()), len(offset)), pa.array(offset)]
            columns += [time, keys, pa.nulls(len(offset), pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=_RAW)


def _keys(plan: ControlPlan, deleted: pa.RecordBatch) -> pa.BinaryArray:
    """binary[n]: the keys, of which those of commits are encoded."""
    records = plan.plan.records
    newest = max(number for number, one in records.items() if one.kind == OFFSET_COMMIT)
    raw = deleted.column("raw_key")
    columns = {
        "group": pc.if_else(raw.is_null(), deleted.column("group_id"), ""),
        "topic": pc.fill_null(deleted.column("topic"), ""),
        "partition": pc.fill_null(deleted.column("topic_partition"), 0),
    }
    return pc.coalesce(raw, encode_keys(records[newest], columns))


@dataclass(frozen=True)
class _Marked:
    """A writer of `records` that marks its rows as inferred."""

    writer: RowWriter

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        count = len(columns["offset"])
        no_gap = {name: pa.nulls(count, columns[name].type) for name in GAP_FIELDS}
        self.writer.write({**columns, **no_gap, "inferred": pa.repeat(pa.scalar(True), count)})


class _Discard:
    """A writer of nothing."""

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Ignores ``columns``."""
