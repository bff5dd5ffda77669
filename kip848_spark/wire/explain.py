"""One record explained field by field, with the bytes each item takes: for reading a log by eye."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kip848_spark.wire import trace
from kip848_spark.wire.decode import Plan, RecordPlan
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import Array, Struct, Uuid, fixed_width
from kip848_spark.wire.trace import MalformedError, Tracer


@dataclass(frozen=True)
class Item:
    """A field, or a part of one: ``depth`` levels in, ``first`` to before ``end`` (bytes of the
    key or of the value). ``says`` is the value, or what there is of it."""

    depth: int
    name: str
    says: str
    first: int
    end: int


@dataclass(frozen=True)
class Explained:
    """The items of one half of a record, up to its end or to the fault that stopped the reading."""

    items: list[Item]
    fault: MalformedError | None


def explain_key(plan: Plan, raw: bytes) -> Explained:
    """The items of a key."""
    if not raw:
        return Explained([], MalformedError(Reason.EMPTY_KEY, 0))
    return _explained(raw, "key type", lambda number: _key_layout(plan, number))


def explain_value(plan: Plan, key: bytes, raw: bytes) -> Explained:
    """The items of the value that belongs to ``key``."""
    record = plan.records.get(int.from_bytes(key[:2], "big", signed=True))
    if record is None:
        return Explained([], MalformedError(Reason.UNKNOWN_KEY_TYPE, 0))
    if not raw:
        return Explained([], MalformedError(Reason.EMPTY_VALUE, 0))
    return _explained(raw, "version", lambda number: _value_layout(record, number))


Layout = tuple[str, Struct | None, Reason]
"""What the number at the beginning is called, what follows it, and the reason if nothing can."""


def _key_layout(plan: Plan, number: int) -> Layout:
    record = plan.records.get(number)
    says = f"{number} ({record.kind if record else 'unknown'})"
    return says, record.key if record else None, Reason.UNKNOWN_KEY_TYPE


def _value_layout(record: RecordPlan, number: int) -> Layout:
    return str(number), record.values.get(number), Reason.UNKNOWN_VALUE_VERSION


def _explained(raw: bytes, name: str, layout_of: Callable[[int], Layout]) -> Explained:
    tracer = Tracer(raw)
    found: list[trace.Item] = []
    head: list[Item] = []
    fault: MalformedError | None = None
    try:
        says, layout, reason = layout_of(int(tracer.number(">i2")))
        head.append(Item(0, name, says, 0, 2))
        if layout is None:
            raise MalformedError(reason, 0)
        tracer.fields(layout, found)
        tracer.finish()
    except MalformedError as met:
        fault = met
    return Explained([*head, *_flat(found, 0)], fault)


def _flat(items: Sequence[trace.Item], depth: int) -> Iterator[Item]:
    """What was read of ``items``, one below the other."""
    for item in items:
        match item.node:
            case None if item.tag is not None:
                yield from _tag(item, depth)
            case None | Array() | Struct():
                yield from _whole(item, depth)
            case _ if item.end >= 0:
                yield Item(depth, item.name, _says(item), item.start, item.end)


def _whole(item: trace.Item, depth: int) -> Iterator[Item]:
    """An array, a struct, or the tags of one: what is before its items, and these."""
    if item.body < 0:
        return
    says = "null" if item.value is None else ""
    if item.value is not None and isinstance(item.node, Array):
        says = f"{item.value} {'item' if item.value == 1 else 'items'}"
    elif item.node is None:
        says = str(item.value)
    yield Item(depth, item.name, says, item.start, item.body)
    if isinstance(item.node, Array):
        width = fixed_width(item.node.element) or 0
        for index, value in enumerate(item.elements):
            first = item.body + index * width
            yield Item(depth + 1, f"[{index}]", _spelled(value), first, first + width)
    yield from _flat(item.items, depth + 1)


def _tag(item: trace.Item, depth: int) -> Iterator[Item]:
    if item.body < 0:
        return
    yield Item(depth, item.name, f"{item.size} bytes", item.start, item.body)
    if item.items:
        yield from _flat(item.items, depth)
    else:
        yield Item(depth, "(unknown)", item.value.hex(), item.body, item.end)


def _says(item: trace.Item) -> str:
    if isinstance(item.value, bytes) and not isinstance(item.node, Uuid):
        return f"{len(item.value)} bytes {item.value.hex()}"
    return "null" if item.value is None else _spelled(item.value)


def _spelled(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return repr(value)
