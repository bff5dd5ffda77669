"""Rows that look alike, read without looking for anything.

Most records of a topic have one of a few shapes: the same length, and the same lengths, counts and
tags at the same places inside. Once one such row was traced, the fields of all others stand where
its fields do: the rows are gathered as one block, the bytes that make the shape are compared, and
every column is a strided view of the block. What does not fit, and whatever is wrong, is left to
the walk, which finds its way row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire import columns
from kip848_spark.wire.cursor import Block
from kip848_spark.wire.faults import Bytes, Mask
from kip848_spark.wire.layout import Array, Blob, Node, Number, Slot, Struct, Text, Uuid
from kip848_spark.wire.trace import Item, MalformedError, Tracer

MOST_ITEMS = 400
"""A row with more values than that is not worth a shape of its own."""

MOST_SEEN = 2000
"""So many shapes are remembered."""


class OddShapeError(Exception):
    """Rows can't be read as one shape after all."""


class Shape:
    """Where everything stands in rows of one shape."""

    def __init__(self, struct: Struct, version: int, items: list[Item], row: bytes) -> None:
        self.struct = struct
        self.version = version
        self.items = items
        self.length = len(row)
        marks = _marks(items, [(0, 2)])
        self.marks = [(start, row[start:end]) for start, end in _merged(marks)]

    @classmethod
    def of(cls, values: dict[int, Struct], row: bytes) -> Shape | None:
        """The shape of ``row``; None if it can't be read, or has no shape to speak of.

        What was traced once is remembered: the same few shapes come back in every batch.
        """
        for shape in _SEEN.get(len(row), ()):
            if values.get(shape.version) is shape.struct and shape.is_of(row):
                return shape
        traced = cls._traced(values, row)
        if traced is not None:
            if sum(map(len, _SEEN.values())) >= MOST_SEEN:
                _SEEN.clear()
            _SEEN.setdefault(len(row), []).append(traced)
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
        except MalformedError:
            return None
        if tracer.unknown_tags or _size(items) > MOST_ITEMS:
            return None
        return cls(struct, version, items, row)

    def is_of(self, row: bytes) -> bool:
        """True if one row has this shape."""
        return all(row.startswith(octets, start) for start, octets in self.marks)

    def matches(self, block: Block) -> Mask | None:
        """bool[n]: which rows have this shape; None if all have."""
        fits: Mask | None = None
        for start, octets in self.marks:
            for same in _compared(block, start, octets):
                if not same.all():
                    fits = same if fits is None else fits & same
        return fits

    def read(self, block: Block) -> list[pa.Array]:
        """The columns of rows that have this shape. Raises OddShapeError if they can't be read."""
        return _Reader(block).fields(self.struct, [self.items])


_SEEN: dict[int, list[Shape]] = {}


def _marks(items: Sequence[Item], marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The bytes that say how long or whether something is."""
    for item in items:
        if item.body > item.start:
            marks.append((item.start, item.body))
        _marks(item.items, marks)
    return marks


def _merged(marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours as one."""
    merged = [marks[0]]
    for start, end in marks[1:]:
        if start == merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def _compared(block: Block, start: int, octets: bytes) -> list[Mask]:
    """The rows that have ``octets`` at ``start``, in as few comparisons as it takes."""
    found = []
    while octets:
        width = next(size for size in (8, 4, 2, 1) if size <= len(octets))
        found.append(
            columns.strided(block, start, f"<u{width}") == int.from_bytes(octets[:width], "little")
        )
        start += width
        octets = octets[width:]
    return found


def _size(items: Sequence[Item]) -> int:
    return sum(1 + _size(item.items) for item in items)


class _Reader:
    """The columns of a block."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.rows = len(block)

    def fields(self, struct: Struct, each: list[list[Item]]) -> list[pa.Array]:
        """The columns of ``struct``, of which a row has one or more: ``each`` are their items."""
        count = self.rows * len(each)
        untagged = {slot.column: index for index, slot in enumerate(struct.untagged)}
        found = []
        for slot in struct.slots:
            if slot.node is None:
                found.append(columns.nulls(count, slot.arrow))
            elif slot.tag is None:
                place = untagged[slot.column]
                found.append(self.values(slot.node, [items[place] for items in each]))
            else:
                found.append(self._tagged(slot, slot.node, each))
        return found

    def _tagged(self, slot: Slot, node: Node, each: list[list[Item]]) -> pa.Array:
        there = [tag.items[0] for items in each for tag in items[-1].items if tag.tag == slot.tag]
        if not there:
            return columns.shared(slot.default, self.rows * len(each), slot.arrow)
        if len(there) < len(each):
            raise OddShapeError
        return self.values(node, there)

    def values(self, node: Node, items: list[Item]) -> pa.Array:
        """The values that stand at ``items`` in each row, row after row."""
        match node:
            case Number():
                flat = self._numbers(node, [(item.body, 1) for item in items])
                return columns.numbers(flat, node.arrow)
            case Uuid():
                octets = self._octets([(item.body, item.end) for item in items])
                return columns.uuids(octets)
            case Text() | Blob():
                return self._texts(node, items)
            case Array():
                return self._lists(node, items)
            case Struct():
                return self._structs(node, items)

    def _numbers(self, node: Number, runs: list[tuple[int, int]]) -> npt.NDArray[np.generic]:
        """The numbers at ``runs`` (where, how many) of each row, row after row."""
        native = node.dtype.replace(">", "=")
        if len(runs) == 1 and runs[0][1] == 1:
            return columns.strided(self.block, runs[0][0], node.dtype).astype(native)
        total = sum(number for _, number in runs)
        out = np.empty((self.rows, total), native)
        strides = (self.block.itemsize, node.width)
        done = 0
        for at, number in runs:
            view = np.ndarray((self.rows, number), node.dtype, self.block, at, strides)
            out[:, done : done + number] = view
            done += number
        return out.reshape(-1)

    def _octets(self, spans: list[tuple[int, int]]) -> Bytes:
        """uint8[rows * total]: the bytes of ``spans`` of each row, row after row."""
        spans = [(start, end) for start, end in spans if end > start]
        total = sum(end - start for start, end in spans)
        out = np.empty(self.rows * total, np.uint8)
        done = 0
        for start, end in spans:
            one = f"V{end - start}"
            np.ndarray((self.rows,), one, out, done, (total,))[:] = columns.strided(
                self.block, start, one
            )
            done += end - start
        return out

    def _texts(self, node: Text | Blob, items: list[Item]) -> pa.Array:
        null, every = self._nulls(items)
        if every:
            return columns.nulls(self.rows * len(items), node.arrow)
        content = self._octets([(item.body, item.end) for item in items])
        offsets = self._bounds([item.end - item.body for item in items])
        array = columns.from_buffers(node.arrow, len(offsets) - 1, null, offsets, content)
        if isinstance(node, Text) and columns.invalid_utf8(array) is not None:
            raise OddShapeError
        return array

    def _lists(self, node: Array, items: list[Item]) -> pa.Array:
        null, every = self._nulls(items)
        if every:
            return columns.nulls(self.rows * len(items), node.arrow)
        element = node.element
        if isinstance(element, Number | Uuid):
            counts = [(item.end - item.body) // element.width for item in items]
            elements = self._fixed(element, items, counts)
        else:
            counts = [len(item.items) for item in items]
            inner = [one for item in items for one in item.items]
            if inner:
                elements = self.values(element, inner)
            else:
                elements = columns.nulls(0, node.arrow.value_type)
        mask = None if null is None else pa.array(null)
        offsets = pa.array(self._bounds(counts))
        return pa.ListArray.from_arrays(offsets, elements, type=node.arrow, mask=mask)

    def _fixed(self, node: Number | Uuid, items: list[Item], counts: list[int]) -> pa.Array:
        if isinstance(node, Number):
            runs = [(item.body, count) for item, count in zip(items, counts, strict=True)]
            return columns.numbers(self._numbers(node, runs), node.arrow)
        octets = self._octets([(item.body, item.end) for item in items])
        return columns.uuids(octets)

    def _structs(self, node: Struct, items: list[Item]) -> pa.Array:
        null, every = self._nulls(items)
        if every:
            return columns.nulls(self.rows * len(items), node.arrow)
        if null is not None:
            raise OddShapeError
        fields = self.fields(node, [item.items for item in items])
        return pa.StructArray.from_arrays(fields, fields=list(node.arrow))

    def _nulls(self, items: list[Item]) -> tuple[Mask | None, bool]:
        """bool[rows * items] if some are null, and whether all are."""
        null = [item.value is None for item in items]
        if not any(null):
            return None, False
        return np.tile(np.array(null), self.rows), all(null)

    def _bounds(self, lengths: list[int]) -> npt.NDArray[np.int32]:
        """int32[rows * lengths + 1]: offsets of things that are so long in every row."""
        total = sum(lengths)
        if total * self.rows > 0x7FFFFFFF:
            raise OddShapeError
        if len(lengths) == 1 or len(set(lengths)) == 1:
            return columns.even_offsets(self.rows * len(lengths), lengths[0])
        before = np.cumsum([0, *lengths[:-1]], dtype=np.int32)
        rows = np.arange(self.rows, dtype=np.int32) * np.int32(total)
        offsets = np.empty(self.rows * len(lengths) + 1, np.int32)
        np.add.outer(rows, before, out=offsets[:-1].reshape(self.rows, -1))
        offsets[-1] = total * self.rows
        return offsets


def block_of(data: Bytes, start: npt.NDArray[np.signedinteger], length: int) -> Block:
    """The bytes of each row. If the rows stand side by side, no copy of them."""
    first, last = int(start[0]), int(start[-1])
    if last - first == (len(start) - 1) * length:
        return data[first : last + length].view(f"V{length}")
    windows = np.ndarray((len(data) - length + 1,), f"V{length}", data, 0, (1,))
    found: Block = windows[start]
    return found
