"""The vectorized decoder against bytes made by hand, the scalar codec, and batches of odd forms."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kip848_spark.wire.decode import decode
from tests.wire.scalar_comparison import (
    Pair,
    Row,
    assert_codecs_agree,
    binary,
    by_columns,
    by_scalar,
    plan,
)
from tests.wire.schema_definitions import Record, records
from tests.wire.strategies import Bulk, damaged, samples

FOLDERS = ("shipped", "kip", "kip_ea37", "kip_draft")
SLOW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def kinds() -> list[Any]:
    return [
        pytest.param(folder, record, id=f"{folder}-{record.key_type}-{record.kind}")
        for folder in FOLDERS
        for record in records(folder).values()
        if folder == "shipped" or record.key_type > 2
    ]


def mixed(seed: int, count: int, folder: str = "shipped") -> list[Pair]:
    """Records of every kind and version in no order, tombstones among them."""
    bulk = Bulk(seed)
    made = [
        sample.encoded()
        for record in records(folder).values()
        for version in (*record.value.valid, None)
        for sample in bulk.samples(record, version, count)
    ]
    random.Random(seed).shuffle(made)
    return list(made)


# --- every kind ------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "record"), kinds())
def test_a_kind_alone(folder: str, record: Record) -> None:
    bulk = Bulk(seed=20)
    for version in (*record.value.valid, None):
        pairs = [sample.encoded() for sample in bulk.samples(record, version, 150)]
        rows = assert_codecs_agree(pairs, folder)
        assert {row.reason for row in rows} == {"none"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_kinds_in_one_batch(folder: str) -> None:
    rows = assert_codecs_agree(mixed(21, 40, folder), folder)
    assert {row.reason for row in rows} == {"none"}
    assert sum(row.unknown_tags for row in rows) > 50


@given(st.lists(samples(), max_size=8))
@SLOW
def test_what_hypothesis_finds(made: list[Any]) -> None:
    assert_codecs_agree([sample.encoded() for sample in made])


@given(st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=60))))
@SLOW
def test_any_bytes(pairs: list[Pair]) -> None:
    assert_codecs_agree(pairs)


# --- damaged bytes ---------------------------------------------------------------------------


def damage(pairs: list[Pair], draw: random.Random, share: float) -> list[Pair]:
    """The same records, some of them damaged in their value, fewer in their key."""
    out: list[Pair] = []
    for key, value in pairs:
        assert key is not None
        if draw.random() >= share:
            out.append((key, value))
        elif value is None or draw.random() < 0.15:
            out.append((damaged(draw, key, draw.choice(pairs)[0] or b""), value))
        else:
            out.append((key, damaged(draw, value, draw.choice(pairs)[1] or b"")))
    return out


@pytest.mark.parametrize(("folder", "record"), kinds())
def test_damaged_records_of_a_kind(folder: str, record: Record) -> None:
    draw = random.Random(22)
    for version in record.value.valid:
        good = [sample.encoded() for sample in Bulk(22).samples(record, version, 300)]
        rows = assert_codecs_agree(damage(list(good), draw, share=0.8), folder)
        assert len({row.reason for row in rows}) > 3


def test_good_rows_between_bad_ones() -> None:
    good = mixed(21, 30)
    bad = damage(good, random.Random(21), share=1.0)
    between = [pair for pairs in zip(good, bad, strict=True) for pair in pairs]
    rows = assert_codecs_agree(between)
    assert rows[::2] == [by_scalar(pair) for pair in good]
    assert sum(row.reason == "none" for row in rows[::2]) == len(good)
    met = {row.reason for row in rows}
    assert met >= {
        *("none", "truncated", "trailing_bytes", "bad_length", "bad_utf8", "bad_tag"),
        *("null_not_allowed", "unknown_key_type", "unknown_value_version", "bad_presence"),
    }


def test_every_cut() -> None:
    """Each record cut after each of its bytes: never read, never past the end."""
    pairs: list[Pair] = []
    for record in records().values():
        for version in record.value.valid:
            (sample,) = Bulk(24, unknown_tags=False).samples(record, version, 1)
            key, value = sample.encoded()
            assert value is not None
            pairs += [(key, value[:at]) for at in range(len(value))]
            pairs += [(key[:at], value) for at in range(len(key))]
    rows = assert_codecs_agree(pairs)
    assert not any(row.reason == "none" for row in rows)


# --- forms of a batch ------------------------------------------------------------------------


def rows_of(keys: pa.Array, values: pa.Array) -> list[Row]:
    return by_columns(decode(plan(), keys, values))


def test_slices() -> None:
    pairs = mixed(25, 6)
    keys, values = (binary(half) for half in zip(*pairs, strict=True))
    whole = rows_of(keys, values)
    for first, length in ((0, 1), (1, 50), (17, 64), (8, 8), (100, len(pairs) - 100)):
        part = rows_of(keys.slice(first, length), values.slice(first, length))
        assert part == whole[first : first + length]
    uneven = rows_of(
        keys.slice(3, 40), pa.concat_arrays([values.slice(3, 10), values.slice(13, 30)])
    )
    assert uneven == whole[3:43]


def test_large_binary() -> None:
    pairs = damage(mixed(26, 6), random.Random(26), share=0.3)
    keys, values = zip(*pairs, strict=True)
    large = rows_of(binary(keys, pa.large_binary()), binary(values, pa.large_binary()))
    assert large == rows_of(binary(keys), binary(values))


def test_nothing() -> None:
    for type_ in (pa.binary(), pa.large_binary()):
        decoded = decode(plan(), binary([], type_), binary([], type_))
        assert (decoded.count, decoded.distinct, decoded.values) == (0, 0, [])
        assert (len(decoded.key_of), len(decoded.reason), len(decoded.unknown)) == (0, 0, 0)


def test_nulls_only() -> None:
    rows = assert_codecs_agree([(None, None)] * 5)
    assert {(row.reason, row.tombstone) for row in rows} == {("null_key", True)}
    assert_codecs_agree([(None, b"\0\0")] * 3)
    keys = [pair[0] for pair in mixed(27, 2)]
    rows = assert_codecs_agree([(key, None) for key in keys])
    assert {(row.reason, row.tombstone, row.value) for row in rows} == {("none", True, None)}


def test_empty_bytes_only() -> None:
    rows = assert_codecs_agree([(b"", b"")] * 4)
    assert {(row.reason, row.side) for row in rows} == {("empty_key", "key")}
    commit = bytes.fromhex("0001 0001 67 0001 74 00000000")
    rows = assert_codecs_agree([(commit, b"")] * 4)
    assert {(row.reason, row.side, row.position) for row in rows} == {("empty_value", "value", 0)}


def test_bytes_under_a_null_are_not_looked_at() -> None:
    """A null's place in the offsets may span bytes."""
    commit = bytes.fromhex("0001 0001 67 0001 74 00000000")
    offsets = pa.py_buffer(np.array([0, 12, 24], np.int32))
    keys = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x01"), offsets, pa.py_buffer(commit * 2)]
    )
    values = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x00"), offsets, pa.py_buffer(b"\0\3" * 12)]
    )
    first, second = rows_of(keys, values)
    assert (first.reason, first.tombstone, first.key_type) == ("none", True, 1)
    assert (second.reason, second.tombstone, second.key_type) == ("null_key", True, -1)


def test_the_bytes_after_a_row_do_not_matter() -> None:
    pairs = damage(mixed(28, 10), random.Random(28), share=0.5)
    values = [value for _, value in pairs]
    keys = binary([key for key, _ in pairs])
    joined = b"".join(value or b"" for value in values)
    ends = np.cumsum([0, *(len(value or b"") for value in values)]).astype(np.int32)
    mask = pa.array([value is None for value in values])
    before = None
    for behind in (b"", b"\0" * 64, b"\xff" * 64, b"\x01" * 64):
        data = pa.py_buffer(joined + behind)
        whole = pa.Array.from_buffers(
            pa.binary(), len(pairs), [_bitmap(mask), pa.py_buffer(ends), data]
        )
        rows = rows_of(keys, whole)
        assert before is None or rows == before
        before = rows


def _bitmap(null: pa.Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(~null.to_numpy(zero_copy_only=False), bitorder="little"))
