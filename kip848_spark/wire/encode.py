"""Encodes columns as keys and values: the way back from what `decode` gives.

The same layouts, node by node, all rows at once. What is written is canonical: the shortest
varints, and no tagged field that is at its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.columns import constant, gather
from kip848_spark.wire.concat import (
    Column,
    Matrix,
    Piece,
    Same,
    Varied,
    binary,
    bounds,
    grouped,
    joined,
    spread,
    total_width,
    varint,
    varints,
)
from kip848_spark.wire.decode import Part, RecordPlan
from kip848_spark.wire.faults import Mask, Rows
from kip848_spark.wire.layout import VARINT, Array, Blob, Node, Number, Slot, Struct, Text, Uuid

Columns: TypeAlias = Mapping[str, pa.Array] | pa.StructArray
"""Arrays by column name, as long as each other. A column that is missing has its default."""


class EncodeError(ValueError):
    """A value that the record can't carry; says which field, and the first row that has it."""


def encode_keys(record: RecordPlan, columns: Columns) -> pa.BinaryArray:
    """binary[n]: keys of the type ``record``. Raises EncodeError."""
    return encode_message(record.key, record.key_type, columns)


def encode_values(record: RecordPlan, version: int, columns: Columns) -> pa.BinaryArray:
    """binary[n]: values of one version; null (a tombstone) where a struct is. Raises EncodeError.

    A field that the version lacks must be null or at its default, unless it is ignorable.
    """
    if version not in record.values:
        raise EncodeError(f"{record.kind} has no version {version}")
    return encode_message(record.values[version], version, columns)


def encode_part(part: Part) -> pa.BinaryArray:
    """binary[n]: the values (of a part of keys, the keys) that ``part`` was decoded from, if
    those were canonical."""
    columns = dict(zip((slot.column for slot in part.struct.slots), part.fields, strict=True))
    if part.struct is part.plan.key:
        return encode_keys(part.plan, columns)
    return encode_values(part.plan, part.version, columns)


def encode_message(layout: Struct, number: int, columns: Columns) -> pa.BinaryArray:
    """binary[n]: an int16 (a key's type, or a version) and the fields of ``layout``; null where a
    struct is. Raises EncodeError."""
    there: Mask | None = None
    if isinstance(columns, pa.StructArray) and columns.null_count:
        there = _mask(columns.is_valid())
        columns = columns.filter(pa.array(there))
    count = _count(columns)
    head = Same(number.to_bytes(2, "big", signed=True))
    encoded = joined([head, *_fields(layout, columns, count, "")], count)
    return (
        encoded
        if there is None
        else gather([(np.flatnonzero(there), encoded)], len(there), encoded.type)
    )


def _mask(array: pa.BooleanArray) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


def _count(columns: Columns) -> int:
    if isinstance(columns, pa.StructArray):
        return len(columns)
    lengths = {len(array) for array in columns.values()}
    if len(lengths) != 1:
        raise EncodeError("the columns are not of one length" if lengths else "there is no column")
    return lengths.pop()


# -- structs ---------------------------------------------------------------------------------


def _fields(struct: Struct, columns: Columns, count: int, path: str) -> list[Piece]:
    arrays = _by_name(struct, columns, path)
    pieces: list[Piece] = []
    tagged: list[tuple[Slot, pa.Array]] = []
    for slot in struct.slots:
        array = arrays.get(slot.column)
        if array is not None and array.type == pa.null():
            array = pa.nulls(count, slot.arrow)
        if slot.node is None:
            if array is not None and not slot.ignorable:
                _check_lacking(slot, array, path)
        elif slot.tag is not None:
            if array is not None:
                tagged.append((slot, array))
        else:
            if array is None:
                array = constant(slot.default, count, slot.arrow)
            pieces += _pieces(slot.node, array, path + slot.column)
    if struct.flexible:
        pieces += _tags(tagged, count, path)
    return pieces


def _by_name(struct: Struct, columns: Columns, path: str) -> dict[str, pa.Array]:
    if isinstance(columns, pa.StructArray):
        arrays = {field.name: columns.field(i) for i, field in enumerate(columns.type)}
    else:
        arrays = dict(columns)
    strange = arrays.keys() - {slot.column for slot in struct.slots}
    if strange:
        raise EncodeError(f"there is no field {path}{min(strange)}")
    return {name: _whole(array) for name, array in arrays.items()}


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _check_lacking(slot: Slot, array: pa.Array, path: str) -> None:
    other = np.flatnonzero(_mask(array.is_valid()) & _differs(array, slot.default))
    if len(other):
        raise EncodeError(f"this version has no {path}{slot.column} ({_place(path, other)})")


def _place(path: str, wrong: Rows) -> str:
    """Where the first of ``wrong`` is."""
    return f"{'element' if '[]' in path else 'row'} {wrong[0]}"


def _tags(tagged: list[tuple[Slot, pa.Array]], count: int, path: str) -> list[Piece]:
    entries: list[Piece] = []
    present = np.zeros(count, np.int64)
    for slot, array in sorted(tagged, key=lambda pair: pair[0].tag or 0):
        if slot.node is None or slot.tag is None:
            continue
        there = _differs(array, slot.default)
        present += there
        if there.all():
            entries += _entry(slot.tag, slot.node, array, path + slot.column)
        elif there.any():
            kept = array.filter(pa.array(there))
            entries.append(spread(_entry(slot.tag, slot.node, kept, path + slot.column), there))
    return [varints(present), *entries]


def _entry(tag: int, node: Node, array: pa.Array, path: str) -> list[Piece]:
    """Tag, size and content."""
    content = _pieces(node, array, path)
    width = total_width(content)
    if width is not None:
        return [Same(varint(tag) + varint(width)), *content]
    whole = joined(content, len(array))
    return [Same(varint(tag)), varints(np.diff(bounds(whole))), Varied(whole)]


def _differs(array: pa.Array, default: Any) -> Mask:
    """bool[n]: the rows that are not at the default. Null is another value than the default,
    unless it is the default."""
    if default is None:
        return _mask(array.is_valid())
    if isinstance(default, dict):
        same = _mask(array.is_valid())
        for name, value in default.items():
            if name in array.type.names:
                same = same & ~_differs(array.field(name), value)
        return ~same
    if isinstance(default, list):
        equal = pc.equal(pc.list_value_length(array), len(default))
    else:
        equal = pc.equal(array, pa.scalar(default, array.type))
    return ~_mask(equal.fill_null(False))


# -- values ----------------------------------------------------------------------------------


def _pieces(node: Node, array: pa.Array, path: str) -> list[Piece]:
    """What ``node`` is written as, for each row of ``array``."""
    if array.null_count and not _may_be_null(node):
        null = np.flatnonzero(_mask(array.is_null()))
        raise EncodeError(f"{path} can't be null ({_place(path, null)})")
    match node:
        case Number():
            return [_number(node, array, path)]
        case Uuid():
            content = _cast(array, node.arrow, path).buffers()[1]
            octets = np.frombuffer(content or b"", np.uint8)[array.offset * 16 :]
            return [Matrix(octets[: len(array) * 16].reshape(len(array), 16))]
        case Text() | Blob():
            return _text(node, _cast(array, node.arrow, path), path)
        case Array():
            return _list(node, array, path)
        case Struct():
            return _struct(node, array, path)


def _may_be_null(node: Node) -> bool:
    match node:
        case Text() | Blob() | Array():
            return node.nullable
        case Struct():
            return node.presence is not None
    return False


def _cast(array: pa.Array, type_: pa.DataType, path: str) -> pa.Array:
    if array.type == type_:
        return array
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise EncodeError(f"{path} is {array.type} and not {type_}: {cause}") from cause


def _number(node: Number, array: pa.Array, path: str) -> Column:
    values = _cast(array, node.arrow, path).to_numpy(zero_copy_only=False)
    if node.dtype == ">u2":
        wrong = np.flatnonzero((values < 0) | (values > 0xFFFF))
        if len(wrong):
            what = f"{path} is {values[wrong[0]]}, which takes more than 16 bits"
            raise EncodeError(f"{what} ({_place(path, wrong)})")
    return Column(node.dtype, values)


def _text(node: Text | Blob, array: pa.Array, path: str) -> list[Piece]:
    null: Mask | None = None
    if array.null_count:
        null = _mask(array.is_null())
        array = array.fill_null(b"" if isinstance(node, Blob) else "")
    ends = bounds(array)
    length = np.diff(ends)
    most = int(length.max()) if len(length) else 0
    if most > node.longest:
        place = _place(path, np.flatnonzero(length == most))
        raise EncodeError(f"{path} has {most} bytes, {node.longest} is the limit ({place})")
    content = array.buffers()[2]
    piece: Piece
    if len(length) and most == int(length.min()):
        octets = np.frombuffer(content or b"", np.uint8)[int(ends[0]) : int(ends[-1])]
        piece = Matrix(octets.reshape(len(length), most))
    else:
        piece = Varied(binary(ends, content))
    return [_prefix(node.prefix, length, null), piece]


def _prefix(form: str, length: Rows, null: Mask | None) -> Piece:
    """A length or count: one more where it is a varint, and then 0 for null, else -1."""
    if null is not None:
        length = np.where(null, -1, length)
    if form == VARINT:
        return varints(length + 1)
    return Column(form, length)


def _list(node: Array, array: pa.Array, path: str) -> list[Piece]:
    null = _mask(array.is_null()) if array.null_count else None
    count = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(count, dtype=np.int64)])
    elements = array.flatten()
    inner = _pieces(node.element, elements, f"{path}[]")
    prefix = _prefix(node.prefix, count.astype(np.int64), null)
    return [prefix, grouped(inner, len(elements), offsets)]


def _struct(node: Struct, array: pa.Array, path: str) -> list[Piece]:
    if node.presence is None:
        return _fields(node, array, len(array), f"{path}.")
    there = _mask(array.is_valid())
    absent = 0 if node.presence == VARINT else -1
    marker = Column(">i1", np.where(there, 1, absent).astype(np.int8))
    present = array.filter(pa.array(there))
    inner = _fields(node, present, len(present), f"{path}.")
    return [marker, *inner] if there.all() else [marker, spread(inner, there)]
