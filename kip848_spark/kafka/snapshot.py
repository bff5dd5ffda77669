"""The groups, topics and offsets of a cluster as plain values, converted from the client library's
answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

TopicPartition = tuple[str, int]

_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
}


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A member as the broker describes it; ``target`` is None in a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assigned: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group as the broker describes it. ``assignor`` is a classic group's chosen protocol.

    ``state`` is Unknown if the client library has no name for it. That is so for Assigning and
    Reconciling, the states of a consumer-protocol group that is rebalancing.
    """

    group_id: str
    type: str
    state: str
    assignor: str
    simple: bool
    members: tuple[LiveMember, ...]


@dataclass(frozen=True, slots=True)
class LiveOffset:
    """A committed offset. The client library appends a zero byte to any metadata that it commits,
    and reads metadata up to the first zero byte. Without one it reads beyond the end: ``metadata``
    is then longer than what was committed, or None if that is not valid text."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str | None


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic, its id as Kafka prints it (base64), and the racks of each partition's replicas;
    empty if no broker has a rack."""

    name: str
    topic_id: str
    partitions: int
    internal: bool
    racks: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class LiveEnds:
    """The first offset of a partition, the next one to be written, and the last stable offset,
    before which no transaction is open."""

    first: int
    end: int
    stable: int


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one time. ``refused``: the groups that the broker did not describe, and why."""

    cluster_id: str
    groups: dict[str, LiveGroup]
    offsets: dict[str, tuple[LiveOffset, ...]]
    topics: dict[str, LiveTopic]
    ends: dict[int, LiveEnds]
    refused: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The snapshot as dicts, lists and scalars."""
        return asdict(self)


def kafka_id(said: Any) -> str:
    """A topic id as Kafka prints it: the client library prints plain base64, not the URL's."""
    return str(said).replace("+", "-").replace("/", "_").rstrip("=")


def racks_of(said: Any) -> tuple[tuple[str, ...], ...]:
    racks = tuple(
        tuple(sorted(replica.rack for replica in one.replicas if replica.rack))
        for one in sorted(said.partitions, key=lambda one: one.id)
    )
    return racks if any(racks) else ()


def group_of(said: Any) -> LiveGroup:
    kind = said.type.name.lower()
    state = said.state.name
    return LiveGroup(
        group_id=said.group_id,
        type=kind,
        state=_STATES.get(state, state.capitalize()),
        assignor=said.partition_assignor,
        simple=bool(said.is_simple_consumer_group),
        members=tuple(sorted((_member(one) for one in said.members), key=lambda m: m.member_id)),
    )


def _member(said: Any) -> LiveMember:
    target = said.target_assignment
    return LiveMember(
        member_id=said.member_id,
        instance_id=said.group_instance_id or None,
        client_id=said.client_id,
        client_host=said.host,
        assigned=_partitions(said.assignment),
        target=None if target is None else _partitions(target),
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(sorted((one.topic, one.partition) for one in assignment.topic_partitions))


def offsets_of(said: Any) -> tuple[LiveOffset, ...]:
    return tuple(
        LiveOffset(one.topic, one.partition, one.offset, one.leader_epoch, _metadata(one))
        for one in sorted(said.topic_partitions, key=lambda one: (one.topic, one.partition))
        if one.offset >= 0
    )


def _metadata(said: Any) -> str | None:
    try:
        return said.metadata or ""
    except UnicodeDecodeError:
        return None
