"""Whether the reconciliation can lead to a streams member's recorded tasks, and whether another
member holds one of them.

No record says what a client acknowledged. So every acknowledgement that it may have sent is tried
on the reference's state machine, in every release that may have written the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import REJOIN
from kip848_spark.checks.results import CRITICAL, GAP, OWNERSHIP, TRANSITIONS
from kip848_spark.checks.streams_operations import StreamsPart
from kip848_spark.checks.streams_state import AuditedStreams
from kip848_spark.coordinator import streams_group as streams
from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.streams_group import (
    STATIC_LEAVE,
    StreamsMember,
    Task,
    Tasks,
    TaskState,
    member_of,
)
from kip848_spark.coordinator.streams_reconcile import (
    ACTIVE,
    Blocked,
    StreamsGoal,
    blocked_by,
    reconcile,
)

_ROLES = ("task", "standby task", "warm-up task")
_NO_TASKS = Tasks()


def check_transition(audited: AuditedStreams, part: StreamsPart, entry: LogEntry) -> None:
    """Checks a value of key 22. Call this before it is replayed."""
    assert entry.value is not None
    member = audited.member(entry.member)
    if part.name == REJOIN:
        _check_rejoin(audited, part, entry)
        return
    if member is None or not _is_known(audited, entry.member):
        audited.tally.add_unverifiable(TRANSITIONS, GAP)
        return
    recorded = member_of(entry.member, member.metadata, entry.value)
    with_epochs = _has_epochs(entry.value)
    options = []
    for after in _next(audited, member, recorded):
        if after == member and after.epoch != STATIC_LEAVE:  # a leave is written each time
            continue
        if _same(after, recorded, with_epochs):
            audited.tally.add_verified(TRANSITIONS)
            return
        options.append(after)
    shown: list[Json] = []
    for after in options:
        if (one := show(after, epochs=with_epochs)) not in shown:
            shown.append(one)
    audited.tally.add_disagreement(
        TRANSITIONS,
        "unreachable",
        entry,
        {"from": show(member, epochs=with_epochs), "to one of": shown},
        show(recorded, epochs=with_epochs),
    )


def _is_known(audited: AuditedStreams, member: str) -> bool:
    keys = ((streams.CURRENT, member), (streams.TARGET, member), (streams.TARGET_EPOCH, ""))
    if audited.complete:
        return True
    if member not in audited.group.targets and audited.any_release(
        lambda release: release.streams_keeps_left_targets
    ):
        return False  # the coordinator may remember a target that was not read
    return all(key in audited.seen for key in keys)


def _check_rejoin(audited: AuditedStreams, part: StreamsPart, entry: LogEntry) -> None:
    """A static member that returns with another id takes the tasks of the old one over."""
    assert entry.value is not None
    old = audited.left.get(part.entries[0].member)
    if old is None or (streams.CURRENT, old.member_id) not in audited.left_seen:
        audited.tally.add_unverifiable(TRANSITIONS, GAP)
        return
    recorded = member_of(entry.member, old.metadata, entry.value)
    wanted = old._replace(epoch=0, previous_epoch=0, state=TaskState.STABLE, pending=_NO_TASKS)
    if wanted[2:4] == recorded[2:4] and wanted[5:7] == recorded[5:7]:
        audited.tally.add_verified(TRANSITIONS)
        return
    audited.tally.add_disagreement(
        TRANSITIONS,
        "static_rejoin",
        entry,
        {"from": show(old, epochs=False), "to one of": [show(wanted, epochs=False)]},
        show(recorded, epochs=False),
    )


def _next(
    audited: AuditedStreams, member: StreamsMember, recorded: StreamsMember
) -> Iterator[StreamsMember]:
    """Every state that one heartbeat may bring a member to."""
    group = audited.group
    reported = (streams.MEMBER, member.member_id) in audited.seen
    if recorded.epoch == STATIC_LEAVE and (member.instance_id is not None or not reported):
        since = dict.fromkeys(member.assigned.active, 0)
        yield member._replace(
            epoch=STATIC_LEAVE, state=recorded.state, pending=_NO_TASKS, since=since
        )
        return
    target = group.target_of(member.member_id)
    epoch = max(group.target_epoch, 1)  # without a target yet, members are at the first epoch
    targets = [target]
    if audited.any_release(lambda release: release.streams_keeps_left_targets):
        kept = audited.computed.get(member.member_id, target)
        targets += [kept] * (kept != target)
    if audited.any_release(_loses_targets):
        targets += [_NO_TASKS] * (member.instance_id is not None and bool(target))
        targets += _taken_targets(audited, member)
    for in_place in sorted({release.streams_roles_in_place for release in audited.releases}):
        blocked = _blocked(audited, member, recorded, in_place=in_place)
        for one in targets:
            goal = StreamsGoal(epoch, one, blocked, in_place)
            for owned in (_NO_TASKS, None, member.assigned):
                yield reconcile(member, goal, owned)


def _loses_targets(release: Release) -> bool:
    """A request that wrongly names a static member's instance id takes the target that the
    coordinator remembers away from it, and leaves no record."""
    return release.streams_static_members


def _taken_targets(audited: AuditedStreams, member: StreamsMember) -> Iterator[Tasks]:
    """The targets that a member has if it was the one that wrongly named a static member."""
    for other in audited.group.members.values():
        if other.instance_id is not None and other.member_id != member.member_id:
            yield audited.group.target_of(other.member_id)


def _blocked(
    audited: AuditedStreams, member: StreamsMember, recorded: StreamsMember, *, in_place: bool
) -> Blocked:
    if audited.complete:
        shared = audited.moving.get(member.member_id)
        displaced = frozenset[Task]()
        if (before := audited.displaced.get(member.member_id)) is not None:
            displaced = before.assigned.active
            if before.process_id == member.process_id:
                now = shared or audited.group.holders.tasks_of(member.process_id)
                pairs = zip(now, before.assigned, strict=True)
                shared = Tasks._make(mine | theirs for mine, theirs in pairs)
        return blocked_by(
            audited.group, member, in_place=in_place, shared=shared, displaced=displaced
        )

    def not_given(role: int, task: Task) -> bool:
        """A member that was not read may hold whatever this one did not get."""
        return task not in recorded.assigned[role]

    return not_given


def _same(after: StreamsMember, recorded: StreamsMember, with_epochs: bool) -> bool:
    return after[2:7] == recorded[2:7] and (not with_epochs or after.since == recorded.since)


def _has_epochs(value: Json) -> bool:
    names = (streams.ROLES[0], streams.PENDING_ROLES[0])
    return any(row.get("assignmentEpochs") for name in names for row in value.get(name) or ())


def show(member: StreamsMember, *, epochs: bool) -> Json:
    """A member's tasks as JSON in the form of `transitions.show_member`, with the role beside the
    subtopology. ``epochs``: with the assignment epochs of active tasks."""
    known = member.state in (1, 2, 3)
    shown: Json = {
        "memberEpoch": member.epoch,
        "previousMemberEpoch": member.previous_epoch,
        "state": int(member.state) - 1 if known else int(member.state),
        "assigned": by_role(member.assigned),
        "pendingRevocation": by_role(member.pending),
    }
    if epochs:
        since = sorted(member.since.items())
        shown["assignmentEpochs"] = [[_named(t[0], ACTIVE), t[1], at] for t, at in since]
    return shown


def _named(subtopology: str, role: int) -> str:
    return f"{_ROLES[role]} {subtopology}"


def by_role(tasks: Tasks) -> dict[str, list[int]]:
    """Tasks as JSON: partitions by role and subtopology."""
    found: dict[str, list[int]] = {}
    for role, of_role in enumerate(tasks):
        for subtopology, number in sorted(of_role):
            found.setdefault(_named(subtopology, role), []).append(number)
    return found


# Ownership


def check_ownership(audited: AuditedStreams, entry: LogEntry) -> None:
    """Checks that no task in a value of key 22 is active on another member, and that no copy of its
    state is in the same process. Call this before it is replayed."""
    assert entry.value is not None
    group, tally = audited.group, audited.tally
    held = Tasks.of(entry.value)
    pending = Tasks.of(entry.value, streams.PENDING_ROLES)
    for task in sorted(held.active | pending.active):
        others = [member for member in group.holders.of(ACTIVE, task) if member != entry.member]
        if others:
            tally.add_disagreement(
                OWNERSHIP,
                "task_with_two_owners",
                entry,
                {"owner": min(others), "task": list(task)},
                entry.record["value"]["data"] if entry.record["value"] else {},
                severity=CRITICAL,
            )
            return
    member = group.members.get(entry.member)
    if member is None or audited.moved or not audited.knows_process(entry.member):
        _count(audited)
        return
    twice = _twice_in_process(audited, member, held)
    if twice is None:
        _count(audited)
        return
    task, other = twice
    tally.add_disagreement(
        OWNERSHIP,
        "task_twice_in_process",
        entry,
        {"process": member.process_id, "member": other, "task": list(task)},
        {"process": member.process_id, "member": entry.member, "task": list(task)},
    )


def _count(audited: AuditedStreams) -> None:
    if audited.complete:
        audited.tally.add_verified(OWNERSHIP)
    else:
        audited.tally.add_unverifiable(OWNERSHIP, GAP)


def _twice_in_process(
    audited: AuditedStreams, member: StreamsMember, held: Tasks
) -> tuple[Task, str] | None:
    """A task that the member gets although another one of its process has it, and that one."""
    group = audited.group
    for role, tasks in enumerate(held):
        for task in sorted(tasks - member.assigned[role]):
            for other_role in range(len(held)):
                if role == other_role == ACTIVE:
                    continue
                for other in sorted(group.holders.of(other_role, task)):
                    if other == member.member_id or not audited.knows_process(other):
                        continue
                    if group.members[other].process_id == member.process_id:
                        return task, other
    return None
