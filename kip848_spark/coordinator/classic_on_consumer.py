"""Classic members of a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

KIP-848 "Supporting Online Consumer Group Upgrade". JoinGroup carries the member's subscription and
owned partitions, and reconciles the member by one step. SyncGroup returns its assignment. Heartbeat
extends the session, and answers REBALANCE_IN_PROGRESS when there is a step to take. Each member is
reconciled separately; its member epoch is its generation.
"""

from __future__ import annotations

from typing import Any

from kip848_spark.coordinator.classic import join_response, sync_response, to_base64
from kip848_spark.coordinator.consumer_group import (
    JOIN,
    NO_OWNER,
    ClassicMetadata,
    ConsumerGroup,
    Member,
    MemberState,
)
from kip848_spark.coordinator.consumer_protocol import (
    CONSUMER,
    ClassicAssignment,
    Subscription,
    read_subscription,
    write_assignment,
)
from kip848_spark.coordinator.downgrade import downgrade, may_downgrade
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.heartbeat import advance
from kip848_spark.coordinator.join_request import MEMBER_ID_REQUIRED_FROM, read_protocols
from kip848_spark.coordinator.member_timers import join_key, sync_key
from kip848_spark.coordinator.membership import (
    check_not_full,
    check_static,
    fence,
    joining_member,
    replace_member,
)
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.sessions import keep_session, schedule_fencing
from kip848_spark.coordinator.shard import ApiCall, Client, Shard
from kip848_spark.coordinator.subscriptions import (
    RegexChange,
    drop_unused_regex,
    maybe_resolve,
    refresh_metadata,
    regex_change,
)
from kip848_spark.coordinator.target import take_snapshot


def join_consumer_group(shard: Shard, group: ConsumerGroup, call: ApiCall) -> None:
    """JoinGroup: update the member, bump, compute the target, take one step; the epoch is the
    generation.
    """
    if shard.release.policy_bars_classic_join and shard.config.migration_disabled:
        raise GroupError("INCONSISTENT_GROUP_PROTOCOL", "the migration policy does not allow it")
    request, client, ticket = call.request, call.client, call.ticket
    member_id, instance_id = request.get("memberId") or "", request.get("groupInstanceId")
    unknown = not member_id
    check_not_full(shard, group, member_id, instance_id)
    protocols = read_protocols(request)
    _check_protocols(group, request.get("protocolType"), {name for name, _ in protocols})
    if unknown:
        member_id = shard.new_uuid()
        if instance_id is None and call.version >= MEMBER_ID_REQUIRED_FROM:
            shard.answer(ticket, join_response(memberId=member_id, errorCode="MEMBER_ID_REQUIRED"))
            return
    epoch = JOIN if unknown or instance_id is None else -1
    before, replaced = joining_member(
        shard, group, member_id, instance_id, epoch=epoch, owned={}, classic=True
    )
    subscription = _subscription(shard.release, protocols)
    after = _update_member(shard.release, before, request, subscription, client, protocols)
    change = regex_change(before, after, group)

    # A static member may also change its protocol under its own member id.
    holder = group.static_member(instance_id)
    downgrades = holder is not None and may_downgrade(
        shard, group, {holder.member_id}, replaced=True
    )
    snapshot, resolved, epoch_before = (
        take_snapshot(group, before),
        dict(group.resolved),
        group.epoch,
    )
    had_regexes = bool(group.regex_counts)
    if replaced is not None:
        replace_member(shard, group, replaced, before)
    if after.metadata() != before.metadata():
        shard.append(group.member_record(after))
    if change is not RegexChange.NONE:
        drop_unused_regex(shard, group, before.regex)
    maybe_resolve(shard, group, resolved, requested=had_regexes)
    names_changed = before.topic_names != after.topic_names
    # A classic member has no expression; that it clears one bumps the epoch in 4.0 as well.
    bump = names_changed or change is not RegexChange.NONE
    owned = _owned(shard, subscription)
    if downgrades and holder is not None:
        may_rebalance = shard.release.replacement_may_rebalance
        if may_rebalance and (bump or shard.now >= group.metadata_deadline):
            refresh_metadata(shard, group, bump=bump)
        stale = may_rebalance and group.target_epoch < group.epoch
        # The conversion reads the group as it was before this request: its epoch and targets.
        targets = dict(group.targets)
        member = group.members[member_id]
        if not stale:
            member = advance(
                shard,
                group,
                member_id,
                owned,
                snapshot,
                bump=bump and not may_rebalance,
                subscription_changed=bump,
            )
        group.epoch = epoch_before
        member_order = [
            member_id if other == holder.member_id else other for other in snapshot.member_order
        ]
        downgrade(
            shard,
            group,
            set(),
            joiner=member,
            targets=targets,
            member_order=member_order,
            rebalance=stale,
        )
    else:
        member = advance(
            shard,
            group,
            member_id,
            owned,
            snapshot,
            bump=bump,
            subscription_changed=bump,
        )
        shard.timers.cancel(join_key(group.group_id, member_id))
        keep_session(shard, group, member)
        schedule_fencing(
            shard,
            sync_key(group.group_id, member_id),
            group,
            member,
            request.get("rebalanceTimeoutMs", -1),
        )
    shard.answer(
        ticket,
        join_response(
            memberId=member_id,
            generationId=member.epoch,
            protocolType=CONSUMER,
            protocolName=protocols[0][0],
        ),
    )


def _check_protocols(group: ConsumerGroup, protocol_type: str | None, names: set[str]) -> None:
    """A classic member must be a consumer and share a protocol with the other classic members."""
    common: set[str] | None = None
    for member in group.classic_members:
        assert member.classic is not None
        own = {name for name, _ in member.classic.protocols}
        common = own if common is None else common & own
    if protocol_type != CONSUMER or not names or (common is not None and not common & names):
        raise GroupError("INCONSISTENT_GROUP_PROTOCOL", "no protocol is common to all members")


def _subscription(release: Release, protocols: tuple[tuple[str, bytes], ...]) -> Subscription:
    try:
        return read_subscription(protocols[0][1])
    except ValueError as bad:
        raise GroupError(release.malformed_subscription, f"malformed subscription: {bad}") from None


def _update_member(
    release: Release,
    member: Member,
    request: Json,
    subscription: Subscription,
    client: Client,
    protocols: tuple[tuple[str, bytes], ...],
) -> Member:
    changes: dict[str, Any] = {
        "client_id": client.client_id,
        "client_host": client.host,
        "topic_names": frozenset(subscription.topics),
        "regex": "" if release.classic_clears_regex else member.regex,
        "classic": ClassicMetadata(request["sessionTimeoutMs"], protocols),
    }
    if request.get("groupInstanceId") is not None:
        changes["instance_id"] = request["groupInstanceId"]
    if subscription.rack_id is not None:
        changes["rack_id"] = subscription.rack_id
    if request.get("rebalanceTimeoutMs", -1) != -1:
        changes["rebalance_timeout"] = request["rebalanceTimeoutMs"]
    return member._replace(**changes)


def _owned(shard: Shard, subscription: Subscription) -> dict[str, set[int]]:
    """The partitions that the member reports; version 0 cannot report any, which counts as none."""
    owned = {}
    for name, numbers in subscription.owned:
        topic = shard.topics.named(name)
        if topic is not None:
            owned[topic.topic_id] = set(numbers)
    return owned


def _classic_member(group: ConsumerGroup, request: Json) -> Member:
    """The member of a request, which must use the classic protocol."""
    member_id, instance_id = request.get("memberId") or "", request.get("groupInstanceId")
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_static(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        raise GroupError("UNKNOWN_MEMBER_ID", f"member {member_id!r} uses the new protocol")
    return member


def _check_generation(member: Member, request: Json) -> None:
    if request["generationId"] != member.epoch:
        raise GroupError("ILLEGAL_GENERATION", f"the member's epoch is {member.epoch}")


def _expect_rejoin(shard: Shard, group: ConsumerGroup, member: Member) -> None:
    """The member is told to rejoin, within its rebalance timeout."""
    key = join_key(group.group_id, member.member_id)
    if not shard.timers.scheduled(key):
        schedule_fencing(shard, key, group, member, member.rebalance_timeout)


def _required_epoch(group: ConsumerGroup) -> int:
    """The epoch that a classic member must reach before it stops being told to rejoin."""
    if group.release.calls_classic_at_group_epoch:
        return group.epoch
    return group.target_epoch


def sync_consumer_group(shard: Shard, group: ConsumerGroup, request: Json) -> Json:
    """SyncGroup: the member's assignment in classic form."""
    member = _classic_member(group, request)
    assert member.classic is not None
    _check_generation(member, request)
    name, metadata = member.classic.protocols[0]
    if request.get("protocolType") not in (None, CONSUMER):
        raise GroupError("INCONSISTENT_GROUP_PROTOCOL", f"the protocol type is {CONSUMER}")
    if request.get("protocolName") not in (None, name):
        raise GroupError("INCONSISTENT_GROUP_PROTOCOL", f"the member's protocol is {name}")
    if (
        _required_epoch(group) > member.epoch
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        _expect_rejoin(shard, group, member)
        raise GroupError("REBALANCE_IN_PROGRESS", "a newer target exists: rejoin")
    shard.timers.cancel(sync_key(group.group_id, member.member_id))
    keep_session(shard, group, member)
    rows = tuple(
        (topic.name, tuple(member.assigned[topic_id]))
        for topic_id in member.assigned
        if (topic := shard.topics.with_id(topic_id)) is not None
    )
    version = read_subscription(metadata).version
    return sync_response(
        protocolType=request.get("protocolType"),
        protocolName=request.get("protocolName"),
        assignment=to_base64(write_assignment(ClassicAssignment(version, rows))),
    )


def heartbeat_consumer_group(shard: Shard, group: ConsumerGroup, request: Json) -> str:
    """Heartbeat: REBALANCE_IN_PROGRESS when the member has a step to take, else NONE."""
    member = _classic_member(group, request)
    _check_generation(member, request)
    keep_session(shard, group, member)
    unreleased = member.state is MemberState.UNRELEASED_PARTITIONS
    if (
        member.epoch < _required_epoch(group)
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (unreleased and not _waits_for_others(group, member))
    ):
        _expect_rejoin(shard, group, member)
        return "REBALANCE_IN_PROGRESS"
    return "NONE"


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    return any(
        group.owner_epoch(topic_id, number) != NO_OWNER
        for topic_id, numbers in group.target_of(member.member_id).items()
        for number in numbers
        if number not in member.assigned.get(topic_id, {})
    )


def leave_consumer_group(shard: Shard, group: ConsumerGroup, identities: list[Json]) -> list[Json]:
    """LeaveGroup for members of either protocol; one epoch bump for all of them."""
    rows: list[Json] = []
    leavers: dict[str, Member] = {}
    for identity in identities:
        member_id = identity.get("memberId") or ""
        instance_id = identity.get("groupInstanceId")
        row = {"memberId": member_id, "groupInstanceId": instance_id, "errorCode": "NONE"}
        try:
            if instance_id is None:
                member = group.member(member_id)
            else:
                holder = group.static_member(instance_id)
                wanted = member_id or (holder.member_id if holder is not None else "")
                member = check_static(holder, wanted, instance_id)
                if not member_id:
                    row["memberId"] = member_id
            leavers[member.member_id] = member
        except GroupError as bad:
            row["errorCode"] = bad.code
        rows.append(row)
    if leavers:
        fence(shard, group, list(leavers.values()))
    return rows
