"""The table `assignments` of lists in which partitions are repeated."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.state import kinds
from kip848_spark.state.assignments import assignments
from tests.state.control_logs import fill

_partitions = st.lists(st.integers(-1, 3), max_size=5)


@st.composite
def _topic_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    topics = []
    for topic_id in draw(st.lists(st.sampled_from("xyz"), max_size=4)):
        numbers = draw(_partitions)
        size = len(numbers)
        epochs = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
        topics.append({"topic_id": topic_id, "partitions": numbers, "assignment_epochs": epochs})
    return topics


_classic_members = st.lists(
    st.builds(
        lambda member, topics: {
            "member_id": member,
            "consumer_assignment": {
                "assigned_partitions": [
                    {"topic": name, "partitions": numbers} for name, numbers in topics
                ]
            },
        },
        st.sampled_from("mn"),
        st.lists(st.tuples(st.sampled_from("xyz"), _partitions), max_size=3),
    ),
    max_size=3,
)


def _state(rows: list[dict[str, Any]]) -> pa.Table:
    columns: dict[str, Any] = {
        "partition": [0] * len(rows),
        "offset": list(range(len(rows))),
        "tombstone": [False] * len(rows),
    }
    for name in {name for row in rows for name in row}:
        columns[name] = [row.get(name) for row in rows]
    return fill(columns, len(rows))


@given(st.lists(_topic_lists(), min_size=1, max_size=4), st.lists(_classic_members, max_size=2))
def test_a_partition_of_a_member_and_role_is_one_row_with_its_last_epoch(
    lists: list[list[dict[str, Any]]], groups: list[list[dict[str, Any]]]
) -> None:
    rows, expected = [], {}
    for number, topics in enumerate(lists):
        current = {"member_epoch": 1, "state": 0, "assigned_partitions": topics}
        row = {"group_id": "g", "member_id": f"m{number}", "kind": kinds.CURRENT}
        rows.append(row | {kinds.CURRENT: current})
        for topic in topics:
            for at, epoch in zip(topic["partitions"], topic["assignment_epochs"], strict=True):
                expected["g", f"m{number}", topic["topic_id"], None, at] = epoch
    for number, members in enumerate(groups):
        row = {"group_id": f"c{number}", "kind": kinds.CLASSIC}
        rows.append(row | {kinds.CLASSIC: {"generation": 1, "members": members}})
        for member in members:
            for topic in member["consumer_assignment"]["assigned_partitions"]:
                for at in topic["partitions"]:
                    expected[f"c{number}", member["member_id"], None, topic["topic"], at] = None
    found = assignments(_state(rows)).to_pylist()
    names = ("group_id", "member_id", "topic_id", "topic", "topic_partition")
    assert len(found) == len(expected)
    assert {
        tuple(row[name] for name in names): row["assignment_epoch"] for row in found
    } == expected


@pytest.mark.parametrize("numbers", [[0, 1, 2], [2, 0, 1]])
def test_lists_without_repeats_stay_in_their_order(numbers: list[int]) -> None:
    topics = [{"topic_id": "x", "partitions": numbers, "assignment_epochs": [7, 8, 9]}]
    row = {"group_id": "g", "member_id": "m", "kind": kinds.CURRENT}
    current = {"member_epoch": 1, "state": 0, "assigned_partitions": topics}
    found = assignments(_state([row | {kinds.CURRENT: current}]))
    assert found["topic_partition"].to_pylist() == numbers
    assert found["assignment_epoch"].to_pylist() == [7, 8, 9]
