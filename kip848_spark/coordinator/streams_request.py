"""What a StreamsGroupHeartbeat says: its validation, and the records that its fields give."""

from __future__ import annotations

from kip848_spark.coordinator.classic import cancel_group_timers
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Client, Shard
from kip848_spark.coordinator.streams_group import (
    JOIN,
    LEAVE,
    ROLES,
    STATIC_LEAVE,
    StreamsGroup,
    StreamsMember,
    Tasks,
)
from kip848_spark.coordinator.streams_topology import ConfiguredTopology
from kip848_spark.coordinator.tombstones import append_classic_group_tombstone


def validate_request(shard: Shard, request: Json) -> None:
    """Check what does not depend on the group. Raises INVALID_REQUEST or UNSUPPORTED_VERSION."""
    if not shard.release.metadata_hash:
        raise GroupError("UNSUPPORTED_VERSION", "streams groups are not enabled")
    epoch = request.setdefault("memberEpoch", 0)
    for name in ("groupId", "memberId"):
        if not (request.get(name) or "").strip():
            raise GroupError("INVALID_REQUEST", f"{name} is blank")
    instance_id = request.get("instanceId")
    if instance_id is not None and not shard.release.streams_static_members:
        raise GroupError("INVALID_REQUEST", "static members are not supported")
    if request.get("rackId") is not None and not request["rackId"].strip():
        raise GroupError("INVALID_REQUEST", "rackId is blank")
    if instance_id is not None and not instance_id.strip():
        raise GroupError("INVALID_REQUEST", "instanceId is blank")
    if epoch < (LEAVE if instance_id is None else STATIC_LEAVE):
        raise GroupError("INVALID_REQUEST", f"member epoch {epoch} is below -1")
    if epoch != JOIN:
        if request.get("topology") is not None:
            raise GroupError("INVALID_REQUEST", "only a joining member may send a topology")
        if 0 < sum(request.get(role) is None for role in ROLES) < len(ROLES):
            raise GroupError("INVALID_REQUEST", "a member must report the tasks of all roles")
        if shard.release.streams_refuses_warmups and request.get("warmupTasks"):
            raise GroupError("INVALID_REQUEST", "warm-up tasks are not supported")
    else:
        _validate_join(request)


def _validate_join(request: Json) -> None:
    if request.get("rebalanceTimeoutMs", -1) == -1:
        raise GroupError("INVALID_REQUEST", "a joining member must set a rebalance timeout")
    if any(request.get(role) is None or request[role] for role in ROLES):
        raise GroupError("INVALID_REQUEST", "a joining member must send empty lists of tasks")
    if request.get("topology") is None:
        raise GroupError("INVALID_REQUEST", "a joining member must send its topology")


def find_group(shard: Shard, group_id: str) -> StreamsGroup:
    """The streams group of that id. Raises GROUP_ID_NOT_FOUND."""
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        raise GroupError("GROUP_ID_NOT_FOUND", f"there is no streams group {group_id!r}")
    return group


def group_for_join(shard: Shard, group_id: str) -> StreamsGroup:
    """The group of that id, or a new one, which takes the place of an empty classic group (from
    4.2). Raises GROUP_ID_NOT_FOUND for any other type."""
    existing = shard.groups.get(group_id)
    if (
        isinstance(existing, ClassicGroup)
        and not existing.members
        and shard.release.streams_configs
    ):
        cancel_group_timers(shard, existing)
        append_classic_group_tombstone(shard, existing)
    elif existing is not None:
        return find_group(shard, group_id)
    return StreamsGroup(group_id, shard.release.first_epoch)


def reported_tasks(request: Json) -> Tasks | None:
    """The tasks that the client reports; None unless it sends all three lists."""
    if any(request.get(role) is None for role in ROLES):
        return None
    return Tasks.of(request)


def check_epoch(shard: Shard, member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Check the member epoch of a request. Raises FENCED_MEMBER_EPOCH."""
    if epoch == JOIN and shard.release.join_is_never_fenced:
        return
    late = epoch != member.previous_epoch or owned is None or not owned.within(member.assigned)
    if epoch > member.epoch or (epoch < member.epoch and late):
        raise GroupError("FENCED_MEMBER_EPOCH", f"epoch {epoch} is not {member.epoch}")


def check_topology(group: StreamsGroup, sent: Json | None) -> None:
    """Check that a joining member has the group's topology, or one of an older epoch. Raises
    INVALID_REQUEST, or UNKNOWN_SERVER_ERROR for an epoch that cannot be."""
    if sent is not None and sent["epoch"] < 0:
        raise GroupError("UNKNOWN_SERVER_ERROR", f"topology epoch {sent['epoch']} is negative")
    if sent is None or group.topology is None or sent["epoch"] < group.topology["epoch"]:
        return
    if _by_id(stored_topology(sent)) != _by_id(group.topology):
        raise GroupError("INVALID_REQUEST", "the group has another topology")


def _by_id(topology: Json) -> tuple[int, Json]:
    return topology["epoch"], {row["subtopologyId"]: row for row in topology["subtopologies"]}


def check_endpoints(
    group: StreamsGroup, member_id: str, metadata: Json, configured: ConfiguredTopology
) -> None:
    """A broker that cannot tell the tasks fails to list the partitions of endpoints. Raises
    UNKNOWN_SERVER_ERROR."""
    others = (member.metadata for name, member in group.members.items() if name != member_id)
    if not configured.resolved and any(row["userEndpoint"] for row in (metadata, *others)):
        raise GroupError("UNKNOWN_SERVER_ERROR", "the topology has no tasks to list")


def check_tasks(configured: ConfiguredTopology, owned: Tasks | None) -> None:
    """Check that the tasks of a request exist. Raises INVALID_REQUEST."""
    if owned is None or not configured.ready:
        return
    for tasks in owned:
        for name, number in tasks:
            if number >= configured.tasks.get(name, 0):
                raise GroupError("INVALID_REQUEST", f"there is no task {name}_{number}")


def member_metadata(old: StreamsMember | None, request: Json, client: Client) -> Json:
    """The value of key 19 with the fields of the request; ``None`` and -1 mean unchanged."""
    value: Json = {
        "instanceId": None,
        "rackId": None,
        "clientId": "",
        "clientHost": "",
        "rebalanceTimeoutMs": -1,
        "topologyEpoch": -1,
        "processId": "",
        "userEndpoint": None,
        "clientTags": [],
    }
    value |= {} if old is None else old.metadata
    value |= {"clientId": client.client_id, "clientHost": client.host}
    for name in ("instanceId", "rackId", "processId", "userEndpoint"):
        if request.get(name) is not None:
            value[name] = request[name]
    if request.get("rebalanceTimeoutMs", -1) != -1:
        value["rebalanceTimeoutMs"] = request["rebalanceTimeoutMs"]
    if request.get("topology") is not None:
        value["topologyEpoch"] = request["topology"]["epoch"]
    if request.get("clientTags") is not None:
        value["clientTags"] = sorted(request["clientTags"], key=lambda row: str(row["key"]))
    return value


_STORED = (
    *("subtopologyId", "sourceTopics", "sourceTopicRegex", "stateChangelogTopics"),
    *("repartitionSinkTopics", "repartitionSourceTopics", "copartitionGroups"),
)


def stored_topology(sent: Json) -> Json:
    """The value of key 23: the topology as a member sent it."""
    rows = [{name: row[name] for name in _STORED} for row in sent["subtopologies"]]
    return {"epoch": sent["epoch"], "subtopologies": rows}
