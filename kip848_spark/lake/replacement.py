"""Finds the data files whose rows a commit replaces, and writes again what it does not replace.

A run replaces the open rows of the tables of intervals, and appends closed ones. This program
writes open rows to files of their own (`lake.rows_with`), so replacing them removes whole files.
Another program may have merged files; then the rows that stay are written again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import RemoveAction

from kip848_spark.lake.arrow_files import DataFile, WriteTarget, open_writers
from kip848_spark.lake.delta_folder import DeltaFolder
from kip848_spark.lake.rows_with import RowsWith, matching_files

BATCH_BYTES = 16_000_000
"""Of the rows of a file, about so many bytes (not compressed) are read at once."""
_MOST_ROWS = 65_536


def replace_files(
    version: int, replaced: RowsWith, target: WriteTarget
) -> tuple[list[RemoveAction], list[DataFile]]:
    """What a commit after ``version`` of the table of ``target`` needs to delete the rows
    ``replaced``: the files to remove, and new files with those of their rows that stay."""
    files = pa.table(DeltaFolder.at(target.folder).open(version).get_add_actions(flatten=True))
    some, all_ = matching_files(files, replaced)
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


def _write_remaining(name: str, replaced: RowsWith, target: WriteTarget, write: Any) -> None:
    for batch in read_file(name, target):
        rows = batch.filter(pc.invert(replaced.mask(batch.column(replaced.column))))
        write(dict(zip(rows.schema.names, rows.columns, strict=True)))


def read_file(name: str, target: WriteTarget) -> Iterator[pa.RecordBatch]:
    """The rows of the file ``name`` of a table, with all columns of ``target``: those that the file
    lacks are null. A batch has about `BATCH_BYTES` or less. Raises OSError."""
    schema = pa.schema(list(target.fields.items()))
    with pq.ParquetFile(name, filesystem=DeltaFolder.at(target.folder).files()) as file:
        for rows in file.iter_batches(_rows_at_once(file.metadata)):
            known = [
                rows.column(field.name).cast(field.type)
                if field.name in rows.schema.names
                else pa.nulls(rows.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(known, schema=schema)


def _rows_at_once(footer: pq.FileMetaData) -> int:
    groups = map(footer.row_group, range(footer.num_row_groups))
    size: int = sum(group.total_byte_size for group in groups)
    rows: int = footer.num_rows
    return max(1, min(_MOST_ROWS, BATCH_BYTES * rows // max(1, size)))
