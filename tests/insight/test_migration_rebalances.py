"""Rebalances of groups that change between the classic and the consumer protocol."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip848_spark.state import kinds
from tests.insight.fold_captures import fold
from tests.insight.test_captured_rebalances import read
from tests.insight.test_rebalances import found, last
from tests.insight.written_records import (
    Log,
    classic,
    current,
    epoch,
    member,
    no_member,
    record,
    target,
    target_epoch,
)

CLASSIC_MEMBER = {"session_timeout_ms": 1, "supported_protocols": []}


def test_an_upgrade_and_a_downgrade() -> None:
    log = Log().write(1_000, classic(1, {"c1": {"partitions": (0, 1)}}))
    old = member("c1", classic_member_metadata=CLASSIC_MEMBER)
    log.write(
        2_000,
        record(kinds.CLASSIC, None),
        old,
        epoch(1),
        target("c1", (0, 1)),
        target_epoch(1),
        current("c1", 1, (0, 1), before=1),
        member("m1"),
        epoch(2),
        target("c1", (0,)),
        target("m1", (1,)),
        target_epoch(2),
        current("m1", 2, (), state=2),
    )
    first, copied, joined = found(log)
    assert (first["type"], first["epoch"], first["causes"]) == ("classic", 1, ["member_joined"])
    assert (copied["epoch"], copied["causes"], copied["joined"]) == (1, ["upgraded"], [])
    assert copied["superseded_by"] == 2
    assert (joined["causes"], joined["joined"]) == (["upgraded"], ["m1"])
    assert joined["partitions_moved"] == 1

    log.write(
        3_000,
        [record(kinds.CURRENT, None, member_id=one) for one in ("c1", "m1")],
        [record(kinds.TARGET, None, member_id=one) for one in ("c1", "m1")],
        target_epoch(None),
        [record(kinds.MEMBER, None, member_id=one) for one in ("c1", "m1")],
        record(kinds.PARTITIONS, None),
        epoch(None),
        classic(2, {"c1": {"partitions": (0,)}}),
    )
    *_, joined, down = found(log)
    assert (joined["outcome"], joined["epoch"], joined["superseded_by"]) == ("superseded", 2, 2)
    assert (joined["converged_at"], joined["to_offset"]) == (None, down["from_offset"] - 1)
    assert (down["type"], down["epoch"], down["causes"]) == ("classic", 2, ["downgraded"])
    assert (down["left"], down["joined"]) == (["m1"], [])
    row = last(log.write(4_000, classic(3, {"c1": {"partitions": (0, 1)}})))
    assert row["causes"] == ["rejoined"]


def test_a_downgrade_by_a_member_that_replaces_another() -> None:
    """The epoch rises for the new member, and the group ends in the same operation. As in the log
    of a broker of 4.0.2."""
    old = member("s1", instance_id="i", classic_member_metadata=CLASSIC_MEMBER)
    log = Log().write(
        1_000, old, epoch(1), target("s1", (0, 1)), target_epoch(1), current("s1", 1, (0, 1))
    )
    names = ("m1", "s2")
    log.write(1_500, member("m1", classic_member_metadata=CLASSIC_MEMBER), epoch(2))
    log.write(
        2_000,
        no_member("s1"),
        member("s2", instance_id="i", classic_member_metadata=CLASSIC_MEMBER),
        target("s2", (0, 1)),
        current("s2", 0, (0, 1)),
        member("s2", ("b",), instance_id="i", classic_member_metadata=CLASSIC_MEMBER),
        epoch(3),
        [record(kinds.CURRENT, None, member_id=one) for one in names],
        [record(kinds.TARGET, None, member_id=one) for one in names],
        target_epoch(None),
        [record(kinds.MEMBER, None, member_id=one) for one in names],
        epoch(None),
        classic(2, {one: {"partitions": ()} for one in names}),
    )
    *_, second, third, down = found(log)
    assert (second["epoch"], second["outcome"], second["superseded_by"]) == (2, "superseded", 3)
    assert third["causes"] == ["static_member_replaced", "subscription_changed"]
    assert (third["joined"], third["left"], third["members"]) == (["s2"], ["s1"], 2)
    assert (third["outcome"], third["superseded_by"]) == ("superseded", 2)
    assert (down["type"], down["epoch"], down["causes"]) == ("classic", 2, ["downgraded"])


@pytest.mark.parametrize("empty", [True, False])
def test_a_join_to_a_group_without_members_is_no_upgrade(empty: bool) -> None:
    """As in the log of a broker of 4.3.1 after `kafka-consumer-groups --reset-offsets`: the broker
    writes the tombstone of a classic group, although there was none."""
    log = Log().write(1_000, classic(3, {})) if empty else Log()
    log.write(
        2_000,
        record(kinds.CLASSIC, None),
        member("m1"),
        epoch(2),
        target("m1", (0, 1)),
        target_epoch(2),
        current("m1", 2, (0, 1)),
    )
    row = last(log)
    assert (row["epoch"], row["causes"], row["joined"]) == (2, ["member_joined"], ["m1"])
    assert (row["trigger_members"], row["partitions_moved"]) == (["m1"], 0)


@pytest.mark.parametrize("capture", ["moving-4.2.0", "churn-4.2.1", "upgraded-4.1.2-4.3.1-4.1.2"])
def test_real_groups_are_upgraded_if_they_had_members(capture: str) -> None:
    checked = {True: 0, False: 0}
    for records in read(capture).values():
        had_members = _ended_classic_groups(records)
        for row in fold(records).to_pylist():
            ended = had_members.get((row["group_id"], row["started_at"]))
            if row["type"] == "consumer" and ended is not None:
                assert ("upgraded" in row["causes"]) == ended, row
                checked[ended] += 1
    assert checked[True] > 10
    assert checked[False]


def _ended_classic_groups(records: pa.Table) -> dict[tuple[str, datetime], bool]:
    """Whether each classic group that a tombstone ends had members, by group and time."""
    had_members: dict[str, bool] = {}
    found = {}
    for row in records.filter(pc.equal(records["kind"], kinds.CLASSIC)).to_pylist():
        if row["tombstone"]:
            found[row["group_id"], row["timestamp"]] = had_members.pop(row["group_id"], False)
        else:
            had_members[row["group_id"]] = bool(row[kinds.CLASSIC]["members"])
    return found
