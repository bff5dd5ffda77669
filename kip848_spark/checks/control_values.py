"""Control records as plain values, from their bytes: the form that the reference coordinator reads.

The checks take records one by one, so this is where columns become objects."""

from __future__ import annotations

import base64
import re
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from kip848_spark.wire.control import conform
from kip848_spark.wire.control_plans import CONTROL_PLAN
from kip848_spark.wire.decode import decode
from kip848_spark.wire.tables import key_column, table_column, table_type


class ControlValue(NamedTuple):
    """What a control record says beside its group. ``value`` is None for a tombstone; its fields
    have Kafka's names, and one that the record's version lacks is None."""

    member_id: str | None
    regular_expression: str | None
    value: dict[str, Any] | None


def control_values(keys: pa.Array, values: pa.Array) -> list[ControlValue | None]:
    """Decodes control records of the shipped dialect: ``keys`` and ``values`` are binary[n] with
    nulls. None for a record that cannot be decoded."""
    decoded = decode(CONTROL_PLAN.plan, keys, values)
    bodies: list[dict[str, Any] | None] = [None] * decoded.count
    for part in decoded.values:
        column = conform(table_column(part.as_struct()), table_type(part.plan.value_type))
        for row, body in zip(part.rows.tolist(), _objects(column), strict=True):
            bodies[row] = body
    names = ("member_id", "regular_expression")
    key_columns = (key_column(decoded, name, pa.string()).to_pylist() for name in names)
    found = map(ControlValue._make, zip(*key_columns, bodies, strict=True))
    good = (decoded.reason == 0).tolist()
    return [one if is_good else None for one, is_good in zip(found, good, strict=True)]


def _objects(array: pa.Array) -> list[Any]:
    """``array`` as `to_pylist` gives it, with Kafka's names of fields and bytes as base64: a call
    for each array, not for each value."""
    found: list[Any]
    if pa.types.is_struct(array.type):
        names = [_kafka_name(field.name) for field in array.type]
        columns = [_objects(array.field(at)) for at in range(len(names))]
        found = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    elif pa.types.is_list(array.type):
        bounds = array.offsets.to_numpy()
        first = int(bounds[0]) if len(bounds) else 0
        elements = _objects(array.values.slice(first, int(bounds[-1]) - first))
        found = [elements[start:end] for start, end in pairwise((bounds - first).tolist())]
    elif pa.types.is_binary(array.type):
        return [
            None if one is None else base64.b64encode(one).decode() for one in array.to_pylist()
        ]
    elif pa.types.is_integer(array.type) and not array.null_count:
        return list(array.to_numpy().tolist())
    else:
        return list(array.to_pylist())
    if array.null_count:
        valid = array.is_valid().to_pylist()
        found = [one if is_valid else None for one, is_valid in zip(found, valid, strict=True)]
    return found


@cache
def _kafka_name(snake: str) -> str:
    return re.sub(r"_(.)", lambda letter: letter.group(1).upper(), snake)
