"""One record read value by value: where each stands, what it says.

What `explain` shows to people. It reads by the same layouts and the same rules as the kernel does,
and a test holds it to them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import (
    ANY_LENGTH,
    HIGHEST_TAG,
    VARINT,
    ArrayNode,
    BytesNode,
    Node,
    NumberNode,
    Slot,
    StringNode,
    StructNode,
    UuidNode,
    fixed_width,
)


class MalformedError(Exception):
    """The bytes are not what they should be: the reason, and the byte."""

    def __init__(self, reason: Reason, at: int) -> None:
        super().__init__(f"{reason.text} at byte {at}")
        self.reason = reason
        self.at = at


@dataclass
class TraceItem:
    """A value and its bytes: ``start`` to ``body`` say how long it is, or whether it is there at
    all, ``body`` to ``end`` are the value itself.

    ``node`` is None for what is no field: a tag (its ``items`` are the field, if it is known) and
    the tags of a struct as a whole; a ``tag`` has the ``size`` that is written of it. ``value`` is
    plain (numbers, text, bytes, None for null); of arrays, structs and tags it is how many
    ``items`` there are, or for numbers and ids ``elements``, which are plain values alone.
    """

    name: str
    node: Node | None
    start: int
    body: int = -1
    end: int = -1
    value: Any = None
    tag: int | None = None
    size: int = 0
    items: list[TraceItem] = field(default_factory=list)
    elements: list[Any] = field(default_factory=list)


class Tracer:
    """Reads ``data`` from ``at`` on. Items are there, unfinished, even if reading them fails."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at
        self.end = len(data)
        self.unknown_tags = 0

    def fields(self, node: StructNode, into: list[TraceItem]) -> None:
        """The fields of a struct, its tags last."""
        for slot in node.untagged:
            if slot.node is not None:
                self.item(slot.name, slot.node, into)
        if node.flexible:
            self._tags(node.tagged, into)

    def number(self, dtype: str) -> Any:
        """The number that is next."""
        width = int(dtype[2:])
        if self.end - self.at < width:
            raise MalformedError(Reason.TRUNCATED, self.at)
        (value,) = struct.unpack_from(_FORMATS[dtype], self.data, self.at)
        self.at += width
        return value

    def finish(self) -> None:
        """Nothing may be left."""
        if self.at < self.end:
            raise MalformedError(Reason.TRAILING_BYTES, self.at)

    def item(self, name: str, node: Node, into: list[TraceItem]) -> TraceItem:
        """One value, appended to ``into``."""
        item = TraceItem(name, node, self.at)
        into.append(item)
        match node:
            case NumberNode():
                item.body = self.at
                item.value = self.number(node.dtype)
                if node.arrow == pa.bool_():
                    item.value = bool(item.value)
            case UuidNode():
                item.body = self.at
                item.value = self._octets(16)
            case StringNode() | BytesNode():
                self._text(node, item)
            case ArrayNode():
                self._array(node, item)
            case StructNode():
                self._struct(node, item)
        item.end = self.at
        return item

    def _octets(self, size: int) -> bytes:
        if self.end - self.at < size:
            raise MalformedError(Reason.TRUNCATED, self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def _text(self, node: StringNode | BytesNode, item: TraceItem) -> None:
        length = self._length(node.prefix, node.nullable, node.longest)
        item.body = self.at
        if length is None:
            return
        item.value = octets = self._octets(length)
        if isinstance(node, StringNode):
            try:
                item.value = octets.decode("utf-8", "strict")
            except UnicodeDecodeError:
                raise MalformedError(Reason.BAD_UTF8, item.start) from None

    def _array(self, node: ArrayNode, item: TraceItem) -> None:
        count = self._length(node.prefix, node.nullable, node.longest)
        item.body = self.at
        if count is None:
            return
        item.value = count
        if fixed_width(node.element) is not None:
            for _ in range(count):
                item.elements.append(self.item("", node.element, []).value)
            return
        for index in range(count):
            self.item(str(index), node.element, item.items)

    def _struct(self, node: StructNode, item: TraceItem) -> None:
        item.value = 0
        if node.presence is not None:
            start = self.at
            varint = node.presence == VARINT
            marker = self._varint() if varint else self.number(node.presence)
            if marker == (0 if varint else -1):
                item.value = None
            elif marker != 1:
                raise MalformedError(Reason.BAD_PRESENCE, start)
        item.body = self.at
        if item.value is not None:
            self.fields(node, item.items)
            item.value = len(item.items)

    def _tags(self, known: dict[int, Slot], into: list[TraceItem]) -> None:
        tags = TraceItem("tagged fields", None, self.at)
        into.append(tags)
        count = self._varint()
        if 2 * count > self.end - self.at:
            raise MalformedError(Reason.BAD_LENGTH, tags.start)
        tags.body = self.at
        tags.value = count
        last = -1
        for _ in range(count):
            last = self._tag(known, last, tags.items)
        tags.end = self.at

    def _tag(self, known: dict[int, Slot], last: int, into: list[TraceItem]) -> int:
        start = self.at
        tag = self._varint()
        entry = TraceItem(f"tag {tag}", None, start, tag=tag)
        into.append(entry)
        if tag <= last or tag > HIGHEST_TAG:
            raise MalformedError(Reason.BAD_TAG, start)
        size_at = self.at
        size = self._varint()
        if size > self.end - self.at:
            raise MalformedError(Reason.BAD_LENGTH, size_at)
        entry.body, entry.size = self.at, size
        slot = known.get(tag)
        if slot is None or slot.node is None:
            entry.value = self._octets(size)
            self.unknown_tags += 1
        else:
            whole, self.end = self.end, entry.body + size
            self.item(slot.name, slot.node, entry.items)
            entry.value = 1
            if self.at != self.end:
                raise MalformedError(Reason.BAD_TAG, start)
            self.end = whole
        entry.end = self.at
        return tag

    def _length(self, prefix: str, nullable: bool, longest: int = ANY_LENGTH) -> int | None:
        start = self.at
        length = self._varint() - 1 if prefix == VARINT else int(self.number(prefix))
        if length == -1:
            if not nullable:
                raise MalformedError(Reason.NULL_NOT_ALLOWED, start)
            return None
        if length < 0 or length > min(self.end - self.at, longest):
            raise MalformedError(Reason.BAD_LENGTH, start)
        return length

    def _varint(self) -> int:
        start = self.at
        value = 0
        for shift in (0, 7, 14, 21, 28):
            if self.at >= self.end:
                raise MalformedError(Reason.TRUNCATED, start)
            octet = self.data[self.at]
            self.at += 1
            if shift == 28 and octet > 0x0F:
                raise MalformedError(Reason.BAD_VARINT, start)
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                break
        return value


_FORMATS: dict[str, str] = {
    ">i1": ">b",
    ">i2": ">h",
    ">i4": ">i",
    ">i8": ">q",
    ">u2": ">H",
    ">f8": ">d",
}
