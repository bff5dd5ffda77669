"""What an audit looks at of a large lake."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from kip848_spark.spark.ledger import Run
from kip848_spark.spark.sampling import ENOUGH, Sampled
from kip848_spark.spark.sources import Identity, Range

SMALL = ENOUGH // 10


def run_of(number: int, ends: list[int]) -> Run:
    ranges = tuple(Range(partition, 0, end) for partition, end in enumerate(ends))
    now = datetime.now(UTC)
    return Run(f"run-{number}", "test", Identity("t", None, None), "shipped", ranges, {}, now)


def test_all_of_a_small_lake() -> None:
    run = run_of(0, [SMALL, 0, SMALL])
    assert sorted(r.partition for r in Sampled.of(run).ranges) == [0, 2]
    assert all(r.start == 0 for r in Sampled.of(run).ranges)
    assert Sampled.of(replace(run, ranges=())).sql == "false"


@pytest.mark.parametrize("number", range(20))
def test_neighbours_and_no_more_than_enough(number: int) -> None:
    hot = 7
    ends = [SMALL] * 50
    ends[hot] = 20 * ENOUGH
    looked_at = Sampled.of(run_of(number, ends))
    chosen = [r.partition for r in looked_at.ranges]
    assert all((one + 1) % 50 == two for one, two in pairwise(chosen))
    assert ENOUGH <= looked_at.records <= 2 * ENOUGH
    for part in looked_at.ranges:
        assert part.end == ends[part.partition]
        assert part.start == (19 * ENOUGH if part.partition == hot else 0)


def test_every_run_looks_elsewhere() -> None:
    firsts = {Sampled.of(run_of(number, [SMALL] * 50)).ranges[0].partition for number in range(40)}
    assert len(firsts) > 10
