"""Rows of a table that have certain values in one column, and the data files that have such rows.

Some tables have such rows in files of their own. A run then replaces them by removing whole files,
and whoever needs only the other rows does not open these files:

* Tables of intervals have *open* rows, which a later run may still change: `OPEN_ROWS`.
* Nearly all rows of `records` are offset commits, `COMMITS`. Replay and audit read the others.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import BoolArray
from kip848_spark.wire.tables import OFFSET_COMMIT


@dataclass(frozen=True)
class RowsWith:
    """The rows that have one of ``values`` in ``column``; the only value None stands for null."""

    column: str
    values: tuple[Any, ...]

    @property
    def is_null(self) -> bool:
        """Whether these are the rows in which the column is null."""
        return self.values == (None,)

    @property
    def sql(self) -> str:
        """The condition in Spark SQL."""
        if self.is_null:
            return f"{self.column} IS NULL"
        return f"{self.column} IN ({', '.join(map(_literal, self.values))})"

    @property
    def other_sql(self) -> str:
        """The condition of all other rows in Spark SQL."""
        if self.is_null:
            return f"{self.column} IS NOT NULL"
        return f"({self.column} IS NULL OR NOT {self.sql})"

    def mask(self, column: pa.Array) -> pa.Array:
        """bool[n] without nulls: which rows these are, from the values of the column."""
        if self.is_null:
            return pc.is_null(column)
        if pa.types.is_dictionary(column.type):
            of_values = self.mask(column.dictionary)
            return pc.fill_null(of_values.take(column.indices), False)
        return pc.is_in(column, value_set=pa.array(list(self.values), column.type))


OPEN_ROWS = RowsWith("to_offset", (None,))
COMMITS = RowsWith("kind", (OFFSET_COMMIT,))


def _literal(value: Any) -> str:
    match value:
        case date():
            return f"DATE'{value.isoformat()}'"
        case int():
            return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def matching_files(files: pa.Table, rows: RowsWith) -> tuple[BoolArray, BoolArray]:
    """Of the ``files`` of a table (its actions in Delta's log, flattened), bool[files] each:
    whether some rows of a file may be among ``rows``, and whether all are. A file without
    statistics of the column may have any rows."""
    nulls = _statistic(files, "null_count", rows, pa.int64())
    only_nulls = pc.equal(nulls, files["num_records"])
    if rows.is_null:
        some, all_ = pc.not_equal(nulls, 0), only_nulls
    else:
        values = pa.array(list(rows.values))
        low = _statistic(files, "min", rows, values.type)
        high = _statistic(files, "max", rows, values.type)
        inside = [
            pc.and_(pc.less_equal(low, value), pc.greater_equal(high, value)) for value in values
        ]
        found = functools.reduce(pc.or_, inside, pa.array([False] * len(files), pa.bool_()))
        some = pc.and_kleene(found, pc.invert(only_nulls))
        one_value = pc.and_(pc.equal(low, high), pc.equal(nulls, 0))
        all_ = pc.and_(one_value, pc.is_in(low, value_set=values))
    return _bools(pc.fill_null(some, True)), _bools(pc.fill_null(all_, False))


def _statistic(files: pa.Table, name: str, rows: RowsWith, type_: pa.DataType) -> pa.ChunkedArray:
    """A statistic of the column for each file; null where it is missing."""
    name = f"{name}.{rows.column}"
    if name in files.column_names:
        return files[name].cast(type_)
    return pa.chunked_array([pa.nulls(files.num_rows, type_)])


def _bools(array: pa.Array | pa.ChunkedArray) -> BoolArray:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    found: BoolArray = array.to_numpy(zero_copy_only=False)
    return found
