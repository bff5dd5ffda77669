"""A capture in which records repeat."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.errors import CaptureError
from kip848_spark.wire.record_stream import without_repeats

_bytes = st.sampled_from([None, b"", b"a", b"b"])
_records = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(0, 4)), st.tuples(_bytes, _bytes), max_size=8
)
Row = tuple[int, int, bytes | None, bytes | None]


def _batches(rows: list[Row], cuts: list[int]) -> list[pa.RecordBatch]:
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [
        pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([row[0] for row in part], pa.int32()),
                "offset": pa.array([row[1] for row in part], pa.int64()),
                "key": pa.array([row[2] for row in part], pa.binary()),
                "value": pa.array([row[3] for row in part], pa.binary()),
            }
        )
        for start, end in pairwise(bounds)
        for part in [rows[start:end]]
    ]


def _rows(batches: list[pa.RecordBatch]) -> list[Row]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@given(_records, st.lists(st.integers(1, 3), min_size=8, max_size=8), st.lists(st.integers(0, 24)))
def test_each_record_once(
    records: dict[tuple[int, int], tuple[bytes | None, bytes | None]],
    times: list[int],
    cuts: list[int],
) -> None:
    once = [(*place, *content) for place, content in sorted(records.items())]
    rows = [row for row, count in zip(once, times, strict=False) for _ in range(count)]
    assert _rows(list(without_repeats(iter(_batches(rows, cuts))))) == once


@given(
    _records.filter(bool),
    st.data(),
    st.tuples(_bytes, _bytes),
    st.lists(st.integers(0, 24)),
)
def test_two_different_records_at_one_offset(
    records: dict[tuple[int, int], tuple[bytes | None, bytes | None]],
    data: st.DataObject,
    other: tuple[bytes | None, bytes | None],
    cuts: list[int],
) -> None:
    place = data.draw(st.sampled_from(sorted(records)))
    rows = [(*at, *content) for at, content in sorted(records.items())]
    rows.insert(rows.index((*place, *records[place])) + 1, (*place, *other))
    if other == records[place]:
        return
    with pytest.raises(CaptureError, match=f"at offset {place[1]} of partition {place[0]}"):
        list(without_repeats(iter(_batches(rows, cuts))))
