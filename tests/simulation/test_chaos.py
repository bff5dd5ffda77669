"""Safety and liveness: whatever happens, no invariant breaks, and left alone every group rests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.simulated_partitions import (
    PROFILES,
    RELEASES,
    check_comes_to_rest,
    lived,
    small,
)

MINUTES = 25


def _live(seed: int, folder: Path) -> None:
    profile = PROFILES[0] if seed % 2 else PROFILES[seed // 2 % len(PROFILES)]
    release = RELEASES[seed % len(RELEASES)] if seed % 3 else "4.3"
    life = lived(small(profile, seed, release, groups=2), folder, MINUTES)
    check_comes_to_rest(life)
    life.sync()
    life.log.settle()
    life.log.close()


@pytest.mark.parametrize("seed", range(48))
def test_any_life_is_safe_and_comes_to_rest(seed: int, tmp_path: Path) -> None:
    _live(seed, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("block", range(20))
def test_a_thousand_lives(block: int, tmp_path: Path) -> None:
    for seed in range(1_000 + block * 50, 1_050 + block * 50):
        try:
            _live(seed, tmp_path)
        except Exception as broken:
            raise AssertionError(f"seed {seed}") from broken
