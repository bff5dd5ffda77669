"""A layout as the numbers that `kernel.read` goes by, and as what becomes of the memory it fills.

A message is read into *tables*: the rows themselves, and one for the elements of each array, for
what is there of each nullable struct and for each tagged field of no fixed width. Each has columns,
a buffer or more each; a buffer of offsets says which elements a row has. An operation is a line of
`Word` numbers; those that name a buffer or table are eight times its number, an offset into a list
of addresses, and those that name an operation say where it begins.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire.layout import VARINT, Array, Blob, Node, Number, Slot, Struct, Text, Uuid
from kip848_spark.wire.output_buffers import (
    Bools,
    Fields,
    Fixed,
    Lacking,
    Lists,
    Made,
    Maybe,
    Octets,
)


class Op(IntEnum):
    """What there is to be read."""

    N1 = 0
    N2 = auto()
    U2 = auto()
    N4 = auto()
    N8 = auto()
    N16 = auto()
    TEXT = auto()
    FIXED = auto()
    """An array of numbers or ids."""
    LIST = auto()
    """An array of anything else, or a struct that may be null, as an array of one or none. Its
    element follows, then `END_LIST`."""
    END_LIST = auto()
    TAGS = auto()
    """Lines for the tagged fields that are known follow, then these, each with `END_TAG`."""
    END_TAG = auto()
    DONE = auto()


class Form(IntEnum):
    """How a length, a count or a presence is written."""

    VARINT = 0
    INT16 = auto()
    INT32 = auto()
    PRESENCE = auto()
    VARINT_PRESENCE = auto()


class Word(IntEnum):
    """The numbers of an operation."""

    OP = 0
    TO = auto()
    """The buffer of values or of offsets."""
    ROW = auto()
    """The table that it is in."""
    FORM = auto()
    NULLABLE = auto()
    NULLS = auto()
    """The buffer that says which are null; -8 for none."""
    INTO = auto()
    """The buffer of bytes or elements; of a `LIST` or tag, its table."""
    ROOM = auto()
    """What has to have room for these."""
    WIDTH = auto()
    """Bytes of an element; of tagged fields 0 for none that is fixed; of `TAGS` how many there
    are."""
    NEXT = auto()
    """Where to go on: behind the last element or tag; of `END_LIST` the `LIST`."""
    LEAST = auto()
    """The bytes that an element has at least; of `FIXED` the operation that reads one."""
    UTF8 = auto()
    TAG = auto()
    HEAD = auto()
    LOW = auto()
    HIGH = auto()
    """A tagged field that is not there, as it would be written: its tag and its size, the last
    bytes of ``HEAD``, and the value."""


class State(IntEnum):
    """The numbers of what a program fills in a batch: how far it is, and where everything is.

    Behind them stand the sizes of its rooms, the addresses of its buffers, a place for the row of
    each table, and five for each level of arrays and tags.
    """

    LOOKED_AT = 0
    """Rows of a chunk that were looked at."""
    GOOD = auto()
    """Rows of all chunks that were read without a fault."""
    NEEDED = auto()
    """For want of how much room reading stopped."""
    ROOM = auto()
    """And of which."""
    CODE = auto()
    """The address of the program."""
    PLAIN = auto()
    ROOMS = auto()
    BASES = auto()
    TABLES = auto()
    STACK = auto()
    """With the three before it, the addresses of what stands behind these numbers."""


WORDS = len(Word)
_NUMBERS = {
    ">i1": Op.N1,
    ">i2": Op.N2,
    ">u2": Op.U2,
    ">i4": Op.N4,
    ">i8": Op.N8,
    ">f8": Op.N8,
}
_WIDTHS = {Op.N1: 1, Op.N2: 2, Op.U2: 4, Op.N4: 4, Op.N8: 8, Op.N16: 16}
_FORMS = {VARINT: Form.VARINT, ">i2": Form.INT16, ">i4": Form.INT32}


@dataclass(frozen=True)
class Buffer:
    """``width`` bytes for each unit of room ``room``, and for ``more`` of them."""

    width: int
    room: int
    more: int = 0


@dataclass(frozen=True)
class Program:
    """``code`` for the kernels, the buffers it fills, and what becomes of them. Buffer 0 is for the
    numbers of the rows that were read, room 0 that for the rows; ``least`` is how many bytes at
    least make a unit of each room."""

    code: npt.NDArray[np.int64]
    buffers: tuple[Buffer, ...]
    least: tuple[int, ...]
    depth: int
    fields: Fields
    begun: tuple[int, ...]
    """Which buffers are offsets."""
    plain: bool
    """Whether it has but numbers, ids, strings and bytes, and tagged numbers and ids."""
    rates: list[float]
    """The room that a row took lately, and of room 0 what part of all rows these were: how much
    is made of each at first."""

    @classmethod
    def of(cls, layout: Struct) -> Program:
        """How messages of ``layout`` are read."""
        compiler = _Compiler()
        fields = compiler.struct(layout, 0)
        compiler.emit(Op.DONE)
        code = [word for line in compiler.code for word in line]
        return cls(
            np.array(code, np.int64),
            tuple(compiler.buffers),
            tuple(compiler.least),
            compiler.deepest,
            fields,
            tuple(number for number, each in enumerate(compiler.buffers) if each.more),
            compiler.plain,
            [0.1, *[2.0] * (len(compiler.least) - 1)],
        )


@dataclass
class _Compiler:
    code: list[list[int]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=lambda: [Buffer(8, 0)])
    least: list[int] = field(default_factory=lambda: [1])
    depth: int = 0
    deepest: int = 1
    plain: bool = True

    def emit(self, op: Op, **words: int) -> list[int]:
        line = [0] * WORDS
        line[Word.OP] = op
        line[Word.NULLS] = -8
        for name, value in words.items():
            line[Word[name.upper()]] = value
        self.code.append(line)
        return line

    @property
    def here(self) -> int:
        """Where the next operation begins, in bytes."""
        return 8 * WORDS * len(self.code)

    def buffer(self, width: int, room: int, more: int = 0) -> int:
        self.buffers.append(Buffer(width, room, more))
        return len(self.buffers) - 1

    def room(self, least: int) -> int:
        self.least.append(least)
        return len(self.least) - 1

    # -- structs -------------------------------------------------------------------------------

    def struct(self, layout: Struct, table: int) -> Fields:
        """The fields of a struct that is there."""
        made: dict[str, Made] = {}
        for slot in layout.untagged:
            if slot.node is not None:
                made[slot.column] = self.node(slot.node, table)
        if layout.flexible:
            made |= self._tags(layout.tagged, table)
        fields = tuple(made.get(slot.column) or Lacking(slot.arrow) for slot in layout.slots)
        return Fields(list(layout.arrow), fields)

    def node(self, node: Node, table: int) -> Made:
        match node:
            case Number() | Uuid():
                op = _op(node)
                buffer = self.buffer(_WIDTHS[op], table)
                self.emit(op, to=8 * buffer, row=8 * table)
                return Bools(buffer) if node.arrow == pa.bool_() else Fixed(node.arrow, buffer)
            case Text() | Blob():
                return self._text(node, table)
            case Array():
                return self._array(node, table)
            case Struct():
                return (
                    self.struct(node, table) if node.presence is None else self._maybe(node, table)
                )

    def _text(self, node: Text | Blob, table: int) -> Octets:
        room = self.room(1)
        offsets, octets = self.buffer(4, table, 1), self.buffer(1, room)
        nulls = self.buffer(1, table) if node.nullable else -1
        self.emit(
            Op.TEXT, to=8 * offsets, row=8 * table, form=_FORMS[node.prefix],
            nullable=node.nullable, nulls=8 * nulls, into=8 * octets, room=8 * room,
            utf8=isinstance(node, Text),
        )  # fmt: skip
        return Octets(node.arrow, offsets, octets, nulls, room)

    def _array(self, node: Array, table: int) -> Lists:
        self.plain = False
        offsets = self.buffer(4, table, 1)
        nulls = self.buffer(1, table) if node.nullable else -1
        words = {
            "to": 8 * offsets, "row": 8 * table, "form": _FORMS[node.prefix],
            "nullable": node.nullable, "nulls": 8 * nulls,
        }  # fmt: skip
        if isinstance(node.element, Number | Uuid):
            op = _op(node.element)
            room = self.room(node.element.width)
            into = self.buffer(_WIDTHS[op], room)
            self.emit(
                Op.FIXED, into=8 * into, room=8 * room, width=node.element.width, least=op, **words
            )
            arrow = node.element.arrow
            element = Bools(into) if arrow == pa.bool_() else Fixed(arrow, into)
            return Lists(node.arrow, offsets, nulls, room, element)
        room, made = self._elements(node.element, words)
        return Lists(node.arrow, offsets, nulls, room, made)

    def _maybe(self, node: Struct, table: int) -> Maybe:
        """A struct behind what says whether it is there."""
        self.plain = False
        offsets = self.buffer(4, table, 1)
        form = Form.VARINT_PRESENCE if node.presence == VARINT else Form.PRESENCE
        words = {"to": 8 * offsets, "row": 8 * table, "form": form, "nullable": 1}
        bare = Struct(node.slots, node.flexible, None, node.arrow)
        room, made = self._elements(bare, words)
        return Maybe(node.arrow, offsets, room, made, None)

    def _elements(self, node: Node, words: dict[str, int]) -> tuple[int, Made]:
        least = max(1, _least(node))
        room = self.room(least)
        at = self.here
        line = self.emit(Op.LIST, into=8 * room, room=8 * room, least=least, **words)
        self._enter()
        made = self.node(node, room)
        self.depth -= 1
        self.emit(Op.END_LIST, next=at)
        line[Word.NEXT] = self.here
        return room, made

    def _enter(self) -> None:
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)

    # -- tagged fields -------------------------------------------------------------------------

    def _tags(self, known: dict[int, Slot], table: int) -> dict[str, Made]:
        made: dict[str, Made] = {}
        head = self.emit(Op.TAGS, row=8 * table, width=len(known))
        lines = {tag: self.emit(Op.TAGS, row=8 * table, tag=tag) for tag in known}
        self._enter()
        for tag, slot in known.items():
            assert slot.node is not None
            line = lines[tag]
            line[Word.NEXT] = self.here
            if isinstance(slot.node, Number | Uuid):
                value = self.node(slot.node, table)
                assert isinstance(value, Fixed | Bools)
                made[slot.column] = value
                line[Word.TO] = 8 * value.buffer
                line[Word.WIDTH] = self.buffers[value.buffer].width
                line[Word.HEAD : Word.HIGH + 1] = _written(tag, slot.node, slot.default)
                self.plain &= len(known) == 1 and tag < 0x80
            else:
                self.plain = False
                offsets, room = self.buffer(4, table, 1), self.room(2)
                line[Word.TO], line[Word.INTO], line[Word.ROOM] = 8 * offsets, 8 * room, 8 * room
                element = self.node(slot.node, room)
                made[slot.column] = Maybe(slot.arrow, offsets, room, element, slot.default)
            self.emit(Op.END_TAG)
        self.depth -= 1
        head[Word.NEXT] = self.here
        return made


def _op(node: Number | Uuid) -> Op:
    """How one is read."""
    return _NUMBERS[node.dtype] if isinstance(node, Number) else Op.N16


def _written(tag: int, node: Number | Uuid, value: Any) -> tuple[int, ...]:
    """`Word.HEAD` and what follows."""
    octets = value if isinstance(node, Uuid) else np.array(value, node.dtype).tobytes()
    return struct.unpack(
        "<qqq", bytes([*[0] * 6, tag & 0x7F, len(octets), *octets]).ljust(24, b"\0")
    )


def _least(node: Node) -> int:
    """The bytes that a value of ``node`` has at least."""
    match node:
        case Number() | Uuid():
            return node.width
        case Text() | Blob() | Array():
            return 1 if node.compact else int(node.prefix[2:])
        case Struct():
            if node.presence is not None:
                return 1
            return node.flexible + sum(_least(s.node) for s in node.untagged if s.node is not None)
