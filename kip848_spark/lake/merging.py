"""Merges small files of closed rows.

A history table has *open* rows, which a run replaces by removing their files (`lake.replacement`).
Files that have no open rows are only ever added, at least one in each night, and a reader opens all
of them. Delta's own merge does not tell the two apart: after it, each run would write the merged
file again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.arrow_files import DataFile, WriteTarget, open_writers
from kip848_spark.lake.delta_folder import DeltaFolder
from kip848_spark.lake.replacement import OPEN_ROWS, read_file, replaceable_files

MERGED_BYTES = 100_000_000
"""Files of this size or more are not merged."""
GROUP_ROWS = 200_000
"""About so many rows are in memory at once, and in a row group of a merged file."""


def merge_closed(version: int, target: WriteTarget) -> tuple[list[str], list[DataFile]]:
    """The names of the small files without open rows in ``version`` of the table of ``target``, and
    new files with their rows, the oldest rows first. Nothing if there are fewer than two small
    files; commits nothing. Raises DeltaError or OSError."""
    files = pa.table(DeltaFolder.at(target.folder).open(version).get_add_actions(flatten=True))
    some_open, _ = replaceable_files(files, OPEN_ROWS)
    small = pc.less(files["size_bytes"], MERGED_BYTES)
    chosen = files.filter(pc.and_(small, pa.array(~some_open)))
    if chosen.num_rows < 2:
        return [], []
    names = chosen.sort_by("modification_time")["path"].to_pylist()
    with open_writers([target]) as writers:
        for rows in _row_groups(names, target):
            for batch in rows.combine_chunks().to_batches():  # more than one if a text is huge
                columns = zip(batch.schema.names, batch.columns, strict=True)
                writers[target.table].write(dict(columns))
        return names, writers[target.table].close()


def _row_groups(names: list[str], target: WriteTarget) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for name in names:
        for batch in read_file(name, target):
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= GROUP_ROWS:
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
