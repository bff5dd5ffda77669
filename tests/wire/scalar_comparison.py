"""Compares the vectorized codec with the scalar one: the same records, row by row, in every
result."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kip848_spark.wire.decode import Decoded, DecodedRows, DecodePlan, decode
from kip848_spark.wire.definitions import load_dialect
from kip848_spark.wire.faults import Reason
from tests.wire import scalar
from tests.wire.scalar import Plain
from tests.wire.schema_definitions import Field, records

Pair = tuple[bytes | None, bytes | None]


class Row(NamedTuple):
    """The result of a codec for one record. Values by column name; null for what a version
    lacks."""

    key_type: int
    key: Plain | None
    version: int
    value: Plain | None
    tombstone: bool
    reason: str
    side: str | None
    position: int
    unknown_tags: int


@functools.cache
def plan(folder: str = "shipped") -> DecodePlan:
    """The plan of one variant, by the name of its folder."""
    name = {"kip_ea37": "kip", "kip_draft": "kip-draft"}.get(folder, folder)
    (found,) = (variant for variant in load_dialect(name) if variant.name == folder)
    return DecodePlan.of(found)


def column(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def as_columns(fields: tuple[Field, ...], version: int, value: Plain) -> Plain:
    """A plain value of the scalar codec in the words of the columns."""
    return {column(field.key): _column(field, version, value[field.key]) for field in fields}


def _column(field: Field, version: int, item: Any) -> Any:
    if item is None or version not in field.versions:
        return None
    if field.type != "struct":
        return item
    if field.array:
        return [as_columns(field.fields, version, each) for each in item]
    return as_columns(field.fields, version, item)


def by_scalar(pair: Pair, folder: str = "shipped") -> Row:
    read = scalar.decode(*pair, folder)
    record = records(folder).get(-1 if read.key_type is None else read.key_type)
    failed = read.error
    good = record is not None and failed is None
    key_type = -1 if read.key_type is None else read.key_type
    key = value = None
    version = -1 if read.version is None else read.version
    if record is not None and read.key is not None:
        key = as_columns(record.key.fields, 0, read.key)
    if record is not None and good and read.value is not None:
        value = as_columns(record.value.fields, version, read.value)
    return Row(
        key_type=key_type,
        key=key,
        version=version,
        value=value,
        tombstone=pair[1] is None,
        reason=failed.reason if failed else "none",
        side=failed.side if failed else None,
        position=failed.position if failed else 0,
        unknown_tags=read.unknown_tags if good else 0,
    )


def by_columns(decoded: Decoded) -> list[Row]:
    """The rows of a decoded batch."""
    keys = _spread(decoded.keys, decoded.distinct)
    values = _spread(decoded.values, decoded.count)
    rows = []
    for row in range(decoded.count):
        which = int(decoded.key_of[row])
        reason = Reason(int(decoded.reason[row]))
        rows.append(
            Row(
                key_type=int(decoded.key_types[which]) if which >= 0 else -1,
                key=keys[which] if which >= 0 else None,
                version=int(decoded.versions[row]),
                value=values[row],
                tombstone=bool(decoded.tombstone[row]),
                reason=reason.text,
                side=("key" if decoded.in_key[row] else "value") if reason else None,
                position=int(decoded.reason_at[row]),
                unknown_tags=int(decoded.unknown_tags[row]),
            )
        )
    return rows


def _spread(parts: Sequence[DecodedRows], count: int) -> list[Any]:
    found: list[Any] = [None] * count
    for part in parts:
        structs = part.as_struct()
        structs.validate(full=True)
        assert len(structs) == len(part.rows)
        for row, value in zip(part.rows.tolist(), structs.to_pylist(), strict=True):
            assert found[row] is None
            found[row] = value
    return found


def binary(items: Sequence[bytes | None], type_: pa.DataType | None = None) -> pa.Array:
    return pa.array(items, type_ or pa.binary())


def assert_codecs_agree(pairs: Sequence[Pair], folder: str = "shipped") -> list[Row]:
    """Both codecs give the same result for each pair, which is returned."""
    keys, values = zip(*pairs, strict=True) if pairs else ((), ())
    decoded = decode(plan(folder), binary(keys), binary(values))
    assert_adds_up(decoded)
    rows = by_columns(decoded)
    for pair, row in zip(pairs, rows, strict=True):
        right = by_scalar(pair, folder)
        if row != right:
            both = ((name, getattr(row, name), getattr(right, name)) for name in Row._fields)
            output = [(name, ours, theirs) for name, ours, theirs in both if ours != theirs]
            raise AssertionError(f"{output} {tuple(half and half.hex() for half in pair)}")
    return rows


def assert_adds_up(decoded: Decoded) -> None:
    """Every record is decoded, a tombstone, unknown or quarantined, and one of these only."""
    inside = np.zeros(decoded.count, np.int64)
    for part in decoded.values:
        np.add.at(inside, part.rows, 1)
    refused = decoded.reason != 0
    tombstone = decoded.tombstone & ~refused
    assert (inside + tombstone + refused == 1).all()
    assert not (decoded.unknown & ~refused).any()
    assert (decoded.unknown_tags[refused] == 0).all()
