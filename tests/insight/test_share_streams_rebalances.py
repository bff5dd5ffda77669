"""Rebalances of share and streams groups in logs that are written by hand."""

from __future__ import annotations

from typing import Any

from tests.insight.test_rebalances import Row, last
from tests.insight.written_records import (
    Log,
    record,
)


def test_a_share_group_converges_when_all_members_are_at_the_target() -> None:
    def share(kind: str, value: Row | None, **key: Any) -> Row:
        return record(f"share_group_{kind}", value, **key)

    def joins(name: str, number: int) -> list[Row]:
        at = {"member_epoch": number, "previous_member_epoch": 0, "state": 0}
        return [
            share("member_metadata", {"subscribed_topic_names": ["a"]}, member_id=name),
            share("metadata", {"epoch": number, "metadata_hash": 1}),
            share("target_assignment_metadata", {"assignment_epoch": number}),
            share("current_member_assignment", at, member_id=name),
        ]

    log = Log().write(1_000, joins("m1", 2)).write(2_000, joins("m2", 3))
    row = last(log)
    assert (row["type"], row["outcome"], row["causes"]) == ("share", "open", ["member_joined"])
    at = {"member_epoch": 3, "previous_member_epoch": 2, "state": 0}
    row = last(log.write(3_000, share("current_member_assignment", at, member_id="m1")))
    assert (row["outcome"], row["duration_ms"], row["partitions_moved"]) == (
        "converged",
        1_000,
        None,
    )
    row = last(log.write(4_000, share("metadata", {"epoch": 4, "metadata_hash": 1})))
    assert row["causes"] == ["topics_changed"], "partitions became assignable"


def test_a_streams_member_counts_its_states_from_one() -> None:
    def streams(kind: str, value: Row | None, **key: Any) -> Row:
        return record(f"streams_group_{kind}", value, **key)

    def tasks(numbers: list[int]) -> list[Row]:
        return [{"subtopology_id": "0", "partitions": numbers}] if numbers else []

    def assigned(name: str, number: int, state: int, own: list[int], give: list[int]) -> Row:
        value = {"member_epoch": number, "previous_member_epoch": 1, "state": state}
        value |= {"active_tasks": tasks(own), "active_tasks_pending_revocation": tasks(give)}
        return streams("current_member_assignment", value, member_id=name)

    def aims(name: str, own: list[int]) -> Row:
        return streams("target_assignment_member", {"active_tasks": tasks(own)}, member_id=name)

    def joins(name: str) -> Row:
        return streams("member_metadata", {"client_id": name}, member_id=name)

    def epochs(number: int) -> list[Row]:
        return [
            streams("metadata", {"epoch": number, "metadata_hash": 1}),
            *(() if number == 2 else (aims("m1", [0]), aims("m2", [1]))),
            streams("target_assignment_metadata", {"assignment_epoch": number}),
        ]

    log = Log().write(1_000, joins("m1"), epochs(2), assigned("m1", 2, 1, [0, 1], []))
    log.write(2_000, joins("m2"), epochs(3), assigned("m2", 3, 3, [], []))
    log.write(2_400, assigned("m1", 2, 2, [0], [1])).write(2_900, assigned("m1", 3, 1, [0], []))
    row = last(log.write(3_000, assigned("m2", 3, 1, [1], [])))
    assert (row["outcome"], row["duration_ms"], row["causes"]) == (
        "converged",
        1_000,
        ["member_joined"],
    )
    assert (row["partitions_moved"], row["unowned_ms"], row["blocked_members"]) == (1, 600, ["m2"])
    assert (row["slowest_member"], row["slowest_ms"]) == ("m1", 500)
