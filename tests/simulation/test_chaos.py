"""Safety and liveness: no invariant breaks, and without events every group becomes stable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.simulated_partitions import (
    PROFILES,
    RELEASES,
    check_converges,
    plan_small,
    simulate_minutes,
)

MINUTES = 25


def _simulate(seed: int, folder: Path) -> None:
    profile = PROFILES[0] if seed % 2 else PROFILES[seed // 2 % len(PROFILES)]
    release = RELEASES[(seed + seed // 10) % len(RELEASES)] if seed % 3 else "4.3"
    partition = simulate_minutes(plan_small(profile, seed, release, groups=2), folder, MINUTES)
    check_converges(partition)
    partition.sync()
    partition.log.assign_offsets()
    partition.log.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(48))
def test_simulation_is_safe_and_converges(seed: int, tmp_path: Path) -> None:
    _simulate(seed, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_simulations(block: int, tmp_path: Path) -> None:
    for seed in range(1_000 + block * 50, 1_050 + block * 50):
        try:
            _simulate(seed, tmp_path)
        except Exception as broken:
            raise AssertionError(f"seed {seed}") from broken
