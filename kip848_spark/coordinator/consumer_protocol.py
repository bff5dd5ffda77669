"""The metadata of the classic consumer protocol: bytes embedded in JoinGroup and SyncGroup.

A subscription or an assignment is an int16 version and a body
(docs/kafka-facts.md#embedded-metadata). Versions above 3 are read as 3. The JSON form is the one
that ``kip848 dump`` prints for the members of key 2.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CONSUMER = "consumer"
"""The protocol type of consumers, as opposed to Connect workers and others."""
_NEWEST = 3
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


class MalformedMetadataError(ValueError):
    """Bytes that are not consumer protocol metadata."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics of a classic member and, from version 1 on, the partitions it owns."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[tuple[str, tuple[int, ...]], ...] = ()
    generation: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClassicAssignment:
    """The partitions that a classic leader assigns to a member."""

    version: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    user_data: bytes | None = None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, code: str) -> int:
        size = struct.calcsize(code)
        try:
            (value,) = struct.unpack_from(">" + code, self.data, self.at)
        except struct.error:
            raise MalformedMetadataError(f"truncated at byte {self.at}") from None
        self.at += size
        return int(value)

    def take(self, length: int) -> bytes:
        if length < 0 or self.at + length > len(self.data):
            raise MalformedMetadataError(f"invalid length {length} at byte {self.at}")
        self.at += length
        return self.data[self.at - length : self.at]

    def text(self) -> str:
        return _java_text(self.take(self.number("h")))

    def count(self) -> int:
        count = self.number("i")
        if not 0 <= count <= len(self.data):
            raise MalformedMetadataError(f"invalid array length {count} at byte {self.at}")
        return count

    def nullable_bytes(self) -> bytes | None:
        length = self.number("i")
        return None if length < 0 else self.take(length)

    def partitions(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return tuple(
            (self.text(), tuple(self.number("i") for _ in range(self.count())))
            for _ in range(self.count())
        )


def _java_text(raw: bytes) -> str:
    """The text of UTF-8 bytes as Java decodes them: malformed ones become U+FFFD, and the bytes of
    an encoded surrogate become a single one, where Python would put two or three. The decoder has a
    function of its own: the reference shares nothing with it."""
    return _SURROGATE.sub(b"\xef\xbf\xbd", raw).decode(errors="replace")


def read_subscription(data: bytes) -> Subscription:
    """Decode a subscription. Raises :class:`MalformedMetadataError`."""
    reader = _Reader(data)
    version = reader.number("h")
    if version < 0:
        raise MalformedMetadataError(f"invalid version {version}")
    version = min(version, _NEWEST)
    topics = tuple(reader.text() for _ in range(reader.count()))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation = reader.number("i") if version >= 2 else -1
    rack_id = None
    if version >= 3:
        length = reader.number("h")
        rack_id = None if length < 0 else _java_text(reader.take(length))
    return Subscription(version, topics, user_data, owned, generation, rack_id)


def read_assignment(data: bytes) -> ClassicAssignment:
    """Decode an assignment; empty bytes mean no partitions. Raises
    :class:`MalformedMetadataError`.
    """
    if not data:
        return ClassicAssignment(0, ())
    reader = _Reader(data)
    version = reader.number("h")
    if version < 0:
        raise MalformedMetadataError(f"invalid version {version}")
    partitions = reader.partitions()
    return ClassicAssignment(min(version, _NEWEST), partitions, reader.nullable_bytes())


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _partitions(rows: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    parts = [struct.pack(">i", len(rows))]
    for topic, numbers in rows:
        parts.append(_text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)


def write_subscription(subscription: Subscription) -> bytes:
    """Encode a subscription."""
    out = struct.pack(">hi", subscription.version, len(subscription.topics))
    out += b"".join(_text(topic) for topic in subscription.topics)
    out += _bytes(subscription.user_data)
    if subscription.version >= 1:
        out += _partitions(subscription.owned)
    if subscription.version >= 2:
        out += struct.pack(">i", subscription.generation)
    if subscription.version >= 3:
        rack = subscription.rack_id
        out += struct.pack(">h", -1) if rack is None else _text(rack)
    return out


def write_assignment(assignment: ClassicAssignment) -> bytes:
    """Encode an assignment."""
    out = struct.pack(">h", assignment.version) + _partitions(assignment.partitions)
    return out + _bytes(assignment.user_data)


def _rows_json(rows: tuple[tuple[str, tuple[int, ...]], ...]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": list(numbers)} for topic, numbers in rows]


def _rows_from(rows: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((row["topic"], tuple(row["partitions"])) for row in rows or ())


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _unbase64(data: Any) -> bytes | None:
    return None if data is None else base64.b64decode(data)


def subscription_json(data: bytes) -> dict[str, Any] | str:
    """A subscription as ``kip848 dump`` prints it; base64 if it is malformed."""
    try:
        parsed = read_subscription(data)
    except ValueError:
        return base64.b64encode(data).decode()
    out: dict[str, Any] = {
        "topics": list(parsed.topics),
        "userData": _base64(parsed.user_data),
    }
    if parsed.version >= 1:
        out["ownedPartitions"] = _rows_json(parsed.owned)
    if parsed.version >= 2:
        out["generationId"] = parsed.generation
    if parsed.version >= 3:
        out["rackId"] = parsed.rack_id
    return out


def assignment_json(data: bytes) -> dict[str, Any] | str:
    """An assignment as ``kip848 dump`` prints it; base64 if it is malformed."""
    if not data:
        return ""
    try:
        parsed = read_assignment(data)
    except ValueError:
        return base64.b64encode(data).decode()
    return {
        "assignedPartitions": _rows_json(parsed.partitions),
        "userData": _base64(parsed.user_data),
    }


def subscription_bytes(form: Any) -> bytes:
    """The bytes of either JSON form: an object, or base64."""
    if form is None:
        return b""
    if not isinstance(form, Mapping):
        return base64.b64decode(form)
    version = 0
    for least, name in ((1, "ownedPartitions"), (2, "generationId"), (3, "rackId")):
        if name in form:
            version = least
    return write_subscription(
        Subscription(
            int(form.get("version", version)),
            tuple(form.get("topics", ())),
            _unbase64(form.get("userData")),
            _rows_from(form.get("ownedPartitions")),
            form.get("generationId", -1),
            form.get("rackId"),
        )
    )


def assignment_bytes(form: Any) -> bytes:
    """The bytes of either JSON form: an object, or base64."""
    if form is None:
        return b""
    if not isinstance(form, Mapping):
        return base64.b64decode(form)
    rows = _rows_from(form.get("assignedPartitions"))
    version = int(form.get("version", 0))
    return write_assignment(ClassicAssignment(version, rows, _unbase64(form.get("userData"))))
