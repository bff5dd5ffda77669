"""The short form of `make fuzz`, and the records on which the long one once failed."""

from __future__ import annotations

import pytest

from kip848_spark.wire.faults import Reason
from tests.wire.fuzz import check, run, stored_failures
from tests.wire.scalar_comparison import Pair


def test_damaged_records() -> None:
    tally = run(seed=848, records=120_000)
    assert tally.records == 120_000
    assert len(tally.reasons) == len(Reason), "not every reason was met"


@pytest.mark.parametrize(
    ("folder", "seed", "pairs"), [pytest.param(*kept[1:], id=kept[0]) for kept in stored_failures()]
)
def test_stored_failures(folder: str, seed: int, pairs: list[Pair]) -> None:
    check(pairs, seed, folder, intact=set())
