"""Decodes batches of records: keys and values in, columns out.

A topic repeats the same few thousand keys all the time, so each distinct key of a batch is read
once. Values are read by key type and version: see `reading`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire.columns import nulls_of
from kip848_spark.wire.faults import UNREADABLE, Mask, Reason, Rows
from kip848_spark.wire.plan import Part, Plan, RecordPlan
from kip848_spark.wire.reader import ONE_LINE, Source

__all__ = [
    "NO_TYPE",
    "Decoded",
    "Part",
    "Plan",
    "RecordPlan",
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
    key_of, some = Source.of(keys).distinct()
    distinct, records = some.count, list(plan.records.values())
    place_of = {key_type: place for place, key_type in enumerate(plan.records)}
    found, key_types, key_faults = plan.key_programs.read(
        some, np.zeros(distinct, np.int32), ONE_LINE, Reason.EMPTY_KEY, Reason.UNKNOWN_KEY_TYPE
    )
    places = np.full(1 + distinct, -1, np.int32)
    key_parts = []
    for each in found:
        _, key_type = plan.key_programs.of[each.program]
        record = plan.records[key_type]
        places[1 + each.rows] = place_of[key_type]
        key_parts.append(Part(record, 0, each.rows, record.key, each.fields))
    found, versions, faults = plan.value_programs.read(
        Source.of(values), key_of, places, Reason.EMPTY_VALUE, Reason.UNKNOWN_VALUE_VERSION
    )
    value_parts = []
    for each in found:
        place, version = plan.value_programs.of[each.program]
        record = records[place]
        value_parts.append(Part(record, version, each.rows, record.values[version], each.fields))
    in_key = np.zeros(len(keys), np.bool_)
    if keys.null_count or np.count_nonzero(key_faults.reason):
        reason = np.append(key_faults.reason, np.uint8(Reason.NULL_KEY))[key_of]
        in_key = reason != 0
        np.copyto(faults.reason, reason, where=in_key)
        np.copyto(faults.at, np.append(key_faults.at, 0)[key_of], where=in_key)
    tombstone = nulls_of(values) if values.null_count else np.zeros(len(values), np.bool_)
    return Decoded(
        len(keys), key_of, distinct, key_types, key_parts, value_parts, versions, tombstone,
        faults.reason, faults.at, in_key, faults.tags,
    )  # fmt: skip
