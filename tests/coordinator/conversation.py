"""What conversations are made of: members of both protocols, with the state that real
clients hold.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kip848_spark.coordinator.consumer_protocol import (
    ClassicAssignment,
    Subscription,
    write_assignment,
    write_subscription,
)

if TYPE_CHECKING:
    from tests.coordinator.broker_comparison import BrokerComparison

Json = dict[str, Any]
NEVER = 300_000
"""ms: longer than any test runs, so that only intended timeouts occur."""


@dataclass(slots=True)
class Conversation:
    """One conversation, with a group and topics of its own."""

    comparison: BrokerComparison
    name: str
    patience: int = 30_000
    """ms: default session and rebalance timeouts of members."""
    topics: dict[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return f"g-{self.name}"

    def topic(self, name: str, partitions: int) -> str:
        self.topics[name] = f"{self.name}-{name}"
        return self.comparison.topic(self.topics[name], partitions)

    def shared_topic(self, name: str, partitions: int) -> None:
        """A topic that no conversation changes; conversations that need the same size share it."""
        self.topics[name] = f"shared-{name}-{partitions}"
        if self.topics[name] not in self.comparison.topic_ids:
            self.comparison.topic(self.topics[name], partitions)

    def delete_topic(self, name: str) -> None:
        self.comparison.delete_topic(self.topics[name])

    def send(self, client: str, api: str, version: int | None = None, **request: Any) -> Any:
        if "groupId" not in request and api not in (
            "ListGroups",
            "DescribeGroups",
            "ConsumerGroupDescribe",
            "DeleteGroups",
            "OffsetFetch",
        ):
            request["groupId"] = self.group
        where = f"{self.name}:"
        return self.comparison.send(client, api, request, version=version, where=where)

    def consumer(self, name: str, *topics: str, **options: Any) -> ConsumerClient:
        return ConsumerClient(self, name, list(topics), **({"timeout": self.patience} | options))

    def classic(self, name: str, *topics: str, **options: Any) -> ClassicClient:
        patience = {"timeout": self.patience, "session": self.patience}
        return ClassicClient(self, name, list(topics), **(patience | options))

    def transaction(self, name: str = "tx") -> TransactionClient:
        return TransactionClient(self, f"{name}-{self.name}")

    def topic_name(self, name: str) -> str:
        return self.topics.get(name, f"{self.name}-{name}")

    def describe(self) -> None:
        """Request every description of the group."""
        self.send("x", "ConsumerGroupDescribe", groupIds=[self.group])
        self.send("x", "DescribeGroups", groups=[self.group])
        self.send("x", "ListGroups", statesFilter=[], typesFilter=[])

    def offsets(self, name: str, **more: Any) -> Any:
        """OffsetFetch of one topic's first partitions, without a member."""
        topics = [{"name": self.topic_name(name), "partitionIndexes": [0, 1]}]
        group = {"groupId": self.group, "memberId": None, "memberEpoch": -1, "topics": topics}
        stable = more.pop("requireStable", False)
        return self.send("x", "OffsetFetch", groups=[group | more], requireStable=stable)

    def delete_offset(self, name: str, partition: int = 0) -> Any:
        rows = [{"name": self.topic_name(name), "partitions": [{"partitionIndex": partition}]}]
        return self.send("x", "OffsetDelete", topics=rows)

    def delete_group(self) -> Any:
        return self.send("x", "DeleteGroups", groupsNames=[self.group])

    def commit_topics(self, topic: str, partition: int, offset: int, text: str) -> list[Json]:
        part = {
            "partitionIndex": partition,
            "committedOffset": offset,
            "committedLeaderEpoch": -1,
            "committedMetadata": text,
        }
        return [{"name": self.topic_name(topic), "partitions": [part]}]


@dataclass(slots=True)
class ConsumerClient:
    """A member of the new protocol, with the state that its client holds."""

    conversation: Conversation
    name: str
    names: list[str]
    instance: str | None = None
    rack: str | None = None
    assignor: str | None = None
    regex: str | None = None
    timeout: int = 30_000
    epoch: int = 0
    owned: list[Json] = field(default_factory=list)
    member_id: str = ""

    def __post_init__(self) -> None:
        self.member_id = self.member_id or self.name

    def join(self, **more: Any) -> Any:
        self.owned = []
        request: Json = {
            "memberId": self.member_id,
            "memberEpoch": 0,
            "instanceId": self.instance,
            "rackId": self.rack,
            "rebalanceTimeoutMs": self.timeout,
            "serverAssignor": self.assignor,
            "topicPartitions": [],
        }
        if self.names or self.regex is None:
            request["subscribedTopicNames"] = [
                self.conversation.topic_name(name) for name in self.names
            ]
        if self.regex is not None:
            request["subscribedTopicRegex"] = self.regex
        return self._send(request | more)

    def heartbeat(self, **more: Any) -> Any:
        request: Json = {"memberId": self.member_id, "memberEpoch": self.epoch}
        if self.instance is not None:
            request["instanceId"] = self.instance
        return self._send(request | more)

    def acknowledge(self) -> Any:
        """A heartbeat that reports the owned partitions."""
        return self.heartbeat(topicPartitions=self.owned)

    def subscribe(self, *names: str) -> Any:
        self.names = list(names)
        return self.heartbeat(
            subscribedTopicNames=[self.conversation.topic_name(name) for name in names]
        )

    def leave(self, epoch: int = -1) -> Any:
        return self.heartbeat(memberEpoch=epoch)

    def _send(self, request: Json) -> Any:
        answer = self.conversation.send(self.name, "ConsumerGroupHeartbeat", **request)
        if answer["errorCode"] == "NONE":
            self.epoch = answer["memberEpoch"]
            if answer["assignment"] is not None:
                self.owned = answer["assignment"]["topicPartitions"]
        return answer

    def commit(self, topic: str, partition: int, offset: int, text: str = "", **more: Any) -> Any:
        request = {
            "memberId": self.member_id,
            "generationIdOrMemberEpoch": self.epoch,
            "groupInstanceId": self.instance,
            "topics": self.conversation.commit_topics(topic, partition, offset, text),
        }
        return self.conversation.send(self.name, "OffsetCommit", **(request | more))


@dataclass(slots=True)
class ClassicClient:
    """A member of the classic protocol."""

    conversation: Conversation
    name: str
    names: list[str]
    instance: str | None = None
    session: int = 30_000
    timeout: int = 30_000
    protocols: tuple[str, ...] = ("range",)
    version: int = 1
    member_id: str = ""
    generation: int = -1
    owned: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    protocol_type: str = "consumer"

    def metadata(self) -> str:
        names = tuple(sorted(self.conversation.topic_name(name) for name in self.names))
        subscription = Subscription(
            self.version, names, None, tuple(self.owned), self.generation, None
        )
        return base64.b64encode(write_subscription(subscription)).decode()

    def join(self, version: int = 9, **more: Any) -> Any:
        """JoinGroup; sent twice if the coordinator first returns a member id."""
        for _ in range(2):
            request = {
                "memberId": self.member_id,
                "groupInstanceId": self.instance,
                "sessionTimeoutMs": self.session,
                "rebalanceTimeoutMs": self.timeout,
                "protocolType": self.protocol_type,
                "protocols": [
                    {"name": name, "metadata": self.metadata()} for name in self.protocols
                ],
            }
            answer = self.conversation.send(self.name, "JoinGroup", version, **(request | more))
            if answer is None or answer["errorCode"] != "MEMBER_ID_REQUIRED":
                break
            self.member_id = answer["memberId"]
        return self.joined(answer)

    def joined(self, answer: Any) -> Any:
        if answer is not None and answer["errorCode"] == "NONE":
            self.member_id = answer["memberId"]
            self.generation = answer["generationId"]
        return answer

    def sync(self, shares: dict[str, dict[str, list[int]]] | None = None, **more: Any) -> Any:
        assignments = []
        for member_id, share in (shares or {}).items():
            rows = tuple((self.conversation.topic_name(t), tuple(n)) for t, n in share.items())
            data = write_assignment(ClassicAssignment(0, rows))
            assignments.append(
                {"memberId": member_id, "assignment": base64.b64encode(data).decode()}
            )
        request = {
            "memberId": self.member_id,
            "generationId": self.generation,
            "groupInstanceId": self.instance,
            "protocolType": self.protocol_type,
            "protocolName": self.protocols[0],
            "assignments": assignments,
        }
        return self.conversation.send(self.name, "SyncGroup", **(request | more))

    def heartbeat(self, **more: Any) -> Any:
        request = {
            "memberId": self.member_id,
            "generationId": self.generation,
            "groupInstanceId": self.instance,
        }
        return self.conversation.send(self.name, "Heartbeat", **(request | more))

    def leave(self, **more: Any) -> Any:
        row = {"memberId": self.member_id, "groupInstanceId": self.instance}
        return self.conversation.send(self.name, "LeaveGroup", **({"members": [row]} | more))


@dataclass(slots=True)
class TransactionClient:
    """A transactional producer that commits offsets. Only the broker coordinates it."""

    conversation: Conversation
    name: str
    producer: int = -1
    epoch: int = -1
    partitions: list[Json] = field(default_factory=list)

    def begin(self, timeout: int = 60_000) -> None:
        answer = self.conversation.comparison.begin_transaction(self.name, timeout)
        self.producer, self.epoch = answer["producerId"], answer["producerEpoch"]
        self.conversation.comparison.send_to_broker(
            "AddOffsetsToTxn", 3, self._ids() | {"groupId": self.conversation.group}
        )

    def _ids(self) -> Json:
        return {
            "transactionalId": self.name,
            "producerId": self.producer,
            "producerEpoch": self.epoch,
        }

    def commit(self, topic: str, partition: int, offset: int, **more: Any) -> Any:
        rows = self.conversation.commit_topics(topic, partition, offset, "")
        request = self._ids() | {"memberId": "", "generationId": -1, "topics": rows} | more
        self.partitions += [
            {
                "name": row["name"],
                "partitionIndexes": [part["partitionIndex"] for part in row["partitions"]],
            }
            for row in request["topics"]
        ]
        return self.conversation.send("producer", "TxnOffsetCommit", **request)

    def end(self, *, committed: bool) -> None:
        self.conversation.comparison.send_to_broker(
            "EndTxn", 3, self._ids() | {"committed": committed}
        )
        self._see_marker(committed=committed)

    def is_aborted(self) -> None:
        """The transaction coordinator aborted it after its timeout."""
        self._see_marker(committed=False)

    def _see_marker(self, *, committed: bool) -> None:
        conversation, partitions = self.conversation, self.partitions
        conversation.comparison.see_marker(
            conversation.group, partitions, self.producer, committed=committed
        )


Pauses = Iterator[float]
"""A function that holds a conversation is a generator: it yields how many seconds to wait."""


def run_all(
    comparison: BrokerComparison,
    conversations: list[tuple[str, Callable[[Conversation], Pauses | None]]],
) -> None:
    """Run all conversations, interleaved: while one waits, others run. A conversation that has
    waited long enough continues before a new one starts.
    """
    remaining = iter(conversations)
    waiting: list[tuple[float, int, Pauses]] = []
    begun = 0
    while True:
        waiting.sort(key=lambda entry: entry[:2])
        if waiting and waiting[0][0] <= time.time():
            _, number, pauses = waiting.pop(0)
        elif (next_one := next(remaining, None)) is not None:
            begun += 1
            name, function = next_one
            started = function(Conversation(comparison, name, NEVER))
            if started is None:
                continue
            number, pauses = begun, started
        elif waiting:
            time.sleep(min(0.02, max(waiting[0][0] - time.time(), 0)))
            comparison.tick()
            continue
        else:
            return
        pause = next(pauses, None)
        if pause is not None:
            waiting.append((time.time() + pause, number, pauses))
