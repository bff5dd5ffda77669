"""The entry point: a group coordinator whose clock is set by the caller.

    coordinator = Coordinator("4.3")
    coordinator.topic(0, "foo", topic_id, partitions=6)
    steps = coordinator.request(10, "ConsumerGroupHeartbeat", {...}, Client("A"))
    for step in steps:
        step.at, step.answers, step.records

Every call first runs the timers that are due by its time, each as a step of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kip848_spark.coordinator import (
    classic_join,
    classic_sync,
    group_descriptions,
    housekeeping,
    offset_fetch,
    offsets,
    views,
)
from kip848_spark.coordinator.classic import join_response, sync_response
from kip848_spark.coordinator.client_assignors import install_assignment, prepare_assignment
from kip848_spark.coordinator.config import BrokerConfig
from kip848_spark.coordinator.faults import GroupError, ReplayError
from kip848_spark.coordinator.heartbeat import heartbeat, response
from kip848_spark.coordinator.metrics import ACTIVE, FAILED, LOADING
from kip848_spark.coordinator.records import Json, Record
from kip848_spark.coordinator.releases import find_release
from kip848_spark.coordinator.replay import end_transaction, replay
from kip848_spark.coordinator.shard import ApiCall, Client, Shard
from kip848_spark.coordinator.share_heartbeat import share_heartbeat, share_response
from kip848_spark.coordinator.streams_heartbeat import streams_heartbeat, streams_response
from kip848_spark.coordinator.topics import Topic
from kip848_spark.errors import UsageError


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one request or timer: its time (ms), answers by ticket, and records written."""

    at: int
    answers: list[tuple[int, Json]]
    records: list[Record]


class Coordinator:
    """One coordinator of one release, with its own topics, groups, offsets and clock."""

    def __init__(
        self, release: str, config: Mapping[str, str] | None = None, seed: int = 0
    ) -> None:
        self.release = find_release(release)
        self.shard = Shard(self.release, BrokerConfig(self.release, config), seed)
        self._partition = LOADING
        self._tickets = 0

    # Loading

    def replay(
        self, record: Record, offset: int = -1, *, producer: int = -1, timestamp: int | None = None
    ) -> None:
        """Load one record of a log, in the form of ``kip848 dump``. Raises ReplayError where a
        broker would.
        """
        if timestamp is not None:
            self.shard.now = timestamp
        try:
            replay(self.shard, record, offset, producer=producer)
        except ReplayError:
            self._partition = FAILED
            raise

    def replay_marker(self, producer: int, *, commit: bool) -> None:
        """Load a transaction marker."""
        end_transaction(self.shard, producer, commit=commit)

    def finish_loading(self, at: int) -> None:
        """The whole log is loaded: sessions and the expiration sweep start (KIP-848
        "Fail Over").
        """
        self._partition = ACTIVE
        housekeeping.after_loading(self.shard, at)

    # Running

    def run_until(self, at: int) -> list[Step]:
        """Advance the clock to ``at`` (ms); every timer due by then runs at its own time."""
        shard = self.shard
        if self._partition == LOADING:
            shard.now = at
            self._partition = ACTIVE
            housekeeping.schedule_expiration_sweep(shard)
        if at < shard.now:
            raise UsageError(f"time goes back from {shard.now} to {at}")
        steps = []
        for due, action in shard.timers.due(at):
            shard.now = max(shard.now, due)
            action()
            steps += self._step()
        shard.now = at
        return steps

    def topic(
        self,
        at: int,
        name: str,
        topic_id: str,
        partitions: int,
        racks: Sequence[Sequence[str] | str] = (),
    ) -> list[Step]:
        """Create, change or (with no partitions) delete a topic."""
        steps = self.run_until(at)
        rows = tuple((row,) if isinstance(row, str) else tuple(row) for row in racks)
        housekeeping.change_topic(self.shard, Topic(name, topic_id, partitions, rows))
        return steps + self._step()

    def request(
        self,
        at: int,
        api: str,
        request: Json,
        client: Client | None = None,
        *,
        version: int | None = None,
        ticket: int | None = None,
    ) -> list[Step]:
        """Handle one request; its answer may be in a later step (JoinGroup, SyncGroup).

        ``version`` defaults to the newest that the release knows, ``ticket`` (which identifies the
        answer) to a running number. Raises UsageError for an unknown API or if time goes back.
        """
        if api not in _APIS:
            raise UsageError(f"no API {api!r}", f"Use one of: {', '.join(sorted(_APIS))}")
        steps = self.run_until(at)
        if ticket is None:
            self._tickets += 1
            ticket = self._tickets
        spec = _APIS[api]
        call = ApiCall(
            dict(request), client or Client(), spec.version(self, request, version), ticket
        )
        try:
            answer = spec.handle(self.shard, call)
        except GroupError as bad:
            answer = spec.refuse(call.request, bad)
        if answer is not None:
            self.shard.output.answers.insert(0, (ticket, answer))
        steps += self._step()
        for due, action in self.shard.timers.due(at):  # work that the request scheduled for now
            self.shard.now = max(self.shard.now, due)
            action()
            steps += self._step()
        return steps

    def metrics(self) -> dict[str, float]:
        """The current values of the KIP's metrics."""
        shard = self.shard
        return shard.metrics.snapshot(shard.groups.values(), self._partition, shard.now)

    def _step(self) -> list[Step]:
        output = self.shard.take_output()
        if not output.answers and not output.records:
            return []
        return [Step(self.shard.now, output.answers, output.records)]


@dataclass(frozen=True, slots=True)
class Api:
    """How one API is handled; ``refuse`` builds the response of a refused request."""

    handle: Callable[[Shard, ApiCall], Json | None]
    refuse: Callable[[Json, GroupError], Json]
    newest: int = 0

    def version(self, coordinator: Coordinator, request: Json, version: int | None) -> int:
        """The requested version, or the newest; a heartbeat without any member id is version 0."""
        if version is not None:
            return version
        if self.handle is _heartbeat:
            by_client = coordinator.release.member_id_by_client
            return 1 if by_client and "memberId" in request else 0
        return self.newest


def _refused(_: Json, bad: GroupError) -> Json:
    return {"throttleTimeMs": 0, "errorCode": bad.code}


def _refused_rows(request: Json, bad: GroupError) -> Json:
    """OffsetCommit and TxnOffsetCommit have no error of their own: each partition has one."""
    rows = []
    for topic in request.get("topics") or ():
        row: Json = {key: topic[key] for key in ("name", "topicId") if key in topic}
        row["partitions"] = [
            {"partitionIndex": part["partitionIndex"], "errorCode": bad.code}
            for part in topic.get("partitions") or ()
        ]
        rows.append(row)
    return {"throttleTimeMs": 0, "topics": rows}


def _heartbeat(shard: Shard, call: ApiCall) -> Json:
    return heartbeat(shard, call.request, call.client, call.version)


def _join(shard: Shard, call: ApiCall) -> None:
    classic_join.join(shard, call)


def _sync(shard: Shard, call: ApiCall) -> None:
    classic_sync.sync(shard, call.request, call.ticket)


_SET, _DELETE = 0, 1
"""Operations of IncrementalAlterConfigs; the others append to a list or subtract from it."""


def _operation(config: Json) -> int:
    return int(config.get("configOperation", _SET))


def _alter_configs(shard: Shard, call: ApiCall) -> Json:
    """IncrementalAlterConfigs for resources of type GROUP (32 on the wire, 16 in the KIP)."""
    rows: list[Json] = []
    for resource in call.request.get("resources") or ():
        row = {
            "errorCode": "NONE",
            "errorMessage": None,
            "resourceType": resource.get("resourceType"),
            "resourceName": resource.get("resourceName"),
        }
        configs = resource.get("configs") or ()
        changes = {
            config["name"]: None if _operation(config) == _DELETE else config.get("value")
            for config in configs
        }
        try:
            if resource.get("resourceType") not in (16, 32, "GROUP"):
                raise GroupError("INVALID_REQUEST", "only groups have dynamic settings here")
            for config in configs:
                if _operation(config) not in (_SET, _DELETE):
                    raise GroupError("INVALID_CONFIG", f"{config['name']!r} is not a list")
            shard.config.alter_group(resource.get("resourceName") or "", changes)
        except GroupError as bad:
            row |= {"errorCode": bad.code, "errorMessage": bad.message}
        rows.append(row)
    return {"throttleTimeMs": 0, "responses": rows}


def _describe_configs(shard: Shard, call: ApiCall) -> Json:
    rows: list[Json] = []
    for resource in call.request.get("resources") or ():
        name = resource.get("resourceName") or ""
        wanted = resource.get("configurationKeys")
        values = shard.config.describe_group(name)
        rows.append(
            {
                "errorCode": "NONE",
                "errorMessage": None,
                "resourceType": resource.get("resourceType"),
                "resourceName": name,
                "configs": [
                    {"name": key, "value": value}
                    for key, value in values.items()
                    if wanted is None or key in wanted
                ],
            }
        )
    return {"throttleTimeMs": 0, "results": rows}


_APIS: dict[str, Api] = {
    "ConsumerGroupHeartbeat": Api(
        _heartbeat, lambda _, bad: response(errorCode=bad.code, errorMessage=bad.message)
    ),
    "ConsumerGroupPrepareAssignment": Api(
        lambda shard, call: prepare_assignment(shard, call.request), _refused
    ),
    "ConsumerGroupInstallAssignment": Api(
        lambda shard, call: install_assignment(shard, call.request), _refused
    ),
    "ConsumerGroupDescribe": Api(
        lambda shard, call: group_descriptions.describe_consumer_groups(shard, call.request),
        _refused,
        1,
    ),
    "StreamsGroupHeartbeat": Api(
        lambda shard, call: streams_heartbeat(shard, call.request, call.client),
        lambda _, bad: streams_response(errorCode=bad.code, errorMessage=bad.message),
    ),
    "ShareGroupHeartbeat": Api(
        lambda shard, call: share_heartbeat(shard, call.request, call.client),
        lambda _, bad: share_response(errorCode=bad.code, errorMessage=bad.message),
        1,
    ),
    "ShareGroupDescribe": Api(
        lambda shard, call: group_descriptions.describe_share_groups(shard, call.request),
        _refused,
        1,
    ),
    "StreamsGroupDescribe": Api(
        lambda shard, call: group_descriptions.describe_streams_groups(shard, call.request),
        _refused,
    ),
    "JoinGroup": Api(
        _join,
        lambda request, bad: join_response(
            memberId=request.get("memberId") or "", errorCode=bad.code
        ),
        9,
    ),
    "SyncGroup": Api(_sync, lambda _, bad: sync_response(errorCode=bad.code), 5),
    "Heartbeat": Api(
        lambda shard, call: classic_sync.classic_heartbeat(shard, call.request), _refused, 4
    ),
    "LeaveGroup": Api(
        lambda shard, call: classic_sync.leave_group(shard, call.request),
        lambda request, bad: _refused(request, bad) | {"members": []},
        5,
    ),
    "OffsetCommit": Api(
        lambda shard, call: offsets.commit(shard, call.request, call.version), _refused_rows, 10
    ),
    "TxnOffsetCommit": Api(
        lambda shard, call: offsets.commit_in_transaction(shard, call.request, call.version),
        _refused_rows,
        5,
    ),
    "EndTxn": Api(lambda shard, call: offsets.end_transaction(shard, call.request), _refused),
    "OffsetFetch": Api(
        lambda shard, call: offset_fetch.fetch(shard, call.request, call.version), _refused, 10
    ),
    "OffsetDelete": Api(
        lambda shard, call: offsets.delete_offsets(shard, call.request),
        lambda request, bad: _refused(request, bad) | {"topics": []},
    ),
    "DeleteGroups": Api(
        lambda shard, call: housekeeping.delete_groups(shard, call.request), _refused, 2
    ),
    "ListGroups": Api(lambda shard, call: views.list_groups(shard, call.request), _refused, 5),
    "DescribeGroups": Api(
        lambda shard, call: views.describe_groups(shard, call.request, call.version), _refused, 6
    ),
    "IncrementalAlterConfigs": Api(_alter_configs, _refused, 1),
    "DescribeConfigs": Api(_describe_configs, _refused, 4),
}
APIS: tuple[str, ...] = tuple(sorted(_APIS))
"""Every API that the coordinator implements, by Kafka's name."""

__all__ = ["APIS", "Api", "ApiCall", "Client", "Coordinator", "Step"]
