"""StreamsGroupHeartbeat (KIP-1071; docs/kafka-facts.md#streams-groups).

:func:`streams_heartbeat` is the streams group's counterpart of `heartbeat.heartbeat`: find the
member, bump the epoch, compute the target, move the member one step towards it.
"""

from __future__ import annotations

from typing import Any

from kip848_spark.coordinator.config import INT_MAX
from kip848_spark.coordinator.javahash import string_order
from kip848_spark.coordinator.member_timers import rebalance_key, session_key
from kip848_spark.coordinator.records import Json, record, tombstone
from kip848_spark.coordinator.shard import Client, Shard
from kip848_spark.coordinator.streams_group import (
    CURRENT,
    GROUP,
    JOIN,
    LEAVE,
    MEMBER,
    NO_TASKS,
    NO_TOPOLOGY,
    ROLES,
    STATIC_LEAVE,
    TARGET,
    TARGET_EPOCH,
    TOPOLOGY,
    StreamsGroup,
    StreamsMember,
    Tasks,
    TaskSet,
    TaskState,
    current_record,
    task_rows,
)
from kip848_spark.coordinator.streams_reconcile import StreamsGoal, blocked_by, reconcile
from kip848_spark.coordinator.streams_request import (
    check_endpoints,
    check_tasks,
    check_topology,
    find_group,
    group_for_join,
    member_metadata,
    reported_tasks,
    stored_topology,
    validate_request,
)
from kip848_spark.coordinator.streams_static import (
    changes_epoch,
    displaced_tasks,
    leave_for_a_while,
    leaving_member,
    member_of_request,
    replace_member,
)
from kip848_spark.coordinator.streams_target import (
    STANDBYS,
    append_target_epoch,
    begin_delay,
    may_compute,
    update_streams_target,
)
from kip848_spark.coordinator.streams_topology import ConfiguredTopology, configure, required_topics

SESSION = "group.streams.session.timeout.ms"
HEARTBEAT = "group.streams.heartbeat.interval.ms"
DELAY = "group.streams.initial.rebalance.delay.ms"
_STANDBYS_CONFIG = "num.standby.replicas"


def streams_heartbeat(shard: Shard, request: Json, client: Client) -> Json:
    """Answer a StreamsGroupHeartbeat, and append the records that it causes."""
    validate_request(shard, request)
    group_id, member_id, epoch = request["groupId"], request["memberId"], request["memberEpoch"]
    if epoch in (LEAVE, STATIC_LEAVE):
        return _leave(shard, request)
    group = group_for_join(shard, group_id) if epoch == JOIN else find_group(shard, group_id)
    owned = reported_tasks(request)
    old, replaced = member_of_request(shard, group, request, owned)
    check_topology(group, request.get("topology"))
    was_empty = not group.members
    order = group.walk_members()
    metadata = member_metadata(old, request, client)
    if epoch == JOIN and shard.release.streams_static_members:
        metadata["userEndpoint"] = request.get("userEndpoint")
    configured = _configured(shard, group, group.topology or stored_topology(request["topology"]))
    check_tasks(configured, owned)
    check_endpoints(group, member_id, metadata, configured)
    shard.groups[group_id] = group
    displaced = displaced_tasks(group, member_id, replaced)
    if group.sizes_after is None and group.topology is not None:
        group.sizes_after = shard.log_end
    shared = _write_member(shard, group, member_id, metadata, (old, replaced))
    _write_topology(shard, group, request)
    if not _maybe_bump(shard, group, bump=changes_epoch(old, metadata, request.get("instanceId"))):
        _restore_target(shard, group, group.members[member_id])
    delay = shard.config.for_streams_group(group_id, DELAY) if shard.release.streams_configs else 0
    if was_empty and delay > 0:
        begin_delay(shard, group, delay)
    target_epoch, target = group.target_epoch, group.target_of(member_id)
    if group.delayed:
        target = NO_TASKS
        target_epoch = max(1, target_epoch)
    elif group.target_epoch < group.epoch and may_compute(shard, group):
        update_streams_target(shard, group, order)
        target_epoch, target = group.target_epoch, group.target_of(member_id)
    elif shard.release.streams_keeps_left_targets:
        target = group.computed.get(member_id, NO_TASKS if group.computed else target)
    before = group.members[member_id]
    in_place = shard.release.streams_roles_in_place
    blocked = blocked_by(group, before, in_place=in_place, shared=shared, displaced=displaced)
    after = reconcile(before, StreamsGoal(target_epoch, target, blocked, in_place), owned)
    if after != before:
        shard.append(current_record(group_id, after, epochs=shard.release.streams_configs))
        _await_revocation(shard, group, after)
    _keep_session(shard, group, member_id)
    changed = epoch == JOIN or after.assigned != before.assigned
    rows = [_answered_rows(tasks) if changed else None for tasks in after.assigned]
    return streams_response(
        memberId=member_id,
        memberEpoch=after.epoch,
        heartbeatIntervalMs=shard.config.for_streams_group(group_id, HEARTBEAT),
        **dict(zip(ROLES, rows, strict=True)),
    )


def _leave(shard: Shard, request: Json) -> Json:
    group = find_group(shard, request["groupId"])
    member = leaving_member(group, request)
    if request["memberEpoch"] == STATIC_LEAVE:
        leave_for_a_while(shard, group, member)
    else:
        fence_streams_member(shard, group, member)
    return streams_response(memberId=member.member_id, memberEpoch=request["memberEpoch"])


def _write_member(
    shard: Shard,
    group: StreamsGroup,
    member_id: str,
    metadata: Json,
    before: tuple[StreamsMember | None, StreamsMember | None],
) -> Tasks | None:
    """Write what is new of a member. ``before``: the member, and the one that it replaces. The
    tasks of its process before the request; None if nothing is new.

    A broker replays the records of a request after it. Until then a member that changes its process
    has its tasks in the old one, so they do not block it in the new one.
    """
    old, replaced = before
    if old is not None and replaced is None and metadata == old.metadata:
        return None
    shared = group.holders.tasks_of(metadata["processId"])
    if old is not None and replaced is not None:
        replace_member(shard, group, replaced, old)
    if old is None or metadata != old.metadata:
        key = {"groupId": group.group_id, "memberId": member_id}
        shard.append(record(MEMBER, 0, key, metadata))
    return shared


def _write_topology(shard: Shard, group: StreamsGroup, request: Json) -> None:
    """The first member brings the topology."""
    sent = request.get("topology")
    if group.topology is None and sent is not None:
        key = {"groupId": group.group_id}
        shard.append(record(TOPOLOGY, 0, key, stored_topology(sent)))
        group.configured = None


def streams_response(**fields: Any) -> Json:
    """A heartbeat response with Kafka's defaults for the fields that are not given. The status and
    what interactive queries need are not computed.
    """
    return {
        "throttleTimeMs": 0,
        "errorCode": "NONE",
        "errorMessage": None,
        "memberId": "",
        "memberEpoch": 0,
        "heartbeatIntervalMs": 0,
        **dict.fromkeys(ROLES),
        **fields,
    }


def _answered_rows(tasks: TaskSet) -> list[Json]:
    """Tasks as a heartbeat's answer lists them: subtopologies in the order of a hash table."""
    rows = {row["subtopologyId"]: row for row in task_rows(tasks)}
    return [rows[name] for name in string_order(rows)]


# Epochs


def _configured(shard: Shard, group: StreamsGroup, topology: Json) -> ConfiguredTopology:
    """The group's topology with the topics that exist; looked up again if they have changed."""
    if group.configured is not None and shard.now < group.metadata_deadline:
        return group.configured
    return configure(topology, shard.topics)


def _maybe_bump(shard: Shard, group: StreamsGroup, *, bump: bool) -> bool:
    """Write a new epoch if there is a cause for one, and say whether."""
    assert group.topology is not None
    metadata_hash, validated = group.metadata_hash, group.validated_epoch
    if group.configured is None or shard.now >= group.metadata_deadline:
        metadata_hash = shard.topics.hash_of(required_topics(group.topology))
        group.configured = _configured(shard, group, group.topology)
        group.metadata_deadline = shard.now + INT_MAX
        bump = bump or metadata_hash != group.metadata_hash
    configs = group.configs
    if shard.release.streams_configs:
        validated = group.topology["epoch"] if group.configured.ready else NO_TOPOLOGY
        configs = {_STANDBYS_CONFIG: str(shard.config.for_streams_group(group.group_id, STANDBYS))}
        bump = bump or validated != group.validated_epoch or configs != group.configs
    if bump:
        epoch = group.epoch + 1
        if not group.epoch and shard.release.streams_configs:
            epoch = 2  # the first epoch of 4.2, as in later releases
        _append_epoch(shard, group, epoch, metadata_hash, validated, configs)
        shard.metrics.mark("streams-group-rebalance", shard.now)
    return bump


def _restore_target(shard: Shard, group: StreamsGroup, member: StreamsMember) -> None:
    """In a stable group, a member that does not have what its target says gets it by a new epoch,
    for which no target is computed (4.4). The coordinator had forgotten the member's target."""
    if not shard.release.streams_keeps_left_targets:
        return
    if group.target_of(member.member_id) == member.assigned or group.state != "Stable":
        return
    _append_epoch(
        shard, group, group.epoch + 1, group.metadata_hash, group.validated_epoch, group.configs
    )
    append_target_epoch(shard, group, group.target_timestamp)
    group.computed = dict(group.targets)


def _append_epoch(
    shard: Shard,
    group: StreamsGroup,
    epoch: int,
    metadata_hash: int,
    validated: int,
    configs: dict[str, str],
) -> None:
    value: Json = {"epoch": epoch, "metadataHash": metadata_hash}
    if validated != NO_TOPOLOGY:
        value["validatedTopologyEpoch"] = validated
    if shard.release.streams_configs:
        rows = [{"key": name, "value": configs[name]} for name in sorted(configs)]
        value["lastAssignmentConfigs"] = rows
    shard.append(record(GROUP, 0, {"groupId": group.group_id}, value))


def fence_streams_member(shard: Shard, group: StreamsGroup, member: StreamsMember) -> None:
    """Remove a member: by its leave or a timeout."""
    key = {"groupId": group.group_id, "memberId": member.member_id}
    for kind in (CURRENT, TARGET, MEMBER):
        shard.append(tombstone(kind, **key))
    for timer in (session_key, rebalance_key):
        shard.timers.cancel(timer(group.group_id, member.member_id))
    metadata_hash = group.metadata_hash if shard.release.streams_configs else 0
    _append_epoch(
        shard, group, group.epoch + 1, metadata_hash, group.validated_epoch, group.configs
    )
    if shard.release.empties_target and not group.members:
        append_target_epoch(shard, group, 0)


def delete_streams_group(shard: Shard, group: StreamsGroup) -> None:
    """DeleteGroups of an empty group."""
    for kind in (TARGET_EPOCH, GROUP, TOPOLOGY):
        shard.append(tombstone(kind, groupId=group.group_id))


# Timers


def _keep_session(shard: Shard, group: StreamsGroup, member_id: str) -> None:
    group_id = group.group_id

    def expire() -> None:
        current = shard.groups.get(group_id)
        if isinstance(current, StreamsGroup) and member_id in current.members:
            fence_streams_member(shard, current, current.members[member_id])

    timeout = shard.config.for_streams_group(group_id, SESSION)
    shard.schedule(session_key(group_id, member_id), timeout, expire)


def _await_revocation(shard: Shard, group: StreamsGroup, member: StreamsMember) -> None:
    """Fence a member that does not give its tasks up within its rebalance timeout."""
    group_id, member_id, epoch = group.group_id, member.member_id, member.epoch
    key = rebalance_key(group_id, member_id)
    if member.state != TaskState.UNREVOKED_TASKS:
        shard.timers.cancel(key)
        return

    def expire() -> None:
        current = shard.groups.get(group_id)
        found = current.members.get(member_id) if isinstance(current, StreamsGroup) else None
        if isinstance(current, StreamsGroup) and found is not None and found.epoch == epoch:
            fence_streams_member(shard, current, found)

    shard.schedule(key, int(member.metadata["rebalanceTimeoutMs"]), expire)


def load_streams_group(shard: Shard, group: StreamsGroup) -> None:
    """The log is loaded: start the sessions, and look at the topics again."""
    group.configured = group.sizes_after = None
    for member in group.members.values():
        _keep_session(shard, group, member.member_id)
        if member.state == TaskState.UNREVOKED_TASKS:
            _await_revocation(shard, group, member)
