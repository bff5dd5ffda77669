"""Decodes batches of records: keys and values in, columns out.

A topic repeats the same few thousand keys all the time, so each distinct key of a batch is read
once. Values are read group by group: all rows of one kind and version with one walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.cursor import Bytes, Cursor
from kip848_spark.wire.definitions import Dialect, RecordDefinition, Versions
from kip848_spark.wire.faults import UNREADABLE, Faults, Mask, Reason, Rows
from kip848_spark.wire.layout import Struct, message_layout, message_type
from kip848_spark.wire.walk import read_fields

NO_TYPE = -1


@dataclass(frozen=True)
class RecordPlan:
    """How one kind of record is read: the layout of its key, and of each version of its value."""

    key_type: int
    kind: str
    key: Struct
    values: dict[int, Struct]
    value_type: pa.StructType

    @classmethod
    def of(cls, record: RecordDefinition) -> RecordPlan:
        valid: Versions = record.value.valid
        return cls(
            key_type=record.key_type,
            kind=record.kind,
            key=message_layout(record.key, record.key.valid.low),
            values={version: message_layout(record.value, version) for version in valid},
            value_type=message_type(record.value),
        )


@dataclass(frozen=True)
class Plan:
    """How a dialect is read. Plain data: it pickles."""

    dialect: str
    records: dict[int, RecordPlan]

    @classmethod
    def of(cls, dialect: Dialect) -> Plan:
        return cls(
            dialect.name, {key: RecordPlan.of(record) for key, record in dialect.records.items()}
        )


@dataclass(frozen=True)
class Part:
    """Rows of one key type and, for values, one version. ``fields`` has ``len(rows)`` rows."""

    plan: RecordPlan
    version: int
    rows: Rows
    struct: Struct
    fields: list[pa.Array]

    def field(self, column: str) -> pa.Array:
        """The column of that name. Raises KeyError if the message has no such field."""
        for slot, array in zip(self.struct.slots, self.fields, strict=True):
            if slot.column == column:
                return array
        raise KeyError(column)

    def as_struct(self) -> pa.StructArray:
        return pa.StructArray.from_arrays(self.fields, fields=list(self.struct.arrow))


@dataclass(frozen=True)
class Decoded:
    """One decoded batch of ``count`` records.

    ``key_of`` (int32[count]) says which of the ``distinct`` keys a row has, -1 for none;
    ``key_types`` (int32[distinct]) is `NO_TYPE` where a key has none. ``versions`` (int32[count])
    is -1 for tombstones and what could not be told. A row whose ``reason`` (uint8[count]) is not
    zero is in no part of ``values``; ``reason_at`` is the byte, of the key if ``in_key``.
    """

    count: int
    key_of: npt.NDArray[np.int32]
    distinct: int
    key_types: npt.NDArray[np.int32]
    keys: list[Part]
    values: list[Part]
    versions: npt.NDArray[np.int32]
    tombstone: Mask
    reason: npt.NDArray[np.uint8]
    reason_at: Rows
    in_key: Mask
    unknown_tags: npt.NDArray[np.int32]

    @property
    def unknown(self) -> Mask:
        """bool[count]: newer than this program (key type or value version)."""
        return np.isin(self.reason, UNREADABLE)


def decode(plan: Plan, keys: pa.Array, values: pa.Array) -> Decoded:
    """Decodes ``keys`` and ``values`` (binary[n], nulls allowed). Raises nothing on any bytes."""
    count = len(keys)
    encoded = pc.dictionary_encode(keys)
    distinct = len(encoded.dictionary)
    key_of = encoded.indices.fill_null(-1).to_numpy().astype(np.int32, copy=False)
    key_types, key_parts, key_faults = _decode_keys(plan, encoded.dictionary)

    reason = np.zeros(count, np.uint8)
    reason_at = np.zeros(count, np.int64)
    tags = np.zeros(count, np.int32)
    in_key = np.zeros(count, bool)
    if key_faults.reason.any() or encoded.indices.null_count:
        padded = np.append(key_faults.reason, np.uint8(Reason.NULL_KEY))
        reason = padded[key_of]
        reason_at = np.append(key_faults.at, 0)[key_of]
        in_key = reason != 0

    tombstone = np.zeros(count, bool)
    if values.null_count:
        tombstone = pc.is_null(values).to_numpy(zero_copy_only=False)
    data, start, end = binary_bounds(values)
    faults = Faults(count)
    versions = np.full(count, -1, np.int32)
    parts: list[Part] = []
    row_types = np.append(key_types, np.int32(NO_TYPE))[key_of]
    readable = ~tombstone if not in_key.any() else ~tombstone & ~in_key
    for record, rows in _by_type(plan, key_types, row_types, readable):
        cursor = Cursor(data, start[rows], end[rows], rows, faults)
        parts.extend(_decode_values(record, cursor, versions))
    if faults.reason.any():
        failed = faults.reason != 0
        reason = np.where(failed, faults.reason, reason)
        reason_at = np.where(failed, faults.at - start, reason_at)
        parts = [_without(part, failed) for part in parts]
        faults.tags[failed] = 0
    tags += faults.tags
    return Decoded(
        count, key_of, distinct, key_types, key_parts, parts, versions, tombstone,
        reason, reason_at, in_key, tags,
    )  # fmt: skip


def binary_bounds(array: pa.Array) -> tuple[Bytes, Rows, Rows]:
    """The bytes of a binary array and where each row's begin and end in them."""
    if pa.types.is_large_binary(array.type):
        width: type[np.generic] = np.int64
    else:
        width = np.int32
    _, offsets, content = array.buffers()
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    if not len(array):
        return data, np.zeros(0, np.int64), np.zeros(0, np.int64)
    bounds = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    wide = bounds.astype(np.int64)
    return data, wide[:-1], wide[1:]


def _decode_keys(plan: Plan, keys: pa.Array) -> tuple[npt.NDArray[np.int32], list[Part], Faults]:
    """Key types (int32[n]) and key fields of distinct keys; the faults are at bytes of the key."""
    data, start, end = binary_bounds(keys)
    count = len(keys)
    faults = Faults(count)
    cursor = Cursor(data, start, end, np.arange(count), faults)
    cursor.fail(start == end, Reason.EMPTY_KEY)
    types = cursor.number(">i2").astype(np.int32)
    types[faults.reason != 0] = NO_TYPE
    parts = []
    for key_type in np.unique(types[faults.reason == 0]):
        which = np.flatnonzero((types == key_type) & (faults.reason == 0))
        record = plan.records.get(int(key_type))
        if record is None:
            faults.record(which, Reason.UNKNOWN_KEY_TYPE, start[which])
            continue
        body = cursor.select(which)
        fields = read_fields(body, record.key)
        body.finish()
        parts.append(Part(record, 0, which, record.key, fields))
    faults.at -= np.where(faults.reason != 0, start, 0)
    failed = faults.reason != 0
    if failed.any():
        parts = [_without(part, failed) for part in parts]
    return types, parts, faults


def _by_type(
    plan: Plan, key_types: npt.NDArray[np.int32], row_types: npt.NDArray[np.int32], readable: Mask
) -> Iterator[tuple[RecordPlan, Rows]]:
    for key_type in np.unique(key_types):
        record = plan.records.get(int(key_type))
        if record is not None:
            rows = np.flatnonzero((row_types == key_type) & readable)
            if len(rows):
                yield record, rows


def _decode_values(
    record: RecordPlan, cursor: Cursor, versions: npt.NDArray[np.int32]
) -> Iterator[Part]:
    """The values of one key type, a part a version."""
    start = cursor.position
    cursor.fail(cursor.end == start, Reason.EMPTY_VALUE)
    version = cursor.number(">i2", ahead=14)
    good = np.ones(cursor.count, bool) if cursor.parked is None else ~cursor.parked
    versions[cursor.rows[good]] = version[good]
    for value in np.unique(version[good]) if (version != version[0]).any() else version[:1]:
        which = np.flatnonzero(good & (version == value))
        struct = record.values.get(int(value))
        if not len(which):
            continue
        if struct is None:
            unknown = np.zeros(cursor.count, bool)
            unknown[which] = True
            cursor.faults.record(cursor.rows[which], Reason.UNKNOWN_VALUE_VERSION, start[which])
            continue
        body = cursor if len(which) == cursor.count else cursor.select(which)
        fields = read_fields(body, struct)
        body.finish()
        yield Part(record, int(value), body.rows, struct, fields)


def _without(part: Part, failed: Mask) -> Part:
    """``part`` without the rows that failed."""
    keep = ~failed[part.rows]
    if keep.all():
        return part
    mask = pa.array(keep)
    fields = [array.filter(mask) for array in part.fields]
    return Part(part.plan, part.version, part.rows[keep], part.struct, fields)
