"""The buffers that a program fills, and the Arrow arrays that are made of them without a copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kip848_spark.wire import columns

HEADROOM = 1.2
"""The next batch's buffers are allocated this much larger than the last batch needed."""


class ArrayBuilder(Protocol):
    """Makes one Arrow array of some of a program's buffers."""

    def build(self, buffers: OutputBuffers, count: int) -> pa.Array:
        """An array of the first ``count`` values."""


@dataclass(frozen=True)
class OutputBuffers:
    """The filled buffers of a program that has read ``rows`` rows.

    ``usage`` is the program's `Program.usage`; building the arrays updates it.
    """

    buffers: list[pa.Buffer]
    usage: list[float]
    rows: int

    def validity(self, nulls: int, count: int) -> pa.Buffer | None:
        """The validity bitmap made of buffer ``nulls``, which has a byte a value: 1 for null.
        None if no value is null, or if ``nulls`` is -1."""
        if nulls < 0:
            return None
        null = np.frombuffer(self.buffers[nulls], np.uint8, count)
        if not null.any():
            return None
        return pa.py_buffer(np.packbits(null == 0, bitorder="little"))

    def end(self, offsets: int, count: int, capacity: int) -> int:
        """Offset ``count`` of the buffer ``offsets``: how many units of ``capacity`` are used."""
        (end,) = np.frombuffer(self.buffers[offsets], np.int32, 1, 4 * count).tolist()
        self.usage[capacity] = HEADROOM * end / self.rows
        return int(end)


@dataclass(frozen=True)
class NumberBuilder:
    """Numbers or ids, of the type ``arrow``."""

    arrow: pa.DataType
    buffer: int

    def build(self, buffers: OutputBuffers, count: int) -> pa.Array:
        return pa.Array.from_buffers(self.arrow, count, [None, buffers.buffers[self.buffer]])


@dataclass(frozen=True)
class BoolBuilder:
    """bool, of a buffer with a byte a value: 0 for false."""

    buffer: int

    def build(self, buffers: OutputBuffers, count: int) -> pa.Array:
        return pa.array(np.frombuffer(buffers.buffers[self.buffer], np.uint8, count) != 0)


@dataclass(frozen=True)
class BytesBuilder:
    """string or binary."""

    arrow: pa.DataType
    offsets: int
    octets: int
    nulls: int
    capacity: int

    def build(self, buffers: OutputBuffers, count: int) -> pa.Array:
        buffers.end(self.offsets, count, self.capacity)
        validity = buffers.validity(self.nulls, count)
        offsets, octets = buffers.buffers[self.offsets], buffers.buffers[self.octets]
        return pa.Array.from_buffers(self.arrow, count, [validity, offsets, octets])


@dataclass(frozen=True)
class ListBuilder:
    """list."""

    arrow: pa.ListType
    offsets: int
    nulls: int
    capacity: int
    element: ArrayBuilder

    def build(self, buffers: OutputBuffers, count: int) -> pa.Array:
        elements = self.element.build(buffers, buffers.end(self.offsets, count, self.capacity))
        own = [buffers.validity(self.nulls, count), buffers.buffers[self.offsets]]
        return pa.Array.from_buffers(self.arrow, count, own, children=[elements])


@dataclass(frozen=True)
class OptionalBuilder:
    """Values that only some rows have (a nullable struct, a tagged field). ``element`` builds the
    values that are there; the other rows get ``default``."""

    arrow: pa.DataType
    offsets: int
    capacity: int
    element: ArrayBuilder
    default: Any

    def build(self, buffers: OutputBuffers, count: int) -> pa.Array:
        present = buffers.end(self.offsets, count, self.capacity)
        if not present:
            return columns.shared_constant(self.default, count, self.arrow)
        elements = self.element.build(buffers, present)
        if present == count:
            return elements
        offsets = np.frombuffer(buffers.buffers[self.offsets], np.int32, count + 1)
        rows = np.flatnonzero(np.diff(offsets))
        return columns.scatter([(rows, elements)], count, self.arrow, self.default)


@dataclass(frozen=True)
class NullBuilder:
    """Nulls, for a field that this version of the message lacks."""

    arrow: pa.DataType

    def build(self, _: OutputBuffers, count: int) -> pa.Array:
        return columns.null_array(count, self.arrow)


@dataclass(frozen=True)
class StructBuilder:
    """struct: one builder a field, in the order of ``arrow``."""

    arrow: list[pa.Field]
    fields: tuple[ArrayBuilder, ...]

    def build_fields(self, buffers: OutputBuffers, count: int) -> list[pa.Array]:
        """One array a field."""
        return [field.build(buffers, count) for field in self.fields]

    def build(self, buffers: OutputBuffers, count: int) -> pa.Array:
        return pa.StructArray.from_arrays(self.build_fields(buffers, count), fields=self.arrow)
