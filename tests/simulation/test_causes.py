"""The causes of classic rebalances in `_truth`, checked against the log and the requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.simulation.partition import TraceEntry
from kip848_spark.simulation.simulate import run
from kip848_spark.state import kinds
from kip848_spark.wire.control import control_columns
from tests.simulation.read_capture import FIELDS, PLAN, Rows
from tests.simulation.simulated_partitions import plan_small

TIMEOUTS = {"session_timeout", "rebalance_timeout"}
KEEP_A_SESSION = ("Heartbeat", "JoinGroup")
"""SyncGroup extends a session only once it is answered, an offset commit only if accepted."""


def classic_records(table: pa.Table) -> Iterator[tuple[str, int, dict[str, Any] | None]]:
    """Group, time in ms and value (None for a tombstone) of each record of key 2."""
    table = table.combine_chunks()
    columns = control_columns(PLAN, FIELDS, table["key"].chunk(0), table["value"].chunk(0))
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    wanted = (columns[name].to_pylist() for name in ("kind", "group_id", kinds.CLASSIC))
    for time, kind, group, value in zip(times, *wanted, strict=True):
        if kind == kinds.CLASSIC:
            yield group, time // 1_000, value


def removed_members(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Members that are missing afterwards and did not return under another id."""
    there = {member["member_id"] for member in after["members"]}
    back = {member["group_instance_id"] for member in after["members"]} - {None}
    return {
        member["member_id"]
        for member in before["members"]
        if member["member_id"] not in there and member["group_instance_id"] not in back
    }


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["chaos", "churn", "migration"])
def test_removed_classic_members_are_named(profile: str, tmp_path: Path) -> None:
    """A member that the next generation lacks is named by that generation's rebalance. Unless a
    LeaveGroup named it, a timer removed it after a whole session without requests."""
    timeouts = left = 0
    for seed in range(5):
        trace: list[TraceEntry] = []
        path = tmp_path / f"{seed}.parquet"
        partition, _ = run(plan_small(profile, seed, "4.3", 12_000, groups=3), 0, path, trace=trace)
        truth: Rows = [row for row in partition.history.rebalances if row["type"] == "classic"]
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
            for member in removed_members(before, value) if before else ():
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
                    (plan,) = (one.plan for one in partition.groups if one.plan.group_id == group)
                    assert row["started_at"] - heard >= plan.session_timeout, (seed, row)
    assert timeouts
    assert left
