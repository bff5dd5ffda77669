"""Bytes written by hand: read by our columns, and by Kafka's own classes."""

from __future__ import annotations

import pickle

import pytest

from kip848_spark.wire.decode import DecodePlan, decode
from tests.kafka_oracle import Oracle
from tests.wire.golden import GOLDEN
from tests.wire.golden_share_streams import Golden
from tests.wire.scalar_comparison import binary, by_columns, by_scalar, plan
from tests.wire.schema_definitions import records

PAIRS = [(bytes.fromhex(each.key), bytes.fromhex(each.value)) for each in GOLDEN]


def test_every_kind_is_here() -> None:
    every = {
        (record.kind, version)
        for record in records().values()
        for version in record.value.valid
        if record.kind != "group_metadata" or version in (0, 3, 4)
    }
    assert {(each.kind, each.version) for each in GOLDEN} == every


@pytest.mark.parametrize("index", range(len(GOLDEN)), ids=[each.kind for each in GOLDEN])
def test_alone(index: int) -> None:
    check(GOLDEN[index : index + 1])


def test_together_and_many_times() -> None:
    check(GOLDEN * 50)


def check(expected: list[Golden]) -> None:
    pairs = [(bytes.fromhex(each.key), bytes.fromhex(each.value)) for each in expected]
    keys, values = zip(*pairs, strict=True)
    decoded = decode(plan(), binary(keys), binary(values))
    for pair, right, row in zip(pairs, expected, by_columns(decoded), strict=True):
        assert (row.reason, row.tombstone, row.version) == ("none", False, right.version)
        assert row.key == right.key_fields
        assert row.value == right.fields
        assert row.unknown_tags == right.unknown_tags
        assert plan().records[row.key_type].kind == right.kind
        assert row == by_scalar(pair)


def test_kafka_calls_the_same_ones_canonical() -> None:
    answers = Oracle().decode(PAIRS)
    assert [answer["canonical"] for answer in answers] == [each.canonical for each in GOLDEN]


def test_a_plan_pickles() -> None:

    again: DecodePlan = pickle.loads(pickle.dumps(plan()))
    keys, values = zip(*PAIRS, strict=True)
    whole = by_columns(decode(plan(), binary(keys), binary(values)))
    assert by_columns(decode(again, binary(keys), binary(values))) == whole
