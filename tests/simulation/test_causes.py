"""Why classic groups rebalanced, by `_truth`, against the log and the requests that were made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.simulation.partition import Entry
from kip848_spark.simulation.simulate import run
from kip848_spark.state import kinds
from kip848_spark.wire.control import control_columns
from tests.simulation.read_capture import FIELDS, PLAN, Rows
from tests.simulation.simulated_partitions import small

TIMEOUTS = {"session_timeout", "rebalance_timeout"}
KEEP_A_SESSION = ("Heartbeat", "JoinGroup")
"""SyncGroup keeps one only once it is answered, offset commits only if they are accepted."""


def classic_records(table: pa.Table) -> Iterator[tuple[str, int, dict[str, Any] | None]]:
    """Of each record of key 2: the group, the time in ms, and the value (None: a tombstone)."""
    table = table.combine_chunks()
    columns = control_columns(PLAN, FIELDS, table["key"].chunk(0), table["value"].chunk(0))
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    wanted = (columns[name].to_pylist() for name in ("kind", "group_id", kinds.CLASSIC))
    for time, kind, group, value in zip(times, *wanted, strict=True):
        if kind == kinds.CLASSIC:
            yield group, time // 1_000, value


def gone(before: dict[str, Any], now: dict[str, Any]) -> set[str]:
    """Members that were there before and are not now, nor came back under another id."""
    there = {member["member_id"] for member in now["members"]}
    back = {member["group_instance_id"] for member in now["members"]} - {None}
    return {
        member["member_id"]
        for member in before["members"]
        if member["member_id"] not in there and member["group_instance_id"] not in back
    }


@pytest.mark.parametrize("profile", ["chaos", "churn", "migration"])
def test_who_goes_from_a_classic_group_is_named(profile: str, tmp_path: Path) -> None:
    """Each member that the next generation lacks is named by that generation's rebalance; unless a
    LeaveGroup named it, a timer took it out, and it was silent for its whole session."""
    timeouts = left = 0
    for seed in range(5):
        trace: list[Entry] = []
        path = tmp_path / f"{seed}.parquet"
        life, _ = run(small(profile, seed, "4.3", 12_000, groups=3), 0, path, trace=trace)
        truth: Rows = [row for row in life.history.rebalances if row["type"] == "classic"]
        assert all(row["members"] for row in truth)
        rebalances = {(row["group_id"], row["epoch"], row["converged_at"]): row for row in truth}
        leavers = {
            (entry[4]["groupId"], member["memberId"]): entry[0]
            for entry in trace
            if entry[3] == "LeaveGroup"
            for member in entry[4]["members"]
        }
        last: dict[str, dict[str, Any]] = {}
        for group, at, value in classic_records(pq.read_table(path)):
            before = last.pop(group, None)
            if value is None:
                continue
            last[group] = value
            for member in gone(before, value) if before else ():
                row = rebalances[group, value["generation"], at]
                assert member in row["members"], (seed, row)
                if leavers.get((group, member), at + 1) <= at:
                    assert "member_left" in row["causes"], (seed, row)
                    left += 1
                    continue
                assert TIMEOUTS.intersection(row["causes"]), (seed, row)
                timeouts += 1
                if row["causes"] == ["session_timeout"]:
                    heard = max(
                        entry[0]
                        for entry in trace
                        if entry[3] in KEEP_A_SESSION
                        and entry[4].get("memberId") == member
                        and entry[0] < row["converged_at"]
                    )
                    (plan,) = (one.plan for one in life.groups if one.plan.group_id == group)
                    assert row["started_at"] - heard >= plan.session_timeout, (seed, row)
    assert timeouts
    assert left
