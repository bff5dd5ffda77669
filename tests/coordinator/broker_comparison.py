"""Sends the same requests to a real broker and to the reference, and compares answers and records.

A :class:`BrokerComparison` holds one broker and one reference of the matching release. Ids that the
broker generates (member ids of classic members) are passed to the reference, so that both iterate
their hash tables in the same order. At the end, the broker's log is read with Kafka's own tool and
compared with the reference's records, group by group, in order.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

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
from kip848_spark.coordinator.share_group import SHARE_STATE
from kip848_spark.local.broker import Broker
from kip848_spark.local.dump_log_segments import DumpedRecord
from tests.coordinator.generated_ids import GeneratedIds
from tests.coordinator.normalize import (
    Difference,
    Json,
    normal,
    plain,
    sort_partitions,
    without_order,
)
from tests.coordinator.share_states import ShareStates
from tests.coordinator.wire import Connection, base64_form

_WORDS = ("group.consumer.migration.policy", "group.consumer.assignors")
VERSIONS = {
    "ConsumerGroupHeartbeat": 1,
    "ConsumerGroupDescribe": 1,
    "ShareGroupHeartbeat": 1,
    "ShareGroupDescribe": 1,
    "StreamsGroupDescribe": 0,
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
    "IncrementalAlterConfigs": 1,
}


@dataclass(slots=True)
class _Waiting:
    connection: Connection
    number: int
    where: str
    answer: Json | None = None


class BrokerComparison:
    """One broker and one reference; all conversations share both."""

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
        self.logged: list[DumpedRecord] = []
        """The broker's records, once the logs have been compared."""
        self.requests = 0
        self.probes = 0
        self.reordered = 0
        self.topic_ids: dict[str, str] = {}
        self._ids = GeneratedIds()
        self._connections: dict[tuple[str, str], Connection] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._ticket = 0
        self.share_states = ShareStates(broker.bootstrap)
        self._find_coordinator()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self.share_states.close()

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
        """Create a topic, or increase its partitions."""
        if name in self.topic_ids:
            future = self.admin.create_partitions([NewPartitions(name, partitions)])[name]
        else:
            future = self.admin.create_topics([NewTopic(name, partitions, 1)])[name]
        future.result()
        self._settle(name, partitions)
        if name not in self.topic_ids:
            from confluent_kafka import TopicCollection

            found = self.admin.describe_topics(TopicCollection([name]))[name].result()
            self.topic_ids[name] = base64_form(found.topic_id)
        rack = self.broker.settings.get("broker.rack")
        racks = [[rack]] * partitions if rack else ()
        self._take(self.reference.topic(_now(), name, self.topic_ids[name], partitions, racks))
        return self.topic_ids[name]

    def delete_topic(self, name: str) -> None:
        """Delete a topic. A broker rewrites key 15 of its share groups a moment later."""
        self.admin.delete_topics([name])[name].result()
        self._settle(name, 0)
        steps = self.reference.topic(_now(), name, self.topic_ids.pop(name), 0)
        self._take(steps)
        for record in (record for step in steps for record in step.records):
            if record["key"]["type"] == SHARE_STATE:
                group = record["key"]["data"]["groupId"]
                self.share_states.wait(group, self.records[group])

    def _settle(self, name: str, partitions: int) -> None:
        """Wait until the coordinator knows the topic in this form, by joining probe groups."""
        connection = self._connection("probe", "probe")
        for _ in range(250):
            self.probes += 1
            request = {
                "groupId": f"probe-{self.probes}",
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
        """Set a group's own settings on both sides."""
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

    def send(
        self, client: str, api: str, request: Json, *, version: int | None = None, where: str = ""
    ) -> Json | None:
        """Send a request to both; the reference's answer, or ``None`` if it is delayed."""
        self.requests += 1
        self._ticket += 1
        ticket = self._ticket
        version = VERSIONS[api] if version is None else version
        connection = self._connection(where.split(":", maxsplit=1)[0], client)
        number = connection.send(api, version, self._ids.for_broker(request))
        waiting = _Waiting(connection, number, f"{where} {client} {api} {_summarize(request)}")
        self._waiting[ticket] = waiting
        early = self._force_generated_id(api, request, client, version, waiting)
        at = _now()
        steps = self.reference.request(
            at, api, request, Client(client), version=version, ticket=ticket
        )
        for name in ("new_uuid", "new_java_uuid"):
            self.reference.shard.__dict__.pop(name, None)
        answer = None
        for step in steps:
            for answered, response in step.answers:
                if answered == ticket:
                    answer = response
                self._receive(answered, response, early if answered == ticket else None)
            for answered, response in step.answers:
                self._compare(answered, response)
        self._take(steps, answers=False)
        if api == "ShareGroupHeartbeat":
            group = request["groupId"]
            self.share_states.wait(group, self.records.get(group, []))
        if answer is None:
            time.sleep(0.03)  # the broker must receive it before the next request
        return answer

    def send_to_broker(self, api: str, version: int, request: Json) -> Json:
        """Send a request to the broker alone, and retry until it succeeds."""
        for _ in range(100):
            answer = self.send_to_broker_once(api, version, request)
            if answer["errorCode"] == "NONE":
                return answer
            time.sleep(0.05)
        raise AssertionError(f"{api} {request}: {answer}")

    def send_to_broker_once(self, api: str, version: int, request: Json) -> Json:
        connection = self._connection("broker", "broker")
        answer = connection.receive(connection.send(api, version, request), 6)
        assert answer is not None, f"{api} {request}: no answer"
        return answer

    def begin_transaction(self, name: str, timeout: int) -> Json:
        """A producer's id and epoch. Finding the coordinator first creates the
        transaction topic.
        """
        self.send_to_broker_once("FindCoordinator", 4, {"keyType": 1, "coordinatorKeys": [name]})
        request = {"transactionalId": name, "transactionTimeoutMs": timeout}
        return self.send_to_broker("InitProducerId", 4, request)

    def see_marker(self, group: str, places: list[Json], producer: int, *, committed: bool) -> None:
        """Wait until nothing is pending on the broker; then pass the marker to the reference."""
        request = {"groupId": group, "memberId": None, "memberEpoch": -1, "topics": places}
        for _ in range(250):
            answer = self.send_to_broker_once(
                "OffsetFetch", 9, {"groups": [request], "requireStable": True}
            )
            if "UNSTABLE_OFFSET_COMMIT" not in str(answer):
                break
            time.sleep(0.02)
        marker = {"producerId": producer, "committed": committed}
        self._take(self.reference.request(_now(), "EndTxn", marker))

    def _connection(self, conversation: str, client: str) -> Connection:
        # A broker handles one request per connection at a time, so a delayed one blocks its own.
        busy = {id(waiting.connection) for waiting in self._waiting.values()}
        for number in itertools.count():
            key = (f"{conversation}/{number}", client)
            if key not in self._connections:
                self._connections[key] = Connection(self.broker.bootstrap, client)
            if id(self._connections[key]) not in busy:
                break
        return self._connections[key]

    def _force_generated_id(
        self, api: str, request: Json, client: str, version: int, waiting: _Waiting
    ) -> Json | None:
        """Make the reference generate the id that the broker generated."""
        shard = self.reference.shard
        timeout = 5.0
        if api == "JoinGroup" and not request.get("memberId"):
            if request.get("groupInstanceId") is not None or version < 4:
                timeout = 0.3  # the answer may wait for other members
        elif not (api == "ConsumerGroupHeartbeat" and version == 0):
            return None
        answer = waiting.connection.receive(waiting.number, timeout)
        if answer is None or not answer.get("memberId"):
            return answer
        made = str(answer["memberId"])
        prefix = request.get("groupInstanceId") or client
        classic = made.removeprefix(f"{prefix}-")
        shard.new_uuid = lambda: made  # type: ignore[method-assign]
        shard.new_java_uuid = lambda: classic  # type: ignore[method-assign]
        return answer

    def tick(self) -> None:
        """Advance the reference's clock to the current time, and collect delayed answers."""
        self._take(self.reference.run_until(_now()))

    def _take(self, steps: list[Any], *, answers: bool = True) -> None:
        for step in steps:
            if answers:
                for ticket, response in step.answers:
                    self._receive(ticket, response, None)
                for ticket, response in step.answers:
                    self._compare(ticket, response)
            for record in step.records:
                data = record["key"]["data"]
                group = data.get("groupId", data.get("group"))
                self.records.setdefault(group, []).append(record)

    def _receive(self, ticket: int, reference: Json, early: Json | None) -> None:
        """Receive the broker's answer, and map the ids that it generated to the reference's."""
        waiting = self._waiting.get(ticket)
        if waiting is None:
            return
        waiting.answer = early or waiting.connection.receive(waiting.number, 6)
        if waiting.answer is None:
            return
        if " DescribeGroups " in waiting.where:
            self._ids.match_members(reference, waiting.answer)
        mine, theirs = reference.get("memberId"), waiting.answer.get("memberId")
        same = reference["errorCode"] == waiting.answer["errorCode"] if mine else False
        if mine and theirs and mine != theirs and same:
            self._ids.equate(theirs, mine)

    def _compare(self, ticket: int, reference: Json) -> None:
        waiting = self._waiting.pop(ticket, None)
        if waiting is None:
            return
        broker: Any = waiting.answer
        if broker is None:
            self.differences.append(Difference(waiting.where, "no answer", reference))
            return
        if " ShareGroup" in waiting.where:
            broker, reference = sort_partitions(broker), sort_partitions(reference)
        theirs = plain(_only_own_group(self._ids.for_reference(broker), waiting.where))
        mine = plain(_only_own_group(reference, waiting.where), theirs)
        if theirs != mine and without_order(theirs) == without_order(mine):
            self.reordered += 1
        elif theirs != mine:
            self.differences.append(Difference(waiting.where, theirs, mine))

    # Records

    def compare_logs(self) -> int:
        """Compare every group's records, in order; returns their number.

        Sessions may end while the log is read, so the last records of the reference may or may not
        be in it.
        """
        self.tick()
        time.sleep(0.3)
        for waiting in self._waiting.values():
            answer = waiting.connection.receive(waiting.number, 0.001)
            if answer is not None:
                self.differences.append(Difference(waiting.where, answer, "no answer"))
        before = {group: len(records) for group, records in self.records.items()}
        logged: dict[str, list[Json]] = {}
        for dumped in self.broker.dump_all():
            if dumped.key is None or str(dumped.group).startswith("probe-"):
                continue
            self.logged.append(dumped)
            record = {"key": dumped.key, "value": dumped.payload}
            logged.setdefault(dumped.group, []).append(self._ids.for_reference(record))
        self.tick()
        count = 0
        for group in sorted({*logged, *self.records}):
            theirs = [normal(record) for record in logged.get(group, [])]
            there = max(len(theirs), before.get(group, 0))
            mine = [normal(record) for record in self.records.get(group, [])][:there]
            count += len(theirs)
            for index in range(max(len(theirs), len(mine))):
                left = theirs[index] if index < len(theirs) else None
                right = mine[index] if index < len(mine) else None
                if left != right and without_order(left) == without_order(right):
                    self.reordered += 1  # two topic ids in one bucket: see docs/coordinator.md
                elif left != right:
                    where = f"group {group} record {index}"
                    self.differences.append(Difference(where, left, right))
                    break
        return count


def _only_own_group(response: Json, where: str) -> Json:
    """In a list of all groups, keep only the conversation's own: the others change
    independently.
    """
    if " ListGroups " not in where:
        return response
    own = f"g-{where.split(':', maxsplit=1)[0]}"
    return response | {"groups": [r for r in response["groups"] if r["groupId"] == own]}


def _now() -> int:
    return int(time.time() * 1000)


def _summarize(request: Json) -> str:
    return str({k: v for k, v in request.items() if k not in ("groupId", "protocols")})[:200]
