"""Rebalances of real brokers, held against what the consumers did (`kip848_spark.local.scenarios`,
captured in `tests/data/kafka-*`)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.captures import COMMITTED
from tests.conftest import CAPTURED, DATA
from tests.insight.fold_captures import control_records, fold

JOINED, LEFT = "member_joined", "left_or_expired"

LAST_CAUSES = {
    "demo.classic-range": [JOINED, JOINED],
    "demo.classic-sticky": [LEFT],
    "demo.deleted": [JOINED, LEFT],
    "demo.deleted-classic": [JOINED, LEFT],
    "demo.emptied": [JOINED, JOINED, LEFT, LEFT],
    "demo.grown": [JOINED, JOINED, "topics_changed"],
    "demo.killed": [JOINED, JOINED, LEFT],
    "demo.range": [JOINED, JOINED, JOINED, LEFT],
    "demo.regex": ["regex_resolved"],
    "demo.static": [JOINED, JOINED, JOINED],
    "demo.three": [JOINED, JOINED, JOINED],
    "demo.uniform": [JOINED, JOINED, "subscription_changed"],
}
"""The causes of the last rebalances of groups whose script leaves no choice."""
SOME_CAUSES = {"demo.migrated": "upgraded", "demo.half-migrated": "upgraded",
               "demo.returned": "downgraded"}  # fmt: skip


@cache
def rebalances(release: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    raw = pq.read_table(DATA / f"kafka-{release}" / COMMITTED).sort_by("offset")
    for partition in pc.unique(raw["partition"]):
        records = control_records(raw.filter(pc.equal(raw["partition"], partition)))
        for row in fold(records).to_pylist():
            found.setdefault(row["group_id"], []).append(row)
    return found


@pytest.mark.parametrize("release", CAPTURED)
@pytest.mark.parametrize("group", LAST_CAUSES)
def test_the_causes_are_what_the_consumers_did(group: str, release: str) -> None:
    expected = LAST_CAUSES[group]
    causes = [row["causes"] for row in rebalances(release)[group]]
    assert causes[-len(expected) :] == [[cause] for cause in expected]


@pytest.mark.parametrize("release", CAPTURED)
@pytest.mark.parametrize("group", SOME_CAUSES)
def test_migrations_are_causes(group: str, release: str) -> None:
    causes = {cause for row in rebalances(release)[group] for cause in row["causes"]}
    assert SOME_CAUSES[group] in causes


@pytest.mark.parametrize("release", CAPTURED)
def test_only_the_group_with_a_stuck_member_is_still_rebalancing(release: str) -> None:
    still_open = {
        group for group, rows in rebalances(release).items() if rows[-1]["outcome"] == "open"
    }
    assert still_open == {"demo.stuck"}
    last = rebalances(release)["demo.stuck"][-1]
    assert last["causes"] == [JOINED]
    assert last["slowest_member"] is not None
    assert not last["complete"]
