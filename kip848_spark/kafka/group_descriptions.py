"""Consumer and classic groups as a cluster describes them: ConsumerGroupDescribe (KIP-848) and
DescribeGroups, for many groups at once."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from kip848_spark.kafka.admin import Cluster
from kip848_spark.kafka.answers import Layout, read_value
from kip848_spark.kafka.broker_connection import BrokerConnection, compact_array
from kip848_spark.kafka.coordinators import (
    NONE,
    NOT_FOUND,
    TRANSIENT,
    GroupAnswers,
    RequestVersions,
    ask_coordinators,
    refusal,
)
from kip848_spark.kafka.snapshot import (
    NO_TOPIC_NAMES,
    UNREADABLE,
    LiveEpochs,
    LiveGroup,
    LiveMember,
    TopicPartition,
)

_CONSUMER_DESCRIBE, _DESCRIBE = 69, 15
_NOT_ENABLED = 35
"""The error of a broker that has no consumer groups."""
_DEAD = "Dead"
"""The state of a group that does not exist, in the answer of this version."""
_CONSUMER_PROTOCOL = "consumer"

_PARTITIONS: Layout = {
    "topic_partitions": [{"topic_id": "uuid", "topic": "string", "partitions": ["int32"]}]
}
_MEMBER: dict[str, Layout] = {
    "member_id": "string",
    "instance_id": "string",
    "rack_id": "string",
    "epoch": "int32",
    "client_id": "string",
    "client_host": "string",
    "topics": ["string"],
    "regular_expression": "string",
    "assignment": _PARTITIONS,
    "target": _PARTITIONS,
}


def _consumer_groups(member: Layout) -> Layout:
    return {
        "throttle_ms": "int32",
        "groups": [
            {
                "error": "int16",
                "message": "string",
                "group_id": "string",
                "state": "string",
                "epoch": "int32",
                "assignment_epoch": "int32",
                "assignor": "string",
                "members": [member],
                "operations": "int32",
            }
        ],
    }


_CONSUMER_GROUPS = {
    0: _consumer_groups(_MEMBER),
    1: _consumer_groups({**_MEMBER, "type": "int8"}),
}
"""The answers of ConsumerGroupDescribe by their versions."""
_CLASSIC_GROUPS: Layout = {
    "throttle_ms": "int32",
    "groups": [
        {
            "error": "int16",
            "group_id": "string",
            "state": "string",
            "protocol_type": "string",
            "protocol": "string",
            "members": [
                {
                    "member_id": "string",
                    "instance_id": "string",
                    "client_id": "string",
                    "client_host": "string",
                    "metadata": "bytes",
                    "assignment": "bytes",
                }
            ],
            "operations": "int32",
        }
    ],
}
_CLASSIC_VERSION = 5


def describe_groups(cluster: Cluster, ids: Sequence[str]) -> GroupAnswers[LiveGroup]:
    """Describes those of the groups ``ids`` that are consumer or classic groups; others are
    ``absent``. A classic group whose members have an assignment that can't be read is refused:
    `UNREADABLE`. Raises SourceError if the cluster is gone."""

    def ask(
        connection: BrokerConnection, known: RequestVersions, names: list[str]
    ) -> GroupAnswers[LiveGroup]:
        oldest, newest = known.get(_DESCRIBE, (0, -1))
        first, last = known.get(_CONSUMER_DESCRIBE, (0, None))
        version = None if last is None else min(last, max(_CONSUMER_GROUPS))
        if not oldest <= _CLASSIC_VERSION <= newest or (version is not None and version < first):
            return GroupAnswers(unasked=set(names))
        found: GroupAnswers[LiveGroup] = GroupAnswers()
        # Brokers refuse to describe a group without a name as a consumer group, before Kafka 4.0.1
        # together with all other groups of the request.
        named = list(filter(None, names))
        classic = names
        if version is not None and named:
            classic = [name for name in names if not name]
            classic += _ask_for_consumer_groups(cluster, connection, version, named, found)
        if classic:
            _ask_for_classic_groups(cluster, connection, classic, found)
        return found

    return ask_coordinators(cluster, ids, ask)


def _ask_for_consumer_groups(
    cluster: Cluster,
    connection: BrokerConnection,
    version: int,
    names: list[str],
    found: GroupAnswers[LiveGroup],
) -> list[str]:
    """Returns the groups that are no consumer groups."""
    body = compact_array(names) + b"\0\0"  # without the client's operations; no tags
    fields = connection.ask(_CONSUMER_DESCRIBE, version, body)
    others = []
    for row in read_value(fields, _CONSUMER_GROUPS[version])["groups"]:
        name = row["group_id"]
        if row["error"] == NONE and _lacks_names(row):
            found.refused[name] = NO_TOPIC_NAMES
        elif row["error"] == NONE:
            found.answers[name] = _consumer_group(row)
        elif row["error"] in (NOT_FOUND, _NOT_ENABLED):
            others.append(name)
        elif row["error"] not in TRANSIENT:
            found.refused[name] = refusal(cluster, name, row)
    return others


def _ask_for_classic_groups(
    cluster: Cluster,
    connection: BrokerConnection,
    names: list[str],
    found: GroupAnswers[LiveGroup],
) -> None:
    body = compact_array(names) + b"\0\0"
    fields = connection.ask(_DESCRIBE, _CLASSIC_VERSION, body)
    for row in read_value(fields, _CLASSIC_GROUPS)["groups"]:
        name = row["group_id"]
        if row["error"] == NOT_FOUND or (row["error"] == NONE and row["state"] == _DEAD):
            found.absent.add(name)
        elif row["error"] == NONE:
            try:
                found.answers[name] = _classic_group(row)
            except (LookupError, ValueError, struct.error):
                found.refused[name] = UNREADABLE
        elif row["error"] not in TRANSIENT:
            found.refused[name] = refusal(cluster, name, row)


def _lacks_names(row: dict[str, Any]) -> bool:
    return any(
        not one["topic"]
        for member in row["members"]
        for role in ("assignment", "target")
        for one in member[role]["topic_partitions"]
    )


def _consumer_group(row: dict[str, Any]) -> LiveGroup:
    return LiveGroup(
        group_id=row["group_id"],
        type="consumer",
        state=row["state"][:1].upper() + row["state"][1:],  # Kafka 3.7 has small letters
        assignor=row["assignor"],
        simple=False,
        members=_sorted(_consumer_member(one) for one in row["members"]),
        epochs=LiveEpochs(row["epoch"], row["assignment_epoch"]),
    )


def _consumer_member(row: dict[str, Any]) -> LiveMember:
    return LiveMember(
        member_id=row["member_id"],
        instance_id=row["instance_id"] or None,
        client_id=row["client_id"],
        client_host=row["client_host"],
        assigned=_partitions(row["assignment"]),
        target=_partitions(row["target"]),
        epoch=row["epoch"],
    )


def _partitions(assignment: dict[str, Any]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            (one["topic"], number)
            for one in assignment["topic_partitions"]
            for number in one["partitions"]
        )
    )


def _classic_group(row: dict[str, Any]) -> LiveGroup:
    of_consumers = row["protocol_type"] == _CONSUMER_PROTOCOL
    return LiveGroup(
        group_id=row["group_id"],
        type="classic",
        state=row["state"],
        assignor=row["protocol"],
        simple=not row["protocol_type"],
        members=_sorted(
            LiveMember(
                member_id=one["member_id"],
                instance_id=one["instance_id"] or None,
                client_id=one["client_id"],
                client_host=one["client_host"],
                assigned=_classic_partitions(one["assignment"]) if of_consumers else (),
                target=None,
            )
            for one in row["members"]
        ),
    )


def _sorted(members: Iterable[LiveMember]) -> tuple[LiveMember, ...]:
    return tuple(sorted(members, key=lambda member: member.member_id))


def _classic_partitions(octets: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment of the classic consumer protocol. Raises struct.error or
    ValueError if the bytes end too early, or can't be one."""
    if not octets:
        return ()
    at = 2  # behind the version

    def number(form: str) -> int:
        nonlocal at
        (found,) = struct.unpack_from(f">{form}", octets, at)
        at += struct.calcsize(form)
        return int(found)

    def count() -> int:
        found = number("i")
        if not 0 <= found <= len(octets):
            raise ValueError(f"an array of {found} elements")
        return found

    found = []
    for _ in range(count()):
        length = number("h")
        if not 0 <= length <= len(octets) - at:
            raise ValueError(f"a text of {length} bytes")
        topic = octets[at : at + length].decode(errors="replace")
        at += length
        found += [(topic, number("i")) for _ in range(count())]
    return tuple(sorted(found))
