"""Examples in the KIP's notation: members by one letter, partitions of ``foo`` by number."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kip848_spark.coordinator import Client, Coordinator
from kip848_spark.coordinator.assignors import AssignmentSpec
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.consumer_protocol import (
    ClassicAssignment,
    Subscription,
    read_assignment,
    write_assignment,
    write_subscription,
)
from kip848_spark.coordinator.records import record

FOO = "Zm9vAAAAAAAAAAAAAAAAAA"


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class KipExample:
    """A coordinator, a group subscribed to foo, and the state of its clients."""

    def __init__(self, release: str, partitions: int) -> None:
        self.coordinator = Coordinator(release, {"group.initial.rebalance.delay.ms": "0"})
        self.now = 1_000
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[int]] = {}
        self._target: dict[str, list[int]] = {}
        self.grows(partitions)

    @property
    def group(self) -> ConsumerGroup:
        return self.coordinator.shard.consumer_group("g")

    def grows(self, partitions: int) -> None:
        self.coordinator.topic(self.now, "foo", FOO, partitions)

    def target(self, **shares: list[int]) -> None:
        """Set the target that the coordinator computes next."""
        self._target = shares

    @contextmanager
    def _installed(self) -> Iterator[None]:
        def assign(spec: AssignmentSpec) -> dict[str, dict[str, list[int]]]:
            return {
                m.member_id: {FOO: sorted(share)} if (share := self._target[m.member_id]) else {}
                for m in spec.members
            }

        with patch.object(self.coordinator.shard.config, "assignor", lambda _: assign):
            yield

    def send(self, api: str, request: dict[str, Any], client: str, **more: Any) -> dict[str, Any]:
        self.now += 1_500  # longer than 4.3's assignment interval
        with self._installed():
            steps = self.coordinator.request(
                self.now, api, {"groupId": "g"} | request, Client(client), ticket=7, **more
            )
        for step in steps:
            for ticket, answer in step.answers:
                if ticket == 7:
                    return answer
        raise AssertionError("no answer")

    # The new protocol

    def joins(self, member: str) -> list[int] | None:
        self.owned[member] = []
        return self._send_heartbeat(
            member,
            memberEpoch=0,
            rebalanceTimeoutMs=30_000,
            subscribedTopicNames=["foo"],
            topicPartitions=[],
        )

    def heartbeats(self, member: str, **more: Any) -> list[int] | None:
        """The member's partitions by the response; ``None`` if the response has no assignment."""
        return self._send_heartbeat(member, memberEpoch=self.epochs[member], **more)

    def acknowledges(self, member: str) -> None:
        rows = [{"topicId": FOO, "partitions": self.owned[member]}]
        self.heartbeats(member, topicPartitions=rows)

    def _send_heartbeat(self, member: str, **request: Any) -> list[int] | None:
        answer = self.send("ConsumerGroupHeartbeat", {"memberId": member} | request, member)
        assert answer["errorCode"] == "NONE", answer
        self.epochs[member] = answer["memberEpoch"]
        if answer["assignment"] is None:
            return None
        given = answer["assignment"]
        rows = given.get("topicPartitions", given.get("assignedTopicPartitions"))  # release: kip
        self.owned[member] = sorted(n for row in rows for n in row["partitions"])
        return self.owned[member]

    # The classic protocol

    def classic_heartbeat(self, member: str, generation: int) -> str:
        request = {"memberId": member, "generationId": generation}
        return str(self.send("Heartbeat", request, member)["errorCode"])

    def classic_join(self, member: str, owned: list[int]) -> int:
        rows = (("foo", tuple(owned)),) if owned else ()
        metadata = to_base64(write_subscription(Subscription(1, ("foo",), None, rows)))
        request = {
            "memberId": member,
            "sessionTimeoutMs": 45_000,
            "rebalanceTimeoutMs": 60_000,
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": metadata}],
        }
        answer = self.send("JoinGroup", request, member)
        assert answer["errorCode"] == "NONE", answer
        return int(answer["generationId"])

    def classic_sync(self, member: str, generation: int) -> list[int]:
        answer = self.send("SyncGroup", {"memberId": member, "generationId": generation}, member)
        assert answer["errorCode"] == "NONE", answer
        rows = read_assignment(base64.b64decode(answer["assignment"])).partitions
        return sorted(n for _, numbers in rows for n in numbers)

    def leaves_classic(self, member: str) -> None:
        rows = [{"memberId": member, "groupInstanceId": None}]
        assert self.send("LeaveGroup", {"members": rows}, member)["errorCode"] == "NONE"

    # Examples that start with an existing group

    def loads(self, epoch: int, **shares: list[int]) -> None:
        """Load a stable group at that epoch from its records."""
        key = {"groupId": "g"}
        topics = self.coordinator.shard.topics.subscription_metadata(["foo"])
        rows = [
            {"topicId": t.topic_id, "topicName": t.name, "numPartitions": t.partitions}
            for t in topics
        ]
        self.coordinator.replay(record("4", 0, key, {"topics": rows}))
        self.coordinator.replay(record("3", 0, key, {"epoch": epoch}))
        for member, numbers in shares.items():
            who = key | {"memberId": member}
            rows = [{"topicId": FOO, "partitions": numbers}] if numbers else []
            self.coordinator.replay(
                record(
                    "5",
                    0,
                    who,
                    {
                        "instanceId": None,
                        "rackId": None,
                        "clientId": member,
                        "clientHost": "/127.0.0.1",
                        "subscribedTopicNames": ["foo"],
                        "subscribedTopicRegex": "",
                        "rebalanceTimeoutMs": 30_000,
                        "serverAssignor": None,
                        "classicMemberMetadata": None,
                    },
                )
            )
            self.coordinator.replay(record("7", 0, who, {"topicPartitions": rows}))
            current = {
                "memberEpoch": epoch,
                "previousMemberEpoch": epoch - 1,
                "state": 0,
                "assignedPartitions": rows,
                "partitionsPendingRevocation": [],
            }
            self.coordinator.replay(record("8", 0, who, current))
            self.epochs[member], self.owned[member] = epoch, numbers
        self.coordinator.replay(record("6", 0, key, {"assignmentEpoch": epoch}))
        self.coordinator.finish_loading(self.now)

    def loads_classic(self, generation: int, **shares: list[int]) -> None:
        """Load a stable classic group at that generation."""
        subscription = write_subscription(Subscription(1, ("foo",)))
        members = [
            {
                "memberId": member,
                "groupInstanceId": None,
                "clientId": member,
                "clientHost": "/127.0.0.1",
                "rebalanceTimeout": 60_000,
                "sessionTimeout": 45_000,
                "subscription": to_base64(subscription),
                "assignment": to_base64(
                    write_assignment(ClassicAssignment(1, (("foo", tuple(numbers)),)))
                ),
            }
            for member, numbers in shares.items()
        ]
        value = {
            "protocolType": "consumer",
            "generation": generation,
            "protocol": "range",
            "leader": "A",
            "currentStateTimestamp": self.now,
            "members": members,
        }
        self.coordinator.replay(record("2", 3, {"group": "g"}, value))
        self.coordinator.finish_loading(self.now)

    # Checks

    def shows(
        self,
        *,
        group: int | None = None,
        target: dict[str, list[int]] | None = None,
        members: dict[str, tuple[int, list[int], list[int]]],
    ) -> None:
        """Check the group epoch, the target, and each member's epoch, partitions and pending
        partitions.
        """
        state = self.group
        if group is not None:
            assert state.epoch == group
        if target is not None:
            seen = {m: sorted(share.get(FOO, ())) for m, share in state.targets.items()}
            assert seen == target
        for member_id, (epoch, assigned, pending) in members.items():
            member = state.members[member_id]
            assert (
                member.epoch,
                sorted(member.assigned.get(FOO, ())),
                sorted(member.pending.get(FOO, ())),
            ) == (epoch, assigned, pending), member_id
