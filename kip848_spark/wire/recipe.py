"""How columns come out of rows of one shape: worked out once, from one row, then only done.

A recipe is a list of copies, each of the same bytes of every row into a buffer, and for each field
a function that makes its Arrow array of the buffers when they are full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire import columns
from kip848_spark.wire.cursor import Block
from kip848_spark.wire.faults import Mask
from kip848_spark.wire.layout import Array, Blob, Node, Number, Slot, Struct, Text, Uuid
from kip848_spark.wire.trace import Item

Buffers = list[npt.NDArray[np.uint8]]
Make = Callable[[Buffers, int], pa.Array]
"""From full buffers and a number of rows to the values of all of them."""


class OddShapeError(Exception):
    """Rows can't be read as one shape after all."""


@dataclass(frozen=True)
class Copy:
    """``number`` values that stand side by side ``at`` some byte of every row, to ``to`` in each
    row's part of a buffer. ``dtype`` is their type in the row, ``native`` that in the buffer."""

    buffer: int
    to: int
    at: int
    number: int
    dtype: str
    native: str

    def view(self, memory: npt.NDArray[Any], rows: int, width: int, inside: bool) -> Any:
        """These values of every row: in a buffer, or ``inside`` the rows."""
        dtype, offset = (self.dtype, self.at) if inside else (self.native, self.to)
        if self.number == 1:
            return np.ndarray((rows,), dtype, memory, offset, (width,))
        strides = (width, np.dtype(dtype).itemsize)
        return np.ndarray((rows, self.number), dtype, memory, offset, strides)


class Recipe:
    """For rows that look like the one of which ``items`` are the fields.

    Raises OddShapeError if no array can be made that way.
    """

    def __init__(self, struct: Struct, items: list[Item]) -> None:
        self.widths: list[int] = []
        self.copies: list[Copy] = []
        self.makes = self._fields(struct, [items])

    def filling(self, rows: int) -> Filling:
        """Buffers for at most ``rows`` rows."""
        return Filling(self, rows)

    # -- structs: ``each`` are the items of those that a row has, ``m`` in number --------------

    def _fields(self, struct: Struct, each: list[list[Item]]) -> list[Make]:
        untagged = {slot.column: index for index, slot in enumerate(struct.untagged)}
        makes = []
        for slot in struct.slots:
            if slot.node is None:
                makes.append(_same(None, len(each), slot.arrow))
            elif slot.tag is None:
                place = untagged[slot.column]
                makes.append(self._values(slot.node, [items[place] for items in each]))
            else:
                makes.append(self._tagged(slot, slot.node, each))
        return makes

    def _tagged(self, slot: Slot, node: Node, each: list[list[Item]]) -> Make:
        there = [tag.items[0] for items in each for tag in items[-1].items if tag.tag == slot.tag]
        if not there:
            return _same(slot.default, len(each), slot.arrow)
        if len(there) < len(each):
            raise OddShapeError
        return self._values(node, there)

    def _struct(self, node: Struct, items: list[Item]) -> Make:
        fields = self._fields(node, [item.items for item in items])
        return lambda buffers, rows: pa.StructArray.from_arrays(
            [make(buffers, rows) for make in fields], fields=list(node.arrow)
        )

    # -- values: ``items`` are those that a row has --------------------------------------------

    def _values(self, node: Node, items: list[Item]) -> Make:
        null = [item.value is None for item in items]
        if all(null):
            return _same(None, len(items), node.arrow)
        match node:
            case Number() | Uuid():
                return self._fixed(node, [(item.body, 1) for item in items])
            case Text() | Blob():
                return self._texts(node, items, null)
            case Array():
                return self._lists(node, items, null)
            case Struct():
                if any(null):
                    raise OddShapeError
                return self._struct(node, items)

    def _fixed(self, node: Number | Uuid, runs: list[tuple[int, int]]) -> Make:
        """Numbers or ids: where some stand, and how many."""
        dtype = node.dtype if isinstance(node, Number) else "V16"
        native = dtype.replace(">", "=")
        width = np.dtype(native).itemsize
        buffer = len(self.widths)
        done = 0
        for at, number in runs:
            if number:
                self.copies.append(Copy(buffer, done * width, at, number, dtype, native))
            done += number
        self.widths.append(done * width)
        if isinstance(node, Uuid):
            return lambda buffers, rows: columns.uuids(buffers[buffer])
        arrow = node.arrow
        return lambda buffers, rows: columns.numbers(buffers[buffer].view(native), arrow)

    def _texts(self, node: Text | Blob, items: list[Item], null: list[bool]) -> Make:
        buffer = len(self.widths)
        done = 0
        for item in items:
            if size := item.end - item.body:
                self.copies.append(Copy(buffer, done, item.body, 1, f"V{size}", f"V{size}"))
            done += size
        self.widths.append(done)
        lengths = [item.end - item.body for item in items]
        text, arrow = isinstance(node, Text), node.arrow

        def made(buffers: Buffers, rows: int) -> pa.Array:
            offsets = _bounds(lengths, rows)
            array = columns.from_buffers(
                arrow, rows * len(lengths), _repeated(null, rows), offsets, buffers[buffer]
            )
            if text and columns.invalid_utf8(array) is not None:
                raise OddShapeError
            return array

        return made

    def _lists(self, node: Array, items: list[Item], null: list[bool]) -> Make:
        element = node.element
        if isinstance(element, Number | Uuid):
            counts = [len(item.elements) for item in items]
            elements = self._fixed(element, [(item.body, len(item.elements)) for item in items])
        else:
            counts = [len(item.items) for item in items]
            inner = [one for item in items for one in item.items]
            elements = _same(None, 0, node.arrow.value_type)
            if inner:
                elements = self._values(element, inner)
        arrow = node.arrow

        def made(buffers: Buffers, rows: int) -> pa.Array:
            mask = _repeated(null, rows)
            return pa.ListArray.from_arrays(
                columns.integers(_bounds(counts, rows)),
                elements(buffers, rows),
                type=arrow,
                mask=None if mask is None else pa.array(mask),
            )

        return made


class Filling:
    """Buffers that are filled with rows, some at a time."""

    def __init__(self, recipe: Recipe, rows: int) -> None:
        self.recipe = recipe
        self.rows = rows
        self.done = 0
        # One piece of memory for all: the system gives large ones in large pages, for much less.
        bounds = [0, *accumulate(-(-rows * width // 64) * 64 for width in recipe.widths)]
        memory = np.empty(bounds[-1], np.uint8)
        self.buffers = [
            memory[start : start + rows * width]
            for start, width in zip(bounds, recipe.widths, strict=False)
        ]
        self.views = [
            copy.view(self.buffers[copy.buffer], rows, recipe.widths[copy.buffer], False)
            for copy in recipe.copies
        ]

    def add(self, block: Block) -> None:
        """Takes over the rows of ``block``."""
        first, rows = self.done, len(block)
        self.done += rows
        for copy, view in zip(self.recipe.copies, self.views, strict=True):
            view[first : self.done] = copy.view(block, rows, block.itemsize, True)

    def made(self) -> list[pa.Array]:
        """The columns of all rows that came. Raises OddShapeError if a string is not UTF-8."""
        buffers = self.buffers
        if self.done < self.rows:
            widths = self.recipe.widths
            buffers = [b[: self.done * w] for b, w in zip(buffers, widths, strict=True)]
        if self.done < self.rows // 2:  # what is kept should not hold on to twice its memory
            buffers = [buffer.copy() for buffer in buffers]
        return [make(buffers, self.done) for make in self.recipe.makes]


def _same(value: Any, number: int, type_: pa.DataType) -> Make:
    """``number`` times the same plain value in every row."""
    return lambda buffers, rows: columns.shared(value, rows * number, type_)


def _repeated(null: list[bool], rows: int) -> Mask | None:
    return np.tile(np.array(null), rows) if any(null) else None


def _bounds(lengths: list[int], rows: int) -> npt.NDArray[np.int32]:
    """int32[rows * lengths + 1]: offsets of things that are so long in every row."""
    total = sum(lengths)
    if total * rows > 0x7FFFFFFF:
        raise OddShapeError
    if len(set(lengths)) == 1:
        return columns.even_offsets(rows * len(lengths), lengths[0])
    before = np.cumsum([0, *lengths[:-1]], dtype=np.int32)
    offsets = np.empty(rows * len(lengths) + 1, np.int32)
    starts = columns.even_offsets(rows - 1, total)
    np.add.outer(starts, before, out=offsets[:-1].reshape(rows, -1))
    offsets[-1] = total * rows
    return offsets
