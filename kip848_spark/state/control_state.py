"""The control state as arrays, with the lookups that the state tables share."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state.codes import factorize, factorize_pairs
from kip848_spark.wire.array_types import BoolArray, Int64Array


class ControlState:
    """The control state of any number of partitions: rows of `group_records`.

    ``kinds`` are the kinds of records that occur."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self.kind = self._array("kind")
        self.kinds = frozenset(pc.unique(self.kind).to_pylist())
        self._fields: dict[tuple[str, str], pa.Array] = {}
        self.tombstone: BoolArray = self.table["tombstone"].to_numpy()

    @cached_property
    def group(self) -> Int64Array:
        """int64[n]: the number of each record's group."""
        return factorize(self.table["group_id"])

    @cached_property
    def member(self) -> Int64Array:
        """int64[n]: the number of each record's pair of group and member."""
        return factorize_pairs(self.group, factorize(self.table["member_id"]))

    @property
    def group_count(self) -> int:
        """The number of distinct groups."""
        return int(self.group.max()) + 1 if len(self.group) else 0

    def rows(self, *wanted: str, values: bool = True) -> Int64Array:
        """int64[m]: the rows of these kinds; tombstones only if not ``values``."""
        found = pc.is_in(self.kind, value_set=pa.array(wanted)).to_numpy(zero_copy_only=False)
        return np.flatnonzero(found & ~self.tombstone if values else found)

    def column(self, name: str, rows: Int64Array) -> pa.Array:
        """The column ``name`` at ``rows``; null where a row is -1."""
        return _take(self._array(name), rows)

    def field(self, kind: str, name: str, rows: Int64Array) -> pa.Array:
        """The field ``name`` of the struct column ``kind`` at ``rows``; null where a row is -1."""
        if kind not in self.kinds:
            struct = self.table.schema.field(kind).type
            return pa.nulls(len(rows), struct.field(name).type)
        return _take(self.every(kind, name), rows)

    def every(self, kind: str, name: str) -> pa.Array:
        """The field ``name`` of the struct column ``kind`` in every row."""
        if (kind, name) not in self._fields:
            self._fields[kind, name] = pc.struct_field(self._array(kind), name)
        return self._fields[kind, name]

    def _array(self, name: str) -> pa.Array:
        column = self.table[name]
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _take(array: pa.Array, rows: Int64Array) -> pa.Array:
    absent = rows < 0
    return array.take(pa.array(rows, mask=absent if absent.any() else None))


def integers(array: pa.Array, missing: int) -> Int64Array:
    """int64[n] of an integer array; ``missing`` in place of null."""
    return np.asarray(array.fill_null(missing).to_numpy(zero_copy_only=False), np.int64)


def state_table(
    columns: dict[str, pa.Array], fields: dict[str, pa.DataType], count: int
) -> pa.Table:
    """A table with the columns and types of ``fields``; columns that are not given are null."""
    arrays = [
        columns[name].cast(type_) if name in columns else pa.nulls(count, type_)
        for name, type_ in fields.items()
    ]
    return pa.table(arrays, schema=pa.schema(list(fields.items())))


def parent_rows(lists: pa.Array) -> Int64Array:
    """int64[elements]: the row of the list that each element belongs to. Null lists have none."""
    return np.asarray(pc.list_parent_indices(lists).to_numpy(), np.int64)


def repeat_text(text: str, count: int) -> pa.Array:
    """string[count]: the same text in every row."""
    return pa.array([text]).take(pa.array(np.zeros(count, np.int64)))
