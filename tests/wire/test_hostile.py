"""Hostile bytes: whatever sizes they claim, decoding takes little time and memory."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from kip848_spark.wire.decode import decode
from tests.wire import scalar_writer
from tests.wire.scalar_comparison import Pair, assert_codecs_agree, binary, plan
from tests.wire.schema_definitions import messages, records
from tests.wire.strategies import Bulk

MILLION = 1_000_000
GROUP = bytes.fromhex("0003 0001 67")
MEMBERS = bytes.fromhex("0002 0001 67")
TARGET = bytes.fromhex("0007 0001 67 0001 6d")
TOPOLOGY = bytes.fromhex("0017 0001 67")
MANY = b"\xc1\x84\x3d"  # a million and one, as a compact count of a million


def varint(value: int) -> bytes:
    return scalar_writer.varint(value)


def rising_tags(count: int) -> bytes:
    return b"".join(varint(tag) + b"\0" for tag in range(1, count + 1))


def one_after_another(count: int, item: bytes) -> bytes:
    return varint(count + 1) + item * count


REGEX = bytes.fromhex("0010 0001 67 0001 72")
LARGE: dict[str, tuple[bytes, bytes]] = {
    "unknown tags": (GROUP, b"\0\0\0\0\0\1" + varint(MILLION) + rising_tags(MILLION)),
    "falling tags": (
        GROUP,
        b"\0\0\0\0\0\1" + varint(MILLION) + rising_tags(MILLION - 1) + b"\1\0",
    ),
    "empty strings": (REGEX, b"\0\0" + one_after_another(MILLION, b"\1") + bytes(16) + b"\0"),
    "no string at the end": (
        REGEX,
        b"\0\0" + varint(MILLION + 1) + b"\1" * (MILLION - 1) + b"\0" + bytes(16) + b"\0",
    ),
    "empty topics": (
        TARGET,
        b"\0\0" + one_after_another(200_000, bytes(16) + b"\1\0") + b"\0",
    ),
    "topics that are cut off": (TARGET, b"\0\0" + varint(MILLION + 1) + b"\1" * MILLION),
    "partitions": (
        TARGET,
        b"\0\0\2" + bytes(16) + one_after_another(MILLION, b"\0\0\0\7") + b"\0\0",
    ),
    "members": (
        MEMBERS,
        b"\0\0\0\0\0\0\0\1\xff\xff\xff\xff"
        + (50_000).to_bytes(4, "big")
        + b"\0\1m\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" * 50_000,
    ),
    "lists in lists": (
        TOPOLOGY,
        b"\0\0\0\0\0\1" + one_after_another(30_000, b"\1\2\1\2\1\1\2\1\1\0") + b"\0",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_million_of_anything(name: str) -> None:
    """Takes a second or so. The time limit of the test is the assertion."""
    assert_codecs_agree([LARGE[name]])


@contextlib.contextmanager
def measured() -> Iterator[Callable[[], int]]:
    """The most memory that was held at once, in bytes: NumPy's, Python's and Arrow's together."""
    default_pool, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1] + counted.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(default_pool)


def test_a_million_of_nothing_take_a_small_multiple_of_their_bytes() -> None:
    """Empty strings: a byte each in the record, and so little that all else is much beside it."""
    keys, values = binary([REGEX]), binary([b"\0\0" + MANY + b"\1" * MILLION + bytes(17)])
    decode(plan(), keys, values)
    with measured() as most:
        assert not decode(plan(), keys, values).reason.any()
        assert most() < 32 * MILLION


def test_many_rows_with_many_elements() -> None:
    """More rows than fit into a block."""
    topics = one_after_another(300, bytes(16) + b"\2\0\0\0\1\0")
    tags = varint(300) + rising_tags(300)
    pairs: list[Pair] = [(TARGET, b"\0\0" + topics + tags), (GROUP, b"\0\0\0\0\0\1" + tags)] * 80
    pairs += [(TARGET, b"\0\0" + topics[:-9]), (GROUP, b"\0\0\0\0\0\1" + tags[:-1])] * 80
    rows = assert_codecs_agree(pairs)
    assert sum(row.unknown_tags for row in rows) == 300 * 160


def test_ever_fewer_rows_with_ever_more_tags() -> None:
    """Row after row drops out of the reading of tags; some end in a fault, some in a known tag."""
    pairs: list[Pair] = []
    for count in (*range(130), *[0] * 300, *range(300, 2000, 20)):
        known = b"\0\x08" + bytes(8) if count % 3 else b""
        tags = varint(count + bool(known)) + known + rising_tags(count)
        pairs.append((GROUP, b"\0\0\0\0\0\1" + (tags if count % 7 != 5 else tags[:-1])))
    rows = assert_codecs_agree(pairs)
    assert {row.reason for row in rows} == {"none", "bad_length", "truncated"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (TARGET, "0000 ffffffff0f"),
        (TARGET, "0000 02" + "00" * 16 + "ffffffff0f"),
        (MEMBERS, "0000 0000 00000001 ffff ffff 7fffffff"),
        (MEMBERS, "0003 0000 00000001 ffff ffff 0000000000000001 7fffffff"),
        (GROUP, "0000 00000001 ffffffff0f"),
        (GROUP, "0000 00000001 01 05 ffffffff0f"),
        (REGEX, "0000 ffffffff0f"),
        (REGEX, "0000 02 ffffffff0f"),
    ],
)
def test_claimed_sizes_allocate_no_memory(key: bytes, value: str) -> None:
    data = bytes.fromhex(value)
    keys, values = binary([key] * 100), binary([data + b"\0" * 8] * 100)
    decode(plan(), keys, values)
    with measured() as most:
        decode(plan(), keys, values)
        assert most() < 1_000_000
    (row,) = assert_codecs_agree([(key, data + b"\0" * 8)])
    assert row.reason == "bad_length"


def test_a_narrow_row_beside_wide_ones() -> None:
    """A few rows have many more elements than the rest: both ways of measuring, in one batch."""
    message = messages("shipped")["ConsumerGroupTargetAssignmentMemberValue"]
    values = list(Bulk(31).values(message, 0, 100))
    topic = {"topicId": b"t" * 16, "partitions": [1, 2]}
    for index in (3, 50, 97):
        values[index] = {"topicPartitions": [topic] * (200 * index)}
    record = records()[7]
    pairs: list[Pair] = [(TARGET, scalar_writer.encode_value(record, 0, value)) for value in values]
    assert {row.reason for row in assert_codecs_agree(pairs)} == {"none"}
