"""Encodes the coordinator's records with the vectorized encoder."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from kip848_spark.coordinator.consumer_protocol import assignment_bytes, subscription_bytes
from kip848_spark.coordinator.records import Record
from kip848_spark.wire.columns import scatter
from kip848_spark.wire.definitions import FieldDefinition, MessageDefinition, load_shipped
from kip848_spark.wire.encode import encode_keys, encode_values
from kip848_spark.wire.plan import RecordPlan

COMMIT = 1
_EMBEDDED = {
    "subscription": subscription_bytes,
    "metadata": subscription_bytes,
    "assignment": assignment_bytes,
}
"""Fields that hold consumer-protocol metadata, by name; records show them decoded."""


@cache
def _definitions() -> dict[int, tuple[MessageDefinition, MessageDefinition, RecordPlan]]:
    return {
        key_type: (record.key, record.value, RecordPlan.of(record))
        for key_type, record in load_shipped().records.items()
    }


def plan_of(key_type: int) -> RecordPlan:
    """The encoding plan of a record type."""
    return _definitions()[key_type][2]


def encode_records(records: Sequence[Record]) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Keys and values (binary[n]; null for a tombstone) of records in the form `kip848
    dump` prints.
    """
    by_type: dict[int, list[int]] = {}
    by_version: dict[tuple[int, int], list[int]] = {}
    for row, record in enumerate(records):
        key_type, value = int(record["key"]["type"]), record["value"]
        by_type.setdefault(key_type, []).append(row)
        if value is not None:
            by_version.setdefault((key_type, int(value["version"])), []).append(row)
    keys, values = [], []
    for key_type, rows in by_type.items():
        definition, _, plan = _definitions()[key_type]
        data = [records[row]["key"]["data"] for row in rows]
        keys.append((np.array(rows), encode_keys(plan, _columns(definition, data))))
    for (key_type, version), rows in by_version.items():
        _, definition, plan = _definitions()[key_type]
        data = [records[row]["value"]["data"] for row in rows]
        encoded = encode_values(plan, version, _columns(definition, data))
        values.append((np.array(rows), encoded))
    count = len(records)
    return scatter(keys, count, pa.binary()), scatter(values, count, pa.binary())


def _columns(
    definition: MessageDefinition, rows: Sequence[Mapping[str, Any]]
) -> dict[str, pa.Array]:
    type_ = {field.name: field.type for field in _type_of(definition)}
    return {
        field.column: pa.array([_plain(field, row) for row in rows], type_[field.column])
        for field in definition.fields
    }


@cache
def _type_of(definition: MessageDefinition) -> pa.StructType:
    from kip848_spark.wire.layout import message_type

    return message_type(definition)


def _plain(field: FieldDefinition, row: Mapping[str, Any]) -> Any:
    """The field of a row as an Arrow value."""
    value = row.get(field.json_name, field.default)
    if value is field.default or value is None:
        return value
    if field.is_array:
        return [_element(field, element) for element in value]
    return _element(field, value)


def _element(field: FieldDefinition, value: Any) -> Any:
    if field.fields:
        return {child.column: _plain(child, value) for child in field.fields}
    match field.element_type:
        case "uuid":
            return base64.urlsafe_b64decode(value + "==")
        case "bytes":
            read = _EMBEDDED.get(field.json_name)
            return base64.b64decode(value) if read is None else read(value)
    return value
