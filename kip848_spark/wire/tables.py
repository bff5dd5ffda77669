"""Decoded batches as the columns of the table `records`.

Every record has a row in this table, so every column costs time and space: it is kept
narrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.array_types import BoolArray
from kip848_spark.wire.columns import ZERO_UUID, scatter, uuid_text
from kip848_spark.wire.decode import NO_TYPE, Decoded, DecodedRows, DecodePlan
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.layout import UUID

OFFSET_COMMIT = "offset_commit"
"""The kind of record that commits an offset."""
Row = dict[str, Any]
"""A row of a table as plain values."""
UNKNOWN = "unknown"
TIMESTAMP = pa.timestamp("us", "UTC")
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: later times have no timestamp in the tables."""

RECORD_FIELDS: dict[str, pa.DataType] = {
    "key_type": pa.int32(),
    "kind": pa.string(),
    "value_version": pa.int32(),
    "tombstone": pa.bool_(),
    "group_id": pa.string(),
    "topic": pa.string(),
    "topic_partition": pa.int32(),
    "committed_offset": pa.int64(),
    "leader_epoch": pa.int32(),
    "metadata": pa.string(),
    "commit_timestamp": TIMESTAMP,
    "expire_timestamp": TIMESTAMP,
    "topic_id": pa.string(),
    "error": pa.string(),
    "unknown_tags": pa.int32(),
    "raw_key": pa.binary(),
    "raw_value": pa.binary(),
}
"""The columns that `record_columns` returns, in this order, and their Arrow types."""

_COMMIT_VALUE = {
    "offset": "committed_offset",
    "leader_epoch": "leader_epoch",
    "metadata": "metadata",
    "commit_timestamp": "commit_timestamp",
    "expire_timestamp": "expire_timestamp",
    "topic_id": "topic_id",
}
_COMMIT_KEY = {"topic": "topic", "partition": "topic_partition"}


def table_type(type_: pa.DataType) -> pa.DataType:
    """The type of a decoded column in a table: strings for ids, and the same type for the rest."""
    if type_ == UUID:
        return pa.string()
    if pa.types.is_list(type_):
        return pa.list_(table_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, table_type(f.type)) for f in type_])
    return type_


def table_column(array: pa.Array) -> pa.Array:
    """``array`` in its `table_type`."""
    if array.type == UUID:
        return uuid_text(array)
    if pa.types.is_list(array.type):
        mask = array.is_null() if array.null_count else None
        values = table_column(array.values)
        return pa.ListArray.from_arrays(
            array.offsets, values, type=table_type(array.type), mask=mask
        )
    if pa.types.is_struct(array.type):
        mask = array.is_null() if array.null_count else None
        children = [table_column(array.field(i)) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(table_type(array.type)), mask=mask)
    return array


def timestamps(milliseconds: pa.Array) -> pa.Array:
    """timestamp[us, UTC][n] of milliseconds since 1970 (int64[n]); null for negative numbers and
    after the year 9999."""
    valid = pc.and_(
        pc.greater_equal(milliseconds, 0), pc.less_equal(milliseconds, MAX_TIMESTAMP_MS)
    )
    in_range = pc.if_else(valid, milliseconds, pa.scalar(None, pa.int64()))
    return pc.multiply(in_range, 1000).cast(TIMESTAMP)


def error_text(decoded: Decoded) -> pa.Array:
    """string[n]: the fault, such as ``truncated at value byte 14``; null without one."""
    if not decoded.reason.any():
        return pa.nulls(decoded.count, pa.string())
    rows = np.flatnonzero(decoded.reason)
    names = pa.array([Reason(code).text for code in Reason])
    halves = pa.array(["value", "key"]).take(pa.array(decoded.in_key[rows].astype(np.int8)))
    text = pc.binary_join_element_wise(
        names.take(pa.array(decoded.reason[rows])),
        pa.scalar(" at "),
        halves,
        pa.scalar(" byte "),
        pa.array(decoded.reason_at[rows]).cast(pa.string()),
        "",
    )
    return scatter([(rows, text)], decoded.count, pa.string())


def key_column(decoded: Decoded, column: str | None, type_: pa.DataType) -> pa.Array:
    """``type_``[n]: the key's field ``column`` of each row; null where the key has no such field.
    ``column`` None is the group id, which is the first field of every key."""
    parts = []
    for part in decoded.keys:
        names = [slot.column for slot in part.struct.slots]
        index = 0 if column is None else names.index(column) if column in names else None
        if index is not None:
            parts.append((part.rows, part.fields[index]))
    per_key = scatter(parts, decoded.distinct, type_)
    absent = decoded.key_of < 0
    return per_key.take(pa.array(decoded.key_of, mask=absent if absent.any() else None))


def record_columns(
    plan: DecodePlan,
    decoded: Decoded,
    keys: pa.Array,
    values: pa.Array,
    keep_commits_raw: bool = False,
) -> dict[str, pa.Array]:
    """The columns `RECORD_FIELDS`. ``keys`` and ``values`` are the arrays that were decoded.

    The raw bytes are null for commits that were decoded, unless ``keep_commits_raw``."""
    count = decoded.count
    types = row_types(decoded)
    commit = np.isin(types, [k for k, r in plan.records.items() if r.kind == OFFSET_COMMIT])
    commits = [part for part in decoded.values if part.plan.kind == OFFSET_COMMIT]
    found: dict[str, pa.Array] = {}
    for field, name in _COMMIT_VALUE.items():
        found[name] = _commit_field(commits, field, count)
    for field, name in _COMMIT_KEY.items():
        found[name] = key_column(decoded, field, RECORD_FIELDS[name])
    raw = np.ones(count, bool) if keep_commits_raw else ~commit | (decoded.reason != 0)
    found |= {
        "key_type": pa.array(types, mask=types == NO_TYPE),
        "kind": kind_column(plan, types),
        "value_version": pa.array(decoded.versions, mask=decoded.versions < 0),
        "tombstone": pa.array(decoded.tombstone),
        "group_id": key_column(decoded, None, pa.string()),
        "error": error_text(decoded),
        "unknown_tags": pa.array(decoded.unknown_tags),
        "raw_key": _keep_rows(keys, raw),
        "raw_value": _keep_rows(values, raw),
    }
    return {name: found[name] for name in RECORD_FIELDS}


def _commit_field(commits: list[DecodedRows], field: str, count: int) -> pa.Array:
    parts = [(part.rows, part.field(field)) for part in commits if part.has(field)]
    if field == "topic_id":
        parts = [(rows, _topic_id_text(ids)) for rows, ids in parts]
        return scatter(parts, count, pa.string())
    if field.endswith("timestamp"):
        parts = [
            (rows, timestamps(times) if times.null_count < len(times) else times.cast(TIMESTAMP))
            for rows, times in parts
        ]
        return scatter(parts, count, TIMESTAMP)
    return scatter(parts, count, RECORD_FIELDS[_COMMIT_VALUE[field]])


def _topic_id_text(ids: pa.Array) -> pa.Array:
    """Ids as Kafka prints them; null for the zero id, which means "no topic id"."""
    if ids.null_count == len(ids):
        return pa.nulls(len(ids), pa.string())
    zero = pc.equal(ids, pa.scalar(ZERO_UUID, UUID))
    text = uuid_text(ids)
    return pc.if_else(zero, pa.scalar(None, pa.string()), text) if pc.any(zero).as_py() else text


def row_types(decoded: Decoded) -> npt.NDArray[np.int32]:
    """int32[n]: the key type of each row, `NO_TYPE` where it has none."""
    return np.append(decoded.key_types, np.int32(NO_TYPE))[decoded.key_of]


def kind_column(plan: DecodePlan, types: npt.NDArray[np.int32]) -> pa.Array:
    """string[n]: the kind of record of each key type; ``unknown`` for types not in the plan."""
    known = np.fromiter(plan.records, np.int32, len(plan.records))
    index = np.searchsorted(known, types)
    index[known[np.minimum(index, len(known) - 1)] != types] = len(known)
    kinds = pa.array([*(record.kind for record in plan.records.values()), UNKNOWN])
    return kinds.take(pa.array(index))


def _keep_rows(array: pa.Array, wanted: BoolArray) -> pa.Array:
    if wanted.all():
        return array
    rows = np.flatnonzero(wanted)
    return scatter([(rows, array.take(pa.array(rows)))], len(array), array.type)
