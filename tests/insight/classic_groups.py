"""Classic groups made by raw requests, and a member of the new protocol that tries to join them."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.coordinator.consumer_protocol import (
    ClassicAssignment,
    Subscription,
    write_assignment,
    write_subscription,
)
from tests.coordinator.wire import Connection

Json = dict[str, Any]
_PATIENCE = 30.0


@dataclass(frozen=True)
class Member:
    """A classic member: what it sends as its subscription, and what its leader assigns to it."""

    owned: tuple[int, ...] = (0,)
    more_topics: tuple[str, ...] = ()
    instance_id: str | None = None
    client_id: str = "app"
    subscription_data: bytes | None = None
    assignment_data: bytes | None = None
    raw_subscription: bytes | None = None
    raw_assignment: bytes | None = None
    session_timeout: int = 120_000
    """In ms. Raw requests send no heartbeats: the session outlasts a test on a busy machine."""

    def subscription(self, topic: str) -> bytes:
        if self.raw_subscription is not None:
            return self.raw_subscription
        topics = (topic, *self.more_topics)
        return write_subscription(Subscription(1, topics, self.subscription_data))

    def assignment(self, topic: str) -> bytes:
        if self.raw_assignment is not None:
            return self.raw_assignment
        return write_assignment(ClassicAssignment(1, ((topic, self.owned),), self.assignment_data))


@dataclass
class Requests:
    """Connections to a broker, which are closed with ``stack``."""

    bootstrap: str
    stack: ExitStack
    _open: dict[str, Connection] = field(default_factory=dict)

    def connection(self, name: str, client_id: str = "app") -> Connection:
        if name not in self._open:
            self._open[name] = Connection(self.bootstrap, client_id)
            self.stack.callback(self._open[name].close)
        return self._open[name]

    def ask(self, name: str, api: str, version: int, request: Json) -> Json:
        connection = self.connection(name)
        answer = connection.receive(connection.send(api, version, request), _PATIENCE)
        assert answer is not None, f"{api} of {name} was not answered"
        return answer

    def wait_for_coordinator(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            asked = {"keyType": 0, "coordinatorKeys": ["any"]}
            found = self.ask("finder", "FindCoordinator", 4, asked)["coordinators"][0]
            beat = {"groupId": "any", "memberId": "x", "generationId": 1}
            if found["errorCode"] == "NONE":
                output = self.ask("finder", "Heartbeat", 4, beat)["errorCode"]
                if output == "UNKNOWN_MEMBER_ID":
                    return
            time.sleep(0.2)
        raise TimeoutError("the coordinator did not load")

    def commit(self, group: str, topic: str) -> None:
        """A commit of a consumer that uses assign()."""
        place = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": None}
        topics = [{"name": topic, "partitions": [place]}]
        request = {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": ""}
        answer = self.ask(f"{group}-commit", "OffsetCommit", 9, request | {"topics": topics})
        assert answer["topics"][0]["partitions"][0]["errorCode"] == "NONE"

    def leave(self, group: str, member_id: str) -> None:
        """A classic member leaves."""
        members = [{"memberId": member_id, "groupInstanceId": None, "reason": None}]
        answer = self.ask(f"{group}-leave", "LeaveGroup", 5, {"groupId": group, "members": members})
        assert answer["errorCode"] == "NONE"

    def leave_new(self, group: str, member_id: str) -> None:
        """A member of the new protocol leaves."""
        request = {"groupId": group, "memberId": member_id, "memberEpoch": -1}
        answer = self.ask(f"{group}-new", "ConsumerGroupHeartbeat", 1, request)
        assert answer["errorCode"] == "NONE", answer

    def try_to_join(
        self,
        group: str,
        topic: str,
        *,
        assignor: str | None = None,
        member_id: str | None = None,
        instance_id: str | None = None,
    ) -> str:
        """The error code of a member of the new protocol that joins; NONE if it was accepted."""
        request = {
            "groupId": group,
            "memberId": member_id or str(uuid.uuid4()),
            "instanceId": instance_id,
            "memberEpoch": 0,
            "rebalanceTimeoutMs": 60_000,
            "subscribedTopicNames": [topic],
            "serverAssignor": assignor,
            "topicPartitions": [],
        }
        answer = self.ask(f"{group}-new", "ConsumerGroupHeartbeat", 1, request)
        return str(answer["errorCode"])

    def form(
        self,
        group: str,
        members: Sequence[Member],
        *,
        topic: str,
        protocol: str = "range",
        protocol_type: str = "consumer",
    ) -> list[str]:
        """Joins and syncs all members; returns their ids. The first member joins alone at first: a
        group without members does not wait."""
        names = [f"{group}-{number}" for number in range(len(members))]
        ids = [""] * len(members)

        def join(number: int) -> Json:
            member = members[number]
            metadata = base64.b64encode(member.subscription(topic)).decode()
            return {
                "groupId": group,
                "sessionTimeoutMs": member.session_timeout,
                "rebalanceTimeoutMs": 60_000,
                "memberId": ids[number],
                "groupInstanceId": member.instance_id,
                "protocolType": protocol_type,
                "protocols": [{"name": protocol, "metadata": metadata}],
                "reason": None,
            }

        def first_join(number: int) -> Json | None:
            """Gets a member id. Static members have joined with it."""
            self.connection(names[number], members[number].client_id)
            answer = self.ask(names[number], "JoinGroup", 9, join(number))
            ids[number] = answer["memberId"]
            return None if answer["errorCode"] == "MEMBER_ID_REQUIRED" else answer

        answers: dict[int, Json] = {}
        output = first_join(0) or self.ask(names[0], "JoinGroup", 9, join(0))
        assert output["errorCode"] == "NONE", output
        answers[0] = output
        if len(members) > 1:
            self._sync(group, names, ids, answers, members, topic, protocol, protocol_type)
            waiting: dict[int, int] = {}
            for number in range(1, len(members)):
                if members[number].instance_id is None:
                    assert first_join(number) is None
            for number in [*range(1, len(members)), 0]:
                if number == 0:
                    time.sleep(1)  # its join completes at once if no other member has asked yet
                connection = self.connection(names[number], members[number].client_id)
                waiting[number] = connection.send("JoinGroup", 9, join(number))
            for number, ticket in waiting.items():
                found = self.connection(names[number]).receive(ticket, _PATIENCE)
                assert found is not None, f"the join of {names[number]} was not answered"
                assert found["errorCode"] == "NONE", found
                answers[number], ids[number] = found, found["memberId"]
        self._sync(group, names, ids, answers, members, topic, protocol, protocol_type)
        return ids

    def _sync(
        self,
        group: str,
        names: Sequence[str],
        ids: Sequence[str],
        answers: dict[int, Json],
        members: Sequence[Member],
        topic: str,
        protocol: str,
        protocol_type: str,
    ) -> None:
        assignments = [
            {
                "memberId": member_id,
                "assignment": base64.b64encode(member.assignment(topic)).decode(),
            }
            for member_id, member in zip(ids, members, strict=True)
            if member_id
        ]
        leader = answers[0]["leader"]
        order = sorted(answers, key=lambda number: ids[number] != leader)
        for number in order:
            request = {
                "groupId": group,
                "generationId": answers[number]["generationId"],
                "memberId": ids[number],
                "groupInstanceId": members[number].instance_id,
                "protocolType": protocol_type,
                "protocolName": protocol,
                "assignments": assignments if ids[number] == leader else [],
            }
            answer = self.ask(names[number], "SyncGroup", 5, request)
            assert answer["errorCode"] == "NONE", answer
