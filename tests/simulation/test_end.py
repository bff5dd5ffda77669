"""A cluster is captured at one moment: when its logs end, and how many records they have."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pytest

from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.simulation.profiles import PROFILES
from kip848_spark.simulation.simulate import TRUTH
from tests.simulation.read_capture import partitions

LONGEST_INTERVAL = 10_000
"""No group that is not transactional commits less often, in ms."""


def ends(capture: Path) -> tuple[int, dict[int, int]]:
    """When the cluster was captured, and the time of each partition's last record, in ms."""
    about = json.loads((capture / TRUTH / "about.json").read_text())
    last = {
        partition: pc.max(table["timestamp"]).value // 1_000
        for partition, table in partitions(capture).items()
    }
    return about["ended_at"], last


@pytest.mark.parametrize("seed", range(4))
def test_all_partitions_end_at_one_time(seed: int, tmp_path: Path) -> None:
    """In a quiet cluster members commit until the end, and every partition has such members."""
    plan = plan_cluster("steady", 20_000, seed, partitions=4, groups=16)
    made = simulate(plan, tmp_path / "c")
    ended_at, last = ends(tmp_path / "c")
    assert len(last) == 4
    assert made.records == 20_000
    assert max(last.values()) == ended_at
    assert min(last.values()) >= ended_at - LONGEST_INTERVAL - 100


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(3))
def test_records_are_as_many_as_asked_for(profile: str, seed: int, tmp_path: Path) -> None:
    records = 3_000 + 997 * seed
    made = simulate(plan_cluster(profile, records, seed, groups=1 + seed), tmp_path / "c")
    assert records <= made.records <= records * 1.01


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_one_partition_has_a_share_of_all_records(share: float, tmp_path: Path) -> None:
    """It has more records in the same time."""
    plan = plan_cluster("steady", 40_000, 5, partitions=6, groups=24, busiest=share)
    made = simulate(plan, tmp_path / "c")
    ended_at, last = ends(tmp_path / "c")
    assert made.records == 40_000
    assert min(last.values()) >= ended_at - LONGEST_INTERVAL - 100
    most = max(table.num_rows for table in partitions(tmp_path / "c").values())
    assert most / made.records == pytest.approx(share, abs=0.05)
