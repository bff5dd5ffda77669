"""Reads one record value by value, and keeps the position of each value: for `explain`.

It follows the same layouts and rules as the kernels; a test compares the two."""

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
    """The bytes do not match the layout: ``reason``, and the byte ``at`` which reading stopped."""

    def __init__(self, reason: Reason, at: int) -> None:
        super().__init__(f"{reason.text} at byte {at}")
        self.reason = reason
        self.at = at


@dataclass
class TraceItem:
    """A value and its position: ``start`` to ``body`` are its length or presence, ``body`` to
    ``end`` the value itself. ``body`` and ``end`` are -1 if reading stopped before.

    ``node`` is None for a tagged field, whose content is in ``items`` if the tag is known, and for
    all tagged fields of a struct together. ``size`` is the size written for a tagged field.
    ``value`` is a plain value, None for null; for arrays, structs and tagged fields it is the
    number of ``items``, or for arrays of numbers and ids of ``elements``, which are plain
    values."""

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
    """Reads ``data``. If reading fails, the items read so far are complete, and the last one is
    not."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.end = len(data)
        self.unknown_tags = 0

    def fields(self, node: StructNode, into: list[TraceItem]) -> None:
        """Reads the fields of a struct, its tagged fields last, and appends them to ``into``."""
        for slot in node.untagged:
            if slot.node is not None:
                self.item(slot.name, slot.node, into)
        if node.flexible:
            self._tags(node.tagged, into)

    def number(self, dtype: str) -> Any:
        """The next number."""
        width = int(dtype[2:])
        if self.end - self.at < width:
            raise MalformedError(Reason.TRUNCATED, self.at)
        (value,) = struct.unpack_from(_FORMATS[dtype], self.data, self.at)
        self.at += width
        return value

    def finish(self) -> None:
        """Raises MalformedError if bytes are left."""
        if self.at < self.end:
            raise MalformedError(Reason.TRAILING_BYTES, self.at)

    def item(self, name: str, node: Node, into: list[TraceItem]) -> TraceItem:
        """Reads one value and appends it to ``into``."""
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
            outer_end, self.end = self.end, entry.body + size
            self.item(slot.name, slot.node, entry.items)
            entry.value = 1
            if self.at != self.end:
                raise MalformedError(Reason.BAD_TAG, start)
            self.end = outer_end
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
