"""The target of a streams group: when it is computed, and what is written of it."""

from __future__ import annotations

from kip848_spark.coordinator.assignors.sticky import StickyMember, StickyRules, StickySpec, assign
from kip848_spark.coordinator.javahash import string_order
from kip848_spark.coordinator.records import Json, record
from kip848_spark.coordinator.shard import Shard
from kip848_spark.coordinator.streams_group import (
    NO_TASKS,
    TARGET_EPOCH,
    StreamsGroup,
    Tasks,
    target_record,
)

STANDBYS = "group.streams.num.standby.replicas"
INTERVAL = "group.streams.assignment.interval.ms"


def begin_delay(shard: Shard, group: StreamsGroup, delay: int) -> None:
    """The first target waits for more members to join."""
    key = f"initial-{group.group_id}"

    def compute() -> None:
        current = shard.groups.get(group.group_id)
        if not isinstance(current, StreamsGroup):
            return
        current.delayed = False
        waits = current.target_epoch < current.epoch and may_compute(shard, current)
        if current.members and current.configured is not None and waits:
            update_streams_target(shard, current, current.walk_members())

    if not group.delayed:
        group.delayed = True
        shard.schedule(key, delay, compute)


def may_compute(shard: Shard, group: StreamsGroup) -> bool:
    """Whether the assignment interval has passed since the last target (from 4.3)."""
    if not shard.release.assignment_interval or group.target_timestamp == 0:
        return True
    interval = shard.config.for_streams_group(group.group_id, INTERVAL)
    return shard.now >= group.target_timestamp + interval


def update_streams_target(shard: Shard, group: StreamsGroup, order: list[str]) -> None:
    """Compute the target of the current group epoch and write what changed. ``order``: the members
    before the request, in the order of their hash table.
    """
    known = [member for member in order if member in group.members]
    old = set(known)
    joined = [member for member in group.members if member not in old]
    visits = string_order(known + joined)
    for member_id, tasks in _targets(shard, group, visits).items():
        if group.targets.get(member_id) != tasks:
            shard.append(target_record(group.group_id, member_id, tasks))
    append_target_epoch(shard, group, shard.now if shard.release.assignment_interval else 0)
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


def append_target_epoch(shard: Shard, group: StreamsGroup, timestamp: int) -> None:
    """Write key 20 at the group epoch; ``timestamp`` (ms): when the target was computed, or 0."""
    value: Json = {"assignmentEpoch": group.epoch}
    if timestamp:
        value["assignmentTimestamp"] = timestamp
    shard.append(record(TARGET_EPOCH, 0, {"groupId": group.group_id}, value))
