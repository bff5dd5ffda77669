"""Embedded metadata that the kernels refuse, and Kafka's Java classes read.

Kafka puts U+FFFD into a text that is not UTF-8. It takes any negative length for null where null is
allowed. The kernels report both as faults. Such metadata is rare: this module reads it one by one.
"""

from __future__ import annotations

import re
from typing import Any

from kip848_spark.wire.layout import ArrayNode, Node, NumberNode, StringNode, StructNode, UuidNode

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


class _MalformedError(ValueError):
    """Kafka does not read these bytes either."""


def java_text(octets: bytes) -> str:
    """The text that Java makes of UTF-8, with U+FFFD in place of what is malformed. Python does the
    same, but for an encoded surrogate it puts as many U+FFFD as there are bytes, Java puts one."""
    return _SURROGATE.sub(_REPLACEMENT, octets).decode(errors="replace")


def read_as_java(layout: StructNode, blob: bytes) -> dict[str, Any] | None:
    """The columns of a message, which begins with an int16 and is not flexible. None if Kafka does
    not read it."""
    try:
        columns: dict[str, Any] = _JavaReader(blob).read(layout)
    except _MalformedError:
        return None
    return columns


class _JavaReader:
    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        self.at = 2

    def read(self, node: Node) -> Any:
        match node:
            case StructNode():
                return {
                    slot.column: self.read(slot.node)
                    for slot in node.untagged
                    if slot.node is not None
                }
            case NumberNode():
                return self._number(node.width)
            case UuidNode():
                return self._take(node.width)
        size = self._number(int(node.prefix[2:]))
        if size < 0 and node.nullable:
            return None
        if isinstance(node, ArrayNode):
            if not 0 <= size <= len(self.blob) - self.at:
                raise _MalformedError
            return [self.read(node.element) for _ in range(size)]
        octets = self._take(size)
        return java_text(octets) if isinstance(node, StringNode) else octets

    def _number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big", signed=True)

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.blob) - self.at:
            raise _MalformedError
        self.at += size
        return self.blob[self.at - size : self.at]
