"""Operations on Arrow arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kip848_spark.wire import columns


def test_scatter() -> None:
    numbers = pa.array([1, 2, 3])
    parts = [(np.array([4, 0]), numbers.slice(0, 2)), (np.array([2]), numbers.slice(2))]
    assert columns.scatter(parts, 5, pa.int64()).to_pylist() == [2, None, 3, None, 1]
    assert columns.scatter(parts, 5, pa.int64(), -1).to_pylist() == [2, -1, 3, -1, 1]
    assert columns.scatter([], 2, pa.int64()).to_pylist() == [None, None]
    assert columns.scatter([], 2, pa.int64(), 7).to_pylist() == [7, 7]
    every = [(np.arange(3), numbers)]
    assert columns.scatter(every, 3, pa.int64()) is numbers
    turned = [(np.array([0, 2, 1]), numbers)]
    assert columns.scatter(turned, 3, pa.int64()).to_pylist() == [1, 3, 2]


@pytest.mark.parametrize("default", [[], [1, 2]])
def test_scatter_with_a_list_as_default(default: list[int]) -> None:
    lists = pa.array([[5], None], pa.list_(pa.int32()))
    found = columns.scatter([(np.array([1, 2]), lists)], 4, lists.type, default)
    assert found.to_pylist() == [default, [5], None, default]


def test_scatter_with_a_struct_as_default() -> None:
    type_ = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    structs = pa.array([None, {"a": 1, "b": ["x"]}], type_)
    default = {"a": 0, "b": []}
    found = columns.scatter([(np.array([2, 0]), structs)], 3, type_, default)
    assert found.to_pylist() == [{"a": 1, "b": ["x"]}, default, None]


def test_null_arrays_share_memory() -> None:
    few, many = columns.null_array(3, pa.int16()), columns.null_array(1000, pa.int16())
    assert (len(few), few.null_count, len(many), many.null_count) == (3, 3, 1000, 1000)
    assert columns.null_array(10, pa.int16()).buffers()[1].address == many.buffers()[1].address


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
