"""Rebalances in the logs of real brokers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.conftest import DATA
from tests.insight.fold_captures import Row, control_records, fold, random_cuts

CAPTURES = sorted(path.name for path in DATA.iterdir() if any(path.glob("records*.parquet")))


def read(capture: str) -> dict[int, pa.Table]:
    """The control records of each partition."""
    folder = DATA / capture
    committed = folder / "records-committed.parquet"
    table = pq.read_table(committed if committed.exists() else Path(folder / "records.parquet"))
    parts = {}
    for number in sorted(pc.unique(table["partition"]).to_pylist()):
        rows = table.filter(pc.equal(table["partition"], number)).sort_by("offset")
        parts[number] = control_records(rows)
    return parts


def rebalances(capture: str) -> list[Row]:
    return [row for table in read(capture).values() for row in fold(table).to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES)
def test_every_log_has_sensible_rebalances(capture: str) -> None:
    for table in read(capture).values():
        rows = fold(table)
        cuts = random_cuts(len(table), 4, 1), random_cuts(len(table), 2, 2)
        assert fold(table, *cuts).equals(rows), "chunks and runs change nothing"
        for row in rows.to_pylist():
            assert row["causes"]
            moved, fewest = row["partitions_moved"], row["minimal_moves"]
            assert (moved is None) == (fewest is None)
            assert moved is None or moved >= fewest >= 0
            assert row["duration_ms"] is None or row["duration_ms"] >= 0
            assert (row["converged_at"] is not None) >= (row["outcome"] == "converged")


@pytest.mark.parametrize("capture", [name for name in CAPTURES if name.startswith("churn-")])
def test_every_rebalance_of_an_uncompacted_log_has_a_cause(capture: str) -> None:
    causes = Counter(cause for row in rebalances(capture) for cause in row["causes"])
    assert not causes["unknown"]
    for cause in ("member_joined", "left_or_expired", "upgraded", "downgraded", "topics_changed"):
        assert causes[cause], "the script makes members come and go, groups move, topics grow"


@pytest.mark.parametrize("capture", [name for name in CAPTURES if name.startswith("kafka-")])
def test_the_scenarios_have_their_causes(capture: str) -> None:
    """local/scenarios.py: regular expressions, a group that is upgraded, one that is downgraded."""
    causes = Counter(cause for row in rebalances(capture) for cause in row["causes"])
    assert causes["regex_resolved"] == 2
    assert causes["downgraded"] == 1
    assert causes["upgraded"]
    assert causes["subscription_changed"]
    assert not causes["unknown"]
