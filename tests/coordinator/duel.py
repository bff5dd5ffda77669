"""The same requests to a real broker and to the reference, the answers and records compared.

A :class:`Duel` holds one broker and one reference of the matching release. Each request goes to
both; whatever the broker makes up (member ids of classic members) is told to the reference, so
that both walk their tables in the same order. At the end the broker's log is read with Kafka's
own tool and compared with the reference's records, group by group, in order.
"""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Uuid
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from kip848_spark.coordinator import Client, Coordinator
from kip848_spark.coordinator.config import NUMBERS
from kip848_spark.coordinator.consumer_protocol import (
    ClassicAssignment,
    Subscription,
    write_assignment,
    write_subscription,
)
from kip848_spark.coordinator.records import CLASSIC_GROUP, TARGET_MEMBER
from kip848_spark.local.broker import Broker
from tests.coordinator.wire import Connection

Json = dict[str, Any]
_WORDS = ("group.consumer.migration.policy", "group.consumer.assignors")
VERSIONS = {
    "ConsumerGroupHeartbeat": 1,
    "ConsumerGroupDescribe": 1,
    "JoinGroup": 9,
    "SyncGroup": 5,
    "Heartbeat": 4,
    "LeaveGroup": 5,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "TxnOffsetCommit": 3,
    "ListGroups": 5,
    "DescribeGroups": 6,
    "DeleteGroups": 2,
    "OffsetDelete": 0,
}
_MADE_UP = frozenset(
    ["commitTimestamp", "currentStateTimestamp", "assignmentTimestamp", "timestamp", "version"]
)


@dataclass(slots=True)
class Difference:
    where: str
    broker: Any
    reference: Any

    def __str__(self) -> str:
        return f"{self.where}\n   broker    {self.broker}\n   reference {self.reference}"


@dataclass(slots=True)
class _Waiting:
    connection: Connection
    number: int
    where: str
    answer: Json | None = None


class Duel:
    """One broker against one reference; conversations share both."""

    def __init__(self, broker: Broker, release: str) -> None:
        self.broker = broker
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        config = {
            name: value
            for name, value in broker.settings.items()
            if name in NUMBERS or name in _WORDS
        }
        self.reference = Coordinator(release, config)
        self.differences: list[Difference] = []
        self.records: dict[str, list[Json]] = {}
        self.requests = 0
        self._probes = 0
        self.reordered = 0
        self.topic_ids: dict[str, str] = {}
        self._alias: dict[str, str] = {}
        self._connections: dict[tuple[str, str], Connection] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._ticket = 0
        self._find_coordinator()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _find_coordinator(self) -> None:
        connection = Connection(self.broker.bootstrap, "finder")
        for _ in range(100):
            number = connection.send(
                "FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": ["any"]}
            )
            answer = connection.receive(number, 5)
            if answer and answer["coordinators"][0]["errorCode"] == "NONE":
                break
            time.sleep(0.1)
        for _ in range(100):
            number = connection.send(
                "Heartbeat", 4, {"groupId": "any", "memberId": "x", "generationId": 1}
            )
            answer = connection.receive(number, 5)
            if answer and answer["errorCode"] == "UNKNOWN_MEMBER_ID":
                break
            time.sleep(0.1)
        connection.close()

    # Topics and settings

    def topic(self, name: str, partitions: int) -> str:
        """Create a topic, or let it grow."""
        if name in self.topic_ids:
            future = self.admin.create_partitions([NewPartitions(name, partitions)])[name]
        else:
            future = self.admin.create_topics([NewTopic(name, partitions, 1)])[name]
        future.result()
        self._settle(name, partitions)
        if name not in self.topic_ids:
            from confluent_kafka import TopicCollection

            found = self.admin.describe_topics(TopicCollection([name]))[name].result()
            self.topic_ids[name] = _kafka_form(found.topic_id)
        self._take(self.reference.topic(_now(), name, self.topic_ids[name], partitions))
        return self.topic_ids[name]

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result()
        self._settle(name, 0)
        self._take(self.reference.topic(_now(), name, self.topic_ids.pop(name), 0))

    def _settle(self, name: str, partitions: int) -> None:
        """Wait until the coordinator has the topic like that: ask it, by groups of no account."""
        connection = self._connection("probe", "probe")
        for _ in range(250):
            self._probes += 1
            request = {
                "groupId": f"probe-{self._probes}",
                "memberId": "probe",
                "memberEpoch": 0,
                "rebalanceTimeoutMs": 60_000,
                "subscribedTopicNames": [name],
                "topicPartitions": [],
            }
            number = connection.send("ConsumerGroupHeartbeat", 1, request)
            answer = connection.receive(number, 5)
            rows = answer["assignment"]["topicPartitions"] if answer else []
            if sum(len(row["partitions"]) for row in rows) == partitions:
                return
            time.sleep(0.02)

    def configure(self, group: str, settings: dict[str, str]) -> None:
        """A group's own settings, on both sides."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result()
        time.sleep(0.1)
        configs = [{"name": n, "configOperation": 0, "value": v} for n, v in settings.items()]
        request = {"resources": [{"resourceType": 32, "resourceName": group, "configs": configs}]}
        self._take(self.reference.request(_now(), "IncrementalAlterConfigs", request))

    # Requests

    def ask(
        self, client: str, api: str, request: Json, *, version: int | None = None, where: str = ""
    ) -> Json | None:
        """Send to both; the reference's answer, or ``None`` if it has to wait."""
        self.requests += 1
        self._ticket += 1
        ticket = self._ticket
        version = VERSIONS[api] if version is None else version
        connection = self._connection(where.split(":", maxsplit=1)[0], client)
        number = connection.send(api, version, self._for_broker(request))
        waiting = _Waiting(connection, number, f"{where} {client} {api} {_brief(request)}")
        self._waiting[ticket] = waiting
        early = self._force_id(api, request, client, version, waiting)
        at = _now()
        steps = self.reference.request(
            at, api, request, Client(client), version=version, ticket=ticket
        )
        for name in ("new_uuid", "new_java_uuid"):
            self.reference.shard.__dict__.pop(name, None)
        answer = None
        for step in steps:
            for whom, response in step.answers:
                if whom == ticket:
                    answer = response
                self._learn(whom, response, early if whom == ticket else None)
            for whom, response in step.answers:
                self._compare(whom, response)
        self._take(steps, answers=False)
        if answer is None:
            time.sleep(0.03)  # the broker has to have taken it in before anyone else speaks
        return answer

    def _connection(self, conversation: str, client: str) -> Connection:
        # A broker takes one request at a time from a connection: what waits keeps its own busy.
        busy = {id(waiting.connection) for waiting in self._waiting.values()}
        for number in itertools.count():
            key = (f"{conversation}/{number}", client)
            if key not in self._connections:
                self._connections[key] = Connection(self.broker.bootstrap, client)
            if id(self._connections[key]) not in busy:
                break
        return self._connections[key]

    def _force_id(
        self, api: str, request: Json, client: str, version: int, waiting: _Waiting
    ) -> Json | None:
        """Let the reference make the id that the broker made."""
        shard = self.reference.shard
        patience = 5.0
        if api == "JoinGroup" and not request.get("memberId") and version >= 4:
            if request.get("groupInstanceId") is not None:
                patience = 0.3  # it may have to wait for others
        elif not (api == "ConsumerGroupHeartbeat" and version == 0):
            return None
        answer = waiting.connection.receive(waiting.number, patience)
        if answer is None or not answer.get("memberId"):
            return answer
        made = str(answer["memberId"])
        prefix = request.get("groupInstanceId") or client
        classic = made.removeprefix(f"{prefix}-")
        shard.new_uuid = lambda: made  # type: ignore[method-assign]
        shard.new_java_uuid = lambda: classic  # type: ignore[method-assign]
        return answer

    def tick(self) -> None:
        """Let the reference's timers run up to now, and collect what was awaited."""
        self._take(self.reference.run_until(_now()))

    def _take(self, steps: list[Any], *, answers: bool = True) -> None:
        for step in steps:
            if answers:
                for ticket, response in step.answers:
                    self._learn(ticket, response, None)
                for ticket, response in step.answers:
                    self._compare(ticket, response)
            for record in step.records:
                data = record["key"]["data"]
                group = data.get("groupId", data.get("group"))
                self.records.setdefault(group, []).append(record)

    def _learn(self, ticket: int, reference: Json, early: Json | None) -> None:
        """Get the broker's answer, and which of its ids stands for which of the reference's."""
        waiting = self._waiting.get(ticket)
        if waiting is None:
            return
        waiting.answer = early or waiting.connection.receive(waiting.number, 6)
        if waiting.answer is None:
            return
        mine, theirs = reference.get("memberId"), waiting.answer.get("memberId")
        same = reference["errorCode"] == waiting.answer["errorCode"] if mine else False
        if mine and theirs and mine != theirs and same:
            self._alias[theirs] = mine

    def _compare(self, ticket: int, reference: Json) -> None:
        waiting = self._waiting.pop(ticket, None)
        if waiting is None:
            return
        broker: Any = waiting.answer
        if broker is None:
            self.differences.append(Difference(waiting.where, "no answer", reference))
            return
        broker = _plain(self._renamed(broker))
        plain = _plain(reference, broker)
        if broker != plain and _sorted(broker) == _sorted(plain):
            self.reordered += 1
        elif broker != plain:
            self.differences.append(Difference(waiting.where, broker, plain))

    def _renamed(self, value: Any) -> Any:
        if not self._alias:
            return value
        if isinstance(value, dict):
            return {key: self._renamed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._renamed(item) for item in value]
        return self._alias.get(value, value) if isinstance(value, str) else value

    def _for_broker(self, value: Any) -> Any:
        back = {mine: theirs for theirs, mine in self._alias.items()}

        def renamed(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: renamed(item) for key, item in value.items()}
            if isinstance(value, list):
                return [renamed(item) for item in value]
            return back.get(value, value) if isinstance(value, str) else value

        return renamed(value) if back else value

    # Records

    def compare_logs(self) -> int:
        """Compare every group's records, in order; how many there were.

        Sessions may end while the log is read: the reference's records until after that may be
        there or not.
        """
        self.tick()
        time.sleep(0.3)
        before = {group: len(records) for group, records in self.records.items()}
        logged: dict[str, list[Json]] = {}
        for dumped in self.broker.dump_all():
            if dumped.key is None or str(dumped.group).startswith("probe-"):
                continue
            record = {"key": dumped.key, "value": dumped.payload}
            logged.setdefault(dumped.group, []).append(self._renamed(record))
        self.tick()
        count = 0
        for group in sorted({*logged, *self.records}):
            theirs = [_normal(record) for record in logged.get(group, [])]
            there = max(len(theirs), before.get(group, 0))
            mine = [_normal(record) for record in self.records.get(group, [])][:there]
            count += len(theirs)
            self.reordered += _align(theirs, mine)
            for index in range(max(len(theirs), len(mine))):
                left = theirs[index] if index < len(theirs) else None
                right = mine[index] if index < len(mine) else None
                if left != right and _sorted(left) == _sorted(right):
                    self.reordered += 1  # two topic ids in one bucket: see docs/coordinator.md
                elif left != right:
                    where = f"group {group} record {index}"
                    self.differences.append(Difference(where, left, right))
                    break
        return count


def _align(theirs: Sequence[Json | None], mine: list[Json | None]) -> int:
    """In a group that once was classic, puts the target records of one operation into the broker's
    order if that is all they differ in; gives how many operations that were. Members of one bucket
    of a Java table come in an order that depends on how the group was converted."""

    def kind(log: Sequence[Json | None], at: int) -> str | None:
        record = log[at] if at < len(log) else None
        return record["key"]["type"] if record else None

    found = 0
    if not any(kind(theirs, at) == CLASSIC_GROUP for at in range(len(theirs))):
        return found
    start = 0
    while start < min(len(theirs), len(mine)):
        end = start
        while kind(theirs, end) == kind(mine, end) == TARGET_MEMBER:
            end += 1
        left, right = theirs[start:end], mine[start:end]
        if left != right and all(record in right for record in left):
            mine[start:end] = left
            found += 1
        start = max(end, start + 1)
    return found


def _kafka_form(topic_id: Uuid) -> str:
    raw = (
        topic_id.get_most_significant_bits() & (2**64 - 1),
        (topic_id.get_least_significant_bits() & (2**64 - 1)),
    )
    return (
        base64.urlsafe_b64encode(raw[0].to_bytes(8, "big") + raw[1].to_bytes(8, "big"))
        .decode()
        .rstrip("=")
    )


def _now() -> int:
    return int(time.time() * 1000)


def _brief(request: Json) -> str:
    return str({k: v for k, v in request.items() if k not in ("groupId", "protocols")})[:200]


def _plain(response: Any, like: Any = None) -> Any:
    """A response without what need not agree: texts, throttling, order of groups."""
    if isinstance(response, dict):
        out = {}
        for key, value in response.items():
            if key in ("errorMessage", "throttleTimeMs", "authorizedOperations"):
                continue
            if isinstance(like, dict) and key not in like:
                continue
            out[key] = _plain(value, like.get(key) if isinstance(like, dict) else None)
        return out
    if isinstance(response, list):
        rows = [
            _plain(item, like[0] if isinstance(like, list) and like else None) for item in response
        ]
        if rows and isinstance(rows[0], dict) and {"groupId", "memberId"} & rows[0].keys():
            rows.sort(key=lambda row: row.get("groupId") or row.get("memberId"))
        return rows
    return response


def _normal(record: Json) -> Json:
    """A record without what need not agree: times, and the image's version."""
    value = record["value"]
    if value is not None:
        data = {k: (0 if k in _MADE_UP else v) for k, v in value["data"].items()}
        if record["key"]["type"] == "2":
            data["members"] = sorted(data["members"], key=lambda row: row["memberId"])
        value = {"version": value["version"], "data": data}
    return {"key": record["key"], "value": value}


def _sorted(value: Any) -> Any:
    """A response or record with its lists of topics sorted."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        rows = [_sorted(item) for item in value]
        if rows and isinstance(rows[0], dict) and "topicId" in rows[0]:
            rows.sort(key=lambda row: row["topicId"])
        return rows
    return value


# Talking


@dataclass(slots=True)
class Talk:
    """One conversation: a group of its own, topics of its own."""

    duel: Duel
    name: str
    topics: dict[str, str] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return f"g-{self.name}"

    def topic(self, name: str, partitions: int) -> str:
        self.topics[name] = f"{self.name}-{name}"
        return self.duel.topic(self.topics[name], partitions)

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
        return ConsumerSide(self, name, list(topics), **options)

    def classic(self, name: str, *topics: str, **options: Any) -> ClassicSide:
        return ClassicSide(self, name, list(topics), **options)

    def topic_name(self, name: str) -> str:
        return self.topics.get(name, f"{self.name}-{name}")


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

    def commit(self, topic: str, partition: int, offset: int, **more: Any) -> Any:
        rows = [
            {
                "name": self.talk.topic_name(topic),
                "partitions": [
                    {
                        "partitionIndex": partition,
                        "committedOffset": offset,
                        "committedLeaderEpoch": -1,
                        "committedMetadata": "",
                    }
                ],
            }
        ]
        request = {
            "memberId": self.member_id,
            "generationIdOrMemberEpoch": self.epoch,
            "groupInstanceId": self.instance,
            "topics": rows,
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


Conversation = Iterator[float]
"""A conversation is a generator: it talks, and yields how many seconds to wait."""


def run_all(duel: Duel, conversations: list[Conversation]) -> None:
    """Run conversations one beside the other: where one waits, others talk."""
    due = [(0.0, index, talk) for index, talk in enumerate(conversations)]
    while due:
        due.sort(key=lambda entry: entry[:2])
        when, index, talk = due.pop(0)
        while time.time() < when:
            time.sleep(min(0.02, max(when - time.time(), 0)))
            duel.tick()
        try:
            pause = next(talk)
        except StopIteration:
            continue
        due.append((time.time() + pause, index, talk))
