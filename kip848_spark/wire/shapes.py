"""Rows that look alike, read without looking for anything.

Most records of a topic have one of a few shapes: the same length, and the same lengths, counts and
tags at the same places inside. Once one such row was traced, the fields of all others stand where
its fields do: rows are gathered as blocks, the bytes that make the shape are compared, and every
column is copied out of the blocks with one stride. What does not fit, and whatever is wrong, is
left to the walk, which finds its way row by row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire import columns
from kip848_spark.wire.cursor import Block
from kip848_spark.wire.faults import Bytes, Mask, Rows, rows_where
from kip848_spark.wire.layout import Struct
from kip848_spark.wire.recipe import Filling, OddShapeError, Recipe
from kip848_spark.wire.trace import Item, MalformedError, Tracer

MOST_ITEMS = 400
"""A row with more values than that is not worth a shape of its own."""

MOST_SEEN = 50_000
"""Shapes are remembered until they have so many values together (a commit has about ten)."""

BLOCK = 1 << 20
"""Bytes that are gathered at once: they should stay in the processor's own cache."""


class Alike(NamedTuple):
    """Which rows have a shape and which have not, and the columns of the former; these are None
    if there are too few of them, or if a string of theirs is not UTF-8."""

    rows: Rows
    others: Rows
    fields: list[pa.Array] | None


class Shape:
    """Where everything stands in rows of one shape."""

    def __init__(self, struct: Struct, version: int, items: list[Item], row: bytes) -> None:
        self.struct = struct
        self.version = version
        self.length = len(row)
        self.marks = [(start, row[start:end]) for start, end in _merged(_marks(items, [(0, 2)]))]
        self.recipe = Recipe(struct, items)
        self.size = _size(items)

    @classmethod
    def of(cls, values: dict[int, Struct], row: bytes) -> Shape | None:
        """The shape of ``row``; None if it can't be read, or has no shape to speak of.

        What was traced once is remembered: the same few shapes come back in every batch.
        """
        for shape in _SEEN.of(len(row)):
            if values.get(shape.version) is shape.struct and shape.is_of(row):
                return shape
        traced = cls._traced(values, row)
        if traced is not None:
            _SEEN.add(traced)
        return traced

    @classmethod
    def _traced(cls, values: dict[int, Struct], row: bytes) -> Shape | None:
        tracer = Tracer(row)
        items: list[Item] = []
        try:
            version = int(tracer.number(">i2"))
            struct = values.get(version)
            if struct is None:
                return None
            tracer.fields(struct, items)
            tracer.finish()
            if tracer.unknown_tags or _size(items) > MOST_ITEMS:
                return None
            return cls(struct, version, items, row)
        except (MalformedError, OddShapeError):
            return None

    def is_of(self, row: bytes) -> bool:
        """True if one row has this shape."""
        return all(row.startswith(octets, start) for start, octets in self.marks)

    def read(self, data: Bytes, start: npt.NDArray[np.signedinteger], enough: int) -> Alike:
        """Reads rows of this length that begin at ``start``, where they have this shape."""
        count = len(start)
        step = max(BLOCK // self.length, enough)
        filling: Filling | None = None
        fit = np.ones(count, bool)
        for first in range(0, count, step):
            block = block_of(data, start[first : first + step], self.length)
            fits = self._matches(block)
            if fits is not None:
                fit[first : first + step] = fits
                block = block[fits]
            if filling is None:
                if len(block) < enough:
                    fit[first + step :] = False
                    break
                filling = self.recipe.filling(count)
            filling.add(block)
        fields: list[pa.Array] | None = None
        with contextlib.suppress(OddShapeError):
            fields = None if filling is None else filling.made()
        return Alike(rows_where(fit), rows_where(~fit), fields)

    def _matches(self, block: Block) -> Mask | None:
        """bool[n]: which rows have this shape; None if all have."""
        fits: Mask | None = None
        for start, octets in self.marks:
            for same in _compared(block, start, octets):
                if not same.all():
                    fits = same if fits is None else fits & same
        return fits


class Seen:
    """The shapes that are remembered, by the length of their rows: a bounded number of values."""

    def __init__(self) -> None:
        self.shapes: dict[int, list[Shape]] = {}
        self.size = 0

    def of(self, length: int) -> Sequence[Shape]:
        return self.shapes.get(length, ())

    def add(self, shape: Shape) -> None:
        if self.size + shape.size > MOST_SEEN:
            self.shapes.clear()
            self.size = 0
        self.shapes.setdefault(shape.length, []).append(shape)
        self.size += shape.size


_SEEN = Seen()


def _marks(items: Sequence[Item], marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The bytes that say how long or whether something is."""
    for item in items:
        if item.body > item.start:
            marks.append((item.start, item.body))
        _marks(item.items, marks)
    return marks


def _merged(marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours as one."""
    breaks = [(one[1], other[0]) for one, other in pairwise(marks) if one[1] < other[0]]
    starts = [marks[0][0], *(start for _, start in breaks)]
    ends = [*(end for end, _ in breaks), marks[-1][1]]
    return list(zip(starts, ends, strict=True))


def _compared(block: Block, start: int, octets: bytes) -> list[Mask]:
    """The rows that have ``octets`` at ``start``, in as few comparisons as it takes."""
    found = []
    while octets:
        width = next(size for size in (8, 4, 2, 1) if size <= len(octets))
        there = columns.strided(block, start, f"<u{width}")
        found.append(there == int.from_bytes(octets[:width], "little"))
        start += width
        octets = octets[width:]
    return found


def _size(items: Sequence[Item]) -> int:
    return sum(1 + _size(item.items) for item in items)


def block_of(data: Bytes, start: npt.NDArray[np.signedinteger], length: int) -> Block:
    """void[n]: the bytes of each row. If the rows stand side by side, no copy of them."""
    first, last = int(start[0]), int(start[-1])
    if last - first == (len(start) - 1) * length:
        return data[first : last + length].view(f"V{length}")
    windows = np.ndarray((len(data) - length + 1,), f"V{length}", data, 0, (1,))
    found: Block = windows[start]
    return found
