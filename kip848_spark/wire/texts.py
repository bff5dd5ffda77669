"""Strings and bytes of a walk, set aside until it is over: then all are made at once.

While the walk goes on it only needs to know where they end. Made together, the strings of all
fields cost one pass over their bytes, and one look whether they are UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from kip848_spark.wire import columns
from kip848_spark.wire.cursor import Cursor
from kip848_spark.wire.faults import Bytes, Faults, Mask, Reason, Rows

Lazy = Callable[[], pa.Array]
"""A column that can be had when the walk is over."""


class Texts:
    """All strings (or all bytes) that one walk over ``data`` meets."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self._spans: list[tuple[Rows, Rows]] = []
        self._owners: list[tuple[Rows, Rows]] = []
        self._count = 0
        self._all: pa.Array | None = None

    def add(
        self, cursor: Cursor, start: Rows, length: Rows, null: Mask | None, type_: pa.DataType
    ) -> Lazy:
        """``length`` bytes from where each row of the cursor is; their length is at ``start``."""
        first, count = self._count, cursor.count
        self._spans.append((cursor.at, length))
        self._owners.append((cursor.rows, start))
        self._count += count

        def made() -> pa.Array:
            assert self._all is not None
            return columns.part_of(self._all, first, count, null, type_)

        return made

    def settle(self, utf8: Faults | None = None) -> None:
        """Makes them. With ``utf8``, those that are not UTF-8 are recorded there."""
        if not self._spans:
            return
        start, length = (np.concatenate(pieces) for pieces in zip(*self._spans, strict=True))
        self._all = columns.slices(self.data, start, length, None, pa.binary())
        wrong = None if utf8 is None else columns.invalid_utf8(self._all)
        if utf8 is not None and wrong is not None:
            rows, at = (np.concatenate(pieces) for pieces in zip(*self._owners, strict=True))
            utf8.record(rows[wrong], Reason.BAD_UTF8, at[wrong])
