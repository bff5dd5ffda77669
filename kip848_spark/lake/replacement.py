"""Finds the data files whose rows a commit replaces, and writes again what it does not replace.

A history table has *open* rows, which a later run may still change: their column `OPEN_COLUMN` is
null. A run replaces the open rows and appends the closed ones. This program writes open rows to
files of their own, so replacing them removes whole files. Another program may have merged files;
then the rows that stay are written again.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import RemoveAction

from kip848_spark.lake.arrow_files import OPEN_COLUMN, DataFile, WriteTarget, open_writers
from kip848_spark.lake.delta_folder import DeltaFolder
from kip848_spark.wire.array_types import BoolArray


@dataclass(frozen=True)
class ReplacedRows:
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

    def mask(self, column: pa.Array) -> pa.Array:
        """bool[n]: which rows are replaced, from the values of the column."""
        if self.is_null:
            return pc.is_null(column)
        return pc.is_in(column, value_set=pa.array(list(self.values), column.type))


OPEN_ROWS = ReplacedRows(OPEN_COLUMN, (None,))


def _literal(value: Any) -> str:
    match value:
        case date():
            return f"DATE'{value.isoformat()}'"
        case int():
            return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def replace_files(
    version: int, replaced: ReplacedRows, target: WriteTarget
) -> tuple[list[RemoveAction], list[DataFile]]:
    """What a commit after ``version`` of the table of ``target`` needs to delete the rows
    ``replaced``: the files to remove, and new files with those of their rows that stay."""
    files = pa.table(DeltaFolder.at(target.folder).open(version).get_add_actions(flatten=True))
    some, all_ = replaceable_files(files, replaced)
    now = round(time.time() * 1000)
    removed = [
        RemoveAction(row["path"], True, now, row["size_bytes"])
        for row in files.filter(pa.array(some)).to_pylist()
    ]
    mixed = files.filter(pa.array(some & ~all_))["path"].to_pylist()
    if not mixed:
        return removed, []
    with open_writers([target]) as writers:
        for name in mixed:
            _write_remaining(name, replaced, target, writers[target.table].write)
        return removed, writers[target.table].close()


def _write_remaining(name: str, replaced: ReplacedRows, target: WriteTarget, write: Any) -> None:
    for batch in read_file(name, target):
        rows = batch.filter(pc.invert(replaced.mask(batch.column(replaced.column))))
        write(dict(zip(rows.schema.names, rows.columns, strict=True)))


def read_file(name: str, target: WriteTarget) -> Iterator[pa.RecordBatch]:
    """The rows of the file ``name`` of a table, with all columns of ``target``: those that the file
    lacks are null. Raises OSError."""
    schema = pa.schema(list(target.fields.items()))
    with pq.ParquetFile(name, filesystem=DeltaFolder.at(target.folder).files()) as file:
        for rows in file.iter_batches():
            known = [
                rows.column(field.name).cast(field.type)
                if field.name in rows.schema.names
                else pa.nulls(rows.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(known, schema=schema)


def replaceable_files(files: pa.Table, replaced: ReplacedRows) -> tuple[BoolArray, BoolArray]:
    """Of the ``files`` of a table (its actions in Delta's log, flattened), bool[files] each:
    whether some rows of a file may be replaced, and whether all are. A file without statistics of
    the column may have any rows."""
    nulls = _statistic(files, "null_count", replaced, pa.int64())
    if replaced.is_null:
        some, all_ = pc.not_equal(nulls, 0), pc.equal(nulls, files["num_records"])
    else:
        values = pa.array(list(replaced.values))
        low = _statistic(files, "min", replaced, values.type)
        high = _statistic(files, "max", replaced, values.type)
        inside = [
            pc.and_(pc.less_equal(low, value), pc.greater_equal(high, value)) for value in values
        ]
        some = functools.reduce(pc.or_, inside, pa.array([False] * len(files), pa.bool_()))
        one_value = pc.and_(pc.equal(low, high), pc.equal(nulls, 0))
        all_ = pc.and_(one_value, pc.is_in(low, value_set=values))
    return _bools(pc.fill_null(some, True)), _bools(pc.fill_null(all_, False))


def _statistic(
    files: pa.Table, name: str, replaced: ReplacedRows, type_: pa.DataType
) -> pa.ChunkedArray:
    """A statistic of the column for each file; null where it is missing."""
    name = f"{name}.{replaced.column}"
    if name in files.column_names:
        return files[name].cast(type_)
    return pa.chunked_array([pa.nulls(files.num_rows, type_)])


def _bools(array: pa.Array | pa.ChunkedArray) -> BoolArray:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    found: BoolArray = array.to_numpy(zero_copy_only=False)
    return found
