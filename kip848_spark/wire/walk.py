"""Walks a layout with a cursor: one Arrow column a field, all rows at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kip848_spark.wire import columns
from kip848_spark.wire.cursor import Block, Cursor
from kip848_spark.wire.faults import Mask, Reason, Rows, rows_where
from kip848_spark.wire.layout import (
    HIGHEST_TAG,
    VARINT,
    Array,
    Blob,
    Node,
    Number,
    Run,
    Slot,
    Struct,
    Text,
    Uuid,
)
from kip848_spark.wire.measure import One, element_starts
from kip848_spark.wire.texts import Lazy, Texts

FEW = 64
"""So many rows and fewer have their unknown tags passed over one after another."""

AT_ONCE = 1 << 17
"""So many elements of arrays are read at once."""

Found = list[tuple[Rows, Lazy]]
"""What some rows have."""


def read_message(cursor: Cursor, struct: Struct) -> list[pa.Array]:
    """The columns of ``struct``, in the order of its slots; null where this version lacks one.

    The message must end where the row does. Rows that fail hold anything.
    """
    walk = Walk(cursor)
    fields = walk.fields(cursor, struct)
    cursor.finish()
    return walk.made(fields)


class Walk:
    """One walk over rows, and the strings that are met on it."""

    def __init__(self, cursor: Cursor) -> None:
        self.faults = cursor.faults
        self.texts = Texts(cursor.data)
        self.blobs = Texts(cursor.data)

    def made(self, fields: list[Lazy]) -> list[pa.Array]:
        """The columns, now that the walk is over."""
        self.texts.settle(self.faults)
        self.blobs.settle()
        return [field() for field in fields]

    def fields(self, cursor: Cursor, struct: Struct) -> list[Lazy]:
        found: dict[str, Lazy] = {}
        for step in struct.steps:
            if isinstance(step, Run):
                block = cursor.run(step)
                for slot, offset in zip(step.slots, step.offsets, strict=False):
                    found[slot.column] = _fixed(block, offset, slot.node)
            elif step.node is not None:
                found[step.column] = self.read(cursor, step.node)
        if struct.flexible:
            found |= self._tagged(cursor, struct)
        count = cursor.count
        return [found.get(slot.column) or _lacking(count, slot) for slot in struct.slots]

    def read(self, cursor: Cursor, node: Node) -> Lazy:
        """One value of ``node`` a row."""
        match node:
            case Number() | Uuid():
                return _fixed(cursor.run(_run_of(node)), 0, node)
            case Text():
                return self._text(cursor, node, self.texts)
            case Blob():
                return self._text(cursor, node, self.blobs)
            case Array():
                return self._array(cursor, node)
            case Struct():
                return self._struct(cursor, node)

    def _text(self, cursor: Cursor, node: Text | Blob, into: Texts) -> Lazy:
        start = cursor.at
        length, null = cursor.length(node.prefix, node.nullable, node.longest)
        made = into.add(cursor, start, length, null, node.arrow)
        cursor.skip(length)
        return made

    def _struct(self, cursor: Cursor, node: Struct) -> Lazy:
        if node.presence is not None:
            return self._nullable_struct(cursor, node)
        fields = self.fields(cursor, node)
        return lambda: pa.StructArray.from_arrays(
            [field() for field in fields], fields=list(node.arrow)
        )

    def _nullable_struct(self, cursor: Cursor, node: Struct) -> Lazy:
        """A struct behind what says whether it is there."""
        start = cursor.at
        if node.presence == VARINT:
            marker, absent = cursor.varint(), 0
        else:
            marker, absent = cursor.number(str(node.presence)), -1
        there: Mask = marker == 1
        cursor.fail(~there & (marker != absent), Reason.BAD_PRESENCE, start)
        there &= cursor.alive()
        present = rows_where(there)
        part = cursor.select(present)
        fields = self.fields(part, node)
        cursor.follow(present, part.at, part.failed(present))
        count = cursor.count

        def made() -> pa.Array:
            spread = [
                columns.gather([(present, field())], count, arrow.type)
                for field, arrow in zip(fields, node.arrow, strict=True)
            ]
            mask = None if len(present) == count else pa.array(~there)
            return pa.StructArray.from_arrays(spread, fields=list(node.arrow), mask=mask)

        return made

    # -- arrays ------------------------------------------------------------------------------

    def _array(self, cursor: Cursor, node: Array) -> Lazy:
        count, null = cursor.length(node.prefix, node.nullable)
        if isinstance(node.element, Number | Uuid):
            elements, count = self._fixed_elements(cursor, node.element, count)
        else:
            elements = self._elements(cursor, node, count)
        return lambda: columns.lists(count, elements(), null, node.arrow)

    def _fixed_elements(
        self, cursor: Cursor, node: Number | Uuid, count: Rows
    ) -> tuple[Lazy, Rows]:
        """The elements of arrays of numbers or ids, row after row, which are taken over as the
        bytes that they are; and the counts that were there."""
        width = node.width
        size = count * width
        left = cursor.end - cursor.at
        short = size > left
        if np.count_nonzero(short):
            cursor.fail(short, Reason.TRUNCATED, cursor.at + left // width * width)
            count = np.where(short, 0, count)
            size = count * width
        octets = self.blobs.add(cursor, cursor.at, size, None, pa.binary())
        cursor.skip(size)

        def elements() -> pa.Array:
            return _fixed(columns.content(octets()).view(f"V{width}"), 0, node)()

        return elements, count

    def _elements(self, cursor: Cursor, node: Array, count: Rows) -> Lazy:
        """The elements of arrays of anything else, row after row: all with one walk."""
        most = int(count.max()) if cursor.count else 0
        if not most:
            return lambda: columns.nulls(0, node.arrow.value_type)
        if most == 1 and cursor.parked is None and count.min() == 1:
            return self.read(cursor, node.element)
        place = element_starts(cursor.data, node.element, cursor.at, cursor.end, count)
        ends = count.cumsum()
        if len(place) <= AT_ONCE:
            owner = np.arange(cursor.count).repeat(count)
            elements, place, failed = self._flat(cursor, node.element, place, owner)
        else:
            elements, failed = self._pieces(cursor, node.element, place, ends)
        rows = rows_where(count)
        cursor.follow(rows, place[ends[rows] - 1], failed)
        return elements

    def _flat(
        self, cursor: Cursor, node: Node, place: Rows, owner: Rows
    ) -> tuple[Lazy, Rows, Rows]:
        """The elements that begin at ``place``, each in the row ``owner`` says; where they end,
        and the rows in which one failed."""
        flat = Cursor(cursor.data, place, cursor.end[owner], cursor.rows[owner], cursor.faults)
        elements = self.read(flat, node)
        return elements, flat.at, flat.failed(owner)

    def _pieces(self, cursor: Cursor, node: Node, place: Rows, ends: Rows) -> tuple[Lazy, Rows]:
        """So many elements that they are made at once, some at a time: what a walk remembers of
        an element is more than its column. ``place`` becomes where each one ends."""
        made: list[pa.Array] = []
        failed: list[Rows] = []
        for first in range(0, len(place), AT_ONCE):
            some = place[first : first + AT_ONCE]
            owner = np.searchsorted(ends, np.arange(first, first + len(some)), side="right")
            walk = Walk(cursor)
            elements, end, lost = walk._flat(cursor, node, some, owner)
            made += walk.made([elements])
            some[:] = end
            failed.append(np.unique(lost))
        return lambda: pa.concat_arrays(made), np.concatenate(failed)

    # -- tagged fields -----------------------------------------------------------------------

    def _tagged(self, cursor: Cursor, struct: Struct) -> dict[str, Lazy]:
        """The tagged fields that end a flexible struct: known ones as columns (their default
        where a row lacks them), unknown ones counted and passed over."""
        known = struct.tagged
        found: dict[int, Found] = {tag: [] for tag in known}
        start = cursor.at
        left = cursor.varint()
        if np.count_nonzero(left):
            cursor.fail(2 * left > cursor.end - cursor.at, Reason.BAD_LENGTH, start)
            last = np.full(cursor.count, -1, np.int64)
            self._tags(cursor, known, found, np.arange(cursor.count), left, last)
        count = cursor.count
        return {slot.column: _gathered(found[tag], count, slot) for tag, slot in known.items()}

    def _tags(
        self,
        cursor: Cursor,
        known: dict[int, Slot],
        found: dict[int, Found],
        owner: Rows,
        left: Rows,
        last: Rows,
    ) -> None:
        """Reads the ``left`` tagged fields that each row has next; ``last`` is the tag before.
        ``owner`` says whose in ``found`` they are.

        Where few rows go on they are taken by themselves, so that one with a million tags does
        not make all the others be looked at a million times.
        """
        while True:
            rows = rows_where(cursor.clear(left))
            if not len(rows):
                return
            if 2 * len(rows) < cursor.count:
                part = cursor.select(rows)
                self._tags(part, known, found, owner[rows], left[rows], last[rows])
                cursor.follow(rows, part.at, part.failed(rows))
                return
            if len(rows) <= FEW:
                _pass_unknown(cursor, known, rows, left, last)
                rows = rows[left[rows] > 0]
            part = cursor if len(rows) == cursor.count else cursor.select(rows)
            last[rows] = self._one_tag(part, known, found, owner[rows], last[rows])
            if part is not cursor:
                cursor.follow(rows, part.at, part.failed(rows))
            left[rows] -= 1

    def _one_tag(
        self,
        part: Cursor,
        known: dict[int, Slot],
        found: dict[int, Found],
        rows: Rows,
        last: Rows,
    ) -> Rows:
        """Reads the next tagged field of every row of ``part``; returns their tags.

        Tags must rise, and a field must be as long as the size before it says.
        """
        start = part.at
        tag = part.varint()
        bad = (tag <= last) | (tag > HIGHEST_TAG)
        if np.count_nonzero(bad):
            part.fail(bad, Reason.BAD_TAG, start)
        size_at = part.at
        size = part.varint()
        over = size > part.end - part.at
        if np.count_nonzero(over):
            part.fail(over, Reason.BAD_LENGTH, size_at)
        skipped = part.alive()
        begin = part.at
        for number, slot in known.items():
            which = rows_where(skipped & (tag == number))
            if not len(which) or slot.node is None:
                continue
            inner = Cursor(
                part.data, begin[which], begin[which] + size[which], part.rows[which], part.faults
            )
            found[number].append((rows[which], self.read(inner, slot.node)))
            unlike = inner.at != inner.end
            if np.count_nonzero(unlike):
                inner.fail(unlike, Reason.BAD_TAG, start[which], inner.at)
            part.follow(which, inner.at, inner.failed(which))
            skipped[which] = False
        if np.count_nonzero(skipped):
            part.faults.count_tags(part.rows[skipped])
            part.skip(np.where(skipped, size, 0))
        return tag


def _fixed(block: Block, offset: int, node: Node | None) -> Lazy:
    """A field of fixed width that stands at ``offset`` in each row's block."""
    if isinstance(node, Number):
        number = node

        def numbers() -> pa.Array:
            return columns.numbers(columns.strided(block, offset, number.dtype), number.arrow)

        return numbers
    return lambda: columns.uuids(columns.strided(block, offset, "V16"))


def _run_of(node: Number | Uuid) -> Run:
    return Run((Slot("", "", node, None, None, False, node.arrow),))


def _lacking(count: int, slot: Slot) -> Lazy:
    return lambda: columns.nulls(count, slot.arrow)


def _gathered(found: Found, count: int, slot: Slot) -> Lazy:
    def made() -> pa.Array:
        parts = [(rows, field()) for rows, field in found]
        return columns.gather(parts, count, slot.arrow, slot.default)

    return made


def _pass_unknown(
    cursor: Cursor, known: dict[int, Slot], rows: Rows, left: Rows, last: Rows
) -> None:
    """Passes over the unknown tags that a few rows have next, one after another, up to the last
    tag, a known one or something that is wrong; a row may have a million of them."""
    place = cursor.at[rows]
    for index, row in enumerate(rows.tolist()):
        one = One(cursor.data, int(place[index]), int(cursor.end[row]))
        passed, last[row] = one.skip_unknown_tags(int(left[row]), int(last[row]), known)
        left[row] -= passed
        cursor.faults.tags[cursor.rows[row]] += passed
        place[index] = one.at
    cursor.at = cursor.at.copy()
    cursor.at[rows] = place
