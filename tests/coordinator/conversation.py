"""What a conversation is told with: members of both protocols, and what their clients remember."""

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
    from tests.coordinator.broker_comparison import Duel

Json = dict[str, Any]
NEVER = 300_000
"""ms: longer than any test runs. Only what a story is about times out."""


@dataclass(slots=True)
class Talk:
    """One conversation: a group of its own, topics of its own."""

    duel: Duel
    name: str
    patience: int = 30_000
    """ms: sessions and rebalance timeouts of members, unless they are told otherwise."""
    topics: dict[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return f"g-{self.name}"

    def topic(self, name: str, partitions: int) -> str:
        self.topics[name] = f"{self.name}-{name}"
        return self.duel.topic(self.topics[name], partitions)

    def shared(self, name: str, partitions: int) -> None:
        """A topic that no conversation ever changes: the same one for all that ask for its size."""
        self.topics[name] = f"shared-{name}-{partitions}"
        if self.topics[name] not in self.duel.topic_ids:
            self.duel.topic(self.topics[name], partitions)

    def delete_topic(self, name: str) -> None:
        self.duel.delete_topic(self.topics[name])

    def ask(self, client: str, api: str, version: int | None = None, **request: Any) -> Any:
        if "groupId" not in request and api not in (
            "ListGroups",
            "DescribeGroups",
            "ConsumerGroupDescribe",
            "DeleteGroups",
            "OffsetFetch",
        ):
            request["groupId"] = self.group
        where = f"{self.name}:"
        return self.duel.ask(client, api, request, version=version, where=where)

    def consumer(self, name: str, *topics: str, **options: Any) -> ConsumerSide:
        return ConsumerSide(self, name, list(topics), **({"timeout": self.patience} | options))

    def classic(self, name: str, *topics: str, **options: Any) -> ClassicSide:
        patience = {"timeout": self.patience, "session": self.patience}
        return ClassicSide(self, name, list(topics), **(patience | options))

    def transaction(self, name: str = "tx") -> TransactionSide:
        return TransactionSide(self, f"{name}-{self.name}")

    def topic_name(self, name: str) -> str:
        return self.topics.get(name, f"{self.name}-{name}")

    def look(self) -> None:
        """What an administrator sees of the group."""
        self.ask("x", "ConsumerGroupDescribe", groupIds=[self.group])
        self.ask("x", "DescribeGroups", groups=[self.group])
        self.ask("x", "ListGroups", statesFilter=[], typesFilter=[])

    def offsets(self, name: str, **more: Any) -> Any:
        """OffsetFetch of one topic's first partitions, without a member."""
        topics = [{"name": self.topic_name(name), "partitionIndexes": [0, 1]}]
        group = {"groupId": self.group, "memberId": None, "memberEpoch": -1, "topics": topics}
        stable = more.pop("requireStable", False)
        return self.ask("x", "OffsetFetch", groups=[group | more], requireStable=stable)

    def delete_offset(self, name: str, partition: int = 0) -> Any:
        rows = [{"name": self.topic_name(name), "partitions": [{"partitionIndex": partition}]}]
        return self.ask("x", "OffsetDelete", topics=rows)

    def delete_group(self) -> Any:
        return self.ask("x", "DeleteGroups", groupsNames=[self.group])

    def commit_rows(self, topic: str, partition: int, offset: int, text: str) -> list[Json]:
        part = {
            "partitionIndex": partition,
            "committedOffset": offset,
            "committedLeaderEpoch": -1,
            "committedMetadata": text,
        }
        return [{"name": self.topic_name(topic), "partitions": [part]}]


@dataclass(slots=True)
class ConsumerSide:
    """A member of the new protocol: what its client would remember."""

    talk: Talk
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
            request["subscribedTopicNames"] = [self.talk.topic_name(name) for name in self.names]
        if self.regex is not None:
            request["subscribedTopicRegex"] = self.regex
        return self._send(request | more)

    def beat(self, **more: Any) -> Any:
        request: Json = {"memberId": self.member_id, "memberEpoch": self.epoch}
        if self.instance is not None:
            request["instanceId"] = self.instance
        return self._send(request | more)

    def ack(self) -> Any:
        """A heartbeat that says what the member owns now."""
        return self.beat(topicPartitions=self.owned)

    def subscribe(self, *names: str) -> Any:
        self.names = list(names)
        return self.beat(subscribedTopicNames=[self.talk.topic_name(name) for name in names])

    def leave(self, epoch: int = -1) -> Any:
        return self.beat(memberEpoch=epoch)

    def _send(self, request: Json) -> Any:
        answer = self.talk.ask(self.name, "ConsumerGroupHeartbeat", **request)
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
            "topics": self.talk.commit_rows(topic, partition, offset, text),
        }
        return self.talk.ask(self.name, "OffsetCommit", **(request | more))


@dataclass(slots=True)
class ClassicSide:
    """A member of the classic protocol."""

    talk: Talk
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
        names = tuple(sorted(self.talk.topic_name(name) for name in self.names))
        subscription = Subscription(
            self.version, names, None, tuple(self.owned), self.generation, None
        )
        return base64.b64encode(write_subscription(subscription)).decode()

    def join(self, version: int = 9, **more: Any) -> Any:
        """JoinGroup, twice if the coordinator first hands out an id."""
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
            answer = self.talk.ask(self.name, "JoinGroup", version, **(request | more))
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
            rows = tuple((self.talk.topic_name(t), tuple(n)) for t, n in share.items())
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
        return self.talk.ask(self.name, "SyncGroup", **(request | more))

    def beat(self, **more: Any) -> Any:
        request = {
            "memberId": self.member_id,
            "generationId": self.generation,
            "groupInstanceId": self.instance,
        }
        return self.talk.ask(self.name, "Heartbeat", **(request | more))

    def leave(self, **more: Any) -> Any:
        row = {"memberId": self.member_id, "groupInstanceId": self.instance}
        return self.talk.ask(self.name, "LeaveGroup", **({"members": [row]} | more))


@dataclass(slots=True)
class TransactionSide:
    """A producer's transaction that holds offsets. Its coordinator is the broker's alone."""

    talk: Talk
    name: str
    producer: int = -1
    epoch: int = -1
    places: list[Json] = field(default_factory=list)

    def begin(self, timeout: int = 60_000) -> None:
        answer = self.talk.duel.begin_transaction(self.name, timeout)
        self.producer, self.epoch = answer["producerId"], answer["producerEpoch"]
        self.talk.duel.ask_broker("AddOffsetsToTxn", 3, self._ids() | {"groupId": self.talk.group})

    def _ids(self) -> Json:
        return {
            "transactionalId": self.name,
            "producerId": self.producer,
            "producerEpoch": self.epoch,
        }

    def commit(self, topic: str, partition: int, offset: int, **more: Any) -> Any:
        rows = self.talk.commit_rows(topic, partition, offset, "")
        request = self._ids() | {"memberId": "", "generationId": -1, "topics": rows} | more
        self.places += [
            {
                "name": row["name"],
                "partitionIndexes": [part["partitionIndex"] for part in row["partitions"]],
            }
            for row in request["topics"]
        ]
        return self.talk.ask("producer", "TxnOffsetCommit", **request)

    def end(self, *, committed: bool) -> None:
        self.talk.duel.ask_broker("EndTxn", 3, self._ids() | {"committed": committed})
        self._see_marker(committed=committed)

    def is_aborted(self) -> None:
        """By its coordinator, since its time is over."""
        self._see_marker(committed=False)

    def _see_marker(self, *, committed: bool) -> None:
        talk, places = self.talk, self.places
        talk.duel.see_marker(talk.group, places, self.producer, committed=committed)


Conversation = Iterator[float]
"""A conversation is a generator: it talks, and yields how many seconds to wait."""


def run_all(duel: Duel, tellings: list[tuple[str, Callable[[Talk], Conversation | None]]]) -> None:
    """Tell all: where one waits, others talk. One that has waited long enough goes before any
    that has not begun."""
    coming = iter(tellings)
    waiting: list[tuple[float, int, Conversation]] = []
    begun = 0
    while True:
        waiting.sort(key=lambda entry: entry[:2])
        if waiting and waiting[0][0] <= time.time():
            _, number, conversation = waiting.pop(0)
        elif (telling := next(coming, None)) is not None:
            begun += 1
            name, tell = telling
            told = tell(Talk(duel, name, NEVER))
            if told is None:
                continue
            number, conversation = begun, told
        elif waiting:
            time.sleep(min(0.02, max(waiting[0][0] - time.time(), 0)))
            duel.tick()
            continue
        else:
            return
        pause = next(conversation, None)
        if pause is not None:
            waiting.append((time.time() + pause, number, conversation))
