"""One step of a member of a streams group towards its target (KIP-1071;
docs/kafka-facts.md#streams-reconciliation).

A member first gives up what its target lacks. Once it has acknowledged that, it moves to the target
epoch and gets the tasks that nobody blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kip848_spark.coordinator.streams_group import (
    StreamsGroup,
    StreamsMember,
    Task,
    Tasks,
    TaskSet,
    TaskState,
)

ACTIVE, STANDBY, WARMUP = range(3)
"""Positions in `Tasks`."""

Blocked = Callable[[int, Task], bool]
"""Whether a task cannot be granted in a role (a position in `Tasks`)."""


class StreamsGoal(NamedTuple):
    """Where a member is going: its target, and what keeps it from there."""

    epoch: int
    target: Tasks
    blocked: Blocked
    roles_change_in_place: bool = False
    """Whether a task changes its role within the member in one step (from 4.4)."""


def blocked_by(
    group: StreamsGroup,
    member: StreamsMember,
    *,
    in_place: bool,
    shared: Tasks | None = None,
    displaced: TaskSet = frozenset(),
) -> Blocked:
    """What blocks tasks that the member wants.

    An active task: any member that has it as active; in another role, a member of the same process.
    Another role: a member of the same process, in any role. What the member holds itself blocks it
    too, unless roles change ``in_place``. ``shared``: the tasks that the member's process has; None
    for those that the group knows of. ``displaced``: active tasks that become free only after the
    request.
    """
    process = member.process_id

    def held(role: int, task: Task) -> bool:
        if shared is not None:
            return task in shared[role]
        return group.holders.in_process(role, task, process)

    def held_by_other(role: int, task: Task) -> bool:
        return held(role, task) and not (in_place and task in member.assigned[role])

    def blocked(role: int, task: Task) -> bool:
        if role == ACTIVE:
            return (
                task in displaced
                or any(group.holders.of(ACTIVE, task))
                or any(held_by_other(other, task) for other in (STANDBY, WARMUP))
            )
        if role == STANDBY:
            return held_by_other(ACTIVE, task) or held(STANDBY, task) or held_by_other(WARMUP, task)
        return held(ACTIVE, task) or held_by_other(STANDBY, task) or held(WARMUP, task)

    return blocked


def reconcile(member: StreamsMember, goal: StreamsGoal, owned: Tasks | None) -> StreamsMember:
    """The member after one heartbeat; the same object if nothing is to be done.

    ``owned``: the tasks that its client reports; None if it does not.
    """
    if member.state == TaskState.STABLE and member.epoch == goal.epoch:
        return member
    epoch = member.epoch
    if member.state == TaskState.UNREVOKED_TASKS:
        if not _acknowledged(owned, member.pending):
            return member
        epoch += 1
    return _step(member, goal, owned, epoch)


def _acknowledged(owned: Tasks | None, revoked: Tasks) -> bool:
    return owned is not None and not owned.meets(revoked)


def _step(
    member: StreamsMember, goal: StreamsGoal, owned: Tasks | None, epoch: int
) -> StreamsMember:
    assigned, target = member.assigned, goal.target
    kept = [mine & wanted for mine, wanted in zip(assigned, target, strict=True)]
    lost = [mine - wanted for mine, wanted in zip(assigned, target, strict=True)]
    free: list[TaskSet] = []
    waits = False
    for role, (mine, wanted) in enumerate(zip(assigned, target, strict=True)):
        gain = frozenset(task for task in wanted - mine if not goal.blocked(role, task))
        waits = waits or len(gain) < len(wanted - mine)
        free.append(gain)
    must_revoke: bool
    if goal.roles_change_in_place:
        _change_roles(assigned, kept, lost, free)
        for role in (STANDBY, WARMUP):
            lost[role] -= target.active
        must_revoke = _must_revoke(lost, owned)
        granted = frozenset() if must_revoke else free[ACTIVE]
        for role in (STANDBY, WARMUP):  # a copy of the state stays until its task is active
            kept[role] |= (assigned[role] & target.active) - granted
    else:
        must_revoke = _must_revoke(lost, owned)
    if must_revoke:
        return member.at_epoch(
            epoch, TaskState.UNREVOKED_TASKS, Tasks._make(kept), Tasks._make(lost), goal.epoch
        )
    after = Tasks._make(mine | gain for mine, gain in zip(kept, free, strict=True))
    state = TaskState.UNRELEASED_TASKS if waits else TaskState.STABLE
    return member.at_epoch(goal.epoch, state, after, Tasks(), goal.epoch)


def _must_revoke(lost: list[TaskSet], owned: Tasks | None) -> bool:
    revoked = Tasks._make(lost)
    return bool(revoked) and not _acknowledged(owned, revoked)


def _change_roles(
    assigned: Tasks, kept: list[TaskSet], lost: list[TaskSet], free: list[TaskSet]
) -> None:
    """Tasks that the member may take in another role than now, it takes at once."""

    def take(role: int, tasks: TaskSet) -> None:
        free[role] -= tasks
        kept[role] |= tasks

    take(STANDBY, free[STANDBY] & assigned.active)
    for before, after in ((STANDBY, WARMUP), (WARMUP, STANDBY)):
        converted = free[after] & assigned[before]
        lost[before] -= converted
        take(after, converted)
