"""Faults of streams groups: they have a list of their own, since only their logs have places."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.audit.faults.injection import (
    Fault,
    Injection,
    Log,
    append_operation,
    drop_record,
    group_of,
    injection_at,
    insert_record,
    operation_of,
    operation_start,
    pick,
    previous,
    value_at,
    values,
)

GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY = "17", "19", "20", "21", "22", "23"
STREAMS_FAULTS: dict[str, Fault] = {}
Rows = list[dict[str, Any]]


def fault(function: Fault) -> Fault:
    """Puts a kind of fault into the list under its function's name."""
    STREAMS_FAULTS[function.__name__] = function
    return function


def _edit(kind: str, field: str, by: Callable[[random.Random], int]) -> Fault:
    def edit(log: Log, rng: random.Random) -> Injection:
        at = pick(rng, values(log, kind))
        value_at(log, at)[field] += by(rng)
        return injection_at(log, at)

    return edit


STREAMS_FAULTS["group_epoch_skips"] = _edit(GROUP, "epoch", lambda rng: rng.randint(1, 5))
STREAMS_FAULTS["wrong_target_epoch"] = _edit(
    TARGET_EPOCH, "assignmentEpoch", lambda rng: rng.choice((-1, 1))
)
STREAMS_FAULTS["wrong_member_epoch"] = _edit(
    CURRENT, "memberEpoch", lambda rng: rng.choice((-1, 1, 30))
)
STREAMS_FAULTS["wrong_previous_member_epoch"] = _edit(
    CURRENT, "previousMemberEpoch", lambda rng: rng.choice((-1, 1, 2))
)


def _tasks(value: dict[str, Any], field: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Each row of a list of tasks, with each position in it."""
    for row in value[field]:
        for at in range(len(row["partitions"])):
            yield row, at


def _remove(value: dict[str, Any], field: str, row: dict[str, Any], at: int) -> tuple[str, int]:
    number = row["partitions"].pop(at)
    if row.get("assignmentEpochs"):
        row["assignmentEpochs"].pop(at)
    value[field] = [one for one in value[field] if one["partitions"]]
    return row["subtopologyId"], number


def _with(log: Log, kind: str, field: str) -> list[int]:
    return [i for i in values(log, kind) if value_at(log, i)[field]]


def _exact(log: Log, at: int) -> bool:
    """Whether the group's targets can be computed: ties of the assignor of 4.1 leave no trace."""
    return any(
        log[i].kind == GROUP and (log[i].value or {}).get("lastAssignmentConfigs")
        for i in group_of(log, at)
    )


@fault
def task_missing_from_target(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _with(log, TARGET, "activeTasks"))
    value = value_at(log, at)
    _remove(value, "activeTasks", *pick(rng, list(_tasks(value, "activeTasks"))))
    return injection_at(log, at)


@fault
def emptied_target(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _with(log, TARGET, "activeTasks"))
    value_at(log, at)["activeTasks"] = []
    return injection_at(log, at)


@fault
def task_that_does_not_exist(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _with(log, TARGET, "activeTasks"))
    row = pick(rng, value_at(log, at)["activeTasks"])
    row["partitions"].append(rng.randint(20, 40))
    return injection_at(log, at)


def _last_targets(log: Log, at: int) -> dict[str, dict[str, Any]]:
    """The targets of a group's members after the operation of the record at ``at``."""
    found: dict[str, dict[str, Any]] = {}
    end = operation_of(log, at)[-1]
    for i in group_of(log, at):
        if i > end:
            break
        if log[i].kind == TARGET:
            found[log[i].member] = log[i].value or {}
            if log[i].value is None:
                del found[log[i].member]
    return found


@fault
def task_in_two_targets(log: Log, rng: random.Random) -> Injection:
    """A member's target gets a task that another one has."""
    places = []
    for i in values(log, TARGET):
        others = [t for m, t in _last_targets(log, i).items() if m != log[i].member]
        rows = [row for target in others for row in target["activeTasks"]]
        if rows:
            places.append((i, rows))
    at, rows = pick(rng, places)
    row = copy.deepcopy(pick(rng, rows))
    row["partitions"] = row["partitions"][:1]
    mine = value_at(log, at)["activeTasks"]
    same = next((one for one in mine if one["subtopologyId"] == row["subtopologyId"]), None)
    if same is None:
        mine.append(row)
    else:
        same["partitions"] = sorted({*same["partitions"], *row["partitions"]})
    return injection_at(log, at)


@fault
def swapped_targets(log: Log, rng: random.Random) -> Injection:
    """Two members get each other's target, where they differ and the load stays the same."""
    pairs = []
    for i in values(log, TARGET):
        for j in operation_of(log, i):
            if j <= i or log[j].kind != TARGET or log[j].value is None:
                continue
            sizes = [
                [len(row["partitions"]) for row in value_at(log, k)["activeTasks"]] for k in (i, j)
            ]
            if sizes[0] != sizes[1] or value_at(log, i) == value_at(log, j):
                continue
            if _exact(log, i) and not any(value_at(log, k)["standbyTasks"] for k in (i, j)):
                pairs.append((i, j))
    one, other = pick(rng, pairs)
    a, b = copy.deepcopy(value_at(log, one)), copy.deepcopy(value_at(log, other))
    value_at(log, one).update(b)
    value_at(log, other).update(a)
    return injection_at(log, one)


@fault
def standby_task_lost(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, [i for i in _with(log, TARGET, "standbyTasks") if _exact(log, i)])
    value = value_at(log, at)
    _remove(value, "standbyTasks", *pick(rng, list(_tasks(value, "standbyTasks"))))
    return injection_at(log, at)


@fault
def warmup_task_in_target(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _with(log, TARGET, "activeTasks"))
    value = value_at(log, at)
    value["warmupTasks"] = copy.deepcopy(value["activeTasks"][:1])
    return injection_at(log, at)


@fault
def assignment_misses_a_task(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _with(log, CURRENT, "activeTasks"))
    value = value_at(log, at)
    _remove(value, "activeTasks", *pick(rng, list(_tasks(value, "activeTasks"))))
    return injection_at(log, at)


@fault
def assignment_misses_a_standby(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _with(log, CURRENT, "standbyTasks"))
    value = value_at(log, at)
    _remove(value, "standbyTasks", *pick(rng, list(_tasks(value, "standbyTasks"))))
    return injection_at(log, at)


@fault
def emptied_assignment(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _with(log, CURRENT, "activeTasks"))
    value_at(log, at)["activeTasks"] = []
    return injection_at(log, at)


@fault
def standby_becomes_active(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, _with(log, CURRENT, "standbyTasks"))
    value = value_at(log, at)
    row, place = pick(rng, list(_tasks(value, "standbyTasks")))
    name, number = _remove(value, "standbyTasks", row, place)
    new: dict[str, Any] = {"subtopologyId": name, "partitions": [number]}
    if any(one.get("assignmentEpochs") for one in value["activeTasks"]):
        new["assignmentEpochs"] = [value["memberEpoch"]]
    same = next((one for one in value["activeTasks"] if one["subtopologyId"] == name), None)
    if same is None:
        value["activeTasks"].append(new)
    else:
        same["partitions"].append(number)
        if same.get("assignmentEpochs"):
            same["assignmentEpochs"].append(value["memberEpoch"])
    return injection_at(log, at)


@fault
def task_with_two_owners(log: Log, rng: random.Random) -> Injection:
    held: dict[tuple[str, str], Rows] = {}
    places = []
    for i, item in enumerate(log):
        if item.kind != CURRENT:
            continue
        owner = (item.group, item.member)
        others = [r for o, rows in held.items() if o[0] == item.group and o != owner for r in rows]
        if item.value is not None and others:
            places.append((i, copy.deepcopy(others[:1])))
        held[owner] = copy.deepcopy((item.value or {}).get("activeTasks", []))
    at, rows = pick(rng, places)
    value_at(log, at)["activeTasks"] = rows
    return injection_at(log, at)


@fault
def revocation_skipped(log: Log, rng: random.Random) -> Injection:
    """A member moves on without having given up what it had to."""
    at = pick(rng, _with(log, CURRENT, "activeTasksPendingRevocation"))
    value = value_at(log, at)
    value["activeTasksPendingRevocation"] = []
    return injection_at(log, at)


def _first_move(log: Log) -> int:
    """Where a member first goes to another process; the end of the log if none does."""
    processes: dict[str, str] = {}
    for at in values(log, MEMBER):
        process = value_at(log, at)["processId"]
        if processes.setdefault(log[at].member, process) != process:
            return at
    return len(log)


@fault
def wrong_member_state(log: Log, rng: random.Random) -> Injection:
    """Not after a member went to another process: what then blocks a task is not in the records."""
    end = _first_move(log)
    places = [i for i in values(log, CURRENT) if i < end and value_at(log, i)["memberEpoch"] > 0]
    at = pick(rng, places)
    value = value_at(log, at)
    value["state"] = pick(rng, [state for state in (1, 2, 3) if state != value["state"]])
    return injection_at(log, at)


@fault
def wrong_assignment_epoch(log: Log, rng: random.Random) -> Injection:
    rows = [
        (i, row)
        for i in values(log, CURRENT)
        for row in value_at(log, i)["activeTasks"]
        if row.get("assignmentEpochs")
    ]
    at, row = pick(rng, rows)
    row["assignmentEpochs"][rng.randrange(len(row["assignmentEpochs"]))] += rng.choice((-1, 1))
    return injection_at(log, at)


def _drop(kind: str, where: Callable[[Log, int], bool] = lambda log, at: True) -> Fault:
    def drop(log: Log, rng: random.Random) -> Injection:
        # An operation of one record leaves no trace, nor does the end of the log.
        places = [
            i
            for i in values(log, kind)
            if len(operation_of(log, i)) > 1 and operation_of(log, i)[-1] != i and where(log, i)
        ]
        at = pick(rng, places)
        found = injection_at(log, at)
        lost = drop_record(log, at)
        return Injection(
            lost, found.group, found.partition, found.place, found.first, found.last - 1
        )

    return drop


def _joins(log: Log, at: int) -> bool:
    before = previous(log, at)
    return before is None or before.value is None


STREAMS_FAULTS["lost_target_epoch"] = _drop(
    TARGET_EPOCH, lambda log, at: log[at - 1].kind == TARGET and log[at - 1].value is not None
)
STREAMS_FAULTS["lost_member"] = _drop(MEMBER, _joins)
STREAMS_FAULTS["lost_group_epoch"] = _drop(
    GROUP, lambda log, at: log[operation_of(log, at)[0]].kind == MEMBER
)
STREAMS_FAULTS["lost_topology"] = _drop(TOPOLOGY)


@fault
def lost_member_tombstone(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, [i for i, e in enumerate(log) if e.kind == TARGET and e.value is None])
    begin, found = operation_start(log, at), injection_at(log, at)
    lost = drop_record(log, at)
    return Injection(lost, found.group, found.partition, found.place, begin, found.last - 1)


@fault
def duplicated_record(log: Log, rng: random.Random) -> Injection:
    kinds = (GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY)
    at = pick(rng, [i for i, e in enumerate(log) if e.kind in kinds and e.value is not None])
    begin = operation_start(log, at)
    twice = log[at]._replace(offset=log[at].offset + 1)
    return injection_at(insert_record(log, at + 1, twice), at + 1, begin)


@fault
def bump_without_cause(log: Log, rng: random.Random) -> Injection:
    """A new epoch as an operation of its own, in which nothing changes."""
    at = pick(rng, values(log, GROUP))
    record = copy.deepcopy(log[at].record)
    record["value"]["data"]["epoch"] += 1
    edited, place = append_operation(log, at, record)
    return injection_at(edited, place)


@fault
def hash_changes_by_leaving(log: Log, rng: random.Random) -> Injection:
    leaves = [i for i in values(log, GROUP) if log[operation_of(log, i)[0]].value is None]
    at = pick(rng, [i for i in leaves if value_at(log, i)["metadataHash"]])
    value_at(log, at)["metadataHash"] += rng.randint(1, 1 << 40)
    return injection_at(log, at)


@fault
def wrong_metadata_hash(log: Log, rng: random.Random) -> Injection:
    """Of three epochs with one hash, the one in the middle, when a member joins. Where a topic is
    missing, it may have come and gone."""
    places = []
    for i in values(log, GROUP):
        bumps = [j for j in group_of(log, i) if log[j].kind == GROUP]
        three = bumps[max(bumps.index(i) - 1, 0) : bumps.index(i) + 2]
        same = len(three) == 3 and all(log[j].value is not None for j in three)
        if same and len({value_at(log, j)["metadataHash"] for j in three}) == 1:
            ready = all((value_at(log, j).get("validatedTopologyEpoch") or 0) >= 0 for j in three)
            joins = log[operation_of(log, i)[0]].kind == MEMBER
            if ready and joins and _exact(log, i) and value_at(log, i)["metadataHash"]:
                places.append(i)
    at = pick(rng, places)
    value_at(log, at)["metadataHash"] += rng.randint(1, 1 << 40)
    return injection_at(log, at)


@fault
def unknown_topology_epoch(log: Log, rng: random.Random) -> Injection:
    at = pick(
        rng, [i for i in values(log, GROUP) if value_at(log, i).get("validatedTopologyEpoch") == 0]
    )
    value_at(log, at)["validatedTopologyEpoch"] = rng.randint(1, 5)
    return injection_at(log, at)


@fault
def target_of_unknown_member(log: Log, rng: random.Random) -> Injection:
    at = pick(rng, values(log, TARGET))
    record = copy.deepcopy(log[at].record)
    record["key"]["data"]["memberId"] = "nobody"
    stranger = log[at]._replace(record=record, member="nobody", offset=log[at].offset + 1)
    begin = operation_start(log, at)
    return injection_at(insert_record(log, at + 1, stranger), at + 1, begin)
