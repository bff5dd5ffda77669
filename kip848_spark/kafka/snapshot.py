"""The groups, topics and offsets of a cluster as plain values, converted from the client library's
answers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

TopicPartition = tuple[str, int]

UNREADABLE = "the assignment of a member cannot be read"
UNREADABLE_ANSWER = "the broker's answer about the group cannot be read"
NO_TOPIC_NAMES = "assignments without the names of topics, as brokers of Kafka 3.7 describe them"
TOPIC_DENIED = "the client lacks the ACL DESCRIBE on a topic of the group"
NO_COORDINATOR = "the group's coordinator does not answer"
"""Why a group is ``refused``."""
NO_REQUEST = "a share or streams group, which the brokers have no request to describe"
NO_ANSWER = "a share or streams group, and its broker did not answer this client"
"""Why a group is ``unasked``."""
REASONS = (
    UNREADABLE, UNREADABLE_ANSWER, NO_TOPIC_NAMES, TOPIC_DENIED, NO_COORDINATOR, NO_ANSWER,
    NO_REQUEST,
)  # fmt: skip
"""The reasons that name no group."""

_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
}


@dataclass(frozen=True, slots=True)
class LiveTasks:
    """The tasks of a streams member by their role, as Kafka names them: ``0_3`` is the task of
    partition 3 in the subtopology 0. Sorted."""

    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    warmup: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A member as the broker describes it; ``target`` is None in a classic or share group.

    ``epoch`` is None in a classic group, and if the client library was asked. ``tasks`` and
    ``target_tasks`` are those of streams groups, which have no partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assigned: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None
    epoch: int | None = None
    tasks: LiveTasks | None = None
    target_tasks: LiveTasks | None = None


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group as the broker describes it. ``assignor`` is a classic group's chosen protocol.

    If the client library was asked, ``state`` is Unknown where it has no name for it: for Assigning
    and Reconciling, the states of a consumer-protocol group that is rebalancing. ``epochs`` is then
    None, as it is for a classic group.
    """

    group_id: str
    type: str
    state: str
    assignor: str
    simple: bool
    members: tuple[LiveMember, ...]
    epochs: LiveEpochs | None = None


@dataclass(frozen=True, slots=True)
class LiveEpochs:
    """The epochs of a consumer, share or streams group; ``topology`` is None if the broker names
    none."""

    group: int
    assignment: int
    topology: int | None = None


@dataclass(frozen=True, slots=True)
class LiveOffset:
    """A committed offset. ``exact``: the broker's bytes were read here, so ``metadata`` is all the
    text that was committed. The client library reads metadata up to the first zero byte, and
    without one beyond the end: then it is longer than what was committed. None: no valid text."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str | None
    exact: bool = False


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
    """A cluster at one time. ``refused``: the groups that the broker did not describe, and why.
    ``unasked``: those that may be share or streams groups and could not be asked for, and why."""

    cluster_id: str
    groups: dict[str, LiveGroup]
    offsets: dict[str, tuple[LiveOffset, ...]]
    topics: dict[str, LiveTopic]
    ends: dict[int, LiveEnds]
    refused: dict[str, str] = field(default_factory=dict)
    unasked: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The snapshot as dicts, lists and scalars."""
        return asdict(self)


def kafka_id(uuid: Any) -> str:
    """A topic id as Kafka prints it: the client library prints plain base64, not the URL's."""
    return str(uuid).replace("+", "-").replace("/", "_").rstrip("=")


def racks_of(described: Any) -> tuple[tuple[str, ...], ...]:
    racks = tuple(
        tuple(sorted(replica.rack for replica in one.replicas if replica.rack))
        for one in sorted(described.partitions, key=lambda one: one.id)
    )
    return racks if any(racks) else ()


def group_of(described: Any) -> LiveGroup:
    kind = described.type.name.lower()
    state = described.state.name
    return LiveGroup(
        group_id=described.group_id,
        type=kind,
        state=_STATES.get(state, state.capitalize()),
        assignor=described.partition_assignor,
        simple=bool(described.is_simple_consumer_group),
        members=tuple(
            sorted((_member(one) for one in described.members), key=lambda m: m.member_id)
        ),
    )


def _member(described: Any) -> LiveMember:
    target = described.target_assignment
    return LiveMember(
        member_id=described.member_id,
        instance_id=described.group_instance_id or None,
        client_id=described.client_id,
        client_host=described.host,
        assigned=_partitions(described.assignment),
        target=None if target is None else _partitions(target),
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(sorted((one.topic, one.partition) for one in assignment.topic_partitions))


def offsets_of(described: Any) -> tuple[LiveOffset, ...]:
    return tuple(
        LiveOffset(one.topic, one.partition, one.offset, one.leader_epoch, _metadata(one))
        for one in sorted(described.topic_partitions, key=lambda one: (one.topic, one.partition))
        if one.offset >= 0
    )


def _metadata(described: Any) -> str | None:
    try:
        return described.metadata or ""
    except UnicodeDecodeError:
        return None
