"""Gaps are found across batches and partitions, and get their cause by the documented rules."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.wire.offset_gaps import GapFinder


def find(gaps: GapFinder, rows: list[tuple[int, int, int]]) -> list[tuple[int | None, str | None]]:
    """``rows`` are (partition, offset, key)."""
    partition, offset, key = (np.array(column) for column in zip(*rows, strict=True))
    missing, cause = gaps.find(partition.astype(np.int32), offset, key.astype(np.int32))
    return list(zip(missing.to_pylist(), cause.to_pylist(), strict=True))


def test_after_a_key_came_twice_it_is_a_transaction() -> None:
    found = find(GapFinder({0: 0}), [(0, 0, 1), (0, 2, 2), (0, 3, 1), (0, 5, 3)])
    assert found == [(None, None), (1, "unknown"), (None, None), (1, "transaction")]


def test_a_key_may_have_come_twice_in_an_earlier_batch() -> None:
    gaps = GapFinder({0: 0})
    find(gaps, [(0, 0, 1), (0, 1, 1)])
    assert find(gaps, [(0, 3, 1)]) == [(1, "transaction")]


def test_mostly_missing_and_no_repeated_key_is_compaction() -> None:
    found = find(GapFinder({0: 0}), [(0, 40, 1), (0, 60, 2), (0, 61, 3)])
    assert found == [(40, "compaction"), (19, "compaction"), (None, None)]


RESUMED = [(0, 55, 1), (0, 56, 2), (0, 58, 3), (0, 70, 4)]


@pytest.mark.parametrize(
    ("resumed", "causes"),
    [
        ({}, ["compaction", "compaction", "compaction"]),
        ({0: False}, ["unknown", "unknown", "compaction"]),
        ({0: True}, ["transaction", "transaction", "compaction"]),
        ({1: True}, ["compaction", "compaction", "compaction"]),
    ],
)
def test_a_run_may_begin_with_an_open_transaction(
    resumed: dict[int, bool], causes: list[str]
) -> None:
    found = find(GapFinder({0: 40}, {}, resumed), RESUMED)
    assert [cause for missing, cause in found if missing] == causes


def test_the_marker_of_a_transaction_that_was_open_at_the_start() -> None:
    rows = [(0, 40, 1), (0, 41, 2), (0, 43, 3), (0, 45, 4)]
    found = find(GapFinder({0: 40}, {}, {0: True}), rows)
    assert [cause for _, cause in found] == [None, None, "transaction", "unknown"]
    found = find(GapFinder({0: 40}, {}, {0: False}), rows)
    assert [cause for _, cause in found] == [None, None, "unknown", "unknown"]


@pytest.mark.parametrize("batches", [1, 2])
def test_the_marker_of_an_aborted_transaction_that_was_open_at_the_start(batches: int) -> None:
    gaps = GapFinder({0: 40}, {}, {0: True})
    rows = [(0, 41, 1), (0, 42, 2), (0, 44, 3), (0, 46, 4)]
    parts = [rows] if batches == 1 else [rows[:2], rows[2:]]
    found = [cause for part in parts for _, cause in find(gaps, part)]
    assert found == ["transaction", None, "transaction", "unknown"]


def test_only_a_single_offset_is_the_marker() -> None:
    rows = [(0, 40, 1), (0, 52, 2), (0, 54, 3)]
    assert find(GapFinder({0: 40}, {}, {0: True}), rows) == [
        (None, None), (11, "compaction"), (1, "compaction"),
    ]  # fmt: skip


def test_a_large_gap_at_the_start_is_compaction() -> None:
    for resumed in ({}, {0: False}, {0: True}):
        found = find(GapFinder({0: 40}, {}, resumed), [(0, 140, 1), (0, 141, 2)])
        assert found == [(100, "compaction"), (None, None)]


def test_partitions_are_independent() -> None:
    found = find(GapFinder({0: 0, 1: 5}), [(0, 0, 1), (0, 1, 1), (1, 5, 1), (1, 7, 2)])
    assert found == [(None, None)] * 3 + [(1, "unknown")]


def test_descending_offsets_are_an_error() -> None:
    with pytest.raises(ValueError, match="partition 3"):
        find(GapFinder({3: 0}), [(3, 1, 1), (3, 0, 1)])


@given(
    st.lists(st.integers(0, 30), unique=True, min_size=1, max_size=20).map(sorted),
    st.lists(st.integers(1, 19), max_size=4),
)
def test_every_missing_offset_is_in_one_gap(offsets: list[int], cuts: list[int]) -> None:
    gaps = GapFinder({0: 0})
    missing_offsets: list[int] = []
    bounds = sorted({0, *(min(cut, len(offsets)) for cut in cuts), len(offsets)})
    for start, end in itertools.pairwise(bounds):
        some = offsets[start:end]
        for offset, (missing, _) in zip(
            some, find(gaps, [(0, at, at % 3) for at in some]), strict=True
        ):
            missing_offsets += range(offset - (missing or 0), offset)
    assert missing_offsets == sorted(set(range(offsets[-1] + 1)) - set(offsets))
