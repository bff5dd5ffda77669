"""All logs of a cluster end at one moment, with the requested number of records."""

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
"""The longest commit interval (ms) of groups that are not transactional."""


def ends(capture: Path) -> tuple[int, dict[int, int]]:
    """When the cluster was captured, and the time of each partition's last record, in ms."""
    about = json.loads((capture / TRUTH / "about.json").read_text())
    last = {
        partition: pc.max(table["timestamp"]).value // 1_000
        for partition, table in partitions(capture).items()
    }
    return about["ended_at"], last


@pytest.mark.parametrize("seed", range(4))
def test_all_partitions_end_at_the_same_time(seed: int, tmp_path: Path) -> None:
    """In a quiet cluster, members of every partition commit until the end."""
    plan = plan_cluster("steady", 20_000, seed, partitions=4, groups=16)
    result = simulate(plan, tmp_path / "c")
    ended_at, last = ends(tmp_path / "c")
    assert len(last) == 4
    assert result.records == 20_000
    assert max(last.values()) == ended_at
    assert min(last.values()) >= ended_at - LONGEST_INTERVAL - 100


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(3))
def test_number_of_records(profile: str, seed: int, tmp_path: Path) -> None:
    records = 3_000 + 997 * seed
    result = simulate(plan_cluster(profile, records, seed, groups=1 + seed), tmp_path / "c")
    assert records <= result.records <= records * 1.01


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_busiest_partition_has_its_share(share: float, tmp_path: Path) -> None:
    """The busiest partition has more records in the same time span."""
    plan = plan_cluster("steady", 40_000, 5, partitions=6, groups=24, busiest=share)
    result = simulate(plan, tmp_path / "c")
    ended_at, last = ends(tmp_path / "c")
    assert result.records == 40_000
    assert min(last.values()) >= ended_at - LONGEST_INTERVAL - 100
    most = max(table.num_rows for table in partitions(tmp_path / "c").values())
    assert most / result.records == pytest.approx(share, abs=0.05)
