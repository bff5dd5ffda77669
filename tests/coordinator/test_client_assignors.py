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
        self.records: list[dict[str, Any]] = []
        self.coordinator.topic(0, "foo", FOO, 3)

    def send(self, api: str, **request: Any) -> dict[str, Any]:
        self.now += 100
        answers = []
        for step in self.coordinator.request(self.now, api, {"groupId": "g"} | request, Client()):
            self.records += step.records
            answers += [answer for _, answer in step.answers]
        assert answers, "no answer"
        return answers[0]

    def heartbeats(self, member: str, epoch: int, **more: Any) -> dict[str, Any]:
        request = {"memberId": member, "memberEpoch": epoch} | more
        return self.send("ConsumerGroupHeartbeat", **request)

    def installs(
        self,
        member: str,
        epoch: int,
        group_epoch: int,
        shares: list[dict[str, Any]],
        error: int = 0,
    ) -> dict[str, Any]:
        """Fetches the group's state, and installs an assignment."""
        self.send("ConsumerGroupPrepareAssignment", memberId=member, memberEpoch=epoch)
        return self.send(
            "ConsumerGroupInstallAssignment",
            memberId=member,
            memberEpoch=epoch,
            groupEpoch=group_epoch,
            error=error,
            members=shares,
        )

    def targets(self) -> dict[str, dict[str, Any]]:
        """The values of key 7 by member."""
        return {
            one["key"]["data"]["memberId"]: one["value"]["data"]
            for one in self.records
            if one["key"]["type"] == "7"
        }

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


def share(member: str, *numbers: int, version: int = 0, data: str = "") -> dict[str, Any]:
    return {
        "memberId": member,
        "partitions": [{"topicId": FOO, "partitions": list(numbers)}],
        "metadataVersion": version,
        "metadataBytes": data,
    }


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
    rows = [{"topicId": FOO, "partitions": [0, 1, 2]}]
    assert answer["assignment"]["assignedTopicPartitions"] == rows


def test_what_the_assignor_says_reaches_records_and_members() -> None:
    """Golden case after the KIP's ConsumerGroupTargetAssignmentMemberValue and the response of
    ConsumerGroupHeartbeat: B waits for what A has not released."""
    group = Group()
    group.joins("A")
    group.installs("A", 0, 1, [share("A", 0, 1, 2, version=1, data="QQ==")])
    group.joins("A")
    assert group.joins("B")["assignment"]["assignedTopicPartitions"] == []
    group.heartbeats("A", 1)  # B was chosen
    assert group.heartbeats("B", 1)["shouldComputeAssignment"]
    group.records.clear()
    shares = [share("A", 0, version=1, data="QTI="), share("B", 1, 2, version=0, data="Qg==")]
    group.installs("B", 1, 2, shares)
    assert group.targets() == {
        "A": {
            "error": 0,
            "topicPartitions": [{"topicId": FOO, "partitions": [0]}],
            "metadataVersion": 1,
            "metadataBytes": "QTI=",
        },
        "B": {
            "error": 0,
            "topicPartitions": [{"topicId": FOO, "partitions": [1, 2]}],
            "metadataVersion": 0,
            "metadataBytes": "Qg==",
        },
    }
    answer = group.heartbeats("B", 1)
    assert answer["memberEpoch"] == 2
    assert answer["assignment"] == {
        "error": 0,
        "assignedTopicPartitions": [],
        "pendingTopicPartitions": [{"topicId": FOO, "partitions": [1, 2]}],
        "metadataVersion": 0,
        "metadataBytes": "Qg==",
    }
    # A has to revoke: until then it is at its old epoch, whose metadata is final.
    answer = group.heartbeats("A", 1)
    assert answer["memberEpoch"] == 1
    assert answer["assignment"] == {
        "error": 0,
        "assignedTopicPartitions": [{"topicId": FOO, "partitions": [0]}],
        "pendingTopicPartitions": [],
        "metadataVersion": 1,
        "metadataBytes": "QQ==",
    }
    owned = [{"topicId": FOO, "partitions": [0]}]
    answer = group.heartbeats("A", 1, topicPartitions=owned)
    assert (answer["memberEpoch"], answer["assignment"]["metadataBytes"]) == (2, "QTI=")
    answer = group.heartbeats("B", 2)
    assert answer["assignment"]["assignedTopicPartitions"] == [
        {"topicId": FOO, "partitions": [1, 2]}
    ]
    assert answer["assignment"]["pendingTopicPartitions"] == []


def test_new_metadata_alone_is_a_new_assignment() -> None:
    """Equal partitions, other bytes: the target is written, and the member gets it."""
    group = Group()
    group.joins("A")
    group.installs("A", 0, 1, [share("A", 0, 1, 2, data="MQ==")])
    group.joins("A")
    answer = group.heartbeats("A", 1, clientAssignors=[ASSIGNOR | {"reason": 7}])
    assert answer["shouldComputeAssignment"]
    # The same reason again is a reason again: the member asks once more.
    group.heartbeats("A", 1, clientAssignors=[ASSIGNOR | {"reason": 7}])
    state = group.send("ConsumerGroupPrepareAssignment", memberId="A", memberEpoch=1)
    assert state["groupEpoch"] == 3
    assert state["members"][0]["assignor"]["reason"] == 7
    group.records.clear()
    group.installs("A", 1, 3, [share("A", 0, 1, 2, data="Mg==")])
    assert group.targets()["A"]["metadataBytes"] == "Mg=="
    answer = group.heartbeats("A", 1)
    assert (answer["memberEpoch"], answer["assignment"]["metadataBytes"]) == (3, "Mg==")


def test_error_of_an_assignor_reaches_every_member() -> None:
    """The assignor could not compute an assignment: all are told why, and get nothing."""
    group = Group()
    group.joins("A")
    group.send("ConsumerGroupPrepareAssignment", memberId="A", memberEpoch=0)
    doubled = group.installs("A", 0, 1, [share("A", 0, 0), share("A", 9)], error=4)
    assert doubled["errorCode"] == "INVALID_ASSIGNMENT"  # it may leave out, not invent
    assert group.installs("A", 0, 1, [], error=4)["errorCode"] == "NONE"
    assert group.targets()["A"] == {
        "error": 4,
        "topicPartitions": [],
        "metadataVersion": 0,
        "metadataBytes": "",
    }
    answer = group.joins("A")
    assert (answer["memberEpoch"], answer["assignment"]["error"]) == (1, 4)
    described = group.send("ConsumerGroupDescribe", groupIds=["g"])
    (member,) = described["groups"][0]["members"]
    assert (member["assignment"]["error"], member["targetAssignment"]["error"]) == (4, 4)


def test_the_coordinator_takes_over_with_a_target_of_its_own() -> None:
    """A member without client-side assignors joins: what the assignor said is no longer true."""
    group = Group()
    group.joins("A")
    group.installs("A", 0, 1, [share("A", 0, 1, 2, version=1, data="QQ==")])
    group.joins("A")
    group.records.clear()
    group.joins("B", clientAssignors=None)
    assert {name: row["metadataBytes"] for name, row in group.targets().items()} == {
        "A": "",
        "B": "",
    }


def test_what_the_assignor_said_survives_loading() -> None:
    group = Group()
    group.joins("A", instanceId="i")
    group.installs("A", 0, 1, [share("A", 0, 1, 2, version=1, data="QQ==")])
    group.joins("A", instanceId="i")
    loaded = Group()
    for one in group.records:
        loaded.coordinator.replay(one)
    loaded.now = group.now
    loaded.coordinator.finish_loading(loaded.now)
    given = loaded.joins("A", instanceId="i")["assignment"]
    assert (given["metadataVersion"], given["metadataBytes"]) == (1, "QQ==")
    # A static member that returns with another id keeps it.
    assert loaded.joins("A2", instanceId="i")["errorCode"] == "UNRELEASED_INSTANCE_ID"
    loaded.heartbeats("A", -2, instanceId="i")
    given = loaded.joins("A2", instanceId="i")["assignment"]
    assert (given["metadataVersion"], given["metadataBytes"]) == (1, "QQ==")


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
