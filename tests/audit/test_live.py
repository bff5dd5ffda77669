"""What may be said to differ from the live broker, and what has only moved since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kip848_spark.checks import live_comparison
from kip848_spark.checks.live_comparison import ChangedSince, LakeState, compare
from kip848_spark.checks.results import LIVE
from kip848_spark.kafka.snapshot import (
    UNREADABLE,
    ClusterSnapshot,
    LiveEpochs,
    LiveGroup,
    LiveMember,
    LiveOffset,
    LiveTopic,
    offsets_of,
)

GROUP: dict[str, Any] = {
    "group_id": "g", "type": "consumer", "state": "Stable", "protocol": None,
    "assignor": "uniform", "partition": 3, "last_offset": 90,
}  # fmt: skip
MEMBER: dict[str, Any] = {
    "group_id": "g", "member_id": "m", "instance_id": None, "client_id": "c", "client_host": "/h",
    "assignor": None,
}  # fmt: skip
ASSIGNED: list[dict[str, Any]] = [
    {"group_id": "g", "member_id": "m", "topic": "foo", "topic_partition": 0, "role": role}
    for role in ("assigned", "target")
]
OFFSET: dict[str, Any] = {
    "group_id": "g", "topic": "foo", "topic_partition": 0, "committed_offset": 7,
    "leader_epoch": -1, "metadata": "", "partition": 3, "offset": 88,
}  # fmt: skip
SAID = LiveGroup(
    "g", "consumer", "Stable", "uniform", False,
    (LiveMember("m", None, "c", "/h", (("foo", 0),), (("foo", 0),)),),
)  # fmt: skip


def rebuilt(*groups: dict[str, Any], **changed: Any) -> LakeState:
    return LakeState(groups or (GROUP,), (MEMBER,), ASSIGNED, ({**OFFSET, **changed},))


def snapshot(*groups: LiveGroup, offsets: tuple[LiveOffset, ...] | None = None) -> ClusterSnapshot:
    committed = (LiveOffset("foo", 0, 7, None, ""),) if offsets is None else offsets
    output = {group.group_id: group for group in groups}
    return ClusterSnapshot(
        "cluster",
        output,
        dict.fromkeys(output, committed),
        {"foo": LiveTopic("foo", "id", 1, False)},
        {},
    )


def test_equal_states_agree() -> None:
    result = compare(rebuilt(), snapshot(SAID), ChangedSince())
    assert result.differences == []
    assert result.not_compared == {}
    assert result.compared == {"groups": 1, "members": 1, "partitions": 2, "offsets": 1}
    assert result.tally().rows()[0]["check"] == LIVE


@pytest.mark.parametrize(
    ("output", "what"),
    [
        (replace(SAID, state="Empty"), "state"),
        (replace(SAID, type="classic"), "type"),
        (replace(SAID, members=()), "members"),
        (replace(SAID, members=(replace(SAID.members[0], assigned=()),)), "assignment of m"),
        (replace(SAID, members=(replace(SAID.members[0], client_host="/x"),)), "client_host of m"),
    ],
)
def test_a_difference_is_a_finding_where_the_lake_saw_it_last(output: LiveGroup, what: str) -> None:
    result = compare(rebuilt(), snapshot(output), ChangedSince())
    assert [difference.what for difference in result.differences] == [what]
    finding = result.tally().findings[0]
    assert (finding.group_id, finding.partition, finding.offset) == ("g", 3, 90)
    assert compare(rebuilt(), snapshot(output), ChangedSince(groups={"g"})).differences == []
    assert compare(rebuilt(), snapshot(output), ChangedSince(partitions={3})).differences == []
    assert compare(rebuilt(), snapshot(output), ChangedSince(partitions={4})).differences != []


@pytest.mark.parametrize(
    "lake",
    [
        LakeState((), (), (), ()),
        replace(rebuilt(), members=({**MEMBER, "client_host": "erased-1f2e3d4c"},)),
        replace(rebuilt(), members=({**MEMBER, "member_id": "erased-1f2e3d4c-x"},), assignments=()),
        rebuilt(metadata="by erased-1f2e3d4c"),
    ],
)
def test_erased_names_are_no_differences(lake: LakeState) -> None:
    """A finding would have the names again."""
    result = compare(replace(lake, erased=True), snapshot(SAID), ChangedSince())
    assert result.differences == []
    assert result.not_compared == {live_comparison.ERASED: 1}
    assert len(compare(lake, snapshot(SAID), ChangedSince()).differences) == 1


def test_the_assignor_is_compared_if_a_member_asks_for_one() -> None:
    other = snapshot(replace(SAID, assignor="range"))
    result = compare(rebuilt(), other, ChangedSince())
    assert result.differences == [], "no record names the brokers' default"
    assert result.not_compared == {live_comparison.DEFAULT_ASSIGNOR: 1}
    votes = LakeState((GROUP,), ({**MEMBER, "assignor": "uniform"},), ASSIGNED, (OFFSET,))
    result = compare(votes, other, ChangedSince())
    assert [difference.what for difference in result.differences] == ["assignor"]


def test_an_assignment_that_cannot_be_read_is_no_refusal_of_the_broker() -> None:
    refused = replace(snapshot(), refused={"g": UNREADABLE})
    result = compare(rebuilt(), refused, ChangedSince())
    assert result.differences == []
    assert result.not_compared == {UNREADABLE: 1}


def test_a_commit_since_then_excuses_its_offset_alone() -> None:
    behind = rebuilt(committed_offset=5)
    result = compare(behind, snapshot(SAID), ChangedSince())
    assert [(d.what, d.offset) for d in result.differences] == [("committed offset of foo-0", 88)]
    moved = ChangedSince(offsets={("g", "foo", 0)})
    assert compare(behind, snapshot(SAID), moved).differences == []
    assert compare(behind, snapshot(SAID), moved).not_compared == {live_comparison.MOVING: 1}
    other = compare(behind, snapshot(replace(SAID, state="Empty")), moved)
    assert [difference.what for difference in other.differences] == ["state"]


@pytest.mark.parametrize("output", ["abc", "abc\x7f?", None])
def test_text_without_an_end_is_compared_as_far_as_it_was_committed(output: str | None) -> None:
    """Java's clients write no zero byte behind it: what the library reads there may be anything."""
    offsets = (LiveOffset("foo", 0, 7, None, output),)
    assert (
        compare(
            rebuilt(metadata="abc"), snapshot(SAID, offsets=offsets), ChangedSince()
        ).differences
        == []
    )
    other = compare(rebuilt(metadata=""), snapshot(SAID, offsets=offsets), ChangedSince())
    assert [difference.what for difference in other.differences] == ["committed offset of foo-0"]


def test_exact_text_is_compared_to_its_end() -> None:
    offsets = (LiveOffset("foo", 0, 7, None, "abc\0", exact=True),)
    live = snapshot(SAID, offsets=offsets)
    assert compare(rebuilt(metadata="abc\0"), live, ChangedSince()).differences == []
    for other in ("abc", "abc\0d", ""):
        result = compare(rebuilt(metadata=other), live, ChangedSince())
        assert [one.what for one in result.differences] == ["committed offset of foo-0"]


@pytest.mark.parametrize(
    ("epochs", "member_epoch", "what"),
    [
        (LiveEpochs(5, 4), 4, []),
        (LiveEpochs(6, 4), 4, ["group epoch"]),
        (LiveEpochs(5, 5), 4, ["assignment epoch"]),
        (LiveEpochs(5, 4), 5, ["member epoch of m"]),
    ],
)
def test_epochs_of_consumer_groups(epochs: LiveEpochs, member_epoch: int, what: list[str]) -> None:
    member = replace(SAID.members[0], epoch=member_epoch)
    live = snapshot(replace(SAID, epochs=epochs, members=(member,)))
    ours = replace(
        rebuilt({**GROUP, "epoch": 5, "target_epoch": 4}), members=({**MEMBER, "member_epoch": 4},)
    )
    assert [one.what for one in compare(ours, live, ChangedSince()).differences] == what


def test_epochs_that_no_record_names() -> None:
    """A group starts with 0 or 1; it depends on the release."""
    live = snapshot(replace(SAID, epochs=LiveEpochs(1, 0)))
    for own in (0, 1):
        ours = rebuilt({**GROUP, "epoch": own, "target_epoch": own})
        assert compare(ours, live, ChangedSince()).differences == []


@pytest.mark.parametrize(("committed", "same"), [(-5, True), (-1, True), (5, False)])
def test_the_client_library_has_no_negative_offsets(committed: int, same: bool) -> None:
    nobody = snapshot(SAID, offsets=())
    result = compare(rebuilt(committed_offset=committed), nobody, ChangedSince())
    assert (result.differences == []) is same


def test_text_that_cannot_be_read() -> None:
    class RecordedAssignment:
        topic, partition, offset, leader_epoch = "foo", 0, 7, None

        @property
        def metadata(self) -> str:
            return b"abcd\xfb".decode()

    class Answer:
        topic_partitions = (RecordedAssignment(),)

    assert offsets_of(Answer()) == (LiveOffset("foo", 0, 7, None, None),)


def test_a_group_that_one_side_lacks() -> None:
    assert [d.what for d in compare(rebuilt(), snapshot(), ChangedSince()).differences] == ["group"]
    new = replace(SAID, group_id="new")
    both = compare(rebuilt(), snapshot(SAID, new), ChangedSince())
    assert [(d.group_id, d.what) for d in both.differences] == [("new", "group")]
    first_commit = ChangedSince(offsets={("new", "foo", 0)})
    assert compare(rebuilt(), snapshot(SAID, new), first_commit).differences == []


@pytest.mark.parametrize(
    ("state", "why"),
    [("Empty", live_comparison.IN_MEMORY), ("PreparingRebalance", live_comparison.IN_REBALANCE)],
)
def test_a_classic_group_that_was_never_recorded(state: str, why: str) -> None:
    output = replace(SAID, group_id="new", type="classic", state=state, members=())
    result = compare(rebuilt(), replace(snapshot(SAID, output), offsets={}), ChangedSince())
    assert {d.group_id for d in result.differences} == {"g"}  # whose offset is not there
    assert result.not_compared == {why: 1}


def test_what_the_client_may_not_see_is_not_judged() -> None:
    hidden = replace(snapshot(SAID, offsets=()), topics={})
    result = compare(rebuilt(), hidden, ChangedSince())
    assert result.differences == []
    assert result.not_compared == {live_comparison.INVISIBLE: 1}
    refused = replace(snapshot(), refused={"g": "Group authorization failed"})
    result = compare(rebuilt(), refused, ChangedSince())
    assert result.differences == []
    assert result.not_compared == {live_comparison.REFUSED: 1}
