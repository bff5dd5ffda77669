"""The KIP's client-side mode: a member computes the assignment, the coordinator checks and installs
it.
"""

from __future__ import annotations

from typing import Any

from kip848_spark.coordinator import Client, Coordinator

FOO = "Zm9vAAAAAAAAAAAAAAAAAA"
ASSIGNOR = {"name": "mine", "minimumVersion": 0, "maximumVersion": 1, "metadataVersion": 1}


class Group:
    def __init__(self) -> None:
        self.coordinator = Coordinator("kip")
        self.now = 0
        self.coordinator.topic(0, "foo", FOO, 3)

    def send(self, api: str, **request: Any) -> dict[str, Any]:
        self.now += 100
        for step in self.coordinator.request(self.now, api, {"groupId": "g"} | request, Client()):
            for _, answer in step.answers:
                return answer
        raise AssertionError("no answer")

    def joins(self, member: str, **more: Any) -> dict[str, Any]:
        return self.send(
            "ConsumerGroupHeartbeat",
            memberId=member,
            memberEpoch=0,
            rebalanceTimeoutMs=5_000,
            subscribedTopicNames=["foo"],
            topicPartitions=[],
            **{"clientAssignors": [ASSIGNOR]} | more,
        )


def share(member: str, *numbers: int) -> dict[str, Any]:
    return {"memberId": member, "partitions": [{"topicId": FOO, "partitions": list(numbers)}]}


def test_chosen_member_installs_an_assignment() -> None:
    group = Group()
    answer = group.joins("A")
    assert (answer["memberEpoch"], answer["shouldComputeAssignment"]) == (0, True)
    state = group.send("ConsumerGroupPrepareAssignment", memberId="A", memberEpoch=0)
    assert (state["groupEpoch"], state["assignorName"]) == (1, "mine")
    assert state["topics"] == [{"topicId": FOO, "topicName": "foo", "numPartitions": 3}]
    installed = group.send(
        "ConsumerGroupInstallAssignment",
        memberId="A",
        memberEpoch=0,
        groupEpoch=1,
        members=[share("A", 0, 1, 2)],
    )
    assert installed["errorCode"] == "NONE"
    answer = group.joins("A")
    assert (answer["memberEpoch"], answer["shouldComputeAssignment"]) == (1, False)
    assert answer["assignment"]["topicPartitions"] == [{"topicId": FOO, "partitions": [0, 1, 2]}]


def test_assignment_must_be_complete_and_disjoint() -> None:
    group = Group()
    group.joins("A")
    group.send("ConsumerGroupPrepareAssignment", memberId="A", memberEpoch=0)
    for members in (
        [share("A", 0, 1)],
        [share("A", 0, 1, 2), share("B", 0)],
        [share("A", 0, 1, 2, 3)],
    ):
        answer = group.send(
            "ConsumerGroupInstallAssignment",
            memberId="A",
            memberEpoch=0,
            groupEpoch=1,
            members=members,
        )
        assert answer["errorCode"] == "INVALID_ASSIGNMENT"


def test_only_the_chosen_member_may_install_and_only_in_time() -> None:
    group = Group()
    group.joins("A")
    group.joins("B")
    refused = group.send("ConsumerGroupPrepareAssignment", memberId="B", memberEpoch=0)
    assert refused["errorCode"] == "UNKNOWN_MEMBER_ID"
    stale = group.send("ConsumerGroupPrepareAssignment", memberId="A", memberEpoch=7)
    assert stale["errorCode"] == "STALE_MEMBER_EPOCH"
    assert (
        group.send("ConsumerGroupPrepareAssignment", memberId="X", memberEpoch=0)["errorCode"]
        == "UNKNOWN_MEMBER_ID"
    )
    group.now += 6_000  # A's rebalance timeout has passed: B is chosen
    assert group.joins("B")["shouldComputeAssignment"]
    assert not group.joins("A")["shouldComputeAssignment"]


def test_server_computes_without_a_common_assignor() -> None:
    group = Group()
    group.joins("A")
    answer = group.joins("B", clientAssignors=[ASSIGNOR | {"name": "other"}])
    assert answer["memberEpoch"] == 2
    assert not answer["shouldComputeAssignment"]


def test_invalid_assignors_are_refused() -> None:
    group = Group()
    for rows in (
        [{"name": ""}],
        [ASSIGNOR | {"minimumVersion": 2}],
        [{**ASSIGNOR, "metadataVersion": 9}],
    ):
        assert group.joins("A", clientAssignors=rows)["errorCode"] == "INVALID_REQUEST"
    assert group.joins("A", serverAssignor="range")["errorCode"] == "INVALID_REQUEST"
    assert (
        Coordinator("4.3")
        .request(
            0, "ConsumerGroupPrepareAssignment", {"groupId": "g", "memberId": "A", "memberEpoch": 0}
        )[0]
        .answers[0][1]["errorCode"]
        == "UNSUPPORTED_VERSION"
    )
