"""One record explained field by field, with the bytes each item takes: for reading a log by eye.

A record at a time and an item at a time, from the same layouts as the decoder reads whole batches
by, and with its reasons where the bytes end up nowhere.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kip848_spark.wire.decode import Plan
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import (
    VARINT,
    Array,
    Blob,
    Node,
    Number,
    Slot,
    Struct,
    Text,
    Uuid,
)

_FORMS = {">i1": ">b", ">i2": ">h", ">i4": ">i", ">i8": ">q", ">u2": ">H", ">f8": ">d"}


@dataclass(frozen=True)
class Item:
    """A field, or a part of one: ``depth`` levels in, ``first`` to before ``end`` (bytes of the
    key or of the value). ``says`` is the value, or what there is of it."""

    depth: int
    name: str
    says: str
    first: int
    end: int


class Fault(Exception):
    """Reading ended at byte ``at``."""

    def __init__(self, reason: Reason, at: int) -> None:
        super().__init__(reason.text)
        self.reason = reason
        self.at = at


class Explained:
    """The items of one half of a record, up to its end or to the fault that stopped the reading."""

    def __init__(self, items: Iterator[Item]) -> None:
        self.items: list[Item] = []
        self.fault: Fault | None = None
        try:
            for item in items:
                self.items.append(item)
        except Fault as fault:
            self.fault = fault


def explain_key(plan: Plan, raw: bytes) -> Explained:
    """The items of a key."""
    return Explained(_key(plan, raw))


def explain_value(plan: Plan, key: bytes, raw: bytes) -> Explained:
    """The items of the value that belongs to ``key``."""
    return Explained(_value(plan, key, raw))


def _key(plan: Plan, raw: bytes) -> Iterator[Item]:
    if not raw:
        raise Fault(Reason.EMPTY_KEY, 0)
    reader = _Reader(raw)
    number = reader.number(">i2")
    record = plan.records.get(int(number))
    yield Item(0, "key type", f"{number} ({record.kind if record else 'unknown'})", 0, 2)
    if record is None:
        raise Fault(Reason.UNKNOWN_KEY_TYPE, 0)
    yield from reader.fields(record.key, 0)
    reader.finish()


def _value(plan: Plan, key: bytes, raw: bytes) -> Iterator[Item]:
    record = plan.records.get(int.from_bytes(key[:2], "big", signed=True))
    if record is None:
        raise Fault(Reason.UNKNOWN_KEY_TYPE, 0)
    reader = _Reader(raw)
    version = reader.number(">i2")
    yield Item(0, "version", str(version), 0, 2)
    layout = record.values.get(int(version))
    if layout is None:
        raise Fault(Reason.UNKNOWN_VALUE_VERSION, 0)
    yield from reader.fields(layout, 0)
    reader.finish()


class _Reader:
    """Reads ``raw`` from byte ``at`` to before byte ``end``."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0
        self.end = len(raw)

    def finish(self) -> None:
        if self.at != self.end:
            raise Fault(Reason.TRAILING_BYTES, self.at)

    def number(self, dtype: str) -> int | float:
        form = _FORMS[dtype]
        size = struct.calcsize(form)
        if self.at + size > self.end:
            raise Fault(Reason.TRUNCATED, self.at)
        (value,) = struct.unpack_from(form, self.raw, self.at)
        self.at += size
        return value  # type: ignore[no-any-return]

    def varint(self) -> int:
        start, value = self.at, 0
        for index in range(5):
            if self.at >= self.end:
                raise Fault(Reason.TRUNCATED, start)
            byte = self.raw[self.at]
            self.at += 1
            if index == 4 and byte > 0x0F:
                raise Fault(Reason.BAD_VARINT, start)
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        return value

    def length(self, prefix: str, nullable: bool, longest: int) -> int | None:
        """A length or count; None for null."""
        start = self.at
        value = self.varint() - 1 if prefix == VARINT else int(self.number(prefix))
        if value == -1:
            if not nullable:
                raise Fault(Reason.NULL_NOT_ALLOWED, start)
            return None
        if value < 0 or value > longest or value > self.end - self.at:
            raise Fault(Reason.BAD_LENGTH, start)
        return value

    def fields(self, layout: Struct, depth: int) -> Iterator[Item]:
        for slot in layout.untagged:
            assert slot.node is not None
            yield from self.item(slot.name, slot.node, depth)
        if layout.flexible:
            yield from self.tags(layout, depth)

    def item(self, name: str, node: Node, depth: int) -> Iterator[Item]:
        start = self.at
        match node:
            case Number():
                says = str(self.number(node.dtype))
                yield Item(depth, name, says, start, self.at)
            case Uuid():
                if self.at + node.width > self.end:
                    raise Fault(Reason.TRUNCATED, self.at)
                self.at += node.width
                text = base64.urlsafe_b64encode(self.raw[start : self.at]).decode().rstrip("=")
                yield Item(depth, name, text, start, self.at)
            case Text() | Blob():
                yield Item(depth, name, self.string(node), start, self.at)
            case Array():
                yield from self.array(name, node, depth)
            case Struct():
                yield from self.struct(name, node, depth)

    def string(self, node: Text | Blob) -> str:
        length = self.length(node.prefix, node.nullable, node.longest)
        if length is None:
            return "null"
        content = self.raw[self.at : self.at + length]
        self.at += length
        if isinstance(node, Blob):
            return f"{length} bytes {content.hex()}"
        try:
            return repr(content.decode("utf-8"))
        except UnicodeDecodeError:
            raise Fault(Reason.BAD_UTF8, self.at - length) from None

    def array(self, name: str, node: Array, depth: int) -> Iterator[Item]:
        start = self.at
        count = self.length(node.prefix, node.nullable, node.longest)
        says = "null" if count is None else f"{count} {'item' if count == 1 else 'items'}"
        yield Item(depth, name, says, start, self.at)
        for index in range(count or 0):
            if isinstance(node.element, Struct):
                yield Item(depth + 1, f"[{index}]", "", self.at, self.at)
                yield from self.fields(node.element, depth + 2)
            else:
                yield from self.item(f"[{index}]", node.element, depth + 1)

    def struct(self, name: str, node: Struct, depth: int) -> Iterator[Item]:
        start = self.at
        if node.presence is not None:
            there = self.varint() if node.presence == VARINT else int(self.number(node.presence))
            if there not in ((0, 1) if node.presence == VARINT else (-1, 1)):
                raise Fault(Reason.BAD_PRESENCE, start)
            if there != 1:
                yield Item(depth, name, "null", start, self.at)
                return
        yield Item(depth, name, "", start, self.at)
        yield from self.fields(node, depth + 1)

    def tags(self, layout: Struct, depth: int) -> Iterator[Item]:
        start = self.at
        count = self.varint()
        if count > self.end - self.at:
            raise Fault(Reason.BAD_LENGTH, start)
        yield Item(depth, "tagged fields", str(count), start, self.at)
        last = -1
        for _ in range(count):
            first = self.at
            tag = self.varint()
            if tag <= last or tag > 0x7FFFFFFF:
                raise Fault(Reason.BAD_TAG, first)
            last = tag
            yield from self.tag(layout.tagged.get(tag), tag, first, depth + 1)

    def tag(self, slot: Slot | None, tag: int, first: int, depth: int) -> Iterator[Item]:
        size_at = self.at
        size = self.varint()
        if size > self.end - self.at:
            raise Fault(Reason.BAD_LENGTH, size_at)
        yield Item(depth, f"tag {tag}", f"{size} bytes", first, self.at)
        if slot is None or slot.node is None:
            content = self.raw[self.at : self.at + size]
            yield Item(depth, "(unknown)", content.hex(), self.at, self.at + size)
            self.at += size
            return
        end = self.at + size
        yield from self.item(slot.name, slot.node, depth)
        if self.at != end:
            raise Fault(Reason.BAD_TAG, first)
