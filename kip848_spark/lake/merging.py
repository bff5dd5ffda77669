"""Merges small files of a table that has some rows in files of their own (`lake.rows_with`).

Each night adds at least one file, and a reader opens all of them. Delta's own merge does not tell
the rows apart. After it, each run would write merged files of intervals again, to replace their
open rows, and would read the offset commits of `records` to find the other records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.arrow_files import FILE_ROWS, DataFile, WriteTarget, open_writers
from kip848_spark.lake.delta_folder import DeltaFolder
from kip848_spark.lake.replacement import read_file
from kip848_spark.lake.rows_with import OPEN_ROWS, RowsWith, matching_files
from kip848_spark.wire.array_types import BoolArray

MERGED_BYTES = 100_000_000
"""Files of this size or more, or of `FILE_ROWS` rows, are not merged."""
GROUP_ROWS, GROUP_BYTES = 200_000, 64_000_000
"""A row group of a merged file ends after about so many rows, or bytes in memory."""


def merge_apart(
    version: int, target: WriteTarget, apart: RowsWith
) -> tuple[list[str], list[DataFile]]:
    """The names of small files in ``version`` of the table of ``target``, and new files with their
    rows, the oldest rows first: in files of their own those that are ``apart``, and the others.
    Files with open rows stay, since each run replaces them. Nothing if there is nothing to merge;
    commits nothing. Raises DeltaError or OSError."""
    files = pa.table(DeltaFolder.at(target.folder).open(version).get_add_actions(flatten=True))
    chosen = files.filter(pa.array(_to_merge(files, apart)))
    if not chosen.num_rows:
        return [], []
    names = chosen.sort_by("modification_time")["path"].to_pylist()
    merged = replace(target, codec="zstd")
    with open_writers([merged]) as writers:
        for rows in _row_groups(names, target):
            for batch in rows.combine_chunks().to_batches():  # more than one if a text is huge
                columns = zip(batch.schema.names, batch.columns, strict=True)
                writers[target.table].write(dict(columns))
        return names, writers[target.table].close()


def _to_merge(files: pa.Table, apart: RowsWith) -> BoolArray:
    """bool[files]: small files of the same rows if there are two of them, and small files that have
    both."""
    some, all_ = matching_files(files, apart)
    small = pc.less(files["size_bytes"], MERGED_BYTES)
    small = pc.and_(small, pc.less(pc.fill_null(files["num_records"], 0), FILE_ROWS))
    is_small = np.asarray(small)
    chosen = is_small & ~some
    chosen &= chosen.sum() > 1
    if apart != OPEN_ROWS:
        own = is_small & all_
        chosen |= own & (own.sum() > 1)
        chosen |= is_small & some & ~all_
    return chosen


def _row_groups(names: list[str], target: WriteTarget) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for name in names:
        for batch in read_file(name, target):
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                yield pa.Table.from_batches(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
