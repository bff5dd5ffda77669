"""Compiles a layout to a program: the integers that the kernels execute, and the description of the
buffers that they fill.

A program reads messages into *tables*. The rows of table 0 are the messages; every array, nullable
struct and tagged field of variable width has a table of its own for its elements. A table's column
consists of one or more buffers, and a buffer of offsets maps the rows of a table to the elements in
another one. An operation is a line of `OpWord` integers. Those that name a buffer, a table or a
capacity hold eight times its number, the offset of its entry in a list of addresses or sizes; those
that name an operation hold its offset in bytes from the start of the program.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Any

import numpy as np
import pyarrow as pa

from kip848_spark.wire.array_types import Int64Array
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
from kip848_spark.wire.output_buffers import (
    ArrayBuilder,
    BoolBuilder,
    BytesBuilder,
    ListBuilder,
    NullBuilder,
    NumberBuilder,
    OptionalBuilder,
    StructBuilder,
)


class Op(IntEnum):
    """What an operation reads. ``N1`` to ``N16`` are numbers and ids of so many bytes, ``U2`` is an
    unsigned 16-bit number."""

    N1 = 0
    N2 = auto()
    U2 = auto()
    N4 = auto()
    N8 = auto()
    N16 = auto()
    TEXT = auto()
    """A string or bytes."""
    FIXED = auto()
    """An array of numbers or ids."""
    LIST = auto()
    """Any other array, or a nullable struct, which is read as an array of one element or none. The
    operations of the element follow, then `END_LIST`."""
    END_LIST = auto()
    TAGS = auto()
    """The tagged fields. A line for each known tag follows, then the operations of each of these
    fields, which end with `END_TAG`."""
    END_TAG = auto()
    DONE = auto()


class Form(IntEnum):
    """How a length, a count or the presence of a struct is written."""

    VARINT = 0
    INT16 = auto()
    INT32 = auto()
    PRESENCE = auto()
    VARINT_PRESENCE = auto()


class OpWord(IntEnum):
    """The integers of an operation."""

    OP = 0
    TO = auto()
    """The buffer of the values, or of the offsets."""
    ROW = auto()
    """The table that the value is in."""
    FORM = auto()
    NULLABLE = auto()
    NULLS = auto()
    """The buffer with a byte for each value, 1 for null; -8 for none."""
    INTO = auto()
    """The buffer of the bytes or elements; of `LIST` and of a tag, the table of the elements."""
    CAPACITY = auto()
    """The capacity that limits them."""
    WIDTH = auto()
    """Bytes of an element. Of a tagged field: 0 if its width varies. Of `TAGS`: how many tags are
    known."""
    NEXT = auto()
    """The operation after the last element or tag; of `END_LIST`, its `LIST`."""
    MIN_BYTES = auto()
    """The least number of bytes that an element takes; of `FIXED`, the operation that reads one."""
    UTF8 = auto()
    """1 if the bytes must be UTF-8."""
    TAG = auto()
    HEAD = auto()
    LOW = auto()
    HIGH = auto()
    """The default of a tagged number or id, encoded as if it were written: its tag and its size are
    the last two bytes of ``HEAD``, the value follows in ``LOW`` and ``HIGH``."""


class StateWord(IntEnum):
    """The integers that describe the progress of a program in a batch, and where its memory is.

    After them, in the same array: the sizes of the capacities, the addresses of the buffers, the
    current row of each table, and five integers for each level of nested arrays and tags.
    """

    ROWS_SEEN = 0
    """Rows of the current chunk that were processed, with or without a fault."""
    ROWS_READ = auto()
    """Rows of all chunks that were read without a fault."""
    NEEDED = auto()
    """The size that the exhausted capacity must have at least."""
    EXHAUSTED = auto()
    """The capacity that was too small, where reading was suspended."""
    CODE = auto()
    """The address of the program."""
    PLAIN = auto()
    """`Program.plain`."""
    CAPACITIES = auto()
    BASES = auto()
    TABLES = auto()
    STACK = auto()
    """This one and the three before: the addresses of the four parts that follow these words."""


BOOL = pa.bool_()
WORDS = len(OpWord)
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
class BufferSpec:
    """A buffer of ``width`` bytes for each unit of the capacity numbered ``capacity``, and for
    ``extra`` units more."""

    width: int
    capacity: int
    extra: int = 0


@dataclass(frozen=True)
class Program:
    """How the messages of one layout are read.

    A *capacity* says how many rows, elements or bytes some buffers can hold; capacity 0 is that of
    the rows. Buffer 0 receives the number of each row that was read.
    """

    code: Int64Array
    """The operations, `WORDS` integers each."""
    buffers: tuple[BufferSpec, ...]
    min_bytes: tuple[int, ...]
    """For each capacity, the least number of bytes of a message that fill one unit of it."""
    depth: int
    """The deepest nesting of arrays and tags."""
    fields: StructBuilder
    offset_buffers: tuple[int, ...]
    """The buffers that hold offsets."""
    plain: bool
    """Whether the layout has nothing but numbers, ids, strings and bytes, and at most one tagged
    field, of fixed width: `blocks` reads such messages."""
    usage: list[float]
    """For each capacity, the units that a row took in the last batch; for capacity 0, the share of
    the batch's rows that this program read. The first buffers of the next batch are allocated
    accordingly."""

    @classmethod
    def of(cls, layout: StructNode) -> Program:
        """Compiles ``layout``, the layout of a whole message after its leading int16."""
        compiler = _Compiler()
        fields = compiler.struct(layout, 0)
        compiler.emit(Op.DONE)
        code = [word for line in compiler.code for word in line]
        return cls(
            np.array(code, np.int64),
            tuple(compiler.buffers),
            tuple(compiler.min_bytes),
            compiler.max_depth,
            fields,
            tuple(number for number, each in enumerate(compiler.buffers) if each.extra),
            compiler.plain,
            [0.1, *[2.0] * (len(compiler.min_bytes) - 1)],
        )


@dataclass
class _Compiler:
    code: list[list[int]] = field(default_factory=list)
    buffers: list[BufferSpec] = field(default_factory=lambda: [BufferSpec(8, 0)])
    min_bytes: list[int] = field(default_factory=lambda: [1])
    depth: int = 0
    max_depth: int = 1
    plain: bool = True

    def emit(self, op: Op, **words: int) -> list[int]:
        """Appends an operation; ``words`` are `OpWord` names in lower case."""
        line = [0] * WORDS
        line[OpWord.OP] = op
        line[OpWord.NULLS] = -8
        for name, value in words.items():
            line[OpWord[name.upper()]] = value
        self.code.append(line)
        return line

    @property
    def position(self) -> int:
        """Offset of the next operation, in bytes."""
        return 8 * WORDS * len(self.code)

    def new_buffer(self, width: int, capacity: int, extra: int = 0) -> int:
        self.buffers.append(BufferSpec(width, capacity, extra))
        return len(self.buffers) - 1

    def new_capacity(self, min_bytes: int) -> int:
        """A new capacity, or a new table with the capacity of its rows: both have one number."""
        self.min_bytes.append(min_bytes)
        return len(self.min_bytes) - 1

    # -- structs -------------------------------------------------------------------------------

    def struct(self, layout: StructNode, table: int) -> StructBuilder:
        """Emits the fields of a struct that is not null."""
        builders: dict[str, ArrayBuilder] = {}
        for slot in layout.untagged:
            if slot.node is not None:
                builders[slot.column] = self.node(slot.node, table)
        if layout.flexible:
            builders |= self._tags(layout.tagged, table)
        fields = tuple(
            builders.get(slot.column) or NullBuilder(slot.arrow) for slot in layout.slots
        )
        return StructBuilder(list(layout.arrow), fields)

    def node(self, node: Node, table: int) -> ArrayBuilder:
        """Emits one value."""
        match node:
            case NumberNode() | UuidNode():
                return self._number(node, table)
            case StringNode() | BytesNode():
                return self._text(node, table)
            case ArrayNode():
                return self._array(node, table)
            case StructNode(presence=None):
                return self.struct(node, table)
            case StructNode():
                return self._optional(node, table)

    def _number(self, node: NumberNode | UuidNode, table: int) -> NumberBuilder | BoolBuilder:
        op = _op(node)
        buffer = self.new_buffer(_WIDTHS[op], table)
        self.emit(op, to=8 * buffer, row=8 * table)
        return BoolBuilder(buffer) if node.arrow == BOOL else NumberBuilder(node.arrow, buffer)

    def _text(self, node: StringNode | BytesNode, table: int) -> BytesBuilder:
        capacity = self.new_capacity(1)
        offsets, octets = self.new_buffer(4, table, 1), self.new_buffer(1, capacity)
        nulls = self.new_buffer(1, table) if node.nullable else -1
        self.emit(
            Op.TEXT, to=8 * offsets, row=8 * table, form=_FORMS[node.prefix],
            nullable=node.nullable, nulls=8 * nulls, into=8 * octets, capacity=8 * capacity,
            utf8=isinstance(node, StringNode),
        )  # fmt: skip
        return BytesBuilder(node.arrow, offsets, octets, nulls, capacity)

    def _array(self, node: ArrayNode, table: int) -> ListBuilder:
        self.plain = False
        offsets = self.new_buffer(4, table, 1)
        nulls = self.new_buffer(1, table) if node.nullable else -1
        words = {
            "to": 8 * offsets, "row": 8 * table, "form": _FORMS[node.prefix],
            "nullable": node.nullable, "nulls": 8 * nulls,
        }  # fmt: skip
        if isinstance(node.element, NumberNode | UuidNode):
            op, width = _op(node.element), node.element.width
            capacity = self.new_capacity(width)
            into = self.new_buffer(_WIDTHS[op], capacity)
            words |= {"into": 8 * into, "capacity": 8 * capacity}
            self.emit(Op.FIXED, width=width, min_bytes=op, **words)
            arrow = node.element.arrow
            element = BoolBuilder(into) if arrow == BOOL else NumberBuilder(arrow, into)
            return ListBuilder(node.arrow, offsets, nulls, capacity, element)
        elements, builder = self._elements(node.element, words)
        return ListBuilder(node.arrow, offsets, nulls, elements, builder)

    def _optional(self, node: StructNode, table: int) -> OptionalBuilder:
        """Emits a nullable struct: its presence, then its fields."""
        self.plain = False
        offsets = self.new_buffer(4, table, 1)
        form = Form.VARINT_PRESENCE if node.presence == VARINT else Form.PRESENCE
        words = {"to": 8 * offsets, "row": 8 * table, "form": form, "nullable": 1}
        not_null = StructNode(node.slots, node.flexible, None, node.arrow)
        elements, builder = self._elements(not_null, words)
        return OptionalBuilder(node.arrow, offsets, elements, builder, None)

    def _elements(self, node: Node, words: dict[str, int]) -> tuple[int, ArrayBuilder]:
        """Emits the elements of an array; returns their table."""
        min_bytes = max(1, _min_width(node))
        table = self.new_capacity(min_bytes)
        start = self.position
        line = self.emit(Op.LIST, into=8 * table, capacity=8 * table, min_bytes=min_bytes, **words)
        self._enter()
        builder = self.node(node, table)
        self.depth -= 1
        self.emit(Op.END_LIST, next=start)
        line[OpWord.NEXT] = self.position
        return table, builder

    def _enter(self) -> None:
        self.depth += 1
        self.max_depth = max(self.max_depth, self.depth)

    # -- tagged fields -------------------------------------------------------------------------

    def _tags(self, known: dict[int, Slot], table: int) -> dict[str, ArrayBuilder]:
        builders: dict[str, ArrayBuilder] = {}
        head = self.emit(Op.TAGS, row=8 * table, width=len(known))
        lines = {tag: self.emit(Op.TAGS, row=8 * table, tag=tag) for tag in known}
        self._enter()
        for tag, slot in known.items():
            assert slot.node is not None
            line = lines[tag]
            line[OpWord.NEXT] = self.position
            if isinstance(slot.node, NumberNode | UuidNode):
                builders[slot.column] = number = self._number(slot.node, table)
                line[OpWord.TO] = 8 * number.buffer
                line[OpWord.WIDTH] = self.buffers[number.buffer].width
                line[OpWord.HEAD : OpWord.HIGH + 1] = _default_words(tag, slot.node, slot.default)
                self.plain &= len(known) == 1 and tag < 0x80
            else:
                self.plain = False
                offsets, elements = self.new_buffer(4, table, 1), self.new_capacity(2)
                line[OpWord.TO] = 8 * offsets
                line[OpWord.INTO] = line[OpWord.CAPACITY] = 8 * elements
                element = self.node(slot.node, elements)
                builders[slot.column] = OptionalBuilder(
                    slot.arrow, offsets, elements, element, slot.default
                )
            self.emit(Op.END_TAG)
        self.depth -= 1
        head[OpWord.NEXT] = self.position
        return builders


def _op(node: NumberNode | UuidNode) -> Op:
    """The operation that reads ``node``."""
    return _NUMBERS[node.dtype] if isinstance(node, NumberNode) else Op.N16


def _default_words(tag: int, node: NumberNode | UuidNode, value: Any) -> tuple[int, ...]:
    """`OpWord.HEAD`, `OpWord.LOW` and `OpWord.HIGH` of a tagged field."""
    octets = value if isinstance(node, UuidNode) else np.array(value, node.dtype).tobytes()
    return struct.unpack(
        "<qqq", bytes([*[0] * 6, tag & 0x7F, len(octets), *octets]).ljust(24, b"\0")
    )


def _min_width(node: Node) -> int:
    """The least number of bytes that a value of ``node`` takes."""
    match node:
        case NumberNode() | UuidNode():
            return node.width
        case StringNode() | BytesNode() | ArrayNode():
            return 1 if node.compact else int(node.prefix[2:])
        case StructNode():
            if node.presence is not None:
                return 1
            fields = [slot.node for slot in node.untagged if slot.node is not None]
            return node.flexible + sum(map(_min_width, fields))
