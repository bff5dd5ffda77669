"""The other functions that read bytes from outside: tables, dump, anonymization, explain."""

from __future__ import annotations

import functools

import numpy as np
import orjson
import pyarrow as pa

from kip848_spark.wire.anonymize import NameCollector, Pseudonyms, rewrite
from kip848_spark.wire.control import ControlPlan, control_columns
from kip848_spark.wire.decode import DecodePlan, decode
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.explain import explain_key, explain_value
from kip848_spark.wire.faults import Reason
from kip848_spark.wire.kafka_json import json_lines
from kip848_spark.wire.tables import RECORD_FIELDS, record_columns
from tests.wire import scalar
from tests.wire.mutations import arrays
from tests.wire.scalar_comparison import Pair

_CONTROL: dict[str, ControlPlan] = {}


def control(dialect: DecodePlan) -> ControlPlan:
    if dialect.dialect not in _CONTROL:
        _CONTROL[dialect.dialect] = ControlPlan.of(dialect)
    return _CONTROL[dialect.dialect]


@functools.cache
def table_fields() -> dict[str, pa.DataType]:
    """The columns of the table `group_records`."""
    return ControlPlan.of(DecodePlan.of(load_shipped())).fields()


def check_other_readers(dialect: DecodePlan, pairs: list[Pair]) -> None:
    """Each function takes the records without raising, and its result agrees with the decoder."""
    keys, values = arrays(pairs)
    decoded = decode(dialect, keys, values)
    columns = record_columns(dialect, decoded, keys, values)
    assert list(columns) == list(RECORD_FIELDS)
    for name, column in columns.items():
        column.validate(full=True)
        assert len(column) == len(pairs), name
    _check_control(dialect, keys, values, decoded.reason == 0)
    _check_dump(dialect, keys, values, decoded.reason)
    _check_anonymized(dialect, keys, values, decoded.reason == 0)
    for pair, reason, at, in_key in zip(
        pairs, decoded.reason.tolist(), decoded.reason_at.tolist(), decoded.in_key, strict=True
    ):
        _check_explained(dialect, pair, Reason(reason), at, bool(in_key))
    _check_embedded(dialect, [value for _, value in pairs if value])


def _check_control(dialect: DecodePlan, keys: pa.Array, values: pa.Array, good: np.ndarray) -> None:
    wanted = pa.array(good)
    fields = table_fields()
    columns = control_columns(control(dialect), fields, keys.filter(wanted), values.filter(wanted))
    for name, column in columns.items():
        column.validate(full=True)
        assert column.type == fields[name]


def _check_dump(dialect: DecodePlan, keys: pa.Array, values: pa.Array, reason: np.ndarray) -> None:
    count = len(keys)
    number = np.arange(count)
    lines = json_lines(control(dialect), number.astype(np.int32), number, number, keys, values)
    for row, line in enumerate(lines):
        assert ("error" in orjson.loads(line)) == bool(reason[row])


def _check_anonymized(
    dialect: DecodePlan, keys: pa.Array, values: pa.Array, good: np.ndarray
) -> None:
    """Records with new names can be decoded."""
    names = NameCollector()
    rewrite(control(dialect), keys, values, names)
    new = Pseudonyms.of(names.found, b"secret")
    new_keys, new_values, decoded = rewrite(control(dialect), keys, values, new)
    assert (decoded == good).all()
    wanted = pa.array(decoded)
    again = decode(dialect, new_keys.filter(wanted), new_values.filter(wanted))
    assert not again.reason.any()


def _check_explained(
    dialect: DecodePlan, pair: Pair, reason: Reason, at: int, in_key: bool
) -> None:
    key, value = pair
    if key is None:
        return
    fault = explain_key(dialect, key).fault
    if value is not None:
        of_value = explain_value(dialect, key, value).fault
        fault = fault or of_value
    output = (Reason.NONE, 0) if fault is None else (fault.reason, fault.at)
    assert output == (reason, at), f"explain says {output}, the decoder {(reason, at, in_key)}"


def _check_embedded(dialect: DecodePlan, blobs: list[bytes]) -> None:
    """Any bytes as embedded metadata: those that the scalar codec reads, null for all others."""
    for name, embedded in (
        ("ConsumerProtocolSubscription", control(dialect).subscription),
        ("ConsumerProtocolAssignment", control(dialect).assignment),
    ):
        found = embedded.decode(pa.array(blobs, pa.binary()))
        found.validate(full=True)
        versions = found.field("version").to_pylist() if not found.null_count else [
            None if row is None else row["version"] for row in found.to_pylist()
        ]  # fmt: skip
        for blob, version in zip(blobs, versions, strict=True):
            try:
                right: int | None = scalar.decode_embedded(name, blob).version
            except scalar.MalformedError:
                right = None
            assert version == right, (name, blob.hex())
