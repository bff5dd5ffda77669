"""A row is decoded the same alone and among any others of a block."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kip848_spark.wire.blocks import BLOCK
from kip848_spark.wire.chunks import CHUNK
from tests.wire.scalar_comparison import Pair, assert_codecs_agree

KEY = bytes.fromhex("0001 0001 67 0001 74 00000000")
TOPIC_ID = bytes(range(16))


def commit(metadata: bytes, tags: bytes, behind: bytes = b"") -> bytes:
    """An offset commit of version 4."""
    return (
        b"\0\4" + bytes(8) + b"\0\0\0\5" + bytes([len(metadata) + 1]) + metadata
        + (1_700_000_000_000).to_bytes(8, "big") + tags + behind
    )  # fmt: skip


NONE, ID = b"\0", b"\1\0\x10" + TOPIC_ID
TAGS = {
    "none": NONE,
    "topic id": ID,
    "one that is not known": b"\1\1\2ab",
    "both": b"\2\0\x10" + TOPIC_ID + b"\1\2ab",
    "twice": b"\2\0\x10" + TOPIC_ID + b"\0\x10" + TOPIC_ID,
    "short": b"\1\0\x0f" + TOPIC_ID[1:],
    "long": b"\1\0\x11" + TOPIC_ID + b"x",
    "cut": ID[:-1],
    "tag alone": b"\1\0",
    "count alone": b"\1",
    "no count": b"",
    "many": b"\x7f",
    "overlong count": b"\x80\0",
    "overlong size": b"\1\0\x90\0" + TOPIC_ID,
}
PLAIN = st.builds(commit, st.binary(max_size=20).filter(bytes.isascii), st.sampled_from([NONE, ID]))
ODD = st.one_of(
    st.builds(commit, st.binary(max_size=60), st.sampled_from(list(TAGS.values()))),
    st.builds(commit, st.just(b""), st.just(ID), st.binary(min_size=1, max_size=3)),
    st.builds(lambda octets, size: octets[:size], PLAIN, st.integers(0, 60)),
    st.sampled_from([b"", b"\0", b"\0\4", b"\0\3", b"\0\x63", b"\xff\xff"]),
)


@given(st.lists(PLAIN, min_size=1, max_size=3), st.lists(ODD, max_size=3), st.data())
@settings(max_examples=150, deadline=None)
def test_odd_rows_among_plain_ones(
    plain: list[bytes], odd: list[bytes], data: st.DataObject
) -> None:
    size = data.draw(st.sampled_from([1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK]))
    values = (plain * size)[:size]
    for value in odd:
        values.insert(data.draw(st.integers(0, len(values))), value)
    assert_codecs_agree([(KEY, value) for value in values])


def test_each_way_of_tags_at_each_place() -> None:
    """In the first row, in the last one, and after a block of others."""
    for tags in TAGS.values():
        odd = commit(b"", tags)
        for others in (NONE, ID):
            plain = commit(b"text", others)
            for place in (0, 5, BLOCK - 1, BLOCK):
                values = [plain] * (BLOCK + 1)
                values[place] = odd
                assert_codecs_agree([(KEY, value) for value in values])


def test_more_than_a_chunk() -> None:
    """Programs continue in the next chunk, their buffers grow, and a program that is first needed
    in the middle of a chunk starts there."""
    draw = random.Random(8)
    pairs: list[Pair] = []
    for number in range(3 * CHUNK + 77):
        text = draw.choice([b"", b"", b"m" * draw.randrange(40), "é".encode() * (number % 50)])
        older = b"\0\3" + bytes(12) + len(text).to_bytes(2, "big") + text + bytes(8)
        newer = commit(text, draw.choice([NONE, ID]))
        pairs.append((KEY, older if number < CHUNK * 3 // 2 else newer))
        if draw.random() < 0.1:
            odd = [None, b"\0\4" + draw.randbytes(20), b"\0\3" + bytes(22), b"\0\1" + bytes(26)]
            pairs.append((KEY, draw.choice(odd)))
    rows = assert_codecs_agree(pairs)
    assert {(row.version, row.reason) for row in rows} >= {(1, "none"), (3, "none"), (4, "none")}
