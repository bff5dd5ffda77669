"""The timeline of a group, from rows written by hand: what a column shows if several things happen
within it."""

from __future__ import annotations

import pytest

from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.timeline import draw
from tests.insight.story_rows import at, member


@pytest.mark.parametrize(
    ("stays", "cells"),
    [
        (((0, 31),), "===x      "),
        (((31, 36),), "   x      "),  # it joined and left: it is not back
        (((0, 31), (36, None)), "===o======"),
        (((0, 31), (36, 38)), "===x      "),
        (((31, 33), (35, None)), "   o======"),
        (((0, 31), (55, None)), "===x +===="),
    ],
)
def test_a_client_is_back_only_if_it_joins_after_it_was_gone(
    stays: tuple[tuple[float, float | None], ...], cells: str
) -> None:
    """A column stands for 10 s."""
    rows = [
        member("w", start, end, (10 * n, None if end is None else 10 * n + 5), member_id=f"w-{n}")
        for n, (start, end) in enumerate(stays)
    ]
    timeline = draw(rows, [], [], MemberNames(rows), (at(0.5), at(100.5)), 10, 5)
    assert [row.cells for row in timeline.rows] == [cells]


def test_a_client_that_another_member_replaces_in_the_same_record_is_back() -> None:
    """So a classic group shows a client that restarted during a rebalance."""
    old = member("w", 0, 31, (0, 40), member_id="w-0")
    rows = [old, member("w", 31, None, (40, None), member_id="w-1")]
    timeline = draw(rows, [], [], MemberNames(rows), (at(0.5), at(100.5)), 10, 5)
    assert [row.cells for row in timeline.rows] == ["===o======"]
