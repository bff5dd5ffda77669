"""Embedded metadata that is damaged, or no UTF-8: the table and the reference coordinator read what
Kafka's own classes read, and nothing else."""

from __future__ import annotations

import base64
import itertools
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from kip848_spark.coordinator.consumer_protocol import (
    MalformedMetadataError,
    read_assignment,
    read_subscription,
)
from kip848_spark.wire.definitions import snake_case
from kip848_spark.wire.embedded import Embedded
from kip848_spark.wire.java_reader import java_text
from tests.kafka_oracle import ASSIGNMENT, SUBSCRIPTION, Oracle
from tests.wire import scalar, scalar_writer
from tests.wire.schema_definitions import messages
from tests.wire.strategies import Bulk

ALPHABET = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c1 c2 df e0 e1 ed ef f0 f1 f4 f5 ff")
"""A byte of each range that UTF-8 treats differently, and the range's ends."""


def subscription_to(topics: list[bytes]) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def test_text_that_is_not_utf8_is_decoded_as_java_does() -> None:
    """Python's own replacement gives an encoded surrogate two or three U+FFFD, Java one."""
    texts = [
        bytes(word) for size in range(1, 5) for word in itertools.product(ALPHABET, repeat=size)
    ]
    draw = random.Random(3)
    texts += [bytes(draw.choices(ALPHABET, k=draw.randint(5, 12))) for _ in range(20_000)]
    answer = Oracle().decode_embedded(SUBSCRIPTION, [subscription_to(texts)])[0]
    assert [java_text(text) for text in texts] == answer["value"]["topics"]
    blob = subscription_to(texts)
    assert list(read_subscription(blob).topics) == answer["value"]["topics"]
    assert scalar.decode_embedded(SUBSCRIPTION, blob).value["topics"] == answer["value"]["topics"]
    (table,) = Embedded.of(SUBSCRIPTION).decode(pa.array([blob], pa.binary())).to_pylist()
    assert table["topics"] == answer["value"]["topics"]


def damaged(name: str, seed: int) -> list[bytes]:
    """Good metadata, most of it with an edit that hits a length or a text."""
    draw = random.Random(seed)
    blobs = []
    for version in range(4):
        for value in Bulk(seed=seed).values(messages("consumer_protocol")[name], version, 400):
            blob = bytearray(scalar_writer.encode_embedded(name, version, value))
            for _ in range(draw.randint(0, 3)):
                at = draw.randrange(2, len(blob))
                edit = draw.choice(
                    [b"\xff", b"\xed\xa0\x80", b"\xff\xff\xff\xfe", b"\x80\0\0\0", b"\xff\xfd"]
                )
                blob[at : at + len(edit)] = edit
            if draw.random() < 0.3:
                blob = blob.replace(b"\xff\xff\xff\xff", b"\xff\xff\xff\xfd")
            blobs.append(bytes(blob))
    return blobs


@pytest.mark.parametrize("name", [SUBSCRIPTION, ASSIGNMENT])
def test_damaged_metadata_is_read_where_kafka_reads_it(name: str) -> None:
    blobs = damaged(name, seed=5)
    answers = Oracle().decode_embedded(name, blobs)
    found = Embedded.of(name).decode(pa.array(blobs, pa.binary()))
    found.validate(full=True)
    replaced = 0
    for blob, answer, row in zip(blobs, answers, found.to_pylist(), strict=True):
        reference = _reference(name, blob)
        assert (row is None) == (reference is None), blob.hex()[:500]
        if "too long to be serialized" in answer.get("error", ""):  # it was read, not written
            assert row is not None
            continue
        assert ("error" in answer) == (row is None), blob.hex()[:500]
        if row is not None:
            expected = _columns(answer["value"])
            replaced += "\ufffd" in str(expected)
            assert {field: row[field] for field in expected} == expected
            assert {field: reference[field] for field in expected} == expected
    assert replaced > 20
    assert found.null_count > 20


def test_negative_lengths_of_what_can_be_null() -> None:
    """DumpLogSegments and the broker read a user data or a rack of any negative length as null."""
    user_data = bytes.fromhex("0000 00000001 0001 74 fffffffe")
    rack = bytes.fromhex("0003 00000001 0001 74 80000000 00000000 00000007 fffe")
    topics = bytes.fromhex("0000 fffffffe ffffffff")
    topic = bytes.fromhex("0000 00000001 fffe ffffffff")
    blobs = [user_data, rack, topics, topic]
    found = Embedded.of(SUBSCRIPTION).decode(pa.array(blobs, pa.binary())).to_pylist()
    assert [row and (row["topics"], row["user_data"], row["rack_id"]) for row in found] == [
        (["t"], None, None), (["t"], None, None), None, None,
    ]  # fmt: skip
    answers = Oracle().decode_embedded(SUBSCRIPTION, blobs)
    assert ["error" in answer for answer in answers] == [False, False, True, True]


def _columns(value: Any) -> Any:
    """Kafka's JSON with the names and the bytes of the table."""
    if isinstance(value, list):
        return [_columns(item) for item in value]
    if not isinstance(value, dict):
        return value
    columns = {snake_case(name): _columns(item) for name, item in value.items()}
    if columns.get("user_data") is not None:
        columns["user_data"] = base64.b64decode(columns["user_data"])
    return columns


def _reference(name: str, blob: bytes) -> Any:
    """What the reference coordinator reads, with the names of the table."""
    try:
        if name == ASSIGNMENT:
            given = read_assignment(blob)
            rows = [{"topic": topic, "partitions": list(some)} for topic, some in given.partitions]
            return {"assigned_partitions": rows, "user_data": given.user_data}
        read = read_subscription(blob)
    except MalformedMetadataError:
        return None
    return {
        "topics": list(read.topics),
        "user_data": read.user_data,
        "owned_partitions": [
            {"topic": topic, "partitions": list(some)} for topic, some in read.owned
        ],
        "generation_id": read.generation,
        "rack_id": read.rack_id,
    }
