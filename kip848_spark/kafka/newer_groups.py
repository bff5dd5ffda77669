"""Share and streams groups as a cluster describes them (KIP-932, KIP-1071).

librdkafka has no call for them, so ShareGroupDescribe and StreamsGroupDescribe are sent over a
connection to the groups' coordinators, if these take the requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kip848_spark.kafka.admin import Cluster
from kip848_spark.kafka.answers import Layout, read_value
from kip848_spark.kafka.broker_connection import BrokerConnection, compact_array
from kip848_spark.kafka.coordinators import (
    CONNECTION_FAILURES,
    NONE,
    NOT_FOUND,
    TRANSIENT,
    GroupAnswers,
    RequestVersions,
    ask_coordinators,
    refusal,
)
from kip848_spark.kafka.features import supported_versions
from kip848_spark.kafka.snapshot import (
    NO_ANSWER,
    NO_REQUEST,
    LiveEpochs,
    LiveGroup,
    LiveMember,
    LiveTasks,
)

_LIST_GROUPS, _LIST_VERSION = 16, 5
_NEWER_TYPES = ("share", "streams")
_NOT_ENABLED = 35

_ERROR: dict[str, Layout] = {"error": "int16", "message": "string"}
_LISTED: dict[str, Layout] = {
    "throttle_ms": "int32",
    "error": "int16",
    "groups": [
        {"group_id": "string", "protocol_type": "string", "state": "string", "type": "string"}
    ],
}
_GROUP: dict[str, Layout] = {
    **_ERROR,
    "group_id": "string",
    "state": "string",
    "epoch": "int32",
    "assignment_epoch": "int32",
}
_PARTITIONS: Layout = {
    "topic_partitions": [{"topic_id": "uuid", "topic": "string", "partitions": ["int32"]}]
}
_SHARE_MEMBER: Layout = {
    "member_id": "string",
    "rack_id": "string",
    "epoch": "int32",
    "client_id": "string",
    "client_host": "string",
    "subscribed_topics": ["string"],
    "assignment": _PARTITIONS,
}
_SHARE_GROUPS: Layout = {
    "throttle_ms": "int32",
    "groups": [{**_GROUP, "assignor": "string", "members": [_SHARE_MEMBER], "operations": "int32"}],
}
_PAIR: Layout = {"key": "string", "value": "string"}
_TOPIC: Layout = {
    "name": "string",
    "partitions": "int32",
    "replicas": "int16",
    "settings": [_PAIR],
}
_SUBTOPOLOGY: Layout = {
    "id": "string",
    "source_topics": ["string"],
    "sink_topics": ["string"],
    "changelogs": [_TOPIC],
    "repartition_topics": [_TOPIC],
}
_TASKS: Layout = [{"subtopology": "string", "partitions": ["int32"]}]
_ROLES: Layout = {"active": _TASKS, "standby": _TASKS, "warmup": _TASKS}
_OFFSETS: Layout = [{"subtopology": "string", "partition": "int32", "offset": "int64"}]
_STREAMS_MEMBER: Layout = {
    "member_id": "string",
    "epoch": "int32",
    "instance_id": "string",
    "rack_id": "string",
    "client_id": "string",
    "client_host": "string",
    "topology_epoch": "int32",
    "process_id": "string",
    "endpoint": ({"host": "string", "port": "uint16"},),
    "tags": [_PAIR],
    "offsets": _OFFSETS,
    "end_offsets": _OFFSETS,
    "assignment": _ROLES,
    "target": _ROLES,
    "is_classic": "bool",
}
_STREAMS_GROUPS: Layout = {
    "throttle_ms": "int32",
    "groups": [
        {
            **_GROUP,
            "topology": ({"epoch": "int32", "subtopologies": [_SUBTOPOLOGY]},),
            "members": [_STREAMS_MEMBER],
            "operations": "int32",
        }
    ],
}


@dataclass(frozen=True)
class _Api:
    """A request that describes groups of one type, in the version that is sent."""

    type: str
    key: int
    version: int
    answer: Layout


_APIS = (_Api("share", 77, 1, _SHARE_GROUPS), _Api("streams", 89, 0, _STREAMS_GROUPS))


@dataclass
class NewerGroups:
    """Share and streams groups, and why others were not described: ``refused`` by the broker, or
    ``unasked``. A group that does not exist, or is of another type, is nowhere."""

    groups: dict[str, LiveGroup] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unasked: dict[str, str] = field(default_factory=dict)


def newer_group_ids(cluster: Cluster) -> set[str]:
    """The ids of the share and streams groups that the client may see, which librdkafka does not
    list. A broker that does not answer, or does not list groups by type, lists none."""
    found: set[str] = set()
    for host, port in cluster.brokers():
        try:
            with BrokerConnection(host, port, cluster.config, cluster.timeout) as connection:
                connection.authenticate()
                oldest, newest = supported_versions(connection).get(_LIST_GROUPS, (0, 0))
                if oldest <= _LIST_VERSION <= newest:
                    every = compact_array([])  # any state, and then any type
                    fields = connection.ask(_LIST_GROUPS, _LIST_VERSION, every * 2 + b"\0")
                    rows = read_value(fields, _LISTED)["groups"]
                    found |= {r["group_id"] for r in rows if r["type"].lower() in _NEWER_TYPES}
        except CONNECTION_FAILURES:
            continue
    return found


def describe_newer(cluster: Cluster, ids: Sequence[str]) -> NewerGroups:
    """Describes those of the groups ``ids`` that are share or streams groups. A broker that does
    not answer is no error: its groups are ``unasked`` or ``refused``."""

    def ask(
        connection: BrokerConnection, known: RequestVersions, names: list[str]
    ) -> GroupAnswers[LiveGroup]:
        return _describe(cluster, connection, known, names)

    found = ask_coordinators(cluster, list(filter(None, ids)), ask)
    why = NO_REQUEST if found.answered else NO_ANSWER
    return NewerGroups(
        dict(sorted(found.answers.items())), found.refused, dict.fromkeys(found.unasked, why)
    )


def _describe(
    cluster: Cluster, connection: BrokerConnection, known: RequestVersions, names: list[str]
) -> GroupAnswers[LiveGroup]:
    found: GroupAnswers[LiveGroup] = GroupAnswers()
    later, missing = set(), False
    for api in _APIS:
        oldest, newest = known.get(api.key, (0, -1))
        if not oldest <= api.version <= newest:
            missing = True
            continue
        some = [name for name in names if name not in found.answers]
        if not some:
            break
        body = compact_array(some) + b"\0\0"  # without the client's operations; no tags
        for row in read_value(connection.ask(api.key, api.version, body), api.answer)["groups"]:
            name = row["group_id"]
            if row["error"] == NONE:
                found.answers[name] = _group(api.type, row)
            elif row["error"] == _NOT_ENABLED:  # groups of this type
                missing = True
            elif row["error"] in TRANSIENT:
                later.add(name)
            elif row["error"] != NOT_FOUND:
                found.refused[name] = refusal(cluster, name, row)
    for name in found.answers:
        found.refused.pop(name, None)
    rest = {name for name in names if found.lacks(name)} - later
    (found.unasked if missing else found.absent).update(rest)
    return found


def _group(kind: str, row: dict[str, Any]) -> LiveGroup:
    topology = row.get("topology")
    epochs = LiveEpochs(
        row["epoch"], row["assignment_epoch"], None if topology is None else topology["epoch"]
    )
    made = (_share_member(one) if kind == "share" else _thread(one) for one in row["members"])
    return LiveGroup(
        group_id=row["group_id"],
        type=kind,
        state=row["state"],
        assignor=row.get("assignor", ""),
        simple=False,
        members=tuple(sorted(made, key=lambda member: member.member_id)),
        epochs=epochs,
    )


def _share_member(row: dict[str, Any]) -> LiveMember:
    topics = row["assignment"]["topic_partitions"]
    assigned = sorted((one["topic"], number) for one in topics for number in one["partitions"])
    return LiveMember(
        member_id=row["member_id"],
        instance_id=None,
        client_id=row["client_id"],
        client_host=row["client_host"],
        assigned=tuple(assigned),
        target=None,
        epoch=row["epoch"],
    )


def _thread(row: dict[str, Any]) -> LiveMember:
    return LiveMember(
        member_id=row["member_id"],
        instance_id=row["instance_id"] or None,
        client_id=row["client_id"],
        client_host=row["client_host"],
        assigned=(),
        target=None,
        epoch=row["epoch"],
        tasks=_tasks(row["assignment"]),
        target_tasks=_tasks(row["target"]),
    )


def _tasks(roles: dict[str, Any]) -> LiveTasks:
    return LiveTasks(**{role: task_ids(rows) for role, rows in roles.items()})


def task_ids(rows: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    """The tasks of rows with a ``subtopology`` and its ``partitions``, as Kafka names them."""
    return tuple(
        sorted(f"{row['subtopology']}_{number}" for row in rows for number in row["partitions"])
    )
