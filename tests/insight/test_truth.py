"""Rebalances of simulated clusters, compared with what the simulation knows of them, and with a
plain replay."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from kip848_spark.insight.rebalances import CAUSES
from kip848_spark.simulation.plan import plan_cluster
from kip848_spark.simulation.simulate import simulate
from tests.insight.fold_captures import Row, fold, milliseconds, random_cuts, read_control
from tests.insight.plain_replay import describe
from tests.simulation.read_capture import truth
from tests.simulation.simulated_partitions import PROFILES

SEEDS = ((11, "4.3"), (12, "4.0"), (13, "4.2"))
SAME_RECORDS = {
    "member_left": "left_or_expired",
    "session_timeout": "left_or_expired",
    "join_timeout": "left_or_expired",
    "settings_changed": "unknown",
}
"""Causes that the log does not tell apart."""


@dataclass(frozen=True)
class Simulated:
    """The rebalances of a simulated cluster: those in the log, and the true ones."""

    found: list[Row]
    true: list[Row]
    records: dict[tuple[int, str], list[Row]]
    """The control records of each partition and group."""


@pytest.fixture(scope="module", params=PROFILES)
def clusters(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Simulated]:
    return [
        simulated(request.param, seed, release, tmp_path_factory.mktemp("cluster"))
        for seed, release in SEEDS
    ]


def simulated(profile: str, seed: int, release: str, folder: Path) -> Simulated:
    plan = plan_cluster(profile, 12_000, seed, release=release, partitions=1, groups=6)
    simulate(plan, folder / "capture", check=False, workers=1)
    found: list[Row] = []
    records: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for number, table in read_control(folder / "capture"):
        rows = fold(table)
        again = fold(table, random_cuts(len(table), 6, seed), random_cuts(len(table), 2, seed + 1))
        assert again.equals(rows), "chunks and runs change nothing"
        times = zip(
            milliseconds(rows, "started_at"), milliseconds(rows, "converged_at"), strict=True
        )
        for row, (start, end) in zip(rows.to_pylist(), times, strict=True):
            found.append(row | {"partition": number, "start": start, "end": end})
        for record in table.to_pylist():
            records[number, record["group_id"]].append(record)
    return Simulated(found, truth(folder / "capture", "rebalances"), records)


def test_consumer_rebalances_are_the_true_ones(clusters: list[Simulated]) -> None:
    """The same epochs, starts, ends and causes."""
    counts: Counter[str] = Counter()
    different = []
    for cluster in clusters:
        found = {
            (row["partition"], row["group_id"], row["epoch"], row["start"]): row
            for row in cluster.found
            if row["type"] == "consumer"
        }
        true = [row for row in cluster.true if row["type"] == "consumer"]
        assert len(found) == len(true), "no rebalance is missing or made up"
        for row in true:
            key = (row["partition"], row["group_id"], row["epoch"], row["started_at"])
            mine = found.get(key)
            if mine is not None and not mine["complete"]:
                assert row["converged_at"] is None
                continue
            counts["complete"] += 1
            if mine is not None and is_same(mine, row):
                counts["same"] += 1
            else:
                different.append((row, mine))
    print(f"{counts['same']} of {counts['complete']} consumer rebalances", different)
    assert counts["complete"] > 10
    assert counts["same"] >= 0.99 * counts["complete"], different


@pytest.mark.parametrize("type_", ["share", "streams"])
def test_rebalances_of_newer_types_are_the_true_ones(type_: str, tmp_path: Path) -> None:
    """The same epochs, starts, ends and causes."""
    same = complete = 0
    different = []
    for seed, release in ((21, "4.4"), (22, "4.2")):
        cluster = simulated("types", seed, release, tmp_path / release)
        found = {
            (row["group_id"], row["epoch"], row["start"]): row
            for row in cluster.found
            if row["type"] == type_
        }
        true = [row for row in cluster.true if row["type"] == type_]
        assert len(found) == len(true) > 5, "no rebalance is missing or made up"
        for row in true:
            mine = found.get((row["group_id"], row["epoch"], row["started_at"]))
            if mine is not None and not mine["complete"]:
                assert row["converged_at"] is None
                continue
            complete += 1
            if mine is not None and is_same(mine, row):
                same += 1
            else:
                different.append((row, mine))
    print(f"{same} of {complete} {type_} rebalances", different)
    assert same >= 0.99 * complete > 10, different


def is_same(mine: Row, row: Row) -> bool:
    causes = sorted({SAME_RECORDS.get(cause, cause) for cause in row["causes"]})
    members = sorted(set(row["members"]))
    if causes == ["upgraded"]:  # the truth also names the members that were there before
        same_members = set(mine["trigger_members"]) <= set(members)
    else:
        same_members = mine["trigger_members"] == members
    if causes == ["static_member_replaced"]:  # the log also says why this needed an epoch
        causes = sorted({*causes, *mine["causes"]} - {"member_joined", "left_or_expired"})
    return mine["end"] == row["converged_at"] and mine["causes"] == causes and same_members


def test_classic_generations_are_the_true_ones(clusters: list[Simulated]) -> None:
    """Every generation is found at its time. The record shows only how the members differ from
    those of the generation before: a member that left and came back shows nothing."""
    counts: Counter[str] = Counter()
    different = []
    for cluster in clusters:
        found = {
            (row["partition"], row["group_id"], row["epoch"], row["end"]): row
            for row in cluster.found
            if row["type"] == "classic"
        }
        true = {
            (row["partition"], row["group_id"], row["epoch"], row["converged_at"]): row
            for row in cluster.true
            if row["type"] == "classic"
        }
        assert found.keys() == true.keys()
        for key, mine in found.items():
            causes = {SAME_RECORDS.get(cause, cause) for cause in true[key]["causes"]}
            if "rebalance_timeout" in causes:  # it did not rejoin or sync in time
                causes = causes - {"rebalance_timeout"} | {"left_or_expired"}
            counts["all"] += 1
            counts["equal"] += mine["causes"] == sorted(causes)
            if fits(set(mine["causes"]), causes):
                counts["fits"] += 1
            else:
                different.append((true[key], mine))
    print(f"{counts['fits']} of {counts['all']} generations ({counts['equal']} equal)", different)
    assert counts["all"] > 5
    assert counts["fits"] >= 0.99 * counts["all"], different


def fits(mine: set[str], causes: set[str]) -> bool:
    """Whether the true causes can leave these differences between two generations."""
    if mine & {"rejoined", "subscription_changed", "assignor_changed"}:
        return len(mine) == 1
    explained = {"static_member_replaced": "member_joined"}
    return {explained.get(cause, cause) for cause in mine} <= causes


def test_moves_and_times_equal_a_plain_replay(clusters: list[Simulated]) -> None:
    compared: Counter[str] = Counter()
    for cluster in clusters:
        rows: dict[tuple[int, str], list[Row]] = defaultdict(list)
        for row in cluster.found:
            if row["type"] == "consumer":
                rows[row["partition"], row["group_id"]].append(row)
        for key, of_group in rows.items():
            by_offset = {row["from_offset"]: row for row in of_group}
            for offset, expected in describe(cluster.records[key], of_group).items():
                mine = by_offset[offset]
                assert {name: mine[name] for name in expected} == expected, (key, mine)
                compared.update(expected.keys())
                compared["moves"] += bool(expected.get("partitions_moved"))
                compared["waits"] += bool(expected["unowned_ms"])
    assert compared["moves"] > 5, compared
    assert compared["waits"] > 5, compared


def test_causes_are_known_names(clusters: list[Simulated]) -> None:
    for cluster in clusters:
        for row in cluster.found:
            assert set(row["causes"]) <= set(CAUSES)
            assert row["causes"], row
            assert row["causes"] == sorted(row["causes"])
