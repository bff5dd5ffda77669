"""Decodes batches of records: Arrow arrays of keys and values in, columns out.

A topic repeats a few thousand keys, so each distinct key of a batch is decoded once. Values are
decoded by key type and version (see `reader`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kip848_spark.wire.array_types import BoolArray, Int64Array
from kip848_spark.wire.columns import null_mask
from kip848_spark.wire.faults import UNKNOWN_REASONS, Reason
from kip848_spark.wire.plan import DecodedRows, DecodePlan, RecordPlan
from kip848_spark.wire.reader import LINE_ZERO, ByteRows

__all__ = [
    "NO_TYPE",
    "DecodePlan",
    "Decoded",
    "DecodedRows",
    "RecordPlan",
    "decode",
]

NO_TYPE = -1
"""The key type of a row without one: its key is null, empty or too short."""


@dataclass(frozen=True)
class Decoded:
    """A decoded batch of ``count`` records.

    ``key_of``: int32[count], the number of each row's key among the ``distinct`` keys, -1 for null.
    ``key_types``: int32[distinct], `NO_TYPE` where a key has none.
    ``keys``: the distinct keys by key type; their ``rows`` number the distinct keys.
    ``values``: the values by key type and version, of the rows without a fault.
    ``versions``: int32[count], the value's version, -1 where there is none.
    ``tombstone``: bool[count], the value is null.
    ``reason``: uint8[count], a `Reason`. ``reason_at``: int64[count], the byte of the fault: of the
    key where ``in_key`` (bool[count]) is true, otherwise of the value.
    ``unknown_tags``: int32[count], the number of unknown tagged fields in the value.

    The arrays may share memory and must not be modified."""

    count: int
    key_of: npt.NDArray[np.int32]
    distinct: int
    key_types: npt.NDArray[np.int32]
    keys: list[DecodedRows]
    values: list[DecodedRows]
    versions: npt.NDArray[np.int32]
    tombstone: BoolArray
    reason: npt.NDArray[np.uint8]
    reason_at: Int64Array
    in_key: BoolArray
    unknown_tags: npt.NDArray[np.int32]

    @property
    def unknown(self) -> BoolArray:
        """bool[count]: the record has a key type or value version newer than this program."""
        return np.isin(self.reason, UNKNOWN_REASONS)


def decode(plan: DecodePlan, keys: pa.Array, values: pa.Array) -> Decoded:
    """Decodes ``keys`` and ``values`` (binary[n] or large_binary[n], with nulls).

    No bytes make it raise: a record that cannot be read has a reason in the result. Raises
    OverflowError if the elements of one array field exceed 2**31 - 1 in the whole batch."""
    key_of, distinct_keys = ByteRows.of(keys).distinct()
    distinct, records = distinct_keys.count, list(plan.records.values())
    line_of_type = {key_type: line for line, key_type in enumerate(plan.records)}
    read, key_types, key_faults = plan.key_programs.read(
        distinct_keys, np.zeros(distinct, np.int32), LINE_ZERO, Reason.EMPTY_KEY,
        Reason.UNKNOWN_KEY_TYPE,
    )  # fmt: skip
    line_of_key = np.full(1 + distinct, -1, np.int32)
    key_parts = []
    for each in read:
        _, key_type = plan.key_programs.of[each.program]
        record = plan.records[key_type]
        line_of_key[1 + each.rows] = line_of_type[key_type]
        key_parts.append(DecodedRows(record, 0, each.rows, record.key, each.fields))
    read, versions, faults = plan.value_programs.read(
        ByteRows.of(values), key_of, line_of_key, Reason.EMPTY_VALUE, Reason.UNKNOWN_VALUE_VERSION
    )
    value_parts = []
    for each in read:
        line, version = plan.value_programs.of[each.program]
        record = records[line]
        value_parts.append(
            DecodedRows(record, version, each.rows, record.values[version], each.fields)
        )
    in_key = np.zeros(len(keys), np.bool_)
    if keys.null_count or np.count_nonzero(key_faults.reason):
        reason = np.append(key_faults.reason, np.uint8(Reason.NULL_KEY))[key_of]
        in_key = reason != 0
        np.copyto(faults.reason, reason, where=in_key)
        np.copyto(faults.at, np.append(key_faults.at, 0)[key_of], where=in_key)
    tombstone = null_mask(values) if values.null_count else np.zeros(len(values), np.bool_)
    return Decoded(
        len(keys), key_of, distinct, key_types, key_parts, value_parts, versions, tombstone,
        faults.reason, faults.at, in_key, faults.tags,
    )  # fmt: skip
