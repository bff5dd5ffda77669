"""Rows of an Arrow table as a sequence of plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import pyarrow as pa

from kip848_spark.wire.tables import Row

_BATCH = 10_000


class TableRows(Sequence[Row]):
    """The rows of ``table`` as dicts, which are made when they are read: dicts take much more
    memory than the table, and often only the first of a million rows are shown."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        found: int = self.table.num_rows
        return found

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        rows = range(len(self))[index]
        if isinstance(rows, int):
            (row,) = self.table.slice(rows, 1).to_pylist()
            return dict(row)
        if rows.step == 1:
            found = self.table.slice(rows.start, len(rows))
        else:
            found = self.table.take(pa.array(rows, pa.int64()))
        return list(found.to_pylist())

    def __iter__(self) -> Iterator[Row]:
        for start in range(0, len(self), _BATCH):
            yield from self.table.slice(start, _BATCH).to_pylist()
