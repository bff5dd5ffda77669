"""Walks a layout with a cursor: one Arrow column a field, all rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kip848_spark.wire import columns
from kip848_spark.wire.cursor import Cursor
from kip848_spark.wire.faults import Mask, Reason, Rows
from kip848_spark.wire.layout import UUID, Array, Blob, Node, Number, Slot, Struct, Text, Uuid

LONGEST_STRING = 0x7FFF
"""Bytes; Kafka's own readers refuse a longer string, compact or not."""


def read(cursor: Cursor, node: Node) -> pa.Array:
    """One value of ``node`` a row. Rows that fail are parked and hold anything."""
    match node:
        case Number():
            return columns.numbers(cursor.number(node.dtype), node.arrow)
        case Uuid():
            return columns.uuids(cursor.fixed(Uuid.width))
        case Text():
            return read_text(cursor, node)
        case Blob():
            return _read_blob(cursor, node)
        case Array():
            return _read_array(cursor, node)
        case Struct():
            return (
                _read_nullable_struct(cursor, node) if node.nullable else read_struct(cursor, node)
            )


def read_struct(cursor: Cursor, struct: Struct) -> pa.StructArray:
    """struct[n]: the fields of ``struct``; a field that this version lacks is null."""
    return pa.StructArray.from_arrays(read_fields(cursor, struct), fields=list(struct.arrow))


def read_fields(cursor: Cursor, struct: Struct) -> list[pa.Array]:
    """The columns of ``struct``, in the order of its slots."""
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
        found[slot.column] if slot.column in found else pa.nulls(cursor.count, slot.arrow)
        for slot in struct.slots
    ]


def _fixed_run(slots: tuple[Slot, ...]) -> int:
    """Bytes of fixed width from the first of ``slots`` on."""
    total = 0
    for slot in slots:
        if not isinstance(slot.node, Number | Uuid):
            break
        total += slot.node.width
    return total


def _nulls(cursor: Cursor, length: Rows, nullable: bool, start: Rows) -> Mask | None:
    """The rows that are null; null where that is not allowed is a fault."""
    if not cursor.count or int(length.min()) >= 0:
        return None
    null: Mask = length < 0
    if nullable:
        return null
    cursor.fail(null, Reason.NULL_NOT_ALLOWED, start)
    return None


def read_text(cursor: Cursor, node: Text) -> pa.Array:
    """string[n]."""
    start = cursor.position
    length = cursor.length("varint" if node.compact else ">i2")
    null = _nulls(cursor, length, node.nullable, start)
    length = np.maximum(length, 0)
    if cursor.count and int(length.max()) > LONGEST_STRING:
        cursor.fail(length > LONGEST_STRING, Reason.BAD_LENGTH, start)
    length = _settled(cursor, length)
    text = columns.slices(cursor.data, cursor.position, length, null, pa.string())
    wrong = columns.invalid_utf8(text)
    cursor.skip(length)
    if wrong is not None:
        cursor.fail(wrong, Reason.BAD_UTF8, start)
        text = _blanked(text, wrong)
    return text


def _blanked(text: pa.Array, wrong: Mask) -> pa.Array:
    """Nulls in place of what is not UTF-8, so that the array as a whole is valid."""
    kept = pa.array(np.arange(len(text)), mask=wrong)
    return text.take(kept)


def _read_blob(cursor: Cursor, node: Blob) -> pa.Array:
    start = cursor.position
    length = cursor.length("varint" if node.compact else ">i4")
    null = _nulls(cursor, length, node.nullable, start)
    length = _settled(cursor, np.maximum(length, 0))
    blob = columns.slices(cursor.data, cursor.position, length, null, pa.binary())
    cursor.skip(length)
    return blob


def _settled(cursor: Cursor, length: Rows) -> Rows:
    return length if cursor.parked is None else np.where(cursor.parked, 0, length)


def _read_array(cursor: Cursor, node: Array) -> pa.ListArray:
    start = cursor.position
    count = cursor.length("varint" if node.compact else ">i4")
    null = _nulls(cursor, count, node.nullable, start)
    count = _settled(cursor, np.maximum(count, 0))
    if isinstance(node.element, Number):
        elements, count = _read_numbers(cursor, node.element, count)
    else:
        elements = _read_elements(cursor, node, count)
        cursor.refresh()
    offsets = np.zeros(cursor.count + 1, np.int32)
    np.cumsum(count, out=offsets[1:])
    mask = None if null is None else pa.array(null)
    return pa.ListArray.from_arrays(
        pa.array(offsets), elements, type=pa.list_(node.arrow), mask=mask
    )


def _read_numbers(cursor: Cursor, node: Number, count: Rows) -> tuple[pa.Array, Rows]:
    """The elements of arrays of numbers, row after row; and the counts that were there."""
    size = count * node.width
    position = cursor.position
    short = size > cursor.end - position
    if short.any():
        whole = position + (cursor.end - position) // node.width * node.width
        cursor.fail(short, Reason.TRUNCATED, whole)
        count = _settled(cursor, count)
        size = count * node.width
        position = cursor.position
    total = int(count.sum())
    before = np.cumsum(count) - count
    at = np.arange(total) * node.width + np.repeat(position - before * node.width, count)
    zeros = np.zeros(total, np.int64)
    elements = Cursor(cursor.data, at, at + node.width, zeros, cursor.faults)
    values = elements.number(node.dtype)
    cursor.skip(size)
    return columns.numbers(values, node.arrow), count


def _read_elements(cursor: Cursor, node: Array, count: Rows) -> pa.Array:
    """The elements of arrays of anything else, row after row.

    The first elements of all rows are read at once, then the second ones, and so on: where an
    element ends is not known before it was read. A row that fails keeps its place with whatever
    was read; it is thrown away as a whole later.
    """
    first = np.cumsum(count) - count
    total = int(count.sum())
    chunks: list[pa.Array] = []
    places: list[Rows] = []
    active = np.flatnonzero(count)
    moved = cursor.position.copy()
    index = 0
    while len(active):
        part = Cursor(
            cursor.data, moved[active], cursor.end[active], cursor.rows[active], cursor.faults
        )
        chunks.append(read(part, node.element))
        places.append(first[active] + index)
        moved[active] = part.position
        index += 1
        going = count[active] > index
        if part.parked is not None:
            going &= ~part.parked
        active = active[going]
    cursor.skip(np.where(cursor.faults.reason[cursor.rows] != 0, 0, moved - cursor.position))
    return columns.gather(list(zip(places, chunks, strict=True)), total, node.arrow)


def _read_nullable_struct(cursor: Cursor, struct: Struct) -> pa.StructArray:
    """A struct behind a marker byte: negative for null, else the struct follows."""
    marker = cursor.number(">i1")
    null: Mask = marker < 0
    present = np.flatnonzero(~null)
    part = cursor.select(present)
    fields = read_fields(part, struct)
    moved = np.zeros(cursor.count, np.int64)
    moved[present] = part.position - cursor.position[present]
    cursor.refresh()
    cursor.skip(_settled(cursor, moved))
    spread = [columns.gather([(present, array)], cursor.count, array.type) for array in fields]
    return pa.StructArray.from_arrays(spread, fields=list(struct.arrow), mask=pa.array(null))


# -- tagged fields ---------------------------------------------------------------------------


def _read_tagged(cursor: Cursor, struct: Struct) -> dict[str, pa.Array]:
    """The tagged fields that end a flexible struct: known ones as columns (their default where
    a row lacks them), unknown ones counted and passed over.

    Tags must rise, and a field must fill exactly the size that is written before it.
    """
    known = struct.tagged
    parts: dict[int, list[tuple[Rows, pa.Array]]] = {tag: [] for tag in known}
    at_count = cursor.position
    count = cursor.varint()
    count = _bounded(cursor, count, at_count)
    last = np.full(cursor.count, -1, np.int64)
    index = 0
    while cursor.count and index < int(count.max()):
        rows = np.flatnonzero(count > index)
        part = cursor if len(rows) == cursor.count else cursor.select(rows)
        last[rows] = _read_one_tag(part, known, parts, rows, last[rows])
        if part is not cursor:
            moved = np.zeros(cursor.count, np.int64)
            moved[rows] = part.position - cursor.position[rows]
            cursor.refresh()
            cursor.skip(_settled(cursor, moved))
        count = _settled(cursor, count)
        index += 1
    return {
        slot.column: _with_default(parts[tag], cursor.count, slot) for tag, slot in known.items()
    }


def _bounded(cursor: Cursor, count: Rows, at: Rows) -> Rows:
    """A tagged field takes two bytes at least: more of them than that is `BAD_LENGTH`."""
    if cursor.count and int(count.max()) > 0:
        bad = 2 * count > cursor.end - cursor.position
        if bad.any():
            cursor.fail(bad, Reason.BAD_LENGTH, at)
    return _settled(cursor, count)


def _read_one_tag(
    part: Cursor,
    known: dict[int, Slot],
    parts: dict[int, list[tuple[Rows, pa.Array]]],
    rows: Rows,
    last: Rows,
) -> Rows:
    """Reads the next tagged field of every row of ``part``; returns their tags."""
    start = part.position
    tag = part.varint()
    wrong = tag <= last
    if wrong.any():
        if part.parked is not None:
            wrong &= ~part.parked
        part.fail(wrong, Reason.BAD_TAG, start)
    size_at = part.position
    size = part.varint()
    over = size > part.end - part.position
    if over.any():
        part.fail(over, Reason.BAD_LENGTH, size_at)
    slot = known.get(int(tag[0]))
    if part.parked is None and slot is not None and _all_fill(slot.node, tag, size):
        parts[int(tag[0])].append((rows, read(part, slot.node)))  # type: ignore[arg-type]
        return tag
    size = _settled(part, size)
    alive = np.ones(part.count, bool) if part.parked is None else ~part.parked
    for value in np.unique(tag[alive]):
        of_tag = alive & (tag == value)
        slot = known.get(int(value))
        if slot is None or slot.node is None:
            part.faults.tags[part.rows[of_tag]] += 1
            continue
        which = np.flatnonzero(of_tag)
        inner = part.select(which, end=part.position[which] + size[which])
        parts[int(value)].append((rows[which], read(inner, slot.node)))
        unfilled = inner.end != inner.position
        if inner.parked is not None:
            unfilled &= ~inner.parked
        inner.fail(unfilled, Reason.BAD_TAG, start[which])
    part.refresh()
    part.skip(_settled(part, size))
    return tag


def _all_fill(node: Node | None, tag: Rows, size: Rows) -> bool:
    """True if every row has this tag, and its value the width of the field: the usual case."""
    if not isinstance(node, Number | Uuid):
        return False
    return bool((tag == tag[0]).all() and (size == node.width).all())


def _with_default(parts: list[tuple[Rows, pa.Array]], count: int, slot: Slot) -> pa.Array:
    array = columns.gather(parts, count, slot.arrow)
    if array.null_count == 0:
        return array
    default: Any = slot.default
    if slot.arrow == UUID:
        default = columns.ZERO_UUID
    return array if default is None else array.fill_null(pa.scalar(default, slot.arrow))
