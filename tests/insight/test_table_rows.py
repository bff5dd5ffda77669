"""Rows of a table as a sequence do what a list of them does."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.insight.table_rows import TableRows

BOUND = st.none() | st.integers(-6, 6)
STEP = st.sampled_from([None, 1, 2, -1, -3])


@given(st.integers(0, 4), BOUND, BOUND, STEP)
def test_slices(count: int, start: int | None, stop: int | None, step: int | None) -> None:
    rows = [{"a": number, "b": None} for number in range(count)]
    found = TableRows(pa.table({"a": range(count), "b": pa.nulls(count)}))
    part = slice(start, stop, step)
    assert found[part] == rows[part]
    assert (list(found), len(found), bool(found)) == (rows, count, count > 0)


def test_single_rows_and_many_rows() -> None:
    found = TableRows(pa.table({"a": range(25_000)}))
    assert (found[0], found[-1]) == ({"a": 0}, {"a": 24_999})
    assert sum(row["a"] for row in found) == sum(range(25_000))
    with pytest.raises(IndexError):
        found[25_000]
