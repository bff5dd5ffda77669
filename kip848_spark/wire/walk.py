"""Walks a layout with a cursor: one Arrow column a field, all rows at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kip848_spark.wire import columns
from kip848_spark.wire.cursor import Cursor
from kip848_spark.wire.faults import Faults, Mask, Reason, Rows
from kip848_spark.wire.layout import (
    HIGHEST_TAG,
    VARINT,
    Array,
    Blob,
    Node,
    Number,
    Slot,
    Struct,
    Text,
    Uuid,
    fixed_width,
)
from kip848_spark.wire.measure import One, element_starts

FEW = 64
"""So many rows and fewer have their unknown tags passed over one after another."""


def read(cursor: Cursor, node: Node) -> pa.Array:
    """One value of ``node`` a row. Rows that fail are parked and hold anything."""
    match node:
        case Number():
            return columns.numbers(cursor.number(node.dtype), node.arrow)
        case Uuid():
            return columns.uuids(cursor.fixed(Uuid.width))
        case Text():
            return _read_text(cursor, node)
        case Blob():
            return _read_blob(cursor, node)
        case Array():
            return _read_array(cursor, node)
        case Struct():
            return _read_struct(cursor, node)


def _read_struct(cursor: Cursor, node: Struct) -> pa.StructArray:
    if node.presence is not None:
        return _read_nullable_struct(cursor, node)
    return pa.StructArray.from_arrays(read_fields(cursor, node), fields=list(node.arrow))


def read_fields(cursor: Cursor, struct: Struct) -> list[pa.Array]:
    """The columns of ``struct``, in the order of its slots; null where this version lacks one."""
    found: dict[str, pa.Array] = {}
    untagged = struct.untagged
    for index, slot in enumerate(untagged):
        node = slot.node
        if isinstance(node, Number):
            values = cursor.number(node.dtype, ahead=_fixed_run(untagged[index:]))
            found[slot.column] = columns.numbers(values, node.arrow)
        elif node is not None:
            found[slot.column] = read(cursor, node)
    if struct.flexible:
        found |= _read_tagged(cursor, struct)
    return [
        found[slot.column] if slot.column in found else columns.nulls(cursor.count, slot.arrow)
        for slot in struct.slots
    ]


def _fixed_run(slots: tuple[Slot, ...]) -> int:
    """Bytes of fixed width from the first of ``slots`` on."""
    total = 0
    for slot in slots:
        width = fixed_width(slot.node)
        if width is None:
            break
        total += width
    return total


def _read_text(cursor: Cursor, node: Text) -> pa.Array:
    length, null = cursor.length(node.prefix, node.nullable, node.longest)
    start = cursor.position
    text = columns.slices(cursor.data, start, length, null, node.arrow)
    wrong = columns.invalid_utf8(text)
    if wrong is not None:
        cursor.fail(wrong, Reason.BAD_UTF8, start)
        text = columns.blanked(text, wrong)
    cursor.skip(length)
    return text


def _read_blob(cursor: Cursor, node: Blob) -> pa.Array:
    length, null = cursor.length(node.prefix, node.nullable)
    blob = columns.slices(cursor.data, cursor.position, length, null, node.arrow)
    cursor.skip(length)
    return blob


def _read_array(cursor: Cursor, node: Array) -> pa.ListArray:
    count, null = cursor.length(node.prefix, node.nullable)
    if fixed_width(node.element) is not None:
        elements, count = _read_fixed_elements(cursor, node.element, count)
    else:
        elements = _read_elements(cursor, node, count)
    return columns.lists(count, elements, null, node.arrow)


def _read_fixed_elements(cursor: Cursor, node: Node, count: Rows) -> tuple[pa.Array, Rows]:
    """The elements of arrays of numbers or ids, row after row; and the counts that were there."""
    width = fixed_width(node) or 0
    size = count * width
    left = cursor.end - cursor.position
    short = size > left
    if short.any():
        whole = cursor.position + left // width * width
        cursor.fail(short, Reason.TRUNCATED, whole)
        count = np.where(short, 0, count)
        size = count * width
    at = element_starts(cursor.data, node, cursor.position, cursor.end, count)
    flat = Cursor(cursor.data, at, at + width, np.arange(len(at)), Faults(0))
    elements = read(flat, node)
    cursor.skip(size)
    return elements, count


def _read_elements(cursor: Cursor, node: Array, count: Rows) -> pa.Array:
    """The elements of arrays of anything else, row after row: all with one walk."""
    owner = np.repeat(np.arange(cursor.count), count)
    if not len(owner):
        return pa.nulls(0, node.arrow.value_type)
    position = cursor.position
    starts = element_starts(cursor.data, node.element, position, cursor.end, count)
    faults = Faults(len(owner))
    flat = Cursor(cursor.data, starts, cursor.end[owner], np.arange(len(owner)), faults)
    elements = read(flat, node.element)
    faults.first_of_each(owner, cursor.rows, cursor.faults)
    last = np.cumsum(count) - 1
    rows = np.flatnonzero(count)
    cursor.move(rows, flat.position[last[rows]])
    return elements


def _read_nullable_struct(cursor: Cursor, struct: Struct) -> pa.StructArray:
    """A struct behind what says whether it is there."""
    start = cursor.position
    if struct.presence == VARINT:
        marker, absent = cursor.varint(), 0
    else:
        marker, absent = cursor.number(str(struct.presence)), -1
    there: Mask = marker == 1
    cursor.fail(~there & (marker != absent), Reason.BAD_PRESENCE, start)
    if cursor.parked is not None:
        there &= ~cursor.parked
    present = np.flatnonzero(there)
    part = cursor.select(present)
    fields = read_fields(part, struct)
    cursor.move(present, part.position)
    spread = [columns.gather([(present, array)], cursor.count, array.type) for array in fields]
    mask = None if there.all() else pa.array(~there)
    return pa.StructArray.from_arrays(spread, fields=list(struct.arrow), mask=mask)


# -- tagged fields ---------------------------------------------------------------------------


def _read_tagged(cursor: Cursor, struct: Struct) -> dict[str, pa.Array]:
    """The tagged fields that end a flexible struct: known ones as columns (their default where
    a row lacks them), unknown ones counted and passed over."""
    known = struct.tagged
    parts: dict[int, list[tuple[Rows, pa.Array]]] = {tag: [] for tag in known}
    start = cursor.position
    left = cursor.varint()
    if cursor.count and int(left.max()):
        cursor.fail(left > cursor.end - cursor.position, Reason.BAD_LENGTH, start)
        last = np.full(cursor.count, -1, np.int64)
        while True:
            going = left > 0
            if cursor.parked is not None:
                going &= ~cursor.parked
            rows = np.flatnonzero(going)
            if not len(rows):
                break
            if len(rows) <= FEW:
                _pass_unknown(cursor, known, rows, left, last)
                rows = rows[left[rows] > 0]
                if not len(rows):
                    continue
            part = cursor if len(rows) == cursor.count else cursor.select(rows)
            last[rows] = _read_one_tag(part, known, parts, rows, last[rows])
            if part is not cursor:
                cursor.move(rows, part.position)
            left[rows] -= 1
    return {
        slot.column: columns.gather(parts[tag], cursor.count, slot.arrow, slot.default)
        for tag, slot in known.items()
    }


def _read_one_tag(
    part: Cursor,
    known: dict[int, Slot],
    parts: dict[int, list[tuple[Rows, pa.Array]]],
    rows: Rows,
    last: Rows,
) -> Rows:
    """Reads the next tagged field of every row of ``part``; returns their tags.

    Tags must rise, and a field must be as long as the size before it says.
    """
    start = part.position
    tag = part.varint()
    part.fail((tag <= last) | (tag > HIGHEST_TAG), Reason.BAD_TAG, start)
    size_at = part.position
    size = part.varint()
    part.fail(size > part.end - part.position, Reason.BAD_LENGTH, size_at)
    skipped = np.ones(part.count, bool) if part.parked is None else ~part.parked
    for number, slot in known.items():
        which = np.flatnonzero(skipped & (tag == number))
        if not len(which) or slot.node is None:
            continue
        inner = part if len(which) == part.count else part.select(which)
        end = inner.position + size[which]
        parts[number].append((rows[which], read(inner, slot.node)))
        inner.fail(inner.position != end, Reason.BAD_TAG, start[which])
        if inner is part:
            return tag
        part.move(which, inner.position)
        skipped[which] = False
    part.faults.tags[part.rows[skipped]] += 1
    part.skip(np.where(skipped, size, 0))
    return tag


def _pass_unknown(
    cursor: Cursor, known: dict[int, Slot], rows: Rows, left: Rows, last: Rows
) -> None:
    """Passes over the unknown tags that a few rows have next, one after another, up to the last
    tag, a known one or something that is wrong; a row may have a million of them."""
    place = cursor.position[rows]
    for index, row in enumerate(rows.tolist()):
        one = One(cursor.data, int(place[index]), int(cursor.end[row]))
        passed, last[row] = one.skip_unknown_tags(int(left[row]), int(last[row]), known)
        left[row] -= passed
        cursor.faults.tags[cursor.rows[row]] += passed
        place[index] = one.at
    cursor.move(rows, place)
