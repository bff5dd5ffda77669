"""Coordinators with one rule broken: a few simulations detect each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordinator.mutants import MUTANTS
from tests.simulation.simulated_partitions import check_converges, plan_small, simulate_minutes

SEEDS = range(12)
UNDETECTED = {"accepts any epoch"}
"""Only a client that reports a wrong epoch would detect it; simulated clients do not."""


def simulate_all(folder: Path) -> None:
    for seed in SEEDS:
        check_converges(simulate_minutes(plan_small("chaos", seed, "4.3"), folder, 15))


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in UNDETECTED])
def test_mutant_is_detected(name: str, tmp_path: Path) -> None:
    with MUTANTS[name](), pytest.raises(Exception):  # noqa: B017, PT011 - any failure detects it
        simulate_all(tmp_path)


def test_unmodified_coordinator_passes(tmp_path: Path) -> None:
    simulate_all(tmp_path)
