"""Records as JSON, in the form in which DumpLogSegments of Kafka 4.3.1 prints them.

The output is text for people and scripts. This is the only part of the decoder that handles records
one by one."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from kip848_spark.wire.control import CLASSIC_GROUP, ControlPlan
from kip848_spark.wire.decode import DecodedRows, decode
from kip848_spark.wire.embedded import CONSUMER, Embedded
from kip848_spark.wire.java_reader import read_as_java
from kip848_spark.wire.layout import ArrayNode, BytesNode, Node, Slot, StructNode, UuidNode
from kip848_spark.wire.tables import error_text

Render = Callable[[Any], Any]
"""A function from a value of an Arrow array (`to_pylist`) to a value for the JSON output."""

_VERSION_BYTES, _SIGN = 2, 0x80
"""The size of a version, and the bit of its first byte that negative ones have."""


def json_lines(
    plan: ControlPlan,
    partition: npt.NDArray[np.int32],
    offset: npt.NDArray[np.int64],
    timestamp_ms: npt.NDArray[np.int64],
    keys: pa.Array,
    values: pa.Array,
) -> Iterator[bytes]:
    """One line of JSON (without the line feed) for each record, in the given order.

    ``partition``, ``offset`` and ``timestamp_ms`` (milliseconds since 1970) are [n], ``keys`` and
    ``values`` binary[n]."""
    decoded = decode(plan.plan, keys, values)
    key_objects: list[Any] = [None] * decoded.distinct
    for part in decoded.keys:
        shown = _objects(part)
        for row, data in zip(part.rows.tolist(), shown, strict=True):
            key_objects[row] = {"type": str(part.plan.key_type), "data": data}
    bodies: list[Any] = [None] * decoded.count
    for part in decoded.values:
        version = str(part.version)
        for row, data in zip(part.rows.tolist(), _values(plan, part), strict=True):
            bodies[row] = {"version": version, "data": data}
    errors = error_text(decoded).to_pylist()
    places = zip(partition.tolist(), offset.tolist(), timestamp_ms.tolist(), strict=True)
    for row, (number, at, time) in enumerate(places):
        line: dict[str, Any] = {"partition": number, "offset": at, "timestamp": time}
        if errors[row] is None:
            line |= {"key": key_objects[decoded.key_of[row]], "value": bodies[row]}
        else:
            line |= {"error": errors[row], "rawKey": _base64(keys[row].as_py())}
            line["rawValue"] = _base64(values[row].as_py())
        yield orjson.dumps(line)


def _objects(part: DecodedRows) -> Iterator[dict[str, Any]]:
    """For each row of ``part`` a JSON object with the fields that its version has."""
    columns = [
        (slot, show, part.field(slot.column).to_pylist()) for slot, show in _renders(part.struct)
    ]
    for row in range(len(part.rows)):
        yield {
            slot.name: show(values[row])
            for slot, show, values in columns
            if not _left_out(slot, values[row])
        }


def _left_out(slot: Slot, value: Any) -> bool:
    """Whether a field is omitted: a tagged field at its default is."""
    return slot.tag is not None and bool(value == slot.default)


def _renders(struct: StructNode) -> list[tuple[Slot, Render]]:
    """The fields that this version has, and how each is converted."""
    return [(slot, _render(slot.node)) for slot in struct.slots if slot.node is not None]


def _render(node: Node) -> Render:
    match node:
        case UuidNode():
            return _uuid
        case BytesNode():
            return _base64
        case ArrayNode():
            element = _render(node.element)
            return lambda values: None if values is None else [element(v) for v in values]
        case StructNode():
            return _render_struct(node)
    return lambda value: value


def _render_struct(struct: StructNode) -> Render:
    renders = _renders(struct)

    def render(value: Any) -> Any:
        if value is None:
            return None
        fields = ((slot, show, value[slot.column]) for slot, show in renders)
        return {slot.name: show(item) for slot, show, item in fields if not _left_out(slot, item)}

    return render


def _uuid(raw: bytes | None) -> str | None:
    return None if raw is None else base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


# -- embedded metadata -----------------------------------------------------------------------


def _values(plan: ControlPlan, part: DecodedRows) -> Iterator[dict[str, Any]]:
    """The JSON objects of values. Consumer metadata in classic groups is decoded."""
    objects = _objects(part)
    if part.plan.kind != CLASSIC_GROUP:
        yield from objects
        return
    members = plan.expand(part).field("members").to_pylist()
    for shown, decoded in zip(objects, members, strict=True):
        if shown["protocolType"] == CONSUMER:
            for shown_member, member in zip(shown["members"], decoded, strict=True):
                _show_metadata(plan.subscription, "subscription", member, shown_member)
                _show_metadata(plan.assignment, "assignment", member, shown_member)
        yield shown


def _show_metadata(
    embedded: Embedded, name: str, member: dict[str, Any], shown: dict[str, Any]
) -> None:
    """Replaces the bytes that ``shown`` has for ``name`` by the metadata, where DumpLogSegments
    does so.

    Unlike a broker, it reads a negative version as version 0. In a version that it does not know it
    can read no struct."""
    metadata, blob = member[f"consumer_{name}"], member[name]
    layout = embedded.layouts[0]
    if metadata is not None:
        layout = embedded.layout(metadata["version"])
        is_known = metadata["version"] < len(embedded.layouts)
        if not is_known and any(metadata[slot.column] for slot in layout.slots if _structs(slot)):
            return
    elif len(blob) >= _VERSION_BYTES and blob[0] & _SIGN:
        metadata = read_as_java(layout, blob)
    if metadata is not None:
        shown[name] = {slot.name: show(metadata[slot.column]) for slot, show in _renders(layout)}


def _structs(slot: Slot) -> bool:
    """Whether the field is an array of structs."""
    return isinstance(slot.node, ArrayNode) and isinstance(slot.node.element, StructNode)
