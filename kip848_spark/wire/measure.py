"""Where each element of an array begins: what must be known before all can be read at once.

An element that holds a string ends where its own bytes say, so the second begins where the first
ends. The first elements of all rows are measured together, then the second ones, and so on; when
few rows go on, one after another in plain Python, which is then the cheaper way.

Nothing is judged here. What is wrong makes an element end where its row does; the reading that
follows finds the fault in that element or before it, and the row is lost anyway.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from kip848_spark.wire.cursor import integers, long_varints, octets
from kip848_spark.wire.faults import Bytes, Rows, rows_where
from kip848_spark.wire.layout import (
    HIGHEST_TAG,
    VARINT,
    Array,
    Blob,
    Node,
    Number,
    Run,
    Struct,
    Text,
    Uuid,
    fixed_width,
)

NARROW = 12
"""So many rows and fewer are measured one after another."""


def element_starts(data: Bytes, node: Node, at: Rows, end: Rows, count: Rows) -> Rows:
    """int64[sum(count)]: where elements of no fixed width begin, row after row.

    ``at`` is where the first element of each row begins, ``count`` how many there are.
    """
    ends = count.cumsum()
    first = ends - count
    starts = end.repeat(count)
    rows = rows_where(count)
    starts[first[rows]] = place = at[rows]
    index = 1
    while True:
        going = rows_where((count[rows] > index) & (place < end[rows]))
        if len(going) < len(rows):
            rows, place = rows[going], place[going]
        if len(rows) <= NARROW:
            break
        place = past(data, node, place, end[rows])
        starts[first[rows] + index] = place
        index += 1
    for row, begin in zip(rows.tolist(), place.tolist(), strict=True):
        one = One(data, begin, int(end[row]))
        into = starts[first[row] + index : first[row] + count[row]]
        for number in range(len(into)):
            one.skip(node)
            if one.at >= one.end:
                break
            into[number] = one.at
    return starts


def past(data: Bytes, node: Node, at: Rows, end: Rows) -> Rows:
    """int64[n]: where the values of ``node`` end that begin ``at``; never beyond ``end``."""
    match node:
        case Number() | Uuid():
            return _within(at + node.width, end)
        case Text() | Blob():
            length, at = _length(data, node.prefix, at)
            return _within(at + length, end)
        case Array():
            return _past_array(data, node, at, end)
        case Struct():
            return _past_struct(data, node, at, end)


def _within(at: Rows, end: Rows) -> Rows:
    return np.minimum(at, end)


def _past_array(data: Bytes, node: Array, at: Rows, end: Rows) -> Rows:
    count, at = _length(data, node.prefix, at)
    width = fixed_width(node.element)
    if width is not None:
        return _within(at + count * width, end)
    at = np.minimum(at, end)
    rows = rows_where((count > 0) & (at < end))
    index = 0
    while len(rows) > NARROW:
        at[rows] = past(data, node.element, at[rows], end[rows])
        index += 1
        rows = rows[(count[rows] > index) & (at[rows] < end[rows])]
    for row in rows.tolist():
        one = One(data, int(at[row]), int(end[row]))
        one.skip_elements(node.element, int(count[row]) - index)
        at[row] = one.at
    return at


def _past_struct(data: Bytes, node: Struct, at: Rows, end: Rows) -> Rows:
    if node.presence is not None:
        return _past_nullable(data, node, at, end)
    for step in node.steps:
        if isinstance(step, Run):
            at = np.minimum(at + step.width, end)
        elif step.node is not None:
            at = past(data, step.node, at, end)
    return _past_tags(data, at, end) if node.flexible else at


def _past_nullable(data: Bytes, node: Struct, at: Rows, end: Rows) -> Rows:
    bare = replace(node, presence=None)
    there = rows_where(octets(data, at) == 1)
    at = np.minimum(at + 1, end)
    at[there] = past(data, bare, at[there], end[there])
    return at


def _past_tags(data: Bytes, at: Rows, end: Rows) -> Rows:
    count, at = _varint(data, at)
    at = np.minimum(at, end)
    if not np.count_nonzero(count):
        return at
    rows = rows_where((count > 0) & (at < end))
    index = 0
    while len(rows) > NARROW:
        _, behind = _varint(data, at[rows])
        size, behind = _varint(data, behind)
        at[rows] = np.minimum(behind + size, end[rows])
        index += 1
        rows = rows[(count[rows] > index) & (at[rows] < end[rows])]
    for row in rows.tolist():
        one = One(data, int(at[row]), int(end[row]))
        one.skip_tags(int(count[row]) - index)
        at[row] = one.at
    return at


def _length(data: Bytes, prefix: str, at: Rows) -> tuple[Rows, Rows]:
    """The lengths at ``at``, 0 for null and what is below, and where they end."""
    if prefix == VARINT:
        value, at = _varint(data, at)
        return np.maximum(value, 1) - 1, at
    return np.maximum(integers(data, prefix, at), 0), at + int(prefix[2:])


def _varint(data: Bytes, at: Rows) -> tuple[Rows, Rows]:
    first = octets(data, at)
    if not len(first) or first.max() < 0x80:
        return first.astype(np.int64), at + 1
    value, size, _ = long_varints(data, at, first)
    return value, at + size


# -- one after another -----------------------------------------------------------------------


class One:
    """A single row, passed over value by value."""

    def __init__(self, data: Bytes, at: int, end: int) -> None:
        self.start = at
        self.end = end
        self.bytes = data[at:end].tobytes()
        self.place = 0
        self.broken = False

    @property
    def at(self) -> int:
        return self.start + min(self.place, len(self.bytes))

    def skip(self, node: Node) -> None:
        match node:
            case Number() | Uuid():
                self.place += node.width
            case Text() | Blob():
                length = self.length(node.prefix)  # moves the place as well
                self.place += length
            case Array():
                count = self.length(node.prefix)
                width = fixed_width(node.element)
                if width is not None:
                    self.place += count * width
                    return
                self.skip_elements(node.element, count)
            case Struct():
                if node.presence is not None:
                    there = self.bytes[self.place : self.place + 1] == b"\1"
                    self.place += 1
                    if not there:
                        return
                for slot in node.untagged:
                    if slot.node is not None:
                        self.skip(slot.node)
                if node.flexible:
                    self.skip_tags(self.varint())

    def skip_elements(self, node: Node, count: int) -> None:
        while count and self.place < len(self.bytes):
            self.skip(node)
            count -= 1

    def skip_tags(self, count: int) -> None:
        while count and self.place < len(self.bytes):
            self.varint()
            size = self.varint()
            self.place += size
            count -= 1

    def skip_unknown_tags(self, count: int, last: int, known: Collection[int]) -> tuple[int, int]:
        """Passes over whole unknown tags above ``last``, ``count`` at most, as long as nothing
        is wrong with them; gives their number and the highest."""
        passed = 0
        while passed < count:
            begin = self.place
            tag = self.varint()
            size = self.varint()
            self.place += size
            fits = self.place <= len(self.bytes) and tag <= HIGHEST_TAG
            if not fits or tag <= last or tag in known or self.broken:
                self.place = begin
                break
            last = tag
            passed += 1
        return passed, last

    def length(self, prefix: str) -> int:
        if prefix == VARINT:
            return max(self.varint() - 1, 0)
        width = int(prefix[2:])
        value = int.from_bytes(self.bytes[self.place : self.place + width], "big", signed=True)
        self.place += width
        return max(value, 0)

    def varint(self) -> int:
        """The next varint; 0, and ``broken``, where there is none."""
        value = 0
        for shift in (0, 7, 14, 21, 28):
            if self.place >= len(self.bytes):
                break
            byte = self.bytes[self.place]
            self.place += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        self.broken = True
        return 0
