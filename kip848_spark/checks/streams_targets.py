"""Compares the target of a streams group with the one that the sticky assignor computes
(docs/kafka-facts.md#streams-assignor).

Where the records determine what the assignor was given, the reference's assignor must give the same
target. Where they do not (the order of member ids in one bucket, offsets that clients of 4.4
report, the assignor of 4.1), the properties that every target of it has must hold.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kip848_spark.checks.completed_target import BY_PROPERTIES
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import GAP, TARGETS
from kip848_spark.checks.streams_operations import StreamsPart
from kip848_spark.checks.streams_state import AuditedStreams
from kip848_spark.checks.streams_transitions import by_role
from kip848_spark.checks.targets import MOST_ORDERS
from kip848_spark.coordinator import streams_group as streams
from kip848_spark.coordinator.assignors.sticky import (
    StickyMember,
    StickyRules,
    StickySpec,
    assign,
)
from kip848_spark.coordinator.javahash import string_order, string_orders
from kip848_spark.coordinator.streams_group import Task, Tasks
from kip848_spark.wire.pseudonyms import ANONYMIZED, is_anonymized

ANOTHER_ASSIGNOR = "the broker may have another assignor of tasks than the sticky one"
TOPOLOGY_UNKNOWN = "the topology of the group is not known"

STANDBYS = "num.standby.replicas"
_MOST_MEMBERS = 12
"""So many members fit into the 16 buckets that a hash table begins with."""
_LEAST_CONTRADICTED = 3

TaskTargets = dict[str, Tasks]


@dataclass(frozen=True)
class _Case:
    """A target, with what it must be of."""

    targets: TaskTargets
    old: TaskTargets
    """The targets before."""
    assigned: TaskTargets
    """The tasks that members have."""
    processes: Mapping[str, str]
    """Member id to process id."""
    stateful: frozenset[str]
    counts: Mapping[str, int]
    """Subtopology id to its number of tasks."""
    standbys: int | None
    """Standby tasks of each stateful task; None if the setting is not known."""


def check_target(audited: AuditedStreams, part: StreamsPart, old: TaskTargets) -> None:
    """Checks the target that a part completes. Call this after the part's keys 20 and 21 are
    replayed. ``old``: the targets before."""
    at = part.of(streams.TARGET_EPOCH)[-1]
    group, tally = audited.group, audited.tally
    shared = _shared(group.targets)
    if shared is not None:
        task, members = shared
        place = [f"task {task[0]}", task[1]]
        tally.add_disagreement(
            TARGETS,
            "partition_in_two_targets",
            at,
            {"partition": place, "members": 1},
            {"partition": place, "members": members},
        )
        return
    if not audited.complete:
        tally.add_unverifiable(TARGETS, GAP)
        return
    differing = group.members.keys() ^ group.targets.keys()
    if differing:
        tally.add_disagreement(
            TARGETS,
            "not_a_target_for_each_member",
            at,
            sorted(group.members),
            sorted(group.targets),
            member=min(differing),
        )
        return
    if group.topology is None:
        tally.add_unverifiable(TARGETS, TOPOLOGY_UNKNOWN)
        return
    if not group.members:  # from 4.4 on, the last one's leave counts as a target
        tally.add_verified(TARGETS)
        return
    counts, fault = _task_counts(audited)
    expected: TaskTargets | None = None
    exact = True
    if fault is None and any(counts.values()):
        fault, expected, exact = _compare(audited, _case_of(audited, part, old, counts))
    if fault is None:
        tally.add_verified(TARGETS, None if exact else BY_PROPERTIES)
        return
    if expected is not None and is_anonymized(at.group):  # at fault by the order only
        tally.add_unverifiable(TARGETS, ANONYMIZED)
        return
    found = len(tally.findings)
    tally.add_disagreement(
        TARGETS,
        "another_target",
        at,
        {"assignors": ["sticky"], "targets": None if expected is None else _shown(expected)},
        {"fault": fault, "targets": _shown(group.targets)},
    )
    if len(tally.findings) > found and audited.any_release(lambda r: r.streams_roles_in_place):
        audited.by_another.append((tally, tally.findings[-1]))


def check_taken_target(audited: AuditedStreams, part: StreamsPart, entry: LogEntry) -> None:
    """Checks the target that a static member takes over when it returns under another id or the
    same one: that of before, in the records or as the coordinator remembers it. Call this before
    the value of key 21 is replayed."""
    assert entry.value is not None
    left = part.entries[0].member
    before = audited.left_target
    if not audited.complete or before is None:
        audited.tally.add_unverifiable(TARGETS, GAP)
        return
    options = [before, audited.computed.get(left, before), Tasks()]
    recorded = Tasks.of(entry.value)
    if recorded in options:
        audited.tally.add_verified(TARGETS)
        return
    audited.tally.add_disagreement(
        TARGETS,
        "another_target",
        entry,
        {"assignors": ["sticky"], "targets": _shown({entry.member: before})},
        {
            "fault": "a static member took over another target",
            "targets": _shown({entry.member: recorded}),
        },
    )


def accept_another_assignor(audited: AuditedStreams) -> None:
    """Call this after the last record. Since 4.4, brokers may have another assignor: if hardly a
    target is the sticky assignor's, they have one. A wrong target among right ones stays a
    finding."""
    contradicted = len(audited.by_another)
    if contradicted < _LEAST_CONTRADICTED or contradicted <= audited.by_sticky:
        return
    for tally, finding in audited.by_another:
        tally.findings.remove(finding)
        tally.disagreed[TARGETS] -= 1
        tally.add_unverifiable(TARGETS, ANOTHER_ASSIGNOR)


def _shown(targets: TaskTargets) -> dict[str, dict[str, list[int]]]:
    return {member: by_role(tasks) for member, tasks in targets.items()}


def _shared(targets: TaskTargets) -> tuple[Task, list[str]] | None:
    """An active task in two targets, and the members that have it; None if there is none."""
    owners: dict[Task, str] = {}
    for member, tasks in targets.items():
        for task in tasks.active:
            if task in owners:
                return task, sorted((owners[task], member))
            owners[task] = member
    return None


def _task_counts(audited: AuditedStreams) -> tuple[dict[str, int], str | None]:
    """The number of tasks of each subtopology that the target has, and what is wrong with it."""
    group = audited.group
    assert group.topology is not None
    numbers: dict[str, set[int]] = {}
    for tasks in group.targets.values():
        for name, number in tasks.active:
            numbers.setdefault(name, set()).add(number)
    names = {row["subtopologyId"] for row in group.topology["subtopologies"]}
    counts = {name: max(numbers.get(name, ()), default=-1) + 1 for name in sorted(names)}
    held = {task for tasks in group.targets.values() for role in tasks for task in role}
    if strange := sorted(task for task in held if task[0] not in names):
        return counts, f"contains task {_name(strange[0])}, whose subtopology does not exist"
    ready = group.validated_epoch >= 0 if group.configs else None
    if not numbers:
        if ready:
            return counts, f"leaves out task {_name((min(names), 0))}" if names else None
        return counts, "has standby tasks without active ones" if held else None
    if ready is False:
        return counts, "has tasks although topics of the topology are missing"
    before = audited.tasks_of_hash.get(group.metadata_hash) if group.metadata_hash else None
    for name, count in counts.items():
        wanted = count if before is None else before.get(name, count)
        there = numbers.get(name, set())
        # A damaged record may name any number, so the numbers are not listed.
        missing = next(number for number in itertools.count() if number not in there)
        if missing < max(wanted, 1):
            return counts, f"leaves out task {_name((name, missing))}"
        if count > wanted:
            return counts, f"contains task {_name((name, count - 1))}, which does not exist"
    if group.metadata_hash:
        audited.tasks_of_hash[group.metadata_hash] = counts
    return counts, None


def _name(task: Task) -> str:
    return f"{task[0]}_{task[1]}"


def _case_of(
    audited: AuditedStreams, part: StreamsPart, old: TaskTargets, counts: Mapping[str, int]
) -> _Case:
    group = audited.group
    assert group.topology is not None
    stateful = frozenset(
        row["subtopologyId"]
        for row in group.topology["subtopologies"]
        if row["stateChangelogTopics"]
    )
    setting = group.configs.get(STANDBYS, "")
    # A timer computes the first target, with the setting at that time; it writes nothing else.
    by_timer = not part.letters.strip("fe") and not any(map(old.get, group.members))
    known = setting.isdecimal() and not by_timer
    processes = {member.member_id: member.process_id for member in group.members.values()}
    targets = dict(group.targets)
    assigned = {member.member_id: member.assigned for member in group.members.values()}
    return _Case(
        targets, old, assigned, processes, stateful, counts, int(setting) if known else None
    )


def _compare(audited: AuditedStreams, case: _Case) -> tuple[str | None, TaskTargets | None, bool]:
    """What is wrong with a target, a right one, and whether it was compared for equality."""
    modern = all(release.streams_configs for release in audited.releases)
    fault = _copies_fault(case) or _balance_fault(case, modern) or _stickiness_fault(audited, case)
    if fault is not None:
        return fault, None, True
    if len(case.targets) == 1:
        return None, None, modern
    orders = _orders(list(case.targets))
    reported = audited.any_release(lambda r: r.streams_roles_in_place) and any(
        tasks.standby for tasks in (*case.targets.values(), *case.old.values())
    )
    first: TaskTargets | None = None
    ways = _ways(audited, case)
    for order in orders or (string_order(sorted(case.targets)),):
        for (rules, previous), standbys in itertools.product(ways, _standbys(case)):
            computed = assign(_spec(case, order, previous, standbys), rules)
            if computed == case.targets:
                audited.by_sticky += 1
                return None, None, True
            first = first or computed
    if orders is None or reported or not modern:
        return None, None, False
    return "is not the sticky assignor's", first, True


def _ways(audited: AuditedStreams, case: _Case) -> list[tuple[StickyRules, TaskTargets]]:
    """The assignor's rules, with the tasks that it tries to keep, in each release."""
    found = {
        (r.streams_skips_own_process, r.streams_computes_processes, r.streams_previous_is_assigned)
        for r in audited.releases
    }
    return [
        (StickyRules(skips, computes), case.assigned if assigned else case.old)
        for skips, computes, assigned in sorted(found)
    ]


def _standbys(case: _Case) -> Iterable[int]:
    if case.standbys is not None:
        return (case.standbys,)
    copies = Counter(task for tasks in case.targets.values() for task in tasks.standby)
    most = max(copies.values(), default=0)
    # With too few processes there are fewer copies than were asked for, which changes the quotas.
    return range(most, most + 3)


def _spec(case: _Case, order: Iterable[str], previous: TaskTargets, standbys: int) -> StickySpec:
    members = [
        StickyMember(member, case.processes[member], previous.get(member, Tasks()))
        for member in order
    ]
    return StickySpec(members, case.counts, case.stateful, standbys)


def _orders(members: list[str]) -> list[list[str]] | None:
    """Every order in which the broker may visit the members; None if there are too many."""
    if len(members) > _MOST_MEMBERS:
        return None
    return string_orders(sorted(members), MOST_ORDERS)


# Properties


def _copies_fault(case: _Case) -> str | None:
    """Standby tasks are copies of tasks with state, and nobody has warm-up tasks."""
    for member, tasks in case.targets.items():
        if tasks.warmup:
            return f"gives {member} the warm-up task {_name(min(tasks.warmup))}"
        for task in sorted(tasks.standby):
            if task[0] not in case.stateful:
                return f"gives {member} the standby task {_name(task)}, which has no state"
            if task[1] >= case.counts[task[0]]:
                return f"contains task {_name(task)}, which does not exist"
    return None


def _balance_fault(case: _Case, modern: bool) -> str | None:
    """The first property of a sticky target that does not hold; None if all hold. ``modern``: the
    loads of the processes differ by one task at most (from 4.2)."""
    in_process: dict[str, list[Task]] = {process: [] for process in case.processes.values()}
    members_of = Counter(case.processes.values())
    for member, tasks in case.targets.items():
        in_process[case.processes[member]] += [*tasks.active, *tasks.standby]
    for process, held in sorted(in_process.items()):
        if len(held) > len(set(held)):
            twice = min(task for task, times in Counter(held).items() if times > 1)
            return f"gives task {_name(twice)} twice to the process {process}"
    if (fault := _standby_fault(case, len(in_process))) is not None:
        return fault
    total = sum(case.counts.values())
    sizes = {member: len(tasks.active) for member, tasks in case.targets.items()}
    most = max(sizes, key=sizes.__getitem__)
    if sizes[most] > math.ceil(total / len(sizes)):
        return f"gives {most} {sizes[most]} active tasks"
    if modern and case.standbys == 0 and not any(t.standby for t in case.targets.values()):
        loads = {process: len(held) / members_of[process] for process, held in in_process.items()}
        if max(loads.values()) - min(loads.values()) > 1:
            return f"gives the process {max(loads, key=loads.__getitem__)} too many tasks"
    if not any(case.old.get(member) or case.assigned[member] for member in sizes) and (
        max(sizes.values()) - min(sizes.values()) > 1
    ):
        return "is not even"
    return None


def _stickiness_fault(audited: AuditedStreams, case: _Case) -> str | None:
    """Until 4.3, a member keeps its active tasks if it has no more of them than every member must
    have, and if no other member had them."""
    if audited.any_release(lambda release: release.streams_previous_is_assigned):
        return None
    least = sum(case.counts.values()) // len(case.targets)
    owners = Counter(task for tasks in case.old.values() for task in tasks.active)
    for member, tasks in sorted(case.targets.items()):
        old = [t for t in case.old.get(member, Tasks()).active if t[1] < case.counts.get(t[0], 0)]
        lost = sorted(set(old) - tasks.active)
        if lost and len(old) <= least and all(owners[task] == 1 for task in old):
            return f"takes the active task {_name(lost[0])} away from {member}"
    return None


def _standby_fault(case: _Case, processes: int) -> str | None:
    copies = Counter(task for tasks in case.targets.values() for task in tasks.standby)
    stateful = list(_stateful_tasks(case))
    if not stateful:
        return None
    wanted = case.standbys
    if wanted is None:
        wanted = max(copies.values(), default=0)
    wanted = min(wanted, processes - 1)
    for task in stateful:
        if copies[task] != wanted:
            return f"has {copies[task]} standby tasks of {_name(task)}"
    return None


def _stateful_tasks(case: _Case) -> Iterator[Task]:
    for name in sorted(case.stateful):
        for number in range(case.counts.get(name, 0)):
            yield name, number
