"""`explain` against the scalar codec: the same faults, and every byte in its place."""

from __future__ import annotations

import random

import pytest

from kip848_spark.wire.decode import DecodePlan
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.explain import Explained, explain_key, explain_value
from tests.wire import scalar
from tests.wire.schema_definitions import Record, records
from tests.wire.strategies import Bulk, damaged

PLAN = DecodePlan.of(load_shipped())
KEY_8 = bytes.fromhex("0008000167") + b"\x00\x01m"


def covered(half: Explained, raw: bytes) -> bool:
    """Every byte is in exactly one item."""
    at = 0
    for item in half.items:
        if item.first != at:
            return False
        at = item.end
    return at == len(raw)


def test_a_member_assignment() -> None:
    value = bytes.fromhex("0000 00000003 00000002 01 02" + "11" * 16 + "02 00000005 00 01 00")
    half = explain_value(PLAN, KEY_8, value)
    assert half.fault is None
    shown = [(item.name, item.text, item.first, item.end - 1) for item in half.items if item.text]
    assert shown == [
        ("version", "0", 0, 1),
        ("memberEpoch", "3", 2, 5),
        ("previousMemberEpoch", "2", 6, 9),
        ("state", "1", 10, 10),
        ("assignedPartitions", "1 item", 11, 11),
        ("topicId", "EREREREREREREREREREREQ", 12, 27),
        ("partitions", "1 item", 28, 28),
        ("[0]", "5", 29, 32),
        ("tagged fields", "0", 33, 33),
        ("partitionsPendingRevocation", "0 items", 34, 34),
        ("tagged fields", "0", 35, 35),
    ]


@pytest.mark.parametrize("record", records("shipped").values(), ids=lambda record: record.kind)
def test_faults_are_those_of_the_scalar_codec(record: Record) -> None:
    bulk, rng = Bulk(7), random.Random(7)
    for version in record.value.valid:
        pairs = [sample.encoded() for sample in bulk.samples(record, version, 60)]
        values = [value for _, value in pairs if value is not None]
        for key, value in pairs:
            for raw in (value, damaged(rng, value, values[0])) if value else ():
                agrees(key, raw)
            output = explain_key(PLAN, key)
            assert output.fault is None
            assert covered(output, key)


def agrees(key: bytes, raw: bytes) -> None:
    output = explain_value(PLAN, key, raw)
    expected = scalar.decode(key, raw).error
    if expected is None:
        assert output.fault is None, raw.hex()
        assert covered(output, raw), raw.hex()
    else:
        assert output.fault is not None, raw.hex()
        found = (output.fault.reason.text, output.fault.at)
        assert found == (expected.reason, expected.position), raw.hex()
