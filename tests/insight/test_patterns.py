"""Patterns in rebalances that are written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kip848_spark.insight.patterns import find_patterns
from kip848_spark.insight.rebalances import REBALANCE_FIELDS

Row = dict[str, Any]
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class History:
    """Rebalances and members, as the lake has them."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.members: list[Row] = []

    def add(
        self,
        seconds: float,
        size: int,
        joined: tuple[str, ...] = (),
        left: tuple[str, ...] = (),
        group: str = "g",
        partition: int = 3,
    ) -> History:
        offset = len(self.rows)
        self.rows.append(
            {
                "partition": partition,
                "group_id": group,
                "type": "consumer",
                "started_at": NOON + timedelta(seconds=seconds),
                "joined": list(joined),
                "left": list(left),
                "members": size,
                "episode_id": f"{partition}-{offset}",
                "from_offset": offset,
            }
        )
        return self

    def client(self, member: str, client: str, group: str = "g") -> History:
        self.members.append(
            {
                "group_id": group,
                "member_id": member,
                "instance_id": None,
                "client_id": client,
                "client_host": "/10.0.0.1",
            }
        )
        return self

    def patterns(self, **more: Any) -> list[Row]:
        rows = pa.Table.from_pylist(self.rows, schema=pa.schema(list(REBALANCE_FIELDS.items())))
        members = pa.Table.from_pylist(self.members) if self.members else None
        return find_patterns(rows, members, **more).to_pylist()

    def names(self, **more: Any) -> list[str]:
        return [row["pattern"] for row in self.patterns(**more)]


def test_members_that_are_replaced_one_after_the_other() -> None:
    history = History()
    for number in range(4):
        history.add(40 * number, 3, left=(f"old{number}",))
        history.add(40 * number + 10, 4, joined=(f"new{number}",))
    (row,) = history.patterns()
    assert (row["pattern"], row["count"], row["group_id"]) == ("rolling_restart", 4, "g")
    assert (row["since"], row["until"]) == (NOON, NOON + timedelta(seconds=130))
    assert len(row["episode_ids"]) == 8
    assert "old0" in row["members"]


def test_members_that_are_replaced_again_and_again() -> None:
    history = History()
    for number in range(9):  # of a group of four
        history.add(40 * number, 3, left=(f"m{number}",))
        history.add(40 * number + 10, 4, joined=(f"m{number + 4}",))
    assert history.names() == ["storm"], "more than one restart of each"


def test_scaling() -> None:
    grows = History().add(0, 3, ("a",)).add(5, 4, ("b",))
    assert [(row["pattern"], row["count"]) for row in grows.patterns()] == [("scale_out", 2)]
    assert not History().add(0, 1, ("a",)).add(5, 2, ("b",)).patterns(), "the group starts"
    shrinks = History().add(0, 3, (), ("a",)).add(5, 2, (), ("b",))
    assert shrinks.names() == ["scale_in"]
    assert not History().add(0, 1, (), ("a",)).add(5, 0, (), ("b",)).patterns(), "the group stops"


def test_a_client_that_comes_back_three_times_an_hour() -> None:
    history = History().add(0, 2, ("m0",)).client("m0", "worker")
    for number in range(1, 4):
        history.client(f"m{number}", "worker")
        history.add(900 * number, 1, left=(f"m{number - 1}",))
        history.add(900 * number + 60, 2, joined=(f"m{number}",))
    rows = {row["pattern"]: row for row in history.patterns()}
    assert rows["restart_loop"]["count"] == 3
    assert "worker on 10.0.0.1" in rows["restart_loop"]["explanation"]
    history.members.clear()
    assert "restart_loop" not in history.names(), "nobody knows that it is one client"


def test_three_members_of_one_client_that_restart_once_are_no_loop() -> None:
    history = History()
    for number in range(3):
        for member in (f"old{number}", f"new{number}"):
            history.client(member, "worker")
            start = NOON - timedelta(hours=1)
            if member.startswith("new"):
                start = NOON + timedelta(seconds=60 * number + 30)
            end = NOON + timedelta(seconds=60 * number) if member.startswith("old") else None
            history.members[-1] |= {"valid_from": start, "valid_to": end}
        history.add(60 * number, 2, left=(f"old{number}",))
        history.add(60 * number + 30, 3, joined=(f"new{number}",))
    assert history.names() == ["rolling_restart"]


def test_members_that_end_when_they_begin() -> None:
    """Behind a record with a time in the future, all records have that time."""
    history = History()
    for number in range(5):
        history.client(f"m{number}", "worker")
        history.members[-1] |= {"valid_from": NOON, "valid_to": NOON}
        history.add(0, 1, joined=(f"m{number}",)).add(0, 0, left=(f"m{number}",))
    (row,) = [row for row in history.patterns() if row["pattern"] == "restart_loop"]
    assert row["count"] == 4


def test_a_member_that_leaves_when_its_poll_interval_is_over() -> None:
    history = History()
    for number in range(3):
        history.add(400 * number, 2, joined=("m",))
        history.add(400 * number + 305, 1, left=("m",))
    (row,) = [row for row in history.patterns() if row["pattern"] == "poll_interval_loop"]
    assert (row["count"], row["members"]) == (3, ["m"])
    assert "poll_interval_loop" not in history.names(rebalance_timeouts={"m": 60_000})


def test_a_storm() -> None:
    history = History()
    for number in range(12):
        history.add(20 * number, 5)
    (row,) = history.patterns()
    assert (row["pattern"], row["count"]) == ("storm", 12)
    sparse = History()
    for number in range(12):
        sparse.add(100 * number, 5)
    assert not sparse.patterns()


def test_many_groups_of_one_partition_at_once() -> None:
    history = History()
    for number in range(6):
        history.add(number * 9, 2, group=f"g{number}", partition=3)
    history.add(10, 2, group="other", partition=4)
    (row,) = history.patterns()
    assert (row["pattern"], row["partition"], row["count"]) == ("offsets_partition_trouble", 3, 6)
    assert row["group_id"] is None
    for number in range(6):
        history.add(number * 9, 2, group=f"h{number}", partition=5)
    assert not history.patterns(), "all partitions are affected"


def test_no_rebalances() -> None:
    assert not History().patterns()
