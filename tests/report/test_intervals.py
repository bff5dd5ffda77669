"""Intervals are merged, and the times between them found, as a loop over every millisecond does."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kip848_spark.report.intervals import STILL, Intervals, merge, outside, without

END = 30
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 2), st.integers(0, END), st.integers(0, END) | st.none()
    ),
    max_size=12,
)


def intervals(rows: list[tuple[int, int, int, int | None]]) -> Intervals:
    columns = zip(*((s, v, a, int(STILL) if b is None else b) for s, v, a, b in rows), strict=True)
    found = [np.array(column, np.int64) for column in columns]
    return Intervals(*found) if rows else Intervals(*(np.empty(0, np.int64) for _ in range(4)))


def moments(found: Intervals) -> dict[tuple[int, int], set[int]]:
    """The moments from 0 to `END` at which a subject had a value; `END` stands for all later."""
    times: dict[tuple[int, int], set[int]] = {}
    for subject, value, start, end in zip(*(column.tolist() for column in found), strict=True):
        times.setdefault((subject, value), set()).update(range(start, min(end, END + 1)))
    return {key: held for key, held in times.items() if held}


@settings(max_examples=300)
@given(ROWS)
def test_merged_intervals_are_true_at_the_same_times_and_do_not_touch(
    rows: list[tuple[int, int, int, int | None]],
) -> None:
    found = merge(intervals(rows))
    assert moments(found) == moments(intervals(rows))
    ends: dict[tuple[int, int], int] = {}
    for subject, value, start, end in zip(*(column.tolist() for column in found), strict=True):
        assert start > ends.get((subject, value), -1)
        ends[subject, value] = end


@given(ROWS, st.lists(st.sampled_from([0, END]), min_size=3, max_size=3))
def test_the_times_between_are_those_at_which_nothing_was_true(
    rows: list[tuple[int, int, int, int | None]], wanted: list[int]
) -> None:
    lasting = [row for row in rows if row[3] is None or row[3] > row[2]]
    until = np.array([int(STILL) if one else 0 for one in wanted], np.int64)
    found = moments(without(intervals(lasting), until))
    held = moments(intervals(lasting))
    for subject in range(3):
        mine = [times for (one, _), times in held.items() if one == subject]
        true = set().union(*mine) if mine else set()
        last = END + 1 if wanted[subject] else max(true, default=-1)
        expected = {t for t in range(min(true, default=END + 1), last) if t not in true}
        assert found.get((subject, 0), set()) == expected


@given(ROWS, st.lists(st.tuples(st.integers(0, END), st.integers(0, END)), max_size=4))
def test_the_parts_outside_given_times(
    rows: list[tuple[int, int, int, int | None]], cuts: list[tuple[int, int]]
) -> None:
    cuts = [(min(cut), max(cut)) for cut in cuts]
    start, end = np.array(cuts, np.int64).reshape(-1, 2).T
    lost = {moment for first, last in cuts for moment in range(first, last)}
    held = moments(intervals(rows)).items()
    expected = {key: true - lost for key, true in held if true - lost}
    assert moments(outside(intervals(rows), start, end)) == expected
