"""Arrow arrays out of positions in a buffer."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kip848_spark.wire import columns

PIECES = (
    *(b"", b"a", b"\x7f", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc2\x80"),
    *(b"\xdf\xbf", b"\xe0\x9f\xbf", b"\xe0\xa0\x80", b"\xe0\xa0", b"\xed\x9f\xbf", b"\xed\xa0\x80"),
    *(b"\xef\xbf\xbf", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf0\x90"),
    *(b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xf8\x88\x80\x80\x80", "日".encode()),
)


def valid(data: bytes) -> bool:
    try:
        data.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return False
    return True


def check_utf8(rows: list[bytes]) -> None:
    wrong = columns.invalid_utf8(pa.array(rows, pa.binary()))
    right = [not valid(row) for row in rows]
    assert right == ([False] * len(rows) if wrong is None else wrong.tolist())


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join) | st.binary(max_size=6))
)
@settings(max_examples=400, deadline=None)
def test_utf8_as_python_has_it(rows: list[bytes]) -> None:
    check_utf8(rows)


@pytest.mark.parametrize("at_once", [10, columns.UTF8_AT_ONCE])
def test_utf8_in_bulk(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "UTF8_AT_ONCE", at_once)
    draw = random.Random(1)
    for _ in range(50):
        check_utf8([b"".join(draw.choices(PIECES, k=draw.randrange(5))) for _ in range(300)])


def test_utf8_of_a_slice() -> None:
    rows = pa.array([b"\xff", b"\xc2\x80", b"\xc2", b"\x80", b"a"], pa.binary())
    found = columns.invalid_utf8(rows.slice(1, 3))
    assert found is not None
    assert found.tolist() == [False, True, True]
    assert columns.invalid_utf8(rows.slice(4)) is None


def test_slices_of_a_buffer() -> None:
    data = np.frombuffer(b"abcdefgh", np.uint8)
    start, length = np.array([6, 0, 3, 8, 0]), np.array([2, 3, 0, 0, 8])
    null = np.array([False, False, True, False, False])
    found = columns.slices(data, start, length, null, pa.binary())
    found.validate(full=True)
    assert found.to_pylist() == [b"gh", b"abc", None, b"", b"abcdefgh"]
    empty = columns.slices(data, start, np.zeros(5, np.int64), null, pa.string())
    assert empty.to_pylist() == ["", "", None, "", ""]


def test_slices_beyond_two_gibibytes() -> None:
    data = np.zeros((1 << 31) + 100, np.uint8)  # never touched but at its end
    data[-3:] = list(b"end")
    at = np.array([len(data) - 3, 0])
    found = columns.slices(data, at, np.array([3, 0]), None, pa.string())
    assert found.to_pylist() == ["end", ""]


def test_gather() -> None:
    numbers = pa.array([1, 2, 3])
    parts = [(np.array([4, 0]), numbers.slice(0, 2)), (np.array([2]), numbers.slice(2))]
    assert columns.gather(parts, 5, pa.int64()).to_pylist() == [2, None, 3, None, 1]
    assert columns.gather(parts, 5, pa.int64(), -1).to_pylist() == [2, -1, 3, -1, 1]
    assert columns.gather([], 2, pa.int64()).to_pylist() == [None, None]
    assert columns.gather([], 2, pa.int64(), 7).to_pylist() == [7, 7]
    every = [(np.arange(3), numbers)]
    assert columns.gather(every, 3, pa.int64()) is numbers
    turned = [(np.array([0, 2, 1]), numbers)]
    assert columns.gather(turned, 3, pa.int64()).to_pylist() == [1, 3, 2]


@pytest.mark.parametrize("default", [[], [1, 2]])
def test_gather_with_a_list_as_default(default: list[int]) -> None:
    lists = pa.array([[5], None], pa.list_(pa.int32()))
    found = columns.gather([(np.array([1, 2]), lists)], 4, lists.type, default)
    assert found.to_pylist() == [default, [5], None, default]


def test_gather_with_a_struct_as_default() -> None:
    type_ = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    structs = pa.array([None, {"a": 1, "b": ["x"]}], type_)
    default = {"a": 0, "b": []}
    found = columns.gather([(np.array([2, 0]), structs)], 3, type_, default)
    assert found.to_pylist() == [{"a": 1, "b": ["x"]}, default, None]


def test_nulls_share_their_memory() -> None:
    few, many = columns.nulls(3, pa.int16()), columns.nulls(1000, pa.int16())
    assert (len(few), few.null_count, len(many), many.null_count) == (3, 3, 1000, 1000)
    assert columns.nulls(10, pa.int16()).buffers()[1].address == many.buffers()[1].address


def test_uuids_as_text() -> None:
    ids = [bytes(16), bytes(range(16)), b"\xff" * 16, bytes(16)]
    text = columns.uuid_text(pa.array([*ids, None], pa.binary(16)))
    assert text.to_pylist() == [
        "AAAAAAAAAAAAAAAAAAAAAA",
        "AAECAwQFBgcICQoLDA0ODw",
        "_____________________w",
        "AAAAAAAAAAAAAAAAAAAAAA",
        None,
    ]
    assert [columns.uuid_bytes(each) for each in text.to_pylist()[:4]] == ids
    with pytest.raises(ValueError, match="16 bytes"):
        columns.uuid_bytes("AAAA")
