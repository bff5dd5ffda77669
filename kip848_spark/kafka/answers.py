"""Reads the answers of brokers by their layouts (Kafka's flexible versions, KIP-482)."""

from __future__ import annotations

from typing import Any

from kip848_spark.kafka.broker_connection import FieldReader

Layout = str | list[Any] | dict[str, Any] | tuple[Any]
"""The type of a field: a name of `_SCALARS`, a list of the type of an array's elements, a dict of a
struct's fields, or a tuple of a struct that may be null."""

_SCALARS = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "bool": "b"}


def read_value(fields: FieldReader, layout: Layout) -> Any:
    """The next field. Strings and bytes are compact, and null ones empty; null arrays are empty.
    Raises what `FieldReader` does."""
    if isinstance(layout, dict):
        found = {name: read_value(fields, own) for name, own in layout.items()}
        fields.tags()
        return found
    if isinstance(layout, list):
        return [read_value(fields, layout[0]) for _ in range(fields.length())]
    if isinstance(layout, tuple):
        return None if fields.number("b") < 0 else read_value(fields, layout[0])
    if layout == "string":
        return fields.text()
    if layout == "bytes":
        return fields.octets()
    return fields.octets(16) if layout == "uuid" else fields.number(_SCALARS[layout])
