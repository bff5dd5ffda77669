"""Share groups of 4.0, an early access whose records later releases of Kafka cannot read: none is
read as something else. Kafka 4.0's own class reads them first, so the bytes are those of 4.0."""

from __future__ import annotations

import pytest

from kip848_spark.wire.decode import decode
from tests.kafka_oracle import Oracle
from tests.wire.scalar_comparison import binary, by_columns, plan

ID = "00112233445566778899aabbccddeeff"
EARLY: dict[str, list[tuple[str, str]]] = {
    "a group epoch": [("000b 0001 67", "0000 00000001 00")],
    "initialized partitions": [
        ("000f 0001 67", f"0000 02 {ID} 02 74 02 00000001 00 01 00"),
        ("000f 0001 67", f"0000 01 02 {ID} 02 74 00 00"),
        ("000f 0001 67", "0000 01 01 00"),
    ],
    "topic metadata": [("0009 0001 67", f"0000 02 {ID} 02 74 00000003 01 00 00")],
}


@pytest.mark.parametrize("what", EARLY)
def test_a_record_of_4_0_is_not_read_as_one_of_4_1(what: str) -> None:
    pairs = [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in EARLY[what]]
    for answer in Oracle("4.0.2").decode(pairs):
        assert answer["canonical"], answer
    keys, values = zip(*pairs, strict=True)
    for row in by_columns(decode(plan(), binary(keys), binary(values))):
        assert row.reason in ("truncated", "null_not_allowed", "unknown_key_type")
