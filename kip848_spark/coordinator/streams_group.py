"""The streams group and its members (KIP-1071), as the records of key types 17 to 23 build them.

A *task* is a partition of a subtopology. A member holds each of its tasks in a *role*: an active
task processes records, a standby task keeps a copy of an active task's state, and a warm-up task
builds up such a copy before the active task moves to the member. Members of one *process* share
their local state, so a process holds a task at most once. See docs/kafka-facts.md#streams-groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kip848_spark.coordinator.faults import GroupError, ReplayError
from kip848_spark.coordinator.javahash import TimelineOrder
from kip848_spark.coordinator.records import Json, Record, record
from kip848_spark.coordinator.streams_topology import ConfiguredTopology, required_topics

GROUP = "17"
MEMBER = "19"
TARGET_EPOCH = "20"
TARGET = "21"
CURRENT = "22"
TOPOLOGY = "23"

JOIN, LEAVE, STATIC_LEAVE = 0, -1, -2
NO_TOPOLOGY = -1
"""Validated topology epoch of a group whose topology is not ready."""
ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
PENDING_ROLES = tuple(f"{role}PendingRevocation" for role in ROLES)

Task = tuple[str, int]
"""Subtopology id and partition."""
TaskSet = frozenset[Task]
TaskEpochs = Mapping[Task, int]
"""Of active tasks: the target epoch at which the member got each."""


class TaskState(IntEnum):
    """A member's progress towards its target (the state byte of key 22)."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class Tasks(NamedTuple):
    """Tasks by role."""

    active: TaskSet = frozenset()
    standby: TaskSet = frozenset()
    warmup: TaskSet = frozenset()

    @classmethod
    def of(cls, value: Mapping[str, Any], names: Sequence[str] = ROLES) -> Tasks:
        """From the fields ``names`` of a record or request; a missing or null list is empty."""
        return cls._make(
            frozenset(
                (row["subtopologyId"], number)
                for row in value.get(name) or ()
                for number in row["partitions"]
            )
            for name in names
        )

    def __bool__(self) -> bool:
        return any(map(len, self))

    def within(self, other: Tasks) -> bool:
        """Whether ``other`` has all of these tasks, in the same roles."""
        return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))

    def meets(self, other: Tasks) -> bool:
        """Whether ``other`` has any of these tasks in the same role."""
        return any(not mine.isdisjoint(theirs) for mine, theirs in zip(self, other, strict=True))


NO_TASKS = Tasks()
_NO_EPOCHS: TaskEpochs = {}


class StreamsMember(NamedTuple):
    """A member: what it reported of itself (key 19) and the tasks that it holds (key 22)."""

    member_id: str
    metadata: Json
    """The value of key 19."""
    epoch: int = 0
    previous_epoch: int = 0
    state: int = TaskState.STABLE
    assigned: Tasks = NO_TASKS
    pending: Tasks = NO_TASKS
    """Tasks pending revocation: the member still holds them and must give them up."""
    since: TaskEpochs = _NO_EPOCHS

    @property
    def process_id(self) -> str:
        """The process that the member runs in."""
        found: str = self.metadata["processId"]
        return found

    @property
    def instance_id(self) -> str | None:
        """The name of a static member (from 4.4)."""
        return self.metadata.get("instanceId")

    def at_epoch(
        self, epoch: int, state: TaskState, assigned: Tasks, pending: Tasks, target_epoch: int
    ) -> StreamsMember:
        """The member with other tasks; its present epoch becomes the previous one. Active tasks
        that are new have the ``target_epoch`` as their assignment epoch."""
        active = assigned.active | pending.active
        since = {task: self.since.get(task, target_epoch) for task in active}
        return self._replace(
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            pending=pending,
            since=since,
        )


class Holders:
    """Which members hold each task in each role, and in which processes the coordinator believes it
    to be: the members' assigned tasks and those that they must still give up.

    Like a broker, it does not count how many members of a process hold a task. If two do, which
    needs a member that changed its process, then the first one that gives the task up takes the
    process off the task, until a record of the other one puts it there again.
    """

    def __init__(self) -> None:
        self._members: tuple[dict[Task, set[str]], ...] = ({}, {}, {})
        self._processes: tuple[dict[Task, set[str]], ...] = ({}, {}, {})

    def replace(self, old: StreamsMember | None, new: StreamsMember | None) -> None:
        """A member's tasks or process have changed; ``None`` stands for a member that does not
        exist."""
        for role, (members, processes) in enumerate(
            zip(self._members, self._processes, strict=True)
        ):
            before = frozenset() if old is None else old.assigned[role] | old.pending[role]
            after = frozenset() if new is None else new.assigned[role] | new.pending[role]
            if old is not None:
                for task in before - after:
                    members[task].discard(old.member_id)
                for task in before:
                    processes[task].discard(old.process_id)
            if new is not None:
                for task in after - before:
                    members.setdefault(task, set()).add(new.member_id)
                for task in after:
                    processes.setdefault(task, set()).add(new.process_id)

    def of(self, role: int, task: Task) -> Iterable[str]:
        """The members that hold a task; ``role`` is a position in `Tasks`."""
        return self._members[role].get(task, ())

    def tasks_of(self, process_id: str) -> Tasks:
        """The tasks that the coordinator believes a process to have."""
        return Tasks._make(
            frozenset(task for task, found in processes.items() if process_id in found)
            for processes in self._processes
        )

    def in_process(self, role: int, task: Task, process_id: str) -> bool:
        """Whether the coordinator believes that a process has a task in a role."""
        return process_id in self._processes[role].get(task, ())


class StreamsGroup:
    """A group of the streams protocol."""

    type = "streams"

    def __init__(self, group_id: str, first_epoch: int = 0) -> None:
        self.group_id = group_id
        self.epoch = first_epoch
        self.target_epoch = first_epoch
        self.target_timestamp = 0
        self.metadata_hash = 0
        self.validated_epoch = NO_TOPOLOGY
        self.configs: dict[str, str] = {}
        """Assignment settings at the last bump."""
        self.descriptions = (-1, -1)
        """Epochs of the topologies whose description is stored, or could not be (from 4.4)."""
        self.topology: Json | None = None
        """The value of key 23."""
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}
        self.holders = Holders()
        # What only the running coordinator knows:
        self.configured: ConfiguredTopology | None = None
        """The topology with the topics that exist; None after loading."""
        self.sizes_after: int | None = None
        """The end of the log when the first heartbeat after the one with the topology began. Once
        the log is longer, descriptions show the sizes of internal topics."""
        self.metadata_deadline = 0
        self.delayed = False
        """Whether the first target waits for more members."""
        self.computed: dict[str, Tasks] = {}
        """The newest target as it was computed, with members that have left since."""
        self._order = TimelineOrder()
        self._static: dict[str, str] = {}
        """Instance id to the id of the static member that has it."""

    @property
    def state(self) -> str:
        """The group's state, by Kafka's name."""
        if not self.members:
            return "Empty"
        if self.configured is not None and not self.configured.ready:
            return "NotReady"
        if self.target_epoch < self.epoch:
            return "Assigning"
        for member in self.members.values():
            if member.state != TaskState.STABLE or member.epoch != self.target_epoch:
                return "Reconciling"
        return "Stable"

    def topic_names(self) -> set[str]:
        """The topics that the topology needs."""
        return set() if self.topology is None else required_topics(self.topology)

    def walk_members(self) -> list[str]:
        """Member ids in the order in which a broker iterates its hash table of members."""
        return self._order.walk(self.members)

    # State

    def member(self, member_id: str) -> StreamsMember:
        """The member of that id. Raises UNKNOWN_MEMBER_ID."""
        try:
            return self.members[member_id]
        except KeyError:
            raise GroupError("UNKNOWN_MEMBER_ID", f"no member {member_id!r}") from None

    def target_of(self, member_id: str) -> Tasks:
        """A member's target; empty if there is none."""
        return self.targets.get(member_id, NO_TASKS)

    def static_member(self, instance_id: str) -> StreamsMember | None:
        """The static member with that instance id, if any."""
        member_id = self._static.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def put_member(self, member: StreamsMember) -> None:
        """Store a new or changed member."""
        self._forget_instance(self.members.get(member.member_id))
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self.holders.replace(self.members.get(member.member_id), member)
        self._order.record_put(len(self.members))
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Remove a member and its tasks."""
        removed = self.members.pop(member_id, None)
        self._forget_instance(removed)
        self.holders.replace(removed, None)

    def _forget_instance(self, member: StreamsMember | None) -> None:
        if member is not None and member.instance_id is not None:
            self._static.pop(member.instance_id, None)

    # Replay

    def replay(self, kind: str, member_id: str, value: Json | None) -> None:
        """Apply a record of the group; a tombstone has no ``value``. Raises ReplayError where a
        broker would."""
        if kind == GROUP:
            self._replay_group(value)
        elif kind == MEMBER:
            self._replay_member(member_id, value)
        elif kind == TARGET_EPOCH:
            self.target_epoch = -1 if value is None else value["assignmentEpoch"]
            self.target_timestamp = 0 if value is None else value.get("assignmentTimestamp") or 0
        elif kind == TARGET:
            if value is None:
                self.targets.pop(member_id, None)
            else:
                self.targets[member_id] = Tasks.of(value)
        elif kind == CURRENT:
            self._replay_current(member_id, value)
        elif kind == TOPOLOGY:
            self.topology = value

    def _replay_group(self, value: Json | None) -> None:
        if value is None:
            if self.members:
                raise ReplayError(f"group {self.group_id!r} is removed but has members")
            return
        self.epoch = value["epoch"]
        self.metadata_hash = value.get("metadataHash") or 0
        validated = value.get("validatedTopologyEpoch")
        self.validated_epoch = NO_TOPOLOGY if validated is None else validated
        self.configs = configs_of(value)
        self.descriptions = descriptions_of(value)

    def _replay_member(self, member_id: str, value: Json | None) -> None:
        if value is None:
            self.remove_member(member_id)
            return
        old = self.members.get(member_id) or StreamsMember(member_id, value)
        self.put_member(old._replace(metadata=value))

    def _replay_current(self, member_id: str, value: Json | None) -> None:
        old = self.members.get(member_id)
        if value is None:
            if old is not None:
                self.put_member(StreamsMember(member_id, old.metadata, LEAVE, LEAVE))
            return
        metadata = {"processId": ""} if old is None else old.metadata
        self.put_member(member_of(member_id, metadata, value))


def member_of(member_id: str, metadata: Json, value: Json) -> StreamsMember:
    """The member that a value of key 22 describes."""
    epoch = value["memberEpoch"]
    return StreamsMember(
        member_id,
        metadata,
        epoch,
        value["previousMemberEpoch"],
        value["state"],
        Tasks.of(value),
        Tasks.of(value, PENDING_ROLES),
        epochs_of(value, epoch),
    )


def configs_of(value: Json) -> dict[str, str]:
    """The assignment settings in a value of key 17 (from 4.2)."""
    return {row["key"]: row["value"] for row in value.get("lastAssignmentConfigs") or ()}


def descriptions_of(value: Json) -> tuple[int, int]:
    """Which descriptions of the topology a value of key 17 says are stored, or could not be."""
    names = ("storedDescriptionTopologyEpoch", "failedDescriptionTopologyEpoch")
    stored, failed = (value.get(name) for name in names)
    return -1 if stored is None else stored, -1 if failed is None else failed


def epochs_of(value: Json, epoch: int) -> dict[Task, int]:
    """The assignment epochs of active tasks in a value of key 22; the member ``epoch`` where none
    are recorded (before 4.2)."""
    found: dict[Task, int] = {}
    for name in (ROLES[0], PENDING_ROLES[0]):
        for row in value.get(name) or ():
            numbers, epochs = row["partitions"], row.get("assignmentEpochs")
            if epochs is None or len(epochs) != len(numbers):
                epochs = [epoch] * len(numbers)
            found |= {(row["subtopologyId"], n): e for n, e in zip(numbers, epochs, strict=True)}
    return found


# Records


def task_rows(tasks: TaskSet, since: TaskEpochs | None = None) -> list[Json]:
    """Tasks as records and responses list them. ``since``: with assignment epochs."""
    numbers: dict[str, list[int]] = {}
    for subtopology, number in sorted(tasks):
        numbers.setdefault(subtopology, []).append(number)
    rows: list[Json] = []
    for subtopology, partitions in numbers.items():
        row: Json = {"subtopologyId": subtopology, "partitions": partitions}
        if since is not None:
            row["assignmentEpochs"] = [since[subtopology, number] for number in partitions]
        rows.append(row)
    return rows


def target_record(group_id: str, member_id: str, tasks: Tasks) -> Record:
    """Key 21: the target of one member."""
    value = {name: task_rows(one) for name, one in zip(ROLES, tasks, strict=True)}
    return record(TARGET, 0, {"groupId": group_id, "memberId": member_id}, value)


def current_record(group_id: str, member: StreamsMember, *, epochs: bool) -> Record:
    """Key 22: a member's epochs and tasks. ``epochs``: with those of active tasks (from 4.2)."""
    since = member.since if epochs else None
    value: Json = {
        "memberEpoch": member.epoch,
        "previousMemberEpoch": member.previous_epoch,
        "state": int(member.state),
    }
    for names, tasks in ((ROLES, member.assigned), (PENDING_ROLES, member.pending)):
        for role, name in enumerate(names):
            value[name] = task_rows(tasks[role], None if role else since)
    return record(CURRENT, 0, {"groupId": group_id, "memberId": member.member_id}, value)
