"""StreamsGroupHeartbeat (KIP-1071; docs/kafka-facts.md#streams-groups).

:func:`streams_heartbeat` is the streams group's counterpart of `heartbeat.heartbeat`: find the
member, bump the epoch, compute the target, move the member one step towards it.
"""

from __future__ import annotations

from typing import Any

from kip848_spark.coordinator.assignors.sticky import StickyMember, StickyRules, StickySpec, assign
from kip848_spark.coordinator.config import INT_MAX
from kip848_spark.coordinator.faults import GroupError
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
    TARGET,
    TARGET_EPOCH,
    TOPOLOGY,
    StreamsGroup,
    StreamsMember,
    Tasks,
    TaskState,
    current_record,
    target_record,
    task_rows,
)
from kip848_spark.coordinator.streams_reconcile import StreamsGoal, blocked_by, reconcile
from kip848_spark.coordinator.streams_topology import configure, required_topics

SESSION = "group.streams.session.timeout.ms"
HEARTBEAT = "group.streams.heartbeat.interval.ms"
STANDBYS = "group.streams.num.standby.replicas"
DELAY = "group.streams.initial.rebalance.delay.ms"
INTERVAL = "group.streams.assignment.interval.ms"
_STANDBYS_CONFIG = "num.standby.replicas"


def streams_heartbeat(shard: Shard, request: Json, client: Client) -> Json:
    """Answer a StreamsGroupHeartbeat, and append the records that it causes."""
    _validate(shard, request)
    group_id, member_id, epoch = request["groupId"], request["memberId"], request["memberEpoch"]
    if epoch == LEAVE:
        left = _find_group(shard, group_id)
        fence_streams_member(shard, left, left.member(member_id))
        return streams_response(memberId=member_id, memberEpoch=LEAVE)
    group = _group_for_join(shard, group_id) if epoch == JOIN else _find_group(shard, group_id)
    owned = _owned(request)
    old = group.members.get(member_id)
    if old is not None:
        _check_epoch(shard, old, epoch, owned)
    elif epoch != JOIN:
        group.member(member_id)
    was_empty = not group.members
    order = group.walk_members()
    metadata = _metadata(old, request, client)
    if epoch == JOIN and shard.release.streams_static_members:
        metadata["userEndpoint"] = request.get("userEndpoint")
    shard.groups[group_id] = group
    if old is None or metadata != old.metadata:
        key = {"groupId": group_id, "memberId": member_id}
        shard.append(record(MEMBER, 0, key, metadata))
    if group.topology is None and request.get("topology") is not None:
        shard.append(record(TOPOLOGY, 0, {"groupId": group_id}, _topology(request["topology"])))
        group.configured = None
    _maybe_bump(shard, group, bump=old is None or metadata != old.metadata)
    delay = shard.config.for_streams_group(group_id, DELAY) if shard.release.streams_configs else 0
    if was_empty and delay > 0:
        _begin_delay(shard, group, delay)
    target_epoch, target = group.target_epoch, group.target_of(member_id)
    if group.delayed:
        target = NO_TASKS
        target_epoch = max(1, target_epoch)
    elif group.target_epoch < group.epoch and _may_compute(shard, group):
        update_streams_target(shard, group, order)
        target_epoch, target = group.target_epoch, group.target_of(member_id)
    elif shard.release.streams_keeps_left_targets:
        target = group.computed.get(member_id, target)
    before = group.members[member_id]
    if owned is not None:
        _check_tasks(group, owned)
    in_place = shard.release.streams_roles_in_place
    blocked = blocked_by(group, before, in_place=in_place)
    after = reconcile(before, StreamsGoal(target_epoch, target, blocked, in_place), owned)
    if after != before:
        shard.append(current_record(group_id, after, epochs=shard.release.streams_configs))
        _await_revocation(shard, group, after)
    _keep_session(shard, group, member_id)
    changed = epoch == JOIN or after.assigned != before.assigned
    rows = [task_rows(tasks) if changed else None for tasks in after.assigned]
    return streams_response(
        memberId=member_id,
        memberEpoch=after.epoch,
        heartbeatIntervalMs=shard.config.for_streams_group(group_id, HEARTBEAT),
        **dict(zip(ROLES, rows, strict=True)),
    )


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


# The request


def _validate(shard: Shard, request: Json) -> None:
    if not shard.release.metadata_hash:
        raise GroupError("UNSUPPORTED_VERSION", "streams groups are not enabled")
    epoch = request.setdefault("memberEpoch", 0)
    for name in ("groupId", "memberId"):
        if not (request.get(name) or "").strip():
            raise GroupError("INVALID_REQUEST", f"{name} is blank")
    if request.get("instanceId") is not None:
        raise GroupError("INVALID_REQUEST", "static members are not supported")
    if epoch < LEAVE:
        raise GroupError("INVALID_REQUEST", f"member epoch {epoch} is below -1")
    if epoch != JOIN:
        return
    if request.get("rebalanceTimeoutMs", -1) == -1:
        raise GroupError("INVALID_REQUEST", "a joining member must set a rebalance timeout")
    if any(request.get(role) is None or request[role] for role in ROLES):
        raise GroupError("INVALID_REQUEST", "a joining member must send empty lists of tasks")
    if request.get("topology") is None:
        raise GroupError("INVALID_REQUEST", "a joining member must send its topology")


def _find_group(shard: Shard, group_id: str) -> StreamsGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        raise GroupError("GROUP_ID_NOT_FOUND", f"there is no streams group {group_id!r}")
    return group


def _group_for_join(shard: Shard, group_id: str) -> StreamsGroup:
    if group_id in shard.groups:
        return _find_group(shard, group_id)
    return StreamsGroup(group_id, shard.release.first_epoch)


def _owned(request: Json) -> Tasks | None:
    """The tasks that the client reports; None unless it sends all three lists."""
    if any(request.get(role) is None for role in ROLES):
        return None
    return Tasks.of(request)


def _check_epoch(shard: Shard, member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    if epoch == JOIN and shard.release.join_is_never_fenced:
        return
    late = epoch != member.previous_epoch or owned is None or not owned.within(member.assigned)
    if epoch > member.epoch or (epoch < member.epoch and late):
        raise GroupError("FENCED_MEMBER_EPOCH", f"epoch {epoch} is not {member.epoch}")


def _check_tasks(group: StreamsGroup, owned: Tasks) -> None:
    configured = group.configured
    if configured is None or not configured.ready:
        return
    for tasks in owned:
        for name, number in tasks:
            if number >= configured.tasks.get(name, 0):
                raise GroupError("INVALID_REQUEST", f"there is no task {name}_{number}")


def _metadata(old: StreamsMember | None, request: Json, client: Client) -> Json:
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
    for name in ("rackId", "processId", "userEndpoint"):
        if request.get(name) is not None:
            value[name] = request[name]
    if request.get("rebalanceTimeoutMs", -1) != -1:
        value["rebalanceTimeoutMs"] = request["rebalanceTimeoutMs"]
    if request.get("topology") is not None:
        value["topologyEpoch"] = request["topology"]["epoch"]
    if request.get("clientTags") is not None:
        value["clientTags"] = sorted(request["clientTags"], key=lambda row: str(row["key"]))
    return value


def _topology(sent: Json) -> Json:
    """The value of key 23: the topology that a member sent, with its lists in order."""
    rows = []
    for row in sent["subtopologies"]:
        rows.append(
            {
                "subtopologyId": row["subtopologyId"],
                "sourceTopics": sorted(row["sourceTopics"]),
                "sourceTopicRegex": sorted(row["sourceTopicRegex"]),
                "stateChangelogTopics": _internal(row["stateChangelogTopics"]),
                "repartitionSinkTopics": sorted(row["repartitionSinkTopics"]),
                "repartitionSourceTopics": _internal(row["repartitionSourceTopics"]),
                "copartitionGroups": row["copartitionGroups"],
            }
        )
    return {"epoch": sent["epoch"], "subtopologies": rows}


def _internal(topics: list[Json]) -> list[Json]:
    return sorted(topics, key=lambda topic: str(topic["name"]))


# Epochs


def _maybe_bump(shard: Shard, group: StreamsGroup, *, bump: bool) -> None:
    assert group.topology is not None
    metadata_hash, validated = group.metadata_hash, group.validated_epoch
    if group.configured is None or shard.now >= group.metadata_deadline:
        metadata_hash = shard.topics.hash_of(required_topics(group.topology))
        group.configured = configure(group.topology, shard.topics)
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
        _append_target_epoch(shard, group, 0)


def delete_streams_group(shard: Shard, group: StreamsGroup) -> None:
    """DeleteGroups of an empty group."""
    for kind in (TARGET_EPOCH, GROUP, TOPOLOGY):
        shard.append(tombstone(kind, groupId=group.group_id))


# Targets


def _begin_delay(shard: Shard, group: StreamsGroup, delay: int) -> None:
    """The first target waits for more members to join."""
    key = f"initial-{group.group_id}"

    def compute() -> None:
        current = shard.groups.get(group.group_id)
        if not isinstance(current, StreamsGroup):
            return
        current.delayed = False
        waits = current.target_epoch < current.epoch and _may_compute(shard, current)
        if current.members and current.configured is not None and waits:
            update_streams_target(shard, current, current.walk_members())

    if not group.delayed:
        group.delayed = True
        shard.schedule(key, delay, compute)


def _may_compute(shard: Shard, group: StreamsGroup) -> bool:
    if not shard.release.assignment_interval or group.target_timestamp == 0:
        return True
    interval = shard.config.for_streams_group(group.group_id, INTERVAL)
    return shard.now >= group.target_timestamp + interval


def update_streams_target(shard: Shard, group: StreamsGroup, order: list[str]) -> None:
    """Compute the target of the current group epoch and write what changed. ``order``: the members
    before the request, in the order of their hash table.
    """
    known = [member for member in order if member in group.members]
    joined = [member for member in group.members if member not in set(known)]
    visits = string_order(known + joined)
    for member_id, tasks in _targets(shard, group, visits).items():
        if group.targets.get(member_id) != tasks:
            shard.append(target_record(group.group_id, member_id, tasks))
    _append_target_epoch(shard, group, shard.now if shard.release.assignment_interval else 0)
    group.computed = dict(group.targets)


def _targets(shard: Shard, group: StreamsGroup, visits: list[str]) -> dict[str, Tasks]:
    configured, release = group.configured, shard.release
    if configured is None or not configured.ready:
        return dict.fromkeys(visits, NO_TASKS)
    members = []
    for member_id in visits:
        member = group.members[member_id]
        assigned = release.streams_previous_is_assigned
        previous = member.assigned if assigned else group.target_of(member_id)
        members.append(StickyMember(member_id, member.process_id, previous))
    standbys = shard.config.for_streams_group(group.group_id, STANDBYS)
    spec = StickySpec(members, configured.tasks, configured.stateful, standbys)
    rules = StickyRules(release.streams_skips_own_process, release.streams_computes_processes)
    return assign(spec, rules)


def _append_target_epoch(shard: Shard, group: StreamsGroup, timestamp: int) -> None:
    value: Json = {"assignmentEpoch": group.epoch}
    if timestamp:
        value["assignmentTimestamp"] = timestamp
    shard.append(record(TARGET_EPOCH, 0, {"groupId": group.group_id}, value))


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
    group.configured = None
    for member in group.members.values():
        _keep_session(shard, group, member.member_id)
        if member.state == TaskState.UNREVOKED_TASKS:
            _await_revocation(shard, group, member)
