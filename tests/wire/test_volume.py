"""Kafka's own classes and the vectorized codec, ten thousand records a kind and version, both ways.

Kafka's encoder writes, our decoder reads; our encoder writes, Kafka's serde reads. What is compared
is the JSON that Kafka's converters make of a record.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kip848_spark.wire.decode import decode
from kip848_spark.wire.encode import encode_keys, encode_values
from tests.kafka_oracle import Oracle
from tests.wire import scalar, scalar_writer
from tests.wire.scalar import Plain
from tests.wire.scalar_comparison import Row, as_columns, binary, by_columns, column, plan
from tests.wire.schema_definitions import Field, Message, Record
from tests.wire.strategies import Bulk, Sample
from tests.wire.test_scalar import expected_json, layouts

FEW, MANY = 300, 10_000


def plain(fields: tuple[Field, ...], version: int, columns: Plain) -> Plain:
    """The columns of one row in the words of the definitions; what a version lacks is at its
    default."""
    return {
        field.key: _plain(field, version, columns[column(field.key)])
        if version in field.versions
        else scalar.fresh(field.default)
        for field in fields
    }


def _plain(field: Field, version: int, item: Any) -> Any:
    if item is None or field.type != "struct":
        return item
    if field.array:
        return [plain(field.fields, version, each) for each in item]
    return plain(field.fields, version, item)


def json_of(message: Message, version: int, columns: Plain) -> dict[str, Any]:
    return scalar_writer.to_kafka_json(message, version, plain(message.fields, version, columns))


def as_kafka_says(record: Record, row: Row) -> dict[str, Any]:
    """What we read, in the form of the oracle's answers."""
    assert row.reason == "none"
    assert row.key is not None
    return {
        "type": row.key_type,
        "key": json_of(record.key, 0, row.key),
        "version": None if row.tombstone else row.version,
        "value": None if row.value is None else json_of(record.value, row.version, row.value),
        "canonical": True,
    }


def check(record: Record, version: int | None, count: int, seed: int) -> None:
    made = list(Bulk(seed, unknown_tags=False).samples(record, version, count))
    jsons = [expected_json(sample) for sample in made]
    written = Oracle().encode([json | {"key_type": json["type"]} for json in jsons])
    assert not any(one.error for one in written)
    keys, values = binary([one.key for one in written]), binary([one.value for one in written])
    rows = by_columns(decode(plan(), keys, values))
    for row, right in zip(rows, jsons, strict=True):
        assert as_kafka_says(record, row) == right
    ours = encoded(record, version, made)
    assert ours == [(one.key, one.value) for one in written]
    for answer, right in zip(Oracle().decode(ours), jsons, strict=True):
        assert answer == right


def encoded(
    record: Record, version: int | None, made: list[Sample]
) -> list[tuple[bytes, bytes | None]]:
    """What our encoder writes."""
    how = plan().records[record.key_type]
    key_columns = [as_columns(record.key.fields, 0, sample.key) for sample in made]
    keys = encode_keys(how, pa.array(key_columns, how.key.arrow)).to_pylist()
    if version is None:
        return [(key, None) for key in keys]
    columns = [as_columns(record.value.fields, version, sample.value or {}) for sample in made]
    values = encode_values(how, version, pa.array(columns, how.value_type)).to_pylist()
    return list(zip(keys, values, strict=True))


@pytest.mark.parametrize(("record", "version"), layouts("shipped"))
def test_some(record: Record, version: int | None) -> None:
    check(record, version, FEW, seed=60)


@pytest.mark.long
@pytest.mark.parametrize(("record", "version"), layouts("shipped"))
def test_ten_thousand(record: Record, version: int | None) -> None:
    check(record, version, MANY, seed=61)
