"""Decodes batches of records: keys and values in, columns out.

A topic repeats the same few thousand keys all the time, so each distinct key of a batch is read
once. Values are read group by group: see `values`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.columns import nulls_of
from kip848_spark.wire.cursor import Cursor
from kip848_spark.wire.faults import UNREADABLE, Faults, Mask, Reason, Rows
from kip848_spark.wire.layout import Node
from kip848_spark.wire.plan import Part, Plan, RecordPlan
from kip848_spark.wire.values import Values, Walk, binary_bounds
from kip848_spark.wire.walk import read_message

__all__ = [
    "NO_TYPE",
    "Decoded",
    "Part",
    "Plan",
    "RecordPlan",
    "binary_bounds",
    "decode",
]

NO_TYPE = -1


@dataclass(frozen=True)
class Decoded:
    """One decoded batch of ``count`` records.

    ``key_of`` (int32[count]) says which of the ``distinct`` keys a row has, -1 for none;
    ``key_types`` (int32[distinct]) is `NO_TYPE` where a key has none. A row whose ``reason``
    (uint8[count]) is not zero is in no part of ``values``; ``reason_at`` is the byte, of the key if
    ``in_key``. Arrays may share their memory: none is to be written to.
    """

    count: int
    key_of: npt.NDArray[np.int32]
    distinct: int
    key_types: npt.NDArray[np.int32]
    keys: list[Part]
    values: list[Part]
    walks: list[Walk]
    tombstone: Mask
    reason: npt.NDArray[np.uint8]
    reason_at: Rows
    in_key: Mask
    unknown_tags: npt.NDArray[np.int32]

    @property
    def unknown(self) -> Mask:
        """bool[count]: newer than this program (key type or value version)."""
        return np.isin(self.reason, UNREADABLE)

    @cached_property
    def versions(self) -> npt.NDArray[np.int32]:
        """int32[count]: of the values; -1 for tombstones and where it could not be told."""
        versions = np.full(self.count, -1, np.int32)
        for walk in self.walks:
            versions[walk.rows] = walk.versions
        for part in self.values:
            versions[part.rows] = part.version
        return versions


def decode(plan: Plan, keys: pa.Array, values: pa.Array) -> Decoded:
    """Decodes ``keys`` and ``values`` (binary[n], nulls allowed). Raises nothing on any bytes."""
    count = len(keys)
    encoded = pc.dictionary_encode(keys)
    distinct = len(encoded.dictionary)
    key_of = encoded.indices
    if key_of.null_count:
        key_of = key_of.fill_null(-1)
    key_of = key_of.to_numpy().astype(np.int32, copy=False)
    key_types, key_parts, key_faults = _decode_keys(plan, encoded.dictionary)
    batch = Values(plan, values)
    tombstone = None
    if values.null_count:
        tombstone = nulls_of(values)
    parts = batch.read(_places(plan, key_parts, distinct), key_of, tombstone)

    reason, reason_at = _clear(count, np.uint8), _clear(count, np.int64)
    in_key, tags = _clear(count, np.bool_), _clear(count, np.int32)
    if np.count_nonzero(key_faults.reason) or encoded.indices.null_count:
        reason = np.append(key_faults.reason, np.uint8(Reason.NULL_KEY))[key_of]
        reason_at = np.append(key_faults.at, 0)[key_of]
        in_key = reason != 0
    if batch.walks:
        reason, reason_at, tags = reason.copy(), reason_at.copy(), tags.copy()
        for walk in batch.walks:
            reason[walk.rows] = walk.faults.reason
            reason_at[walk.rows] = walk.faults.at
            tags[walk.rows] = walk.faults.tags
    if tombstone is None:
        tombstone = _clear(count, np.bool_)
    return Decoded(
        count, key_of, distinct, key_types, key_parts, parts, batch.walks, tombstone,
        reason, reason_at, in_key, tags,
    )  # fmt: skip


def _clear(count: int, type_: type[np.generic]) -> npt.NDArray[Any]:
    """Zeros that take no memory."""
    return np.broadcast_to(np.zeros(1, type_), count)


def _places(plan: Plan, keys: list[Part], distinct: int) -> npt.NDArray[np.intp]:
    """For each distinct key, and for none at all, the place of its record in the plan."""
    numbers = {key_type: place for place, key_type in enumerate(plan.records)}
    places = np.full(distinct + 1, len(numbers))
    for part in keys:
        places[part.rows] = numbers[part.plan.key_type]
    return places


def _decode_keys(plan: Plan, keys: pa.Array) -> tuple[npt.NDArray[np.int32], list[Part], Faults]:
    """Key types (int32[n]) and key fields of distinct keys; the faults are at bytes of the key.

    Many types have the same fields in their keys: these are read together.
    """
    data, start, end = binary_bounds(keys)
    count = len(keys)
    faults = Faults(count)
    cursor = Cursor(data, start, end, np.arange(count), faults)
    cursor.fail(start == end, Reason.EMPTY_KEY)
    types = cursor.number(">i2").astype(np.int32)
    if cursor.parked is not None:
        types[cursor.parked] = NO_TYPE
    order = np.argsort(types, kind="stable")
    of_type = types[order]
    alike: dict[tuple[Node | None, ...], list[tuple[RecordPlan, Rows]]] = {}
    for key_type in np.unique(of_type).tolist():
        first, last = np.searchsorted(of_type, (key_type, key_type + 1)).tolist()
        record = plan.records.get(key_type)
        if record is None:
            which = order[first:last]
            faults.record(which, Reason.UNKNOWN_KEY_TYPE, start[which])
            continue
        layout = tuple(slot.node for slot in record.key.slots)
        alike.setdefault(layout, []).append((record, order[first:last]))
    parts = []
    for same in alike.values():
        body = cursor.select(np.concatenate([which for _, which in same]))
        fields = read_message(body, same[0][0].key)
        first = 0
        for record, which in same:
            of_record = [field.slice(first, len(which)) for field in fields]
            parts.append(Part(record, 0, which, record.key, of_record))
            first += len(which)
    failed = faults.reason != 0
    if np.count_nonzero(failed):
        faults.at -= np.where(failed, start, 0)
        parts = [part.without(failed[part.rows]) for part in parts]
    return types, parts, faults
