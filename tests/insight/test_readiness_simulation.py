"""The simulated assignments, against counts that follow from the definition of each assignor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.insight.readiness_simulation import (
    ClassicMemberState,
    Simulated,
    TopicSize,
    simulate_group,
    simulate_groups,
    topic_sizes,
)
from tests.insight.readiness_lake import state_of_records
from tests.insight.readiness_records import classic, member

IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw")


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[ClassicMemberState], dict[str, TopicSize]]:
    """Members that subscribe to the same topics and own the partitions in some way."""
    topics = {
        f"t{n}": TopicSize(IDS[n], draw(st.integers(1, 12))) for n in range(draw(st.integers(1, 3)))
    }
    count = draw(st.integers(1, 6))
    owned: list[dict[str, list[int]]] = [{} for _ in range(count)]
    for topic, size in topics.items():
        for number in range(size.partitions):
            owner = draw(st.integers(-1, count - 1))
            if owner >= 0:
                owned[owner].setdefault(topic, []).append(number)
    members = [ClassicMemberState(f"m{n}", None, tuple(topics), owned[n]) for n in range(count)]
    return members, topics


def places(simulated: Simulated) -> list[tuple[str, int]]:
    return [
        (topic, number)
        for target in simulated.assignment.values()
        for topic, numbers in target.items()
        for number in numbers
    ]


@given(groups(), st.sampled_from(["uniform", "range"]))
def test_each_partition_is_assigned_once_and_moves_are_counted(
    group: tuple[list[ClassicMemberState], dict[str, TopicSize]], assignor: str
) -> None:
    members, sizes = group
    found = simulate_group(members, sizes, assignor)
    assert sorted(places(found)) == sorted(
        (topic, number) for topic, size in sizes.items() for number in range(size.partitions)
    )
    owner_then = {
        (topic, number): member_id
        for member_id, target in found.assignment.items()
        for topic, numbers in target.items()
        for number in numbers
    }
    moved = [
        (topic, number)
        for member in members
        for topic, numbers in member.owned.items()
        for number in numbers
        if owner_then[topic, number] != member.member_id
    ]
    assert found.moves == len(moved)
    if moved:  # revoke; acknowledge, which frees the partition; get it
        assert 2 <= found.rounds <= 3
    else:
        assert found.rounds == 1


@given(groups())
def test_uniform_moves_only_what_is_above_the_quota(
    group: tuple[list[ClassicMemberState], dict[str, TopicSize]],
) -> None:
    """docs/kafka-facts.md#uniform-homogeneous: kept = Σ min(old, q) + min(r, members above q)."""
    members, sizes = group
    total = sum(size.partitions for size in sizes.values())
    quota, extra = divmod(total, len(members))
    old = [sum(map(len, member.owned.values())) for member in members]
    kept = sum(min(count, quota) for count in old) + min(extra, sum(c > quota for c in old))
    assert simulate_group(members, sizes, "uniform").moves == sum(old) - kept


def test_range_gives_consecutive_partitions_in_the_order_of_member_ids() -> None:
    members = [
        ClassicMemberState("b", None, ("t",), {"t": [0, 1]}),
        ClassicMemberState("a", None, ("t",), {"t": [2, 3, 4]}),
    ]
    found = simulate_group(members, {"t": TopicSize(IDS[0], 5)}, "range")
    assert found.assignment == {"a": {"t": [0, 1, 2]}, "b": {"t": [3, 4]}}
    assert found.moves == 4


def test_topics_that_the_lake_does_not_know_are_as_large_as_their_assignment() -> None:
    members = [ClassicMemberState("a", None, ("known", "seen", "never"), {"seen": [0, 4]})]
    sizes = topic_sizes(members, {"known": TopicSize(IDS[0], 9)})
    assert {name: (size.partitions, size.assumed) for name, size in sizes.items()} == {
        "known": (9, False),
        "seen": (5, True),
    }


@pytest.mark.parametrize("second", [(1, 3), (2, 3)])
def test_groups_of_the_tables(second: tuple[int, int]) -> None:
    """From records to moves: four partitions, of which range gives 0 and 1 to the first member."""
    first = tuple({0, 1, 2, 3} - set(second))
    state = state_of_records(
        [classic(member("m-1", owned=first), member("m-2", owned=second)), classic(group="empty")]
    )
    found = simulate_groups(["g", "empty"], state.members, state.assignments, None)
    (row,) = found.to_pylist()
    moves = 0 if second == (2, 3) else 2
    assert (row["group_id"], row["partitions"], row["assumed_topics"]) == ("g", 4, ["orders"])
    assert (row["uniform_moves"], row["range_moves"]) == (0, moves)


@pytest.mark.parametrize("members", [2, 3])
@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_a_group_that_shares_partitions_is_not_simulated(members: int, partitions: int) -> None:
    """A broker can't convert a group whose assignor broadcasts, so no assignment follows."""
    owned = tuple(range(partitions))
    shared = [member(f"m-{n}", owned=owned) for n in range(members)]
    state = state_of_records([classic(*shared, group="shared"), classic(member("m-1"), group="g")])
    found = simulate_groups(["shared", "g"], state.members, state.assignments, None)
    assert found["group_id"].to_pylist() == ["g"]


def test_a_partition_number_that_no_topic_has_is_not_simulated() -> None:
    """A client can write any number into its assignment; the broker stores it unread."""
    state = state_of_records(
        [
            classic(member("m-1", owned=(0, 2**31 - 2)), group="huge"),
            classic(member("m-1", owned=(0, 1)), group="small"),
        ]
    )
    found = simulate_groups(["huge", "small"], state.members, state.assignments, None)
    assert found["group_id"].to_pylist() == ["small"]
    assert found["partitions"].to_pylist() == [2]


def test_a_group_of_a_large_topic_comes_after_smaller_groups() -> None:
    """Whatever it is named, and however few partitions its members own."""
    some = [classic(member("m-1", owned=(0, 1, 2)), group=f"g{n}") for n in range(5)]
    large = classic(member("m-1", owned=(97,)), group="a")
    state = state_of_records([large, *some])
    groups = ["a", *(f"g{n}" for n in range(5))]
    found = simulate_groups(groups, state.members, state.assignments, None, most=100)
    assert found["group_id"].to_pylist() == groups[1:]
