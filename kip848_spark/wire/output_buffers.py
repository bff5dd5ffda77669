"""Buffers that a program has filled, and the Arrow arrays that are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kip848_spark.wire import columns

SPARE = 1.2
"""So much more room than was taken lately is made the next time."""


class Made(Protocol):
    """What becomes an array."""

    def array(self, filled: Filled, count: int) -> pa.Array:
        """The first ``count`` values."""


@dataclass(frozen=True)
class Filled:
    """The buffers of a program, and for each of its rooms how much of it a row takes (to which
    what was taken is added)."""

    buffers: list[pa.Buffer]
    rates: list[float]
    rows: int

    def bitmap(self, nulls: int, count: int) -> pa.Buffer | None:
        """Of a buffer of bytes that are 1 for null; None if none is."""
        if nulls < 0:
            return None
        null = np.frombuffer(self.buffers[nulls], np.uint8, count)
        if not null.any():
            return None
        return pa.py_buffer(np.packbits(null == 0, bitorder="little"))

    def end(self, offsets: int, count: int, room: int) -> int:
        """Offset ``count``: how much of ``room`` was taken."""
        (end,) = np.frombuffer(self.buffers[offsets], np.int32, 1, 4 * count).tolist()
        self.rates[room] = SPARE * end / self.rows
        return int(end)


@dataclass(frozen=True)
class Fixed:
    """Numbers or ids."""

    arrow: pa.DataType
    buffer: int

    def array(self, filled: Filled, count: int) -> pa.Array:
        return pa.Array.from_buffers(self.arrow, count, [None, filled.buffers[self.buffer]])


@dataclass(frozen=True)
class Bools:
    """Bytes that are 0 for false."""

    buffer: int

    def array(self, filled: Filled, count: int) -> pa.Array:
        return pa.array(np.frombuffer(filled.buffers[self.buffer], np.uint8, count) != 0)


@dataclass(frozen=True)
class Octets:
    """Strings or bytes."""

    arrow: pa.DataType
    offsets: int
    octets: int
    nulls: int
    room: int

    def array(self, filled: Filled, count: int) -> pa.Array:
        filled.end(self.offsets, count, self.room)
        bitmap = filled.bitmap(self.nulls, count)
        offsets, octets = filled.buffers[self.offsets], filled.buffers[self.octets]
        return pa.Array.from_buffers(self.arrow, count, [bitmap, offsets, octets])


@dataclass(frozen=True)
class Lists:
    """Arrays."""

    arrow: pa.ListType
    offsets: int
    nulls: int
    room: int
    element: Made

    def array(self, filled: Filled, count: int) -> pa.Array:
        elements = self.element.array(filled, filled.end(self.offsets, count, self.room))
        bitmap = filled.bitmap(self.nulls, count)
        parts = [bitmap, filled.buffers[self.offsets]]
        return pa.Array.from_buffers(self.arrow, count, parts, children=[elements])


@dataclass(frozen=True)
class Maybe:
    """Values that some rows have, the others' being the ``default``."""

    arrow: pa.DataType
    offsets: int
    room: int
    element: Made
    default: Any

    def array(self, filled: Filled, count: int) -> pa.Array:
        there = filled.end(self.offsets, count, self.room)
        if not there:
            return columns.shared(self.default, count, self.arrow)
        elements = self.element.array(filled, there)
        if there == count:
            return elements
        offsets = np.frombuffer(filled.buffers[self.offsets], np.int32, count + 1)
        rows = np.flatnonzero(np.diff(offsets))
        return columns.gather([(rows, elements)], count, self.arrow, self.default)


@dataclass(frozen=True)
class Lacking:
    """Null: this version has no such field."""

    arrow: pa.DataType

    def array(self, _: Filled, count: int) -> pa.Array:
        return columns.nulls(count, self.arrow)


@dataclass(frozen=True)
class Fields:
    """Structs."""

    arrow: list[pa.Field]
    fields: tuple[Made, ...]

    def arrays(self, filled: Filled, count: int) -> list[pa.Array]:
        """An array a field."""
        return [each.array(filled, count) for each in self.fields]

    def array(self, filled: Filled, count: int) -> pa.Array:
        return pa.StructArray.from_arrays(self.arrays(filled, count), fields=self.arrow)
