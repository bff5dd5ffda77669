"""The control state as arrays, with the lookups that the state tables share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state.fold import factorize, factorize_pairs
from kip848_spark.wire.array_types import BoolArray, Int64Array


class ControlState:
    """The control state of any number of partitions: rows of `group_records`.

    ``group`` and ``member`` (int64[n]) number the distinct groups, and pairs of group and
    member."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.combine_chunks()
        self.kind = self.table["kind"].combine_chunks()
        self.tombstone: BoolArray = self.table["tombstone"].to_numpy()
        self.group: Int64Array = factorize(self.table["group_id"])
        self.member: Int64Array = factorize_pairs(self.group, factorize(self.table["member_id"]))
        self.group_count = int(self.group.max()) + 1 if len(self.group) else 0

    def rows(self, *wanted: str, values: bool = True) -> Int64Array:
        """int64[m]: the rows of these kinds; tombstones only if not ``values``."""
        found = pc.is_in(self.kind, value_set=pa.array(wanted)).to_numpy(zero_copy_only=False)
        return np.flatnonzero(found & ~self.tombstone if values else found)

    def column(self, name: str, rows: Int64Array) -> pa.Array:
        """The column ``name`` at ``rows``; null where a row is -1."""
        absent = rows < 0
        taken = self.table[name].combine_chunks()
        return taken.take(pa.array(rows, mask=absent if absent.any() else None))

    def field(self, kind: str, name: str, rows: Int64Array) -> pa.Array:
        """The field ``name`` of the struct column ``kind`` at ``rows``; null where a row is -1."""
        return pc.struct_field(self.column(kind, rows), name)


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
