"""The layout of one version of a message: a tree of nodes, and the Arrow type it decodes to.

A layout is plain data that can be pickled, so Spark's workers receive it from the driver and do not
read the definitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from kip848_spark.wire.definitions import FieldDefinition, MessageDefinition

UUID = pa.binary(16)

LONGEST_STRING = 0x7FFF
"""Bytes. Kafka's readers reject a longer string, whether its length is an int16 or a varint."""

ANY_LENGTH = 0x7FFFFFFF
HIGHEST_TAG = 0x7FFFFFFF

_NUMBERS = {
    "bool": (">i1", pa.bool_()),
    "int8": (">i1", pa.int8()),
    "int16": (">i2", pa.int16()),
    "int32": (">i4", pa.int32()),
    "int64": (">i8", pa.int64()),
    "uint16": (">u2", pa.int32()),  # Spark has no unsigned type
    "float64": (">f8", pa.float64()),
}


@dataclass(frozen=True)
class NumberNode:
    """A big-endian number. ``dtype`` is its NumPy type in the message, such as ``>i4``."""

    dtype: str
    arrow: pa.DataType

    @cached_property
    def width(self) -> int:
        return int(self.dtype[2:])


@dataclass(frozen=True)
class UuidNode:
    """An id of 16 bytes."""

    width = 16
    arrow = UUID


@dataclass(frozen=True)
class StringNode:
    """A string. ``compact``: its length is a varint."""

    nullable: bool
    compact: bool
    longest = LONGEST_STRING
    arrow = pa.string()

    @property
    def prefix(self) -> str:
        """The form of the length."""
        return VARINT if self.compact else ">i2"


@dataclass(frozen=True)
class BytesNode:
    """Bytes. ``compact``: their length is a varint."""

    nullable: bool
    compact: bool
    longest = ANY_LENGTH
    arrow = pa.binary()

    @property
    def prefix(self) -> str:
        return VARINT if self.compact else ">i4"


@dataclass(frozen=True)
class ArrayNode:
    """A count, then the elements. ``arrow`` is the type of the list."""

    element: Node
    nullable: bool
    compact: bool
    arrow: pa.ListType
    longest = ANY_LENGTH

    @property
    def prefix(self) -> str:
        """The form of the count."""
        return VARINT if self.compact else ">i4"


@dataclass(frozen=True)
class Slot:
    """A field of a struct. ``node`` is None if this version lacks the field.

    ``tag`` is None for a field that is always written. ``default`` is the value of a tagged field
    that is left out, as a plain Python value."""

    name: str
    column: str
    node: Node | None
    tag: int | None
    default: Any
    ignorable: bool
    arrow: pa.DataType


@dataclass(frozen=True)
class StructNode:
    """Fields in the order in which they are written. ``flexible``: tagged fields follow.

    ``presence`` is None if the struct cannot be null. Otherwise a marker precedes the fields, in
    the form that ``presence`` names: 1 if the struct is present; if it is null, -1 as an int8, or 0
    as a varint (the latter where the struct is a tagged field)."""

    slots: tuple[Slot, ...]
    flexible: bool
    presence: str | None
    arrow: pa.StructType

    @cached_property
    def untagged(self) -> tuple[Slot, ...]:
        return tuple(s for s in self.slots if s.node is not None and s.tag is None)

    @cached_property
    def tagged(self) -> dict[int, Slot]:
        return {s.tag: s for s in self.slots if s.node is not None and s.tag is not None}


Node = NumberNode | UuidNode | StringNode | BytesNode | ArrayNode | StructNode

VARINT = "varint"
"""The form of a length, count or presence that is written as an unsigned varint. The other forms
are named by their NumPy type."""


def fixed_width(node: Node | None) -> int | None:
    """The number of bytes that every value of ``node`` takes; None if it varies."""
    return node.width if isinstance(node, NumberNode | UuidNode) else None


def message_layout(message: MessageDefinition, version: int) -> StructNode:
    """The layout of one version of ``message``. All versions have the same Arrow type."""
    return _struct(message.fields, version, version in message.flexible, presence=None)


def message_type(message: MessageDefinition) -> pa.StructType:
    """The Arrow struct to which every version of ``message`` decodes: one field a column."""
    return _struct_type(message.fields)


def _struct_type(fields: tuple[FieldDefinition, ...]) -> pa.StructType:
    return pa.struct([pa.field(f.column, _field_type(f)) for f in fields])


def _field_type(definition: FieldDefinition) -> pa.DataType:
    element = _element_type(definition)
    return pa.list_(element) if definition.is_array else element


def _element_type(definition: FieldDefinition) -> pa.DataType:
    name = definition.element_type
    if name in _NUMBERS:
        return _NUMBERS[name][1]
    match name:
        case "string":
            return pa.string()
        case "bytes":
            return pa.binary()
        case "uuid":
            return UUID
    return _struct_type(definition.fields)


def _struct(
    fields: tuple[FieldDefinition, ...], version: int, flexible: bool, presence: str | None
) -> StructNode:
    slots = tuple(
        Slot(
            name=f.json_name,
            column=f.column,
            node=_node(f, version, flexible) if version in f.versions else None,
            tag=f.tag if version in f.tagged else None,
            default=f.default,
            ignorable=f.ignorable,
            arrow=_field_type(f),
        )
        for f in fields
    )
    return StructNode(slots, flexible, presence, _struct_type(fields))


def _node(f: FieldDefinition, version: int, flexible: bool) -> Node:
    nullable = version in f.nullable
    if f.is_array:
        element = _plain(f, version, flexible, nullable=False)
        return ArrayNode(element, nullable, flexible, pa.list_(_element_type(f)))
    return _plain(f, version, flexible, nullable)


def _plain(f: FieldDefinition, version: int, flexible: bool, nullable: bool) -> Node:
    name = f.element_type
    if name in _NUMBERS:
        return NumberNode(*_NUMBERS[name])
    match name:
        case "string":
            return StringNode(nullable, flexible)
        case "bytes":
            return BytesNode(nullable, flexible)
        case "uuid":
            return UuidNode()
    presence = None
    if nullable:
        presence = VARINT if version in f.tagged else ">i1"
    return _struct(f.fields, version, flexible, presence)
