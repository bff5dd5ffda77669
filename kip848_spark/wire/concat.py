"""Rows of bytes put together from pieces: what the encoder writes with.

A message is a run of pieces, each of which has something for every row. As long as all rows have
the same number of bytes, pieces are columns of one block; where lengths differ, Arrow joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.faults import Bytes, Mask, Rows


@dataclass(frozen=True)
class Same:
    """The same bytes in every row."""

    octets: bytes

    @property
    def width(self) -> int:
        return len(self.octets)

    def put(self, block: Bytes, at: int) -> None:
        block[:, at : at + self.width] = np.frombuffer(self.octets, np.uint8)


@dataclass(frozen=True)
class Column:
    """A number in every row; ``dtype`` is how it is written."""

    dtype: str
    values: npt.NDArray[np.generic]

    @property
    def width(self) -> int:
        return int(self.dtype[2:])

    def put(self, block: Bytes, at: int) -> None:
        rows, width = block.shape
        if rows:
            np.ndarray((rows,), self.dtype, block, at, (width,))[:] = self.values


@dataclass(frozen=True)
class Matrix:
    """As many bytes in every row: uint8[rows, width]."""

    octets: Bytes

    @property
    def width(self) -> int:
        return int(self.octets.shape[1])

    def put(self, block: Bytes, at: int) -> None:
        block[:, at : at + self.width] = self.octets


@dataclass(frozen=True)
class Varied:
    """Bytes of any length, binary[rows] without nulls."""

    array: pa.Array


Fixed = Same | Column | Matrix
Piece = Fixed | Varied


def total_width(pieces: Sequence[Piece]) -> int | None:
    """Bytes of every row; None if rows differ."""
    width = 0
    for piece in pieces:
        if isinstance(piece, Varied):
            return None
        width += piece.width
    return width


def joined(pieces: Sequence[Piece], count: int) -> pa.Array:
    """binary[count]: each row's pieces, one after the other."""
    arrays: list[pa.Array] = []
    run: list[Fixed] = []
    for piece in pieces:
        if isinstance(piece, Varied):
            if run:
                arrays.append(_binary_of(block_of(run, count)))
                run = []
            arrays.append(piece.array)
        elif piece.width:
            run.append(piece)
    if run or not arrays:
        arrays.append(_binary_of(block_of(run, count)))
    if len(arrays) == 1:
        return arrays[0]
    return pc.binary_join_element_wise(*arrays, b"")


def block_of(run: Sequence[Fixed], count: int) -> Bytes:
    """uint8[count, width]: pieces of fixed width side by side."""
    block = np.empty((count, sum(piece.width for piece in run)), np.uint8)
    at = 0
    for piece in run:
        piece.put(block, at)
        at += piece.width
    return block


def _binary_of(block: Bytes) -> pa.Array:
    rows, width = block.shape
    return binary(np.arange(rows + 1, dtype=np.int64) * width, pa.py_buffer(block))


def binary(offsets: Rows, content: pa.Buffer | None) -> pa.Array:
    """binary[n] of its offsets and bytes. Raises OverflowError beyond what Arrow can number."""
    if int(offsets[-1]) > 0x7FFFFFFF:
        raise OverflowError("an Arrow array holds two gibibytes at most: encode fewer rows at once")
    bounds = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, bounds, content])


def bounds(array: pa.Array) -> Rows:
    """int64[n + 1]: the offsets of a binary, string or list array without its nulls' extents."""
    _, offsets = array.buffers()[:2]
    if offsets is None or not len(array):
        return np.zeros(len(array) + 1, np.int64)
    return np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1].astype(
        np.int64
    )


def grouped(elements: Sequence[Piece], total: int, offsets: Rows) -> Piece:
    """One piece of the elements of arrays: those from ``offsets[i]`` to ``offsets[i + 1]`` in
    row i. They stand one behind the other already; only the bounds are others."""
    width = total_width(elements)
    if width is None:
        encoded = joined(elements, total)
        return Varied(binary(bounds(encoded)[offsets], encoded.buffers()[2]))
    block = block_of([piece for piece in elements if not isinstance(piece, Varied)], total)
    each = np.diff(offsets)
    if len(each) and (each == each[0]).all():
        return Matrix(block.reshape(len(each), int(each[0]) * width))
    return Varied(binary(offsets * width, pa.py_buffer(block)))


def spread(pieces: Sequence[Piece], there: Mask) -> Varied:
    """``pieces`` have a row for each true one of ``there``; the others have no bytes."""
    encoded = joined(pieces, int(there.sum()))
    length = np.zeros(len(there) + 1, np.int64)
    ends = bounds(encoded)
    length[1:][there] = np.diff(ends)
    return Varied(binary(np.cumsum(length) + ends[0], encoded.buffers()[2]))


def varints(values: Rows) -> Piece:
    """Unsigned varints."""
    most = int(values.max()) if len(values) else 0
    if most < 0x80:
        return Column(">u1", values)
    size = 1 + (values >= 1 << 7) + (values >= 1 << 14) + (values >= 1 << 21) + (values >= 1 << 28)
    place = np.arange(int(size.max()))
    octets = (values[:, None] >> (7 * place)) & 0x7F
    octets |= np.where(place < size[:, None] - 1, 0x80, 0)
    kept = octets.astype(np.uint8)[place < size[:, None]]
    ends = np.concatenate([[0], np.cumsum(size)])
    return Varied(binary(ends, pa.py_buffer(kept)))


def varint(value: int) -> bytes:
    """One unsigned varint."""
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
