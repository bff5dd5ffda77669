"""ShareGroupHeartbeat (KIP-932; docs/kafka-facts.md#share-groups).

:func:`share_heartbeat` is the share group's counterpart of `heartbeat.heartbeat`: find the member,
bump the epoch, compute the target, move the member to it. Then it asks for the share state of
subscribed partitions that have none. The share coordinator answers later, in an operation of its
own; the next heartbeat of any member finds the new partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kip848_spark.coordinator.assignors.model import AssignmentSpec, MemberSpec
from kip848_spark.coordinator.assignors.share import ShareAssignor, assign_share
from kip848_spark.coordinator.assignors.share_41 import assign_share_41
from kip848_spark.coordinator.config import INT_MAX
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import copied_size, string_order
from kip848_spark.coordinator.member_timers import session_key
from kip848_spark.coordinator.records import Json, tombstone
from kip848_spark.coordinator.shard import Client, Shard, partition_rows
from kip848_spark.coordinator.share_group import (
    JOIN,
    LEAVE,
    SHARE_CURRENT,
    SHARE_GROUP,
    SHARE_MEMBER,
    SHARE_STATE,
    SHARE_TARGET,
    SHARE_TARGET_EPOCH,
    ShareGroup,
    ShareMember,
    ShareState,
    StateTopic,
)
from kip848_spark.coordinator.topics import Topic

SESSION = "group.share.session.timeout.ms"
HEARTBEAT = "group.share.heartbeat.interval.ms"
INTERVAL = "group.share.assignment.interval.ms"
MAX_SIZE = "group.share.max.size"

_ASSIGNORS: dict[str, ShareAssignor] = {"hash": assign_share_41, "balanced": assign_share}


def share_heartbeat(shard: Shard, request: Json, client: Client) -> Json:
    """Answer a ShareGroupHeartbeat, and append the records that it causes."""
    _validate(shard, request)
    group_id, member_id, epoch = request["groupId"], request["memberId"], request["memberEpoch"]
    if epoch == LEAVE:
        left = _find_group(shard, group_id)
        fence_share_member(shard, left, left.member(member_id))
        return share_response(memberId=member_id, memberEpoch=LEAVE)
    if epoch == JOIN and group_id not in shard.groups:
        group = ShareGroup(group_id, shard.release)
    else:
        group = _find_group(shard, group_id)
    if member_id not in group.members and len(group.members) >= shard.config.number(MAX_SIZE):
        raise GroupError("GROUP_MAX_SIZE_REACHED", f"group {group_id!r} is full")
    before = group.members.get(member_id)
    if before is not None:
        _check_epoch(shard, before, epoch)
    elif epoch != JOIN:
        group.member(member_id)
    before = before or ShareMember(member_id)
    changes: dict[str, Any] = {"client_id": client.client_id, "client_host": client.host}
    if request.get("rackId") is not None:
        changes["rack_id"] = request["rackId"]
    if request.get("subscribedTopicNames") is not None:
        changes["topic_names"] = frozenset(request["subscribedTopicNames"])
    after = before._replace(**changes)

    pending = assignment_pending(group)
    known = member_id in group.members
    shard.groups[group_id] = group
    if after.metadata() != before.metadata():
        shard.append(group.member_record(after))
    names_changed = after.topic_names != before.topic_names
    fresh = group.epoch == 0 and shard.release.bumps_fresh_group
    bumped = _maybe_bump(shard, group, bump=names_changed or fresh or pending)
    if group.target_epoch < group.epoch and _may_compute(shard, group):
        _update_target(shard, group, joined=None if known else member_id)
    member = _reconcile(shard, group, group.members.get(member_id, before), bumped or names_changed)
    if member != before._replace(**changes):
        shard.append(group.current_record(member))
    _keep_session(shard, group, member_id)
    _ask_for_state(shard, group)
    names_sent = request.get("subscribedTopicNames") is not None
    changed = _sets(member.assigned) != _sets(before.assigned)
    return share_response(
        memberId=member_id,
        memberEpoch=member.epoch,
        heartbeatIntervalMs=shard.config.for_group(group_id, HEARTBEAT),
        assignment={"topicPartitions": partition_rows(member.assigned)}
        if epoch == JOIN or names_sent or changed
        else None,
    )


def share_response(**fields: Any) -> Json:
    """A heartbeat response with Kafka's defaults for the fields that are not given."""
    return {
        "throttleTimeMs": 0,
        "errorCode": "NONE",
        "errorMessage": None,
        "memberId": None,
        "memberEpoch": 0,
        "heartbeatIntervalMs": 0,
        "assignment": None,
        **fields,
    }


def _validate(shard: Shard, request: Json) -> None:
    if not shard.release.share_groups:
        raise GroupError("UNSUPPORTED_VERSION", "share groups are not enabled")
    epoch = request.setdefault("memberEpoch", 0)
    for name in ("groupId", "memberId"):
        if not (request.get(name) or "").strip():
            raise GroupError("INVALID_REQUEST", f"{name} is blank")
    rack = request.get("rackId")
    if rack is not None and not rack.strip():
        raise GroupError("INVALID_REQUEST", "rackId is blank")
    if epoch == JOIN and not request.get("subscribedTopicNames"):
        raise GroupError("INVALID_REQUEST", "a joining member must subscribe to topics")
    if epoch < LEAVE:
        raise GroupError("INVALID_REQUEST", f"member epoch {epoch} is below -1")


def _find_group(shard: Shard, group_id: str) -> ShareGroup:
    group = shard.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        raise GroupError("GROUP_ID_NOT_FOUND", f"there is no share group {group_id!r}")
    return group


def _check_epoch(shard: Shard, member: ShareMember, epoch: int) -> None:
    if epoch == JOIN and shard.release.join_is_never_fenced:
        return
    if epoch > member.epoch or (epoch < member.epoch and epoch != member.previous_epoch):
        raise GroupError("FENCED_MEMBER_EPOCH", f"epoch {epoch} is not {member.epoch}")


# Epochs


def assignment_pending(group: ShareGroup) -> bool:
    """Whether initialized partitions and the target differ, so that the next heartbeat of any
    member bumps the epoch: in 4.1 over all topics, later over each subscribed one.
    """
    release = group.release
    if release.share_pending_waits and group.target_epoch < group.epoch:
        return False
    targeted: dict[str, set[int]] = {}
    for target in group.targets.values():
        for topic, numbers in target.items():
            targeted.setdefault(topic, set()).update(numbers)
    initialized = group.share_state.initialized
    if release.share_assignor == "hash":
        targeted = {topic: numbers for topic, numbers in targeted.items() if numbers}
        return targeted != {t: set(state.partitions) for t, state in initialized.items()}
    return any(
        targeted.get(topic, set()) != state.partitions
        for topic, state in initialized.items()
        if state.name in group.name_counts
    )


def _maybe_bump(shard: Shard, group: ShareGroup, *, bump: bool) -> bool:
    if not bump and shard.now < group.metadata_deadline:
        return False
    metadata_hash = shard.topics.hash_of(group.topic_names())
    bump = bump or metadata_hash != group.metadata_hash
    if bump:
        shard.append(group.epoch_record(group.epoch + 1, metadata_hash))
        shard.metrics.mark("share-group-rebalance", shard.now)
    group.metadata_deadline = shard.now + INT_MAX
    return bump


def fence_share_member(shard: Shard, group: ShareGroup, member: ShareMember) -> None:
    """Remove a member: by its leave or a timeout."""
    key = {"groupId": group.group_id, "memberId": member.member_id}
    for kind in (SHARE_CURRENT, SHARE_TARGET, SHARE_MEMBER):
        shard.append(tombstone(kind, **key))
    shard.timers.cancel(session_key(group.group_id, member.member_id))
    metadata_hash = shard.topics.hash_of(group.topic_names())
    shard.append(group.epoch_record(group.epoch + 1, metadata_hash))
    if shard.release.empties_target and not group.members:
        shard.append(group.target_epoch_record(group.epoch, 0))


def _keep_session(shard: Shard, group: ShareGroup, member_id: str) -> None:
    group_id = group.group_id

    def expire() -> None:
        current = shard.groups.get(group_id)
        if isinstance(current, ShareGroup) and member_id in current.members:
            fence_share_member(shard, current, current.members[member_id])

    timeout = shard.config.for_group(group_id, SESSION)
    shard.schedule(session_key(group_id, member_id), timeout, expire)


def load_share_group(shard: Shard, group: ShareGroup) -> None:
    """The log is loaded: start the sessions, and look at topic metadata again."""
    group.metadata_deadline = 0
    for member_id in group.members:
        _keep_session(shard, group, member_id)


# Targets


def _may_compute(shard: Shard, group: ShareGroup) -> bool:
    if not shard.release.assignment_interval or group.target_timestamp == 0:
        return True
    interval = shard.config.for_group(group.group_id, INTERVAL)
    return shard.now >= group.target_timestamp + interval


def _update_target(shard: Shard, group: ShareGroup, *, joined: str | None) -> None:
    """Compute the target of the current group epoch and write what changed. Other than in a
    consumer group, the table of members holds a new member already.
    """
    order = string_order(group.walk_members())
    spec = share_specification(shard, group, order)
    assignable = {t: sorted(s.partitions) for t, s in group.share_state.initialized.items()}
    result = _ASSIGNORS[shard.release.share_assignor](spec, assignable)
    for member_id in order:
        new = {topic: dict.fromkeys(n) for topic, n in result.get(member_id, {}).items()}
        if member_id == joined or group.targets.get(member_id) != new:
            shard.append(group.target_record(member_id, new))
    timestamp = shard.now if shard.release.assignment_interval else 0
    shard.append(group.target_epoch_record(group.epoch, timestamp))


def share_specification(shard: Shard, group: ShareGroup, order: list[str]) -> AssignmentSpec:
    """The group as its assignor sees it, with its members in this order."""
    members = []
    for member_id in order:
        names = group.members[member_id].topic_names
        found = (
            shard.topics.named(name)
            for name in string_order(sorted(names), copied_size(len(names)))
        )
        ids = {topic.topic_id: None for topic in found if topic is not None}
        members.append(MemberSpec(member_id, None, ids, group.target_of(member_id)))
    return AssignmentSpec(tuple(members), {}, group.homogeneous())


def _reconcile(shard: Shard, group: ShareGroup, member: ShareMember, changed: bool) -> ShareMember:
    """Move a member to its target, at once."""
    target: dict[str, dict[int, None]] = group.target_of(member.member_id)
    if shard.release.masks_lost_topics:
        subscribed = shard.topics.ids_of(member.topic_names)
        target = {topic: numbers for topic, numbers in target.items() if topic in subscribed}
    if member.epoch != group.target_epoch:
        return member._replace(
            epoch=group.target_epoch, previous_epoch=member.epoch, assigned=target
        )
    if changed and shard.release.masks_lost_topics and _sets(target) != _sets(member.assigned):
        return member._replace(assigned=target)
    return member


def _sets(share: Mapping[str, Mapping[int, None]]) -> dict[str, set[int]]:
    return {topic: set(numbers) for topic, numbers in share.items()}


# Share state


def _ask_for_state(shard: Shard, group: ShareGroup) -> None:
    """Ask the share coordinator to initialize subscribed partitions that have no state."""
    state = group.share_state
    wanted: dict[str, StateTopic] = {}
    for name in sorted(group.topic_names()):
        topic = shard.topics.named(name)
        if topic is None:
            continue
        known = frozenset[int]()
        for topics in (state.initialized, state.initializing):
            if topic.topic_id in topics:
                known |= topics[topic.topic_id].partitions
        missing = frozenset(range(topic.partitions)) - known
        if missing:
            wanted[topic.topic_id] = StateTopic(name, missing)
    if not wanted:
        return
    deleting = {t: name for t, name in state.deleting.items() if t not in wanted}
    shard.append(
        group.state_record(
            ShareState(_merged(state.initializing, wanted), state.initialized, deleting)
        )
    )
    group_id = group.group_id
    shard.schedule(f"state-{group_id}", 0, lambda: _initialized(shard, group_id))


def _merged(
    into: Mapping[str, StateTopic], more: Mapping[str, StateTopic]
) -> dict[str, StateTopic]:
    merged = dict(into)
    for topic_id, topic in more.items():
        old = merged.get(topic_id, StateTopic(topic.name, frozenset()))
        merged[topic_id] = StateTopic(topic.name, old.partitions | topic.partitions)
    return merged


def _initialized(shard: Shard, group_id: str) -> None:
    """The share coordinator has initialized the partitions."""
    group = shard.groups.get(group_id)
    if isinstance(group, ShareGroup) and group.share_state.initializing:
        state = group.share_state
        merged = _merged(state.initialized, state.initializing)
        shard.append(group.state_record(ShareState({}, merged, state.deleting)))


def forget_topic(shard: Shard, group: ShareGroup, topic: Topic) -> None:
    """A topic was deleted: its share state goes at once."""
    state = group.share_state
    parts = (state.initializing, state.initialized, state.deleting)
    if not any(topic.topic_id in part for part in parts):
        return
    shard.append(
        group.state_record(
            ShareState(
                {t: value for t, value in state.initializing.items() if t != topic.topic_id},
                {t: value for t, value in state.initialized.items() if t != topic.topic_id},
                {t: value for t, value in state.deleting.items() if t != topic.topic_id},
            )
        )
    )


def delete_share_group(shard: Shard, group: ShareGroup) -> None:
    """DeleteGroups of an empty share group: first its share state, then the group."""
    state = group.share_state
    if group.has_share_state:
        topics = {**state.initialized, **state.initializing}
        deleting = {topic_id: topic.name for topic_id, topic in topics.items()}
        shard.append(group.state_record(ShareState({}, {}, {**state.deleting, **deleting})))
    for kind in (SHARE_TARGET_EPOCH, SHARE_STATE, SHARE_GROUP):
        shard.append(tombstone(kind, groupId=group.group_id))
