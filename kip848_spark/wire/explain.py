"""Explains one record field by field, with the bytes that each item takes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kip848_spark.wire.decode import DecodePlan, RecordPlan
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import ArrayNode, StructNode, UuidNode, fixed_width
from kip848_spark.wire.trace import MalformedError, TraceItem, Tracer


@dataclass(frozen=True)
class ExplainedItem:
    """A field or a part of one. ``first`` to before ``end`` are its bytes within the key or the
    value, ``depth`` is its level of nesting, ``text`` its value, or for an array the number of
    items."""

    depth: int
    name: str
    text: str
    first: int
    end: int


@dataclass(frozen=True)
class Explained:
    """The items of a key or a value, up to its end or to the ``fault`` at which reading stopped."""

    items: list[ExplainedItem]
    fault: MalformedError | None


def explain_key(plan: DecodePlan, raw: bytes) -> Explained:
    """The items of a key."""
    if not raw:
        return Explained([], MalformedError(Reason.EMPTY_KEY, 0))
    return _explain(raw, "key type", lambda number: _key_layout(plan, number))


def explain_value(plan: DecodePlan, key: bytes, raw: bytes) -> Explained:
    """The items of the value that belongs to ``key``."""
    record = plan.records.get(int.from_bytes(key[:2], "big", signed=True))
    if record is None:
        return Explained([], MalformedError(Reason.UNKNOWN_KEY_TYPE, 0))
    if not raw:
        return Explained([], MalformedError(Reason.EMPTY_VALUE, 0))
    return _explain(raw, "version", lambda number: _value_layout(record, number))


_Header = tuple[str, StructNode | None, Reason]
"""The text for the leading int16, the layout of the rest, and the fault if there is no layout."""


def _key_layout(plan: DecodePlan, number: int) -> _Header:
    record = plan.records.get(number)
    text = f"{number} ({record.kind if record else 'unknown'})"
    return text, record.key if record else None, Reason.UNKNOWN_KEY_TYPE


def _value_layout(record: RecordPlan, number: int) -> _Header:
    return str(number), record.values.get(number), Reason.UNKNOWN_VALUE_VERSION


def _explain(raw: bytes, name: str, layout_of: Callable[[int], _Header]) -> Explained:
    tracer = Tracer(raw)
    found: list[TraceItem] = []
    head: list[ExplainedItem] = []
    fault: MalformedError | None = None
    try:
        text, layout, reason = layout_of(int(tracer.number(">i2")))
        head.append(ExplainedItem(0, name, text, 0, 2))
        if layout is None:
            raise MalformedError(reason, 0)
        tracer.fields(layout, found)
        tracer.finish()
    except MalformedError as met:
        fault = met
    return Explained([*head, *_flatten(found, 0)], fault)


def _flatten(items: Sequence[TraceItem], depth: int) -> Iterator[ExplainedItem]:
    """The items that were read, in one list."""
    for item in items:
        match item.node:
            case None if item.tag is not None:
                yield from _tag(item, depth)
            case None | ArrayNode() | StructNode():
                yield from _container(item, depth)
            case _ if item.end >= 0:
                yield ExplainedItem(depth, item.name, _value_text(item), item.start, item.end)


def _container(item: TraceItem, depth: int) -> Iterator[ExplainedItem]:
    """An array, a struct, or the tagged fields of one: its header, then its items."""
    if item.body < 0:
        return
    text = "null" if item.value is None else ""
    if item.value is not None and isinstance(item.node, ArrayNode):
        text = f"{item.value} {'item' if item.value == 1 else 'items'}"
    elif item.node is None:
        text = str(item.value)
    yield ExplainedItem(depth, item.name, text, item.start, item.body)
    if isinstance(item.node, ArrayNode):
        width = fixed_width(item.node.element) or 0
        for index, value in enumerate(item.elements):
            first = item.body + index * width
            yield ExplainedItem(depth + 1, f"[{index}]", _format(value), first, first + width)
    yield from _flatten(item.items, depth + 1)


def _tag(item: TraceItem, depth: int) -> Iterator[ExplainedItem]:
    if item.body < 0:
        return
    yield ExplainedItem(depth, item.name, f"{item.size} bytes", item.start, item.body)
    if item.items:
        yield from _flatten(item.items, depth)
    else:
        yield ExplainedItem(depth, "(unknown)", item.value.hex(), item.body, item.end)


def _value_text(item: TraceItem) -> str:
    if isinstance(item.value, bytes) and not isinstance(item.node, UuidNode):
        return f"{len(item.value)} bytes {item.value.hex()}"
    return "null" if item.value is None else _format(item.value)


def _format(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return repr(value)
