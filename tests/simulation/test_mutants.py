"""Coordinators with one rule broken: a few simulated lives notice each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.coordinator.mutants import MUTANTS
from tests.simulation.simulated_partitions import check_comes_to_rest, lived, small

SEEDS = range(12)
UNSEEN = {"takes any epoch"}
"""Only a client that lies about its epoch would see it; simulated ones don't."""


def lives(folder: Path) -> None:
    for seed in SEEDS:
        check_comes_to_rest(lived(small("chaos", seed, "4.3"), folder, 15))


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in UNSEEN])
def test_a_mutant_is_caught(name: str, tmp_path: Path) -> None:
    with MUTANTS[name](), pytest.raises(Exception):  # noqa: B017, PT011 - any way to notice
        lives(tmp_path)


def test_without_a_mutant_nothing_is_noticed(tmp_path: Path) -> None:
    lives(tmp_path)
