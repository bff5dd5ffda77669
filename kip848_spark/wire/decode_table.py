"""Decoding without a lake: keys and values of records in, one Arrow table out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.errors import UsageError
from kip848_spark.wire.batches import Batches, BatchFunction
from kip848_spark.wire.columns import scatter
from kip848_spark.wire.control import ControlPlan, control_columns
from kip848_spark.wire.control_plans import CONTROL_FIELDS, control_plan
from kip848_spark.wire.decode import decode as decode_batch
from kip848_spark.wire.definitions import SHIPPED
from kip848_spark.wire.dialects import (
    DISTINCTIVE_KEY_TYPES,
    candidate_plans,
    check_dialect,
    choose_dialect,
    count_readable,
)
from kip848_spark.wire.tables import OFFSET_COMMIT, RECORD_FIELDS, record_columns, row_types

_RAW = ("raw_key", "raw_value")
_BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)
_RECORDS = pa.schema([("key", pa.binary()), ("value", pa.binary())])
DECODED_FIELDS: dict[str, pa.DataType] = {
    **{name: type_ for name, type_ in RECORD_FIELDS.items() if name not in _RAW},
    **{name: type_ for name, type_ in CONTROL_FIELDS.items() if name not in RECORD_FIELDS},
}
"""The columns of a decoded record, and their Arrow types: those of the table `records` without the
raw bytes, then those of `group_records`."""


def decode(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    *,
    dialect: str = SHIPPED,
) -> pa.Table:
    """Decodes records of ``__consumer_offsets``: ``keys`` and ``values``, binary[n] with nulls.

    Returns a table of n rows with the columns `DECODED_FIELDS`. A record that can't be read has the
    reason and the byte in ``error``, and nothing is raised for it. ``dialect`` is ``shipped``
    (Kafka 4.0 and later), ``kip``, ``kip-draft``, or ``auto``, which chooses by the records.

    Raises UsageError if the arrays are not binary or differ in length, if there is no such dialect,
    or if the records do not tell which one it is.
    """
    for name, array in (("keys", keys), ("values", values)):
        if not any(is_type(array.type) for is_type in _BINARY):
            raise UsageError(f"The {name} are of type {array.type}, not binary.")
    if len(keys) != len(values):
        raise UsageError(
            f"There are {len(keys):,} keys and {len(values):,} values.",
            "Give one value for each key; the value of a tombstone is null.",
        )
    records = pa.table({"key": keys, "value": values}).cast(_RECORDS)
    plan = _plan(dialect, records)
    decoded = decoder(plan, {})(iter(records.to_batches()))
    return pa.Table.from_batches(decoded, schema=pa.schema(list(DECODED_FIELDS.items())))


def decoder(plan: ControlPlan, keep: dict[str, str]) -> BatchFunction:
    """Batches with the binary columns ``key`` and ``value`` to batches of the columns ``keep`` (old
    name to new name), followed by `DECODED_FIELDS`."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            columns = {new: batch.column(old) for old, new in keep.items()}
            columns |= decoded_columns(plan, batch.column("key"), batch.column("value"))
            yield pa.RecordBatch.from_pydict(columns)

    return run


def decoded_columns(plan: ControlPlan, keys: pa.Array, values: pa.Array) -> dict[str, pa.Array]:
    """The columns `DECODED_FIELDS` of n records: ``keys`` and ``values`` are binary[n]."""
    decoded = decode_batch(plan.plan, keys, values)
    found = record_columns(plan.plan, decoded, keys, values)
    commits = [key for key, record in plan.plan.records.items() if record.kind == OFFSET_COMMIT]
    is_control = ~np.isin(row_types(decoded), commits) & (decoded.reason == 0)
    rows = np.flatnonzero(is_control)
    taken = [array.take(pa.array(rows)) for array in (keys, values)]
    control = control_columns(plan, CONTROL_FIELDS, *taken)
    return {
        name: found[name] if name in found else scatter([(rows, control[name])], len(keys), type_)
        for name, type_ in DECODED_FIELDS.items()
    }


def _plan(dialect: str, records: pa.Table) -> ControlPlan:
    check_dialect(dialect)
    plans = candidate_plans(dialect)
    if len(plans) == 1:
        return control_plan(next(iter(plans)))
    types = pa.array([number.to_bytes(2, "big") for number in DISTINCTIVE_KEY_TYPES], pa.binary())
    is_distinctive = pc.is_in(pc.binary_slice(records["key"], 0, 2), types)
    distinctive = records.filter(pc.and_(is_distinctive, records["value"].is_valid()))
    read = dict.fromkeys(plans, 0)
    for batch in distinctive.to_batches():
        counts = count_readable(plans, batch.column("key"), batch.column("value"))
        for variant, count in counts.items():
            read[variant] += count
    return control_plan(choose_dialect(read, distinctive.num_rows).variant)
