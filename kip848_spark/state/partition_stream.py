"""Functions over the control records of whole partitions: raw records in, rows of tables out.

The records pass through Spark as raw bytes and are decoded where they are folded: a row of bytes is
cheaper to shuffle and sort than a row with a struct column for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.state.assignments import ASSIGNMENT_FIELDS, assignments
from kip848_spark.state.fold import ControlChunk, Fold
from kip848_spark.state.groups import GROUP_FIELDS, groups
from kip848_spark.state.members import MEMBER_FIELDS, members
from kip848_spark.state.partition_fold import (
    Carry,
    FoldMaker,
    PartitionFold,
    RowsByTable,
    pack_carry,
    unpack_carry,
)
from kip848_spark.wire.batches import Batches
from kip848_spark.wire.control import control_columns
from kip848_spark.wire.control_plans import CONTROL_FIELDS, control_plan
from kip848_spark.wire.record_stream import POSITION_FIELDS

CONTROL_STATE_FIELDS: dict[str, pa.DataType] = {
    **POSITION_FIELDS,
    "kind": pa.string(),
    "group_id": pa.string(),
    "dialect": pa.string(),
    "raw_key": pa.binary(),
    "raw_value": pa.binary(),
}
"""The columns of the table `control_state`, and their Arrow types."""
CONTROL_STATE = "control_state"
STATE_FIELDS: dict[str, dict[str, pa.DataType]] = {
    CONTROL_STATE: CONTROL_STATE_FIELDS,
    "groups": GROUP_FIELDS,
    "members": MEMBER_FIELDS,
    "assignments": ASSIGNMENT_FIELDS,
}
"""The columns of each table made from control records, and their Arrow types."""
FOLDED_TABLES = tuple(STATE_FIELDS)
"""The tables made from control records."""

_DECODED = pa.schema(
    [
        *POSITION_FIELDS.items(),
        ("raw_key", pa.binary()),
        ("raw_value", pa.binary()),
        *CONTROL_FIELDS.items(),
    ]
)
_POSITION = "position"
"""The name under which the offset of the last record is stored beside the folds' carry."""
_SORT = {
    CONTROL_STATE: ("offset",),
    "groups": ("group_id",),
    "members": ("group_id", "member_id"),
    "assignments": ("group_id", "member_id", "role", "topic_id", "topic", "topic_partition"),
}
_DERIVED: dict[str, Callable[[pa.Table], pa.Table]] = {
    "groups": groups,
    "members": members,
    "assignments": assignments,
}


@dataclass(frozen=True)
class ClosedRows:
    """Rows of a partition that no later record can change, by table."""

    partition: int
    tables: RowsByTable


@dataclass(frozen=True)
class FoldedPartition:
    """The state of a partition after its last record.

    ``carried`` is the control state, decoded (see `derive_rows`). ``open_rows`` are the rows of
    further tables that later records may still change. ``carry`` are rows of `control_state` that
    are no records: what the folds of the next run need."""

    partition: int
    carried: pa.Table
    open_rows: RowsByTable = field(default_factory=dict)
    carry: pa.Table | None = None

    def rows(self, table: str, names: Mapping[str, str]) -> pa.Table:
        """The rows of ``table``: one of `FOLDED_TABLES`, or a table with open rows. ``names`` maps
        topic ids to names."""
        if table in self.open_rows:
            return name_topics(self.open_rows[table], names)
        rows = derive_rows(table, self.carried, names)
        if table == CONTROL_STATE and self.carry is not None:
            return pa.concat_tables([self.carry, rows])
        return rows


def fold_partitions(
    batches: Batches, makers: Mapping[str, FoldMaker] | None = None
) -> Iterator[ClosedRows | FoldedPartition]:
    """Folds the control records of each partition. Yields closed rows while the records pass, and a
    `FoldedPartition` at the end of each partition.

    The batches are sorted by partition and offset; they have the columns of `CONTROL_STATE_FIELDS`.
    Rows that an earlier run stored in `control_state` come with the new ones. ``makers`` are the
    folds beside the state, by a name under which their carry is stored. Without them no rows are
    closed, and the carry of an earlier run is ignored. Raises OutOfOrderError."""
    current: _Partition | None = None
    for batch in batches:
        partitions = batch.column("partition").to_numpy()
        for part in np.split(np.arange(batch.num_rows), np.flatnonzero(np.diff(partitions)) + 1):
            if not len(part):
                continue
            partition = int(partitions[part[0]])
            if current is None or current.partition != partition:
                if current is not None:
                    yield from current.finish()
                current = _Partition(partition, makers or {})
            yield from current.add(batch.slice(part[0], len(part)))
    if current is not None:
        yield from current.finish()


class _Partition:
    """The folds of one partition."""

    def __init__(self, partition: int, makers: Mapping[str, FoldMaker]) -> None:
        self.partition = partition
        self._makers = makers
        self._stored: list[pa.Table] = []
        self._carried: list[pa.Table] = []
        self._last = -1
        self._fold: Fold | None = None
        self._folds: dict[str, PartitionFold] = {}
        self._carries: dict[str, dict[str, pa.Table]] = {}

    def add(self, batch: pa.RecordBatch) -> Iterator[ClosedRows]:
        """Takes the next rows: stored carry, then stored control state, then new records."""
        if self._fold is None:
            offsets = batch.column("offset").to_numpy()
            stored = int(np.searchsorted(offsets, 0))
            if stored:
                self._stored.append(pa.table(batch.slice(0, stored)))
                batch = batch.slice(stored)
                offsets = offsets[stored:]
            if not len(offsets):
                return
            if self._stored:
                self._unpack()
            rows = _decode(batch)  # carried and new ones at once: each call has a fixed cost
            carried = int(np.searchsorted(offsets, self._last, side="right"))
            if carried and rows["kind"][carried - 1].as_py() == kinds.GAP:
                carried -= 1  # a new gap, directly behind the last record
            if carried:
                self._carried.append(rows.slice(0, carried))
                rows = rows.slice(carried)
            if not rows.num_rows:
                return
            fold = self._start()
        else:
            fold, rows = self._fold, _decode(batch)
        self._last = rows["offset"][-1].as_py()
        yield from self._closed(fold.add(rows))

    def finish(self) -> Iterator[ClosedRows | FoldedPartition]:
        """The rows of the last chunk, and the state of the partition."""
        if self._stored:
            self._unpack()
        fold = self._fold or self._start()
        yield from self._closed(fold.settle())
        carried = fold.carried()
        if carried is None:
            carried = _DECODED.empty_table()
        if not self._makers:
            yield FoldedPartition(self.partition, carried)
            return
        open_rows: dict[str, pa.Table] = {}
        carries: dict[str, Carry] = {_POSITION: {_POSITION: pa.table({"offset": [self._last]})}}
        for name, each in self._folds.items():
            open_rows |= each.finish(carried)
            carries[name] = each.carry()
        schema = pa.schema(list(CONTROL_STATE_FIELDS.items()))
        yield FoldedPartition(
            self.partition, carried, open_rows, pack_carry(carries, schema, self.partition)
        )

    def _unpack(self) -> None:
        if self._makers:
            self._carries = unpack_carry(pa.concat_tables(self._stored))
            position = self._carries.get(_POSITION)
            self._last = position[_POSITION]["offset"][0].as_py() if position else -1
        self._stored = []

    def _start(self) -> Fold:
        carried = pa.concat_tables(self._carried).combine_chunks() if self._carried else None
        self._carried = []
        self._fold = Fold(carried, self._last)
        self._folds = {
            name: make(self._carries.get(name, {})) for name, make in self._makers.items()
        }
        return self._fold

    def _closed(self, chunk: ControlChunk | None) -> Iterator[ClosedRows]:
        if chunk is None:
            return
        for fold in self._folds.values():
            if tables := {name: rows for name, rows in fold.add(chunk).items() if rows.num_rows}:
                yield ClosedRows(self.partition, tables)


def _decode(batch: pa.RecordBatch) -> pa.Table:
    """``batch`` with the columns `CONTROL_FIELDS`, decoded from the raw bytes. A row without a
    dialect stands for the newest commit of a group: it has only its kind and group."""
    dialects = batch.column("dialect")
    parts, order = [], []
    for dialect in pc.unique(dialects).to_pylist():
        same = pc.is_null(dialects) if dialect is None else pc.equal(dialects, dialect)
        rows = np.flatnonzero(same.fill_null(False).to_numpy(zero_copy_only=False))
        part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        columns = {name: part.column(name) for name in ("partition", "offset", "timestamp")}
        columns |= {name: part.column(name) for name in ("raw_key", "raw_value")}
        if dialect is None:
            columns |= {n: pa.nulls(len(rows), type_) for n, type_ in CONTROL_FIELDS.items()}
            columns |= {name: part.column(name) for name in ("kind", "group_id")}
            columns["tombstone"] = pa.repeat(pa.scalar(False), len(rows))
        else:
            keys, values = part.column("raw_key"), part.column("raw_value")
            columns |= control_columns(control_plan(dialect), CONTROL_FIELDS, keys, values)
        parts.append(pa.table(columns))
        order.append(rows)
    if len(parts) == 1:
        return parts[0]
    return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(order))))


def derive_rows(table: str, carried: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The rows of ``table`` for one partition, whose control state is ``carried``. ``names`` maps
    topic ids to names."""
    rows = _DERIVED[table](carried) if table in _DERIVED else carried
    rows = name_topics(rows, names).select(list(STATE_FIELDS[table]))
    return rows.sort_by([(column, "ascending") for column in _SORT[table]])


def name_topics(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """``rows`` with the names of topics that they only have the ids of, if the table has such
    columns. ``names`` maps topic ids to names."""
    if not {"topic", "topic_id"} <= set(rows.column_names):
        return rows
    known = pa.array(list(names), pa.string()), pa.array(list(names.values()), pa.string())
    name = known[1].take(pc.index_in(rows["topic_id"], known[0]))
    named = pc.coalesce(rows["topic"], name)
    return rows.set_column(rows.column_names.index("topic"), "topic", named)
