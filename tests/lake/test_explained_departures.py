"""What a lake says about members that left: their last commits and their session timeouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kip848_spark import Lake
from kip848_spark.lake.snapshot import LakeSnapshot
from tests.insight.story_rows import GROUP, at, group, member, part
from tests.lake.billing_lake import (
    BACK,
    REBALANCES,
    commit,
    write_billing_lake,
)
from tests.lake.written_lake import write_lake, write_run


def test_only_commits_of_what_the_member_owned_count(tmp_path: Path) -> None:
    """Another member commits orders-5 until the end; worker-3 owned orders-3 only."""
    path = write_billing_lake(tmp_path / "lake")
    others = [commit(60 + n, -8 + n, 5, n) for n in range(8)]
    write_run(path, {"records": others}, finished_at=at(90_000))
    (row,) = Lake(path).explain(GROUP, epoch=42)["rebalances"]
    assert row["departures"][0]["last_commit_at"] == at(-44.9)


def test_commits_before_a_member_joined_are_not_its_own(tmp_path: Path) -> None:
    """The owner before committed once a second until a minute ago."""
    tables = {
        "groups": [group(42, 0, None, (101, None))],
        "group_history": [group(41, -3000, 0, (9, 101)), group(42, 0, None, (101, None))],
        "member_history": [
            member("worker-3", -3000, -60, (12, 50), member_id="id-of-before"),
            member("worker-3", -17, -10, (90, 95)),
            member("worker-3", -10, 0, (95, 100), member_epoch=2),
        ],
        "assignment_history": [part("worker-3", 3, "assigned", -17, 0, (91, 99))],
        "rebalances": REBALANCES[:1],
        "records": [commit(20 + n, -70 + n, 3, n) for n in range(10)],
    }
    write_lake(tmp_path / "lake", tables)
    (row,) = Lake(tmp_path / "lake").explain(GROUP)["rebalances"]
    (gone,) = row["departures"]
    assert (gone["last_commit_at"], gone["likely"]) == (None, None)
    assert any("had joined 17 s before and not committed" in one["text"] for one in row["lines"])


def test_a_classic_member_has_its_own_session_timeout(tmp_path: Path) -> None:
    old = member("worker-3", -3000, 0, (12, 100), is_classic=True)
    metadata = {
        "group_id": GROUP, "member_id": "id-of-worker-3", "partition": 12, "offset": 12,
        "kind": "consumer_group_member_metadata", "tombstone": False,
        "consumer_group_member_metadata": {"classic_member_metadata": {"session_timeout_ms": 6000}},
    }  # fmt: skip
    write_lake(
        tmp_path / "lake",
        {
            "groups": [group(42, 0, None, (101, None))],
            "group_history": [group(42, 0, None, (101, None))],
            "member_history": [old],
            "assignment_history": [part("worker-3", 3, "assigned", -3000, 0, (12, 99))],
            "rebalances": REBALANCES[:1],
            "group_records": [metadata],
            "records": [commit(20 + n, -18 + n, 3, n) for n in range(10)],
        },
    )
    (row,) = Lake(tmp_path / "lake").explain(GROUP)["rebalances"]
    (gone,) = row["departures"]
    assert (gone["session_timeout_ms"], gone["session_timeout_assumed"]) == (6000, False)
    assert gone["likely"] == "expired", "9 s of silence after a commit a second"


def test_of_a_classic_group_only_the_generation_before_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record has all members of the group: all of them may not fit into memory."""
    kind = "group_metadata"
    generations = [
        {
            "group_id": GROUP, "partition": 12, "offset": offset, "kind": kind, "tombstone": False,
            kind: {"members": [{"member_id": "id-of-worker-3", "session_timeout": 100 * offset}]},
        }
        for offset in range(10, 110, 10)
    ]  # fmt: skip
    other_partition = {**generations[-2], "partition": 13}
    tables = {
        "groups": [group(42, 0, None, (101, None))],
        "group_history": [group(42, 0, None, (101, None))],
        "member_history": [member("worker-3", -3000, 0, (12, 100), is_classic=True)],
        "rebalances": [REBALANCES[0] | {"type": "classic", "from_offset": 95}],
        "group_records": [*generations, other_partition],
    }
    write_lake(tmp_path / "lake", tables)
    read = []
    select = LakeSnapshot.select

    def select_and_count(snapshot: LakeSnapshot, table: str, *args: Any) -> pa.Table:
        found = select(snapshot, table, *args)
        if table == "group_records" and kind in found.column_names:
            read.append(len(found))
        return found

    monkeypatch.setattr(LakeSnapshot, "select", select_and_count)
    (row,) = Lake(tmp_path / "lake").explain(GROUP)["rebalances"]
    assert row["departures"][0]["session_timeout_ms"] == 9_000
    assert read == [1]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_static_member_that_did_not_come_back(tmp_path: Path, replaced: bool) -> None:
    """It committed when it closed, and its session expired 10 s later. The member that has its
    instance id did come back."""
    static = {"instance_id": "billing-3"}
    old = [
        member("worker-3", -3000, -10, (12, 90), **static),
        member("worker-3", -10, 0, (90, 100), member_epoch=-2, **static),
    ]
    new = member("worker-3", 0, None, (100, None), member_id=BACK, **static)
    row = REBALANCES[0] | {"likely": "expired", "joined": [BACK] if replaced else []}
    groups = [group(41, -3000, 0, (13, 101)), group(42, 0, None, (101, None))]
    tables = {
        "groups": groups[1:], "group_history": groups, "rebalances": [row],
        "member_history": [*old, new] if replaced else old,
        "assignment_history": [part("worker-3", 3, "assigned", -3000, 0, (12, 99))],
        "records": [commit(20 + n, -15 + n, 3, n) for n in range(6)],
    }  # fmt: skip
    write_lake(tmp_path / "lake", tables)
    lake = Lake(tmp_path / "lake")
    (told,) = lake.explain(GROUP)["rebalances"]
    (gone,) = told["departures"]
    assert (gone["likely"], told["likely"]) == ("expired", "expired")
    assert gone["away_since"] == (None if replaced else at(-10))
    text = "closed at 02:13:57 as a static member and did not come back within its session timeout"
    assert any(text in line["text"] for line in told["lines"]) is not replaced
    away = [one["away"] for one in lake.owners("orders", 3) if one["member_id"]]
    assert away == [False, True]
    assert "away" in [one["event"] for one in lake.history(GROUP)]
