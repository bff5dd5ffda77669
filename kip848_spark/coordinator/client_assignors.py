"""Assignments computed by a member: the KIP's client-side mode, which no Kafka release ships.

KIP-848 "Client Side Mode", "ConsumerGroupPrepareAssignment API" and "ConsumerGroupInstallAssignment
API"; release ``kip`` only. If all members have client-side assignors with one in common, the
coordinator computes no target. It chooses a member and tells it so in the heartbeat response
(ShouldComputeAssignment). That member fetches the group's state, computes the assignment and
installs it within its rebalance timeout; otherwise another member is chosen.
"""

from __future__ import annotations

from typing import Any

from kip848_spark.coordinator import records
from kip848_spark.coordinator.client_side import AssignorResult
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.shard import Shard, order_partitions, owned_partitions, partition_rows


def check_assignors(shard: Shard, request: Json) -> None:
    """Raise INVALID_REQUEST unless the assignors of a heartbeat have valid names and versions."""
    rows = request.get("clientAssignors")
    if rows is None:
        return
    if not shard.release.client_assignors:
        raise GroupError("INVALID_REQUEST", "no Kafka release supports client-side assignors")
    if request.get("serverAssignor") is not None:
        raise GroupError(
            "INVALID_REQUEST",
            "a member uses either a server-side assignor or client-side assignors",
        )
    for row in rows:
        least, most = row.get("minimumVersion", 0), row.get("maximumVersion", 0)
        if not row.get("name"):
            raise GroupError("INVALID_REQUEST", "an assignor has no name")
        if least < -1 or most < max(least, 0):
            raise GroupError(
                "INVALID_REQUEST",
                f"assignor {row['name']!r} has the version range {least} to {most}",
            )
        if not least <= row.get("metadataVersion", 0) <= most:
            raise GroupError(
                "INVALID_REQUEST",
                f"assignor {row['name']!r} has a metadata version out of its range",
            )


def common_assignor(group: ConsumerGroup) -> str | None:
    """The client-side assignor that all members support, by the highest total precedence."""
    members = list(group.members.values())
    if not members or not all(member.client_assignors for member in members):
        return None
    ranks: dict[str, list[int]] = {}
    for member in members:
        for rank, assignor in enumerate(member.client_assignors):
            ranks.setdefault(assignor["name"], []).append(rank)
    common = {name: found for name, found in ranks.items() if len(found) == len(members)}
    fitting = [name for name in common if _versions_meet(members, name)]
    return min(fitting, key=lambda name: (sum(common[name]), name), default=None)


def _versions_meet(members: list[Member], name: str) -> bool:
    """Whether every member's metadata is within every member's version range (KIP-268)."""
    rows = [a for m in members for a in m.client_assignors if a["name"] == name]
    return all(
        row.get("minimumVersion", 0) <= other.get("metadataVersion", 0)
        and other.get("metadataVersion", 0) <= row.get("maximumVersion", 0)
        for row in rows
        for other in rows
    )


def gives_reason(request: Json) -> bool:
    """Whether a heartbeat asks for a new assignment: an assignor gives a reason other than 0
    (KIP-848 "Deprecate Enforcing Rebalances").
    """
    return any(row.get("reason") for row in request.get("clientAssignors") or ())


def assignment_of(group: ConsumerGroup, member: Member) -> Json:
    """The assignment in a heartbeat response as the KIP has it: partitions to use, partitions that
    other members have not released yet, and what the assignor says.
    """
    target = group.target_of(member.member_id) if member.epoch == group.target_epoch else {}
    waiting = {
        topic: missing
        for topic, numbers in order_partitions(target).items()
        if (missing := [n for n in numbers if n not in member.assigned.get(topic, {})])
    }
    result = group.client_side.current_of(member.member_id)
    return {
        "error": result.error,
        "assignedTopicPartitions": partition_rows(member.assigned),
        "pendingTopicPartitions": partition_rows(waiting),
        "metadataVersion": result.metadata_version,
        "metadataBytes": result.metadata_bytes,
    }


def must_compute(shard: Shard, group: ConsumerGroup, member_id: str) -> bool:
    """Whether this member is the one that computes the group's assignment; chooses it if there is
    none.
    """
    if common_assignor(group) is None or group.target_epoch >= group.epoch:
        group.client_side.chosen = None
        return False
    if group.client_side.chosen is None or group.client_side.chosen not in group.members:
        choose_member(shard, group, member_id)
    return group.client_side.chosen == member_id


def choose_member(shard: Shard, group: ConsumerGroup, member_id: str) -> None:
    """Choose a member; the choice expires after its rebalance timeout."""
    group.client_side.chosen = member_id
    group.client_side.prepared_epoch = group.epoch
    group_id = group.group_id

    def give_up() -> None:
        current = shard.groups.get(group_id)
        if isinstance(current, ConsumerGroup) and current.client_side.chosen == member_id:
            current.client_side.chosen = None

    timeout = group.members[member_id].rebalance_timeout
    shard.schedule(f"assignor-{group_id}", timeout, give_up)


def _check_chosen(shard: Shard, request: Json) -> tuple[ConsumerGroup, Member]:
    """The group and the member, which must be the chosen one, at its own epoch."""
    if not shard.release.client_assignors:
        raise GroupError("UNSUPPORTED_VERSION", "no Kafka release supports client-side assignors")
    if not request.get("groupId") or not request.get("memberId") or request["memberEpoch"] < 0:
        raise GroupError("INVALID_REQUEST", "group, member and epoch are required")
    group = shard.consumer_group(request["groupId"])
    member = group.member(request["memberId"])
    if request["memberEpoch"] != member.epoch:
        raise GroupError("STALE_MEMBER_EPOCH", f"the member is at epoch {member.epoch}")
    if group.client_side.chosen != member.member_id:
        raise GroupError("UNKNOWN_MEMBER_ID", "another member computes the assignment")
    return group, member


def prepare_assignment(shard: Shard, request: Json) -> Json:
    """The state of the group at its epoch, for the chosen member."""
    group, _ = _check_chosen(shard, request)
    name = common_assignor(group)
    if name is None:
        raise GroupError("UNKNOWN_MEMBER_ID", "no client-side assignor is common to all members")
    group.client_side.prepared_epoch = group.epoch
    group.client_side.prepared_members = frozenset(group.members)
    topics = [t for t in sorted(group.topic_names()) if shard.topics.named(t) is not None]
    found = [shard.topics.named(topic) for topic in topics]
    return {
        "throttleTimeMs": 0,
        "errorCode": "NONE",
        "errorMessage": None,
        "groupEpoch": group.epoch,
        "assignorName": name,
        "members": [_state(shard, group, member, name) for member in group.members.values()],
        "topics": [
            {"topicId": t.topic_id, "topicName": t.name, "numPartitions": t.partitions}
            for t in found
            if t is not None
        ],
    }


def _state(shard: Shard, group: ConsumerGroup, member: Member, name: str) -> Json:
    assignor: Any = next(a for a in member.client_assignors if a["name"] == name)
    return {
        "memberId": member.member_id,
        "memberEpoch": member.epoch,
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "subscribedTopicIds": sorted(shard.topics.ids_of(group.topics_of(member))),
        "assignor": {
            "reason": assignor.get("reason", 0),
            "metadataVersion": assignor.get("metadataVersion", 0),
            "metadataBytes": assignor.get("metadataBytes", ""),
        },
        "topicPartitions": partition_rows(order_partitions(group.target_of(member.member_id))),
    }


def install_assignment(shard: Shard, request: Json) -> Json:
    """Check the assignment against the state it was computed from, and make it the target."""
    group, _ = _check_chosen(shard, request)
    if request["groupEpoch"] != group.client_side.prepared_epoch:
        raise GroupError(
            "INVALID_ASSIGNMENT",
            f"the assignment was requested for epoch {group.client_side.prepared_epoch}",
        )
    error = request.get("error", 0)
    given, results = {}, {}
    for row in request.get("members") or ():
        given[row["memberId"]] = owned_partitions(row.get("partitions")) or {}
        results[row["memberId"]] = AssignorResult.of(row)._replace(error=error)
    _check(shard, group, given, complete=error == 0)
    for member_id in group.members:
        target = given.get(member_id, {})
        result = results.get(member_id, AssignorResult(error))
        same = group.targets.get(member_id) == {t: dict.fromkeys(n) for t, n in target.items()}
        if not same or group.client_side.target_of(member_id) != result:
            ordered = order_partitions(target)
            shard.append(records.target_member(group.group_id, member_id, ordered, result.fields()))
    shard.append(records.target_epoch(group.group_id, group.client_side.prepared_epoch, 0))
    group.client_side.chosen = None
    shard.timers.cancel(f"assignor-{group.group_id}")
    return {"throttleTimeMs": 0, "errorCode": "NONE", "errorMessage": None}


def _check(
    shard: Shard,
    group: ConsumerGroup,
    given: dict[str, dict[str, set[int]]],
    *,
    complete: bool,
) -> None:
    """Raise INVALID_ASSIGNMENT unless every partition is assigned once, to a member of the prepared
    state. An assignor that reports an error may leave partitions out.
    """
    unknown = given.keys() - group.client_side.prepared_members
    if unknown:
        raise GroupError("INVALID_ASSIGNMENT", f"{sorted(unknown)} are not members")
    wanted = {
        (topic.topic_id, number)
        for name in group.topic_names()
        if (topic := shard.topics.named(name)) is not None
        for number in range(topic.partitions)
    }
    seen: set[tuple[str, int]] = set()
    for target in given.values():
        for topic_id, numbers in target.items():
            for number in numbers:
                if (topic_id, number) in seen:
                    raise GroupError("INVALID_ASSIGNMENT", f"{topic_id}-{number} is assigned twice")
                seen.add((topic_id, number))
    if not seen <= wanted or (complete and seen != wanted):
        raise GroupError(
            "INVALID_ASSIGNMENT", "the assignment does not cover exactly the group's partitions"
        )
