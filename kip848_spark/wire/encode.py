"""Encodes columns as keys and values: the inverse of `decode`.

Layouts are walked node by node, each for all rows at once. The output is canonical: varints have
the fewest bytes possible, and a tagged field at its default is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.columns import constant, scatter
from kip848_spark.wire.concat import (
    ByteColumn,
    ConstantBytes,
    FixedBytes,
    NumberColumn,
    VariableBytes,
    array_offsets,
    binary_array,
    concat_elements,
    concat_rows,
    encode_varint,
    encode_varints,
    expand,
    row_width,
)
from kip848_spark.wire.decode import RecordPlan
from kip848_spark.wire.layout import (
    VARINT,
    ArrayNode,
    BytesNode,
    Node,
    NumberNode,
    Slot,
    StringNode,
    StructNode,
    UuidNode,
)

ColumnInput: TypeAlias = Mapping[str, pa.Array] | pa.StructArray
"""Arrays of equal length by column name. A column that is missing has its default in all rows."""


class EncodeError(ValueError):
    """A value that the record cannot hold. The message names the field and the first such row."""


def encode_keys(record: RecordPlan, columns: ColumnInput) -> pa.BinaryArray:
    """binary[n]: keys of the type that ``record`` describes. Raises EncodeError."""
    return encode_message(record.key, record.key_type, columns)


def encode_values(record: RecordPlan, version: int, columns: ColumnInput) -> pa.BinaryArray:
    """binary[n]: values of one version; null, a tombstone, where a struct of ``columns`` is null.

    A field that the version lacks must be null or at its default, unless it is ignorable. Raises
    EncodeError."""
    if version not in record.values:
        raise EncodeError(f"{record.kind} has no version {version}")
    return encode_message(record.values[version], version, columns)


def encode_message(layout: StructNode, number: int, columns: ColumnInput) -> pa.BinaryArray:
    """binary[n]: an int16, which is a key's type or a version, and the fields of ``layout``; null
    where a struct of ``columns`` is null. Raises EncodeError."""
    there: BoolArray | None = None
    if isinstance(columns, pa.StructArray) and columns.null_count:
        there = _to_mask(columns.is_valid())
        columns = columns.filter(pa.array(there))
    count = _row_count(columns)
    head = ConstantBytes(number.to_bytes(2, "big", signed=True))
    message = concat_rows([head, *_encode_fields(layout, columns, count, "")], count)
    if there is None:
        return message
    return scatter([(np.flatnonzero(there), message)], len(there), message.type)


def _to_mask(array: pa.BooleanArray) -> BoolArray:
    mask: BoolArray = array.to_numpy(zero_copy_only=False)
    return mask


def _row_count(columns: ColumnInput) -> int:
    if isinstance(columns, pa.StructArray):
        return len(columns)
    lengths = {len(array) for array in columns.values()}
    if len(lengths) != 1:
        raise EncodeError("the columns differ in length" if lengths else "there is no column")
    return lengths.pop()


# -- structs ---------------------------------------------------------------------------------


def _encode_fields(
    struct: StructNode, columns: ColumnInput, count: int, path: str
) -> list[ByteColumn]:
    arrays = _arrays_by_name(struct, columns, path)
    encoded: list[ByteColumn] = []
    tagged: list[tuple[Slot, pa.Array]] = []
    for slot in struct.slots:
        array = arrays.get(slot.column)
        if array is not None and array.type == pa.null():
            array = pa.nulls(count, slot.arrow)
        if slot.node is None:
            if array is not None and not slot.ignorable:
                _check_missing_field(slot, array, path)
        elif slot.tag is not None:
            if array is not None:
                tagged.append((slot, array))
        else:
            if array is None:
                array = constant(slot.default, count, slot.arrow)
            encoded += _encode(slot.node, array, path + slot.column)
    if struct.flexible:
        encoded += _encode_tags(tagged, count, path)
    return encoded


def _arrays_by_name(struct: StructNode, columns: ColumnInput, path: str) -> dict[str, pa.Array]:
    if isinstance(columns, pa.StructArray):
        arrays = {field.name: columns.field(i) for i, field in enumerate(columns.type)}
    else:
        arrays = dict(columns)
    unknown = arrays.keys() - {slot.column for slot in struct.slots}
    if unknown:
        raise EncodeError(f"there is no field {path}{min(unknown)}")
    return {name: _combined_chunks(array) for name, array in arrays.items()}


def _combined_chunks(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _check_missing_field(slot: Slot, array: pa.Array, path: str) -> None:
    other = np.flatnonzero(_to_mask(array.is_valid()) & _not_default(array, slot.default))
    if len(other):
        raise EncodeError(f"this version has no {path}{slot.column} ({_location(path, other)})")


def _location(path: str, wrong: Int64Array) -> str:
    """The first of the rows (or elements) ``wrong``, for a message."""
    return f"{'element' if '[]' in path else 'row'} {wrong[0]}"


def _encode_tags(tagged: list[tuple[Slot, pa.Array]], count: int, path: str) -> list[ByteColumn]:
    entries: list[ByteColumn] = []
    present = np.zeros(count, np.int64)
    for slot, array in sorted(tagged, key=lambda pair: pair[0].tag or 0):
        if slot.node is None or slot.tag is None:
            continue
        there = _not_default(array, slot.default)
        present += there
        if there.all():
            entries += _encode_tagged_field(slot.tag, slot.node, array, path + slot.column)
        elif there.any():
            values = array.filter(pa.array(there))
            entries.append(
                expand(_encode_tagged_field(slot.tag, slot.node, values, path + slot.column), there)
            )
    return [encode_varints(present), *entries]


def _encode_tagged_field(tag: int, node: Node, array: pa.Array, path: str) -> list[ByteColumn]:
    """The tag, the size and the content of a tagged field."""
    content = _encode(node, array, path)
    width = row_width(content)
    if width is not None:
        return [ConstantBytes(encode_varint(tag) + encode_varint(width)), *content]
    encoded = concat_rows(content, len(array))
    return [
        ConstantBytes(encode_varint(tag)),
        encode_varints(np.diff(array_offsets(encoded))),
        VariableBytes(encoded),
    ]


def _not_default(array: pa.Array, default: Any) -> BoolArray:
    """bool[n]: the rows that are not at the default. Null equals only the default null."""
    if default is None:
        return _to_mask(array.is_valid())
    if isinstance(default, dict):
        same = _to_mask(array.is_valid())
        for name, value in default.items():
            if name in array.type.names:
                same = same & ~_not_default(array.field(name), value)
        return ~same
    if isinstance(default, list):
        equal = pc.equal(pc.list_value_length(array), len(default))
    else:
        equal = pc.equal(array, pa.scalar(default, array.type))
    return ~_to_mask(equal.fill_null(False))


# -- values ----------------------------------------------------------------------------------


def _encode(node: Node, array: pa.Array, path: str) -> list[ByteColumn]:
    """The encoded values of ``node``, one for each row of ``array``."""
    if array.null_count and not _is_nullable(node):
        null = np.flatnonzero(_to_mask(array.is_null()))
        raise EncodeError(f"{path} can't be null ({_location(path, null)})")
    match node:
        case NumberNode():
            return [_encode_number(node, array, path)]
        case UuidNode():
            content = _cast(array, node.arrow, path).buffers()[1]
            octets = np.frombuffer(content or b"", np.uint8)[array.offset * 16 :]
            return [FixedBytes(octets[: len(array) * 16].reshape(len(array), 16))]
        case StringNode() | BytesNode():
            return _encode_text(node, _cast(array, node.arrow, path), path)
        case ArrayNode():
            return _encode_array(node, array, path)
        case StructNode():
            return _encode_struct(node, array, path)


def _is_nullable(node: Node) -> bool:
    match node:
        case StringNode() | BytesNode() | ArrayNode():
            return node.nullable
        case StructNode():
            return node.presence is not None
    return False


def _cast(array: pa.Array, type_: pa.DataType, path: str) -> pa.Array:
    if array.type == type_:
        return array
    try:
        return array.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise EncodeError(f"{path} is {array.type} and not {type_}: {cause}") from cause


def _encode_number(node: NumberNode, array: pa.Array, path: str) -> NumberColumn:
    values = _cast(array, node.arrow, path).to_numpy(zero_copy_only=False)
    if node.dtype == ">u2":
        wrong = np.flatnonzero((values < 0) | (values > 0xFFFF))
        if len(wrong):
            what = f"{path} is {values[wrong[0]]}, which takes more than 16 bits"
            raise EncodeError(f"{what} ({_location(path, wrong)})")
    return NumberColumn(node.dtype, values)


def _encode_text(node: StringNode | BytesNode, array: pa.Array, path: str) -> list[ByteColumn]:
    null: BoolArray | None = None
    if array.null_count:
        null = _to_mask(array.is_null())
        array = array.fill_null(b"" if isinstance(node, BytesNode) else "")
    ends = array_offsets(array)
    length = np.diff(ends)
    longest = int(length.max()) if len(length) else 0
    if longest > node.longest:
        place = _location(path, np.flatnonzero(length == longest))
        raise EncodeError(f"{path} has {longest} bytes, {node.longest} is the limit ({place})")
    content = array.buffers()[2]
    column: ByteColumn
    if len(length) and longest == int(length.min()):
        octets = np.frombuffer(content or b"", np.uint8)[int(ends[0]) : int(ends[-1])]
        column = FixedBytes(octets.reshape(len(length), longest))
    else:
        column = VariableBytes(binary_array(ends, content))
    return [_encode_length(node.prefix, length, null), column]


def _encode_length(form: str, length: Int64Array, null: BoolArray | None) -> ByteColumn:
    """A length or count: as a varint plus one, with 0 for null; otherwise -1 for null."""
    if null is not None:
        length = np.where(null, -1, length)
    if form == VARINT:
        return encode_varints(length + 1)
    return NumberColumn(form, length)


def _encode_array(node: ArrayNode, array: pa.Array, path: str) -> list[ByteColumn]:
    null = _to_mask(array.is_null()) if array.null_count else None
    count = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(count, dtype=np.int64)])
    elements = array.flatten()
    inner = _encode(node.element, elements, f"{path}[]")
    prefix = _encode_length(node.prefix, count.astype(np.int64), null)
    return [prefix, concat_elements(inner, len(elements), offsets)]


def _encode_struct(node: StructNode, array: pa.Array, path: str) -> list[ByteColumn]:
    if node.presence is None:
        return _encode_fields(node, array, len(array), f"{path}.")
    there = _to_mask(array.is_valid())
    absent = 0 if node.presence == VARINT else -1
    marker = NumberColumn(">i1", np.where(there, 1, absent).astype(np.int8))
    present = array.filter(pa.array(there))
    inner = _encode_fields(node, present, len(present), f"{path}.")
    return [marker, *inner] if there.all() else [marker, expand(inner, there)]
