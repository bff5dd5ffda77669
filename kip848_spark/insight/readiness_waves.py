"""The order in which groups should move: quiet, small, loosely coupled ones first.

Wave 0 are groups that are being migrated: they are finished first. A group that can move is in wave
1, plus one for each of these that it is not, plus one if it has warnings:

* quiet: no members, or no rebalances and at most one commit a minute; where the lake does not have
  these rates: no commit for a day;
* small: at most `SMALL_MEMBERS` members and `SMALL_PARTITIONS` assigned partitions;
* loosely coupled: no other group has a member on one of its hosts, so that a new client library
  there changes one group only.

Other groups have no wave."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state.control_state import integers
from kip848_spark.wire.array_types import BoolArray, Int64Array

SMALL_MEMBERS = 5
SMALL_PARTITIONS = 50
QUIET_COMMITS = 1440
"""Commits a day."""
_UNKNOWN = -1


def wave_numbers(facts: pa.Table, verdict: pa.Array) -> pa.Array:
    """int32[groups]: the wave of each group; null if it can't move."""
    lacking = sum(
        (~quality).astype(np.int64) for quality in (_quiet(facts), _small(facts), _loose(facts))
    )
    warned = pc.equal(verdict, "ready_with_warnings").to_numpy(zero_copy_only=False)
    ready = pc.equal(verdict, "ready").to_numpy(zero_copy_only=False)
    migrating = pc.equal(verdict, "migrating").to_numpy(zero_copy_only=False)
    wave = np.where(migrating, 0, 1 + lacking + warned)
    return pa.array(wave.astype(np.int32), mask=~(ready | warned | migrating))


def _numbers(facts: pa.Table, name: str) -> Int64Array:
    return integers(facts[name].combine_chunks(), _UNKNOWN)


def _quiet(facts: pa.Table) -> BoolArray:
    commits, rebalances = _numbers(facts, "commits_per_day"), _numbers(facts, "rebalances_per_day")
    idle = _numbers(facts, "idle_days")
    has_commits = _numbers(facts, "committed_partitions") > 0
    by_rate = (commits <= QUIET_COMMITS) & (rebalances <= 0)
    by_age = (idle >= 1) | ~has_commits
    quiet = np.where(commits == _UNKNOWN, by_age, by_rate)
    return np.asarray(quiet | (_numbers(facts, "members") == 0))


def _small(facts: pa.Table) -> BoolArray:
    few = _numbers(facts, "members") <= SMALL_MEMBERS
    return np.asarray(few & (_numbers(facts, "assigned_partitions") <= SMALL_PARTITIONS))


def _loose(facts: pa.Table) -> BoolArray:
    return np.asarray(_numbers(facts, "coupled_groups") == 0)
