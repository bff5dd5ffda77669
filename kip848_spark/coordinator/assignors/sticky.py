"""The sticky task assignor of streams groups (from 4.2; docs/kafka-facts.md#streams-assignor).

It keeps active tasks where they were, else moves them to a member with a standby of the task, else
to the least loaded process; then it places standby tasks in the same manner. Which of two equals
wins depends on the order of Java's hash tables and heaps, which are reproduced here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kip848_spark.coordinator.javahash import HashTable, string_hash, table_size
from kip848_spark.coordinator.streams_group import Task, Tasks


class StickyMember(NamedTuple):
    """A member as the assignor sees it."""

    member_id: str
    process_id: str
    target: Tasks
    """Its target before."""


class StickySpec(NamedTuple):
    """A group as the assignor sees it."""

    members: Sequence[StickyMember]
    """In the order in which the broker visits them."""
    subtopologies: Mapping[str, int]
    """Subtopology id to its number of tasks."""
    stateful: frozenset[str]
    """Subtopologies whose tasks can have standby tasks."""
    standbys: int
    """Standby tasks that each stateful task shall have."""


class StickyRules(NamedTuple):
    """How releases differ."""

    skips_own_process: bool = True
    """A standby is not given to a process that has the task: earlier holders in such a process are
    passed over (4.2.2, 4.4); before, they could keep others from getting it (KAFKA-20899)."""
    computes_processes: bool = False
    """The table of processes is filled with ``computeIfAbsent`` (4.4), not ``putIfAbsent``."""


class _Heap:
    """Java's ``PriorityQueue``."""

    def __init__(self, less: Callable[[Any, Any], bool]) -> None:
        self._items: list[Any] = []
        self._less = less

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: Any) -> None:
        items, at = self._items, len(self._items)
        items.append(item)
        while at:
            parent = (at - 1) // 2
            if not self._less(item, items[parent]):
                break
            items[at] = items[parent]
            at = parent
        items[at] = item

    def poll(self) -> Any:
        items = self._items
        first, last = items[0], items.pop()
        if not items:
            return first
        at, half = 0, len(items) // 2
        while at < half:
            child = 2 * at + 1
            if child + 1 < len(items) and self._less(items[child + 1], items[child]):
                child += 1
            if not self._less(items[child], last):
                break
            items[at] = items[child]
            at = child
        items[at] = last
        return first


@dataclass(slots=True)
class _Process:
    """A process: its members with the number of their tasks, and its tasks."""

    process_id: str
    counts: dict[str, int] = field(default_factory=dict)
    """Members in the order of their hash table."""
    tasks: set[Task] = field(default_factory=set)
    total: int = 0
    heap: _Heap | None = None

    def less(self, other: _Process) -> bool:
        """Whether this process has the lower load. Products of integers avoid rounding."""
        return self.total * len(other.counts) < other.total * len(self.counts)

    def least(self) -> str:
        """The member with the fewest tasks, which is about to get one."""
        if len(self.counts) == 1:
            return next(iter(self.counts))
        if self.heap is None:
            self.heap = _Heap(lambda a, b: a[1] < b[1])
            for entry in self.counts.items():
                self.heap.add(entry)
        member, count = self.heap.poll()
        self.heap.add((member, count + 1))
        return str(member)

    def grant(self, member: str, task: Task) -> None:
        self.counts[member] += 1
        self.tasks.add(task)
        self.total += 1


class _Quota:
    """How many tasks a member may have: the rest of the tasks over the rest of the members."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.least = 0
        self._divide()

    def _divide(self) -> None:
        self.least = -(-self._tasks // self._members) if self._members else 0

    def reached(self, count: int) -> None:
        if count == self.least:
            self._tasks -= count
            self._members -= 1
            self._divide()


class _Assignment:
    def __init__(self, spec: StickySpec, rules: StickyRules) -> None:
        self.spec, self.rules = spec, rules
        self.process_of = {m.member_id: m.process_id for m in spec.members}
        self.processes = {p: _Process(p) for p in dict.fromkeys(self.process_of.values())}
        for process in self.processes.values():
            own = [m for m, p in self.process_of.items() if p == process.process_id]
            process.counts = dict.fromkeys(HashTable(own, hash_of=string_hash), 0)
        self.previous_active: dict[Task, str] = {}
        self.previous_standby: dict[Task, list[str]] = {}
        for member in spec.members:
            self.previous_active |= dict.fromkeys(member.target.active, member.member_id)
            for task in member.target.standby:
                self.previous_standby.setdefault(task, []).append(member.member_id)
        self.active: dict[str, set[Task]] = {m.member_id: set() for m in spec.members}
        self.standby: dict[str, set[Task]] = {m.member_id: set() for m in spec.members}
        counts, members = spec.subtopologies, len(spec.members)
        actives = sum(counts.values())
        copies = sum(counts[name] for name in spec.stateful if name in counts) * spec.standbys
        self.active_quota = _Quota(actives, members)
        self.total_quota = _Quota(actives + copies, members)

    def count(self, member: str) -> int:
        return self.processes[self.process_of[member]].counts[member]

    def grant(self, member: str, task: Task, *, active: bool, direct: bool = True) -> None:
        process = self.processes[self.process_of[member]]
        (self.active if active else self.standby)[member].add(task)
        process.grant(member, task)
        if direct:
            process.heap = None
        count = process.counts[member]
        self.total_quota.reached(count)
        if active:
            self.active_quota.reached(count)

    def heap(self) -> _Heap:
        """All processes, by load."""
        ids = list(self.process_of.values())
        table: HashTable[str] = HashTable(start=table_size(len(ids)), hash_of=string_hash)
        for process_id in ids:
            if self.rules.computes_processes:
                table.compute(process_id)
            else:
                table.put(process_id)
        heap = _Heap(lambda a, b: a.less(b))
        for process_id in table:
            heap.add(self.processes[process_id])
        return heap

    def less_loaded(self, member: str, other: str) -> bool:
        mine, theirs = (self.processes[self.process_of[m]] for m in (member, other))
        return mine.less(theirs) and mine.counts[member] < theirs.counts[other]

    def has(self, member: str, task: Task) -> bool:
        """Whether the member's process has the task."""
        return task in self.processes[self.process_of[member]].tasks

    def least_loaded(self, members: Iterable[str]) -> str | None:
        best: str | None = None
        for member in members:
            if best is None or self.less_loaded(member, best):
                best = member
        return best

    def standby_holder(self, task: Task) -> str | None:
        """The earlier holder of a standby task that may get it again."""
        holders = self.previous_standby.get(task, [])
        if self.rules.skips_own_process:
            return self.least_loaded(m for m in holders if not self.has(m, task))
        if not holders or self.has(holders[0], task):
            return None
        best = holders[0]
        for member in holders[1:]:
            if self.less_loaded(member, best) and not self.has(member, task):
                best = member
        return best

    def assign_active(self) -> None:
        tasks = [(name, n) for name, count in self.spec.subtopologies.items() for n in range(count)]
        rest = []
        for task in sorted(tasks, key=lambda task: (task[1], task[0])):
            owner = self.previous_active.get(task)
            if owner is not None and self.count(owner) < self.active_quota.least:
                self.grant(owner, task, active=True)
            else:
                rest.append(task)
        last = []
        for task in rest:
            holder = self.least_loaded(self.previous_standby.get(task, ()))
            if holder is not None and self.count(holder) < self.active_quota.least:
                self.grant(holder, task, active=True)
            else:
                last.append(task)
        heap = self.heap()
        for task in sorted(last):
            process = heap.poll()
            self.grant(process.least(), task, active=True, direct=False)
            heap.add(process)

    def assign_standbys(self) -> None:
        names = (name for name in self.spec.subtopologies if name in self.spec.stateful)
        tasks = [(name, n) for name in names for n in range(self.spec.subtopologies[name])]
        queue: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda task: (task[1], task[0]), reverse=True):
            for given in range(self.spec.standbys):
                member = self._sticky_standby(task)
                if member is None:
                    queue.append((task, self.spec.standbys - given))
                    break
                self.grant(member, task, active=False)
        heap = self.heap()
        for task, replicas in sorted(queue, reverse=True):
            for _ in range(replicas):
                if not self._place_standby(heap, task):
                    break

    def _sticky_standby(self, task: Task) -> str | None:
        quota = self.total_quota.least
        owner = self.previous_active.get(task)
        if owner is not None and not self.has(owner, task) and self.count(owner) < quota:
            return owner
        holder = self.standby_holder(task)
        return holder if holder is not None and self.count(holder) < quota else None

    def _place_standby(self, heap: _Heap, task: Task) -> bool:
        """Give a standby to the least loaded process that lacks the task."""
        passed: list[_Process] = []
        placed = False
        while heap:
            process = heap.poll()
            passed.append(process)
            if task not in process.tasks:
                self.grant(process.least(), task, active=False, direct=False)
                placed = True
                break
        for process in reversed(passed):
            heap.add(process)
        return placed


def assign(spec: StickySpec, rules: StickyRules) -> dict[str, Tasks]:
    """The target of each member."""
    assignment = _Assignment(spec, rules)
    assignment.assign_active()
    if spec.standbys > 0 and spec.stateful:
        assignment.assign_standbys()
    return {
        m.member_id: Tasks(
            frozenset(assignment.active[m.member_id]), frozenset(assignment.standby[m.member_id])
        )
        for m in spec.members
    }
