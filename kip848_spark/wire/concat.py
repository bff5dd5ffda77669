"""Byte columns, and their concatenation row by row: what the encoder writes with.

A message is encoded as a list of byte columns, each with some bytes for every row. Neighbouring
columns of fixed width are written into one two-dimensional block; Arrow joins the blocks with the
columns of variable width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import BoolArray, Int64Array, UInt8Array


@dataclass(frozen=True)
class ConstantBytes:
    """The same bytes in every row."""

    octets: bytes

    @property
    def width(self) -> int:
        return len(self.octets)

    def write(self, block: UInt8Array, at: int) -> None:
        block[:, at : at + self.width] = np.frombuffer(self.octets, np.uint8)


@dataclass(frozen=True)
class NumberColumn:
    """A number in every row. ``dtype`` is its NumPy type in the message, such as ``>i4``."""

    dtype: str
    values: npt.NDArray[np.generic]

    @property
    def width(self) -> int:
        return int(self.dtype[2:])

    def write(self, block: UInt8Array, at: int) -> None:
        rows, width = block.shape
        if rows:
            np.ndarray((rows,), self.dtype, block, at, (width,))[:] = self.values


@dataclass(frozen=True)
class FixedBytes:
    """The same number of bytes in every row: uint8[rows, width]."""

    octets: UInt8Array

    @property
    def width(self) -> int:
        return int(self.octets.shape[1])

    def write(self, block: UInt8Array, at: int) -> None:
        block[:, at : at + self.width] = self.octets


@dataclass(frozen=True)
class VariableBytes:
    """Any number of bytes in every row: binary[rows] without nulls."""

    array: pa.Array


FixedWidth = ConstantBytes | NumberColumn | FixedBytes
"""A column with the same number of bytes (``width``) in every row; ``write`` puts it into a block
(uint8[rows, n]) from byte ``at`` of each row on."""
ByteColumn = FixedWidth | VariableBytes


def row_width(columns: Sequence[ByteColumn]) -> int | None:
    """The number of bytes in every row; None if it is not the same in all rows."""
    width = 0
    for column in columns:
        if isinstance(column, VariableBytes):
            return None
        width += column.width
    return width


def concat_rows(columns: Sequence[ByteColumn], count: int) -> pa.Array:
    """binary[count]: for each row its bytes of all ``columns``, concatenated."""
    arrays: list[pa.Array] = []
    fixed: list[FixedWidth] = []
    for column in columns:
        if isinstance(column, VariableBytes):
            if fixed:
                arrays.append(_block_to_binary(fill_block(fixed, count)))
                fixed = []
            arrays.append(column.array)
        elif column.width:
            fixed.append(column)
    if fixed or not arrays:
        arrays.append(_block_to_binary(fill_block(fixed, count)))
    if len(arrays) == 1:
        return arrays[0]
    return pc.binary_join_element_wise(*arrays, b"")


def fill_block(fixed: Sequence[FixedWidth], count: int) -> UInt8Array:
    """uint8[count, width]: the columns side by side."""
    block = np.empty((count, sum(column.width for column in fixed)), np.uint8)
    at = 0
    for column in fixed:
        column.write(block, at)
        at += column.width
    return block


def _block_to_binary(block: UInt8Array) -> pa.Array:
    rows, width = block.shape
    return binary_array(np.arange(rows + 1, dtype=np.int64) * width, pa.py_buffer(block))


def binary_array(offsets: Int64Array, content: pa.Buffer | None) -> pa.Array:
    """binary[n] made of int64[n + 1] offsets and the bytes. Raises OverflowError above 2 GiB, the
    limit of 32-bit offsets."""
    if int(offsets[-1]) > 0x7FFFFFFF:
        raise OverflowError("An Arrow array holds at most 2 GiB: encode fewer rows at once.")
    int32_offsets = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, int32_offsets, content])


def array_offsets(array: pa.Array) -> Int64Array:
    """int64[n + 1]: the offsets of a binary, string or list array, which must not have bytes or
    elements under its nulls."""
    _, offsets = array.buffers()[:2]
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int64)
    return np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(
        np.int64
    )


def concat_elements(elements: Sequence[ByteColumn], total: int, offsets: Int64Array) -> ByteColumn:
    """One column for the elements of arrays: row i has the elements from ``offsets[i]`` to
    ``offsets[i + 1]``. They are encoded in this order already, so only the offsets are new."""
    width = row_width(elements)
    if width is None:
        encoded = concat_rows(elements, total)
        return VariableBytes(binary_array(array_offsets(encoded)[offsets], encoded.buffers()[2]))
    fixed = [column for column in elements if not isinstance(column, VariableBytes)]
    block = fill_block(fixed, total)
    each = np.diff(offsets)
    if len(each) and (each == each[0]).all():
        return FixedBytes(block.reshape(len(each), int(each[0]) * width))
    return VariableBytes(binary_array(offsets * width, pa.py_buffer(block)))


def expand(columns: Sequence[ByteColumn], present: BoolArray) -> VariableBytes:
    """A column whose rows are empty where ``present`` (bool[n]) is false. ``columns`` have one row
    for each true value."""
    encoded = concat_rows(columns, int(present.sum()))
    length = np.zeros(len(present) + 1, np.int64)
    ends = array_offsets(encoded)
    length[1:][present] = np.diff(ends)
    return VariableBytes(binary_array(np.cumsum(length) + ends[0], encoded.buffers()[2]))


def encode_varints(values: Int64Array) -> ByteColumn:
    """One unsigned varint in every row."""
    largest = int(values.max()) if len(values) else 0
    if largest < 0x80:
        return NumberColumn(">u1", values)
    size = 1 + (values >= 1 << 7) + (values >= 1 << 14) + (values >= 1 << 21) + (values >= 1 << 28)
    position = np.arange(int(size.max()))
    octets = (values[:, None] >> (7 * position)) & 0x7F
    octets |= np.where(position < size[:, None] - 1, 0x80, 0)
    written = octets.astype(np.uint8)[position < size[:, None]]
    ends = np.concatenate([[0], np.cumsum(size)])
    return VariableBytes(binary_array(ends, pa.py_buffer(written)))


def encode_varint(value: int) -> bytes:
    """An unsigned varint."""
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
