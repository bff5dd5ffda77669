"""A streams group under audit: its state, how much of it is known, and who may have written it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import LEAVE
from kip848_spark.checks.results import Finding, Tally
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.streams_operations import StreamsPart
from kip848_spark.coordinator import streams_group as streams
from kip848_spark.coordinator.releases import RELEASES, Release
from kip848_spark.coordinator.streams_group import StreamsGroup, StreamsMember, Tasks

ALL = tuple(release for release in RELEASES.values() if release.metadata_hash)
"""The releases that have streams groups."""


@dataclass
class AuditedStreams(Stateful):
    """The state of one streams group, as its records give it, and the tally of its checks."""

    STATE = (
        "releases", "group", "complete", "past_gaps", "seen", "left", "left_seen", "moved",
        "newcomers", "moving", "left_target", "computed", "tasks_of_hash",
        "by_sticky",
    )  # fmt: skip

    group_id: str
    releases: tuple[Release, ...]
    """Every release that may have written the operation that is being checked."""
    tally: Tally
    group: StreamsGroup = field(init=False)
    complete: bool = True
    """True if all of the group was read: what is not in the state does not exist."""
    past_gaps: bool = True
    """True once the log cleaner cannot have removed a record that still matters."""
    seen: set[tuple[str, str]] = field(default_factory=set)
    """Keys whose newest record is in the state."""
    left: dict[str, StreamsMember] = field(default_factory=dict)
    """Members whose tombstones are being read, as they were before."""
    left_seen: set[tuple[str, str]] = field(default_factory=set)
    """Of `seen`, what was known of them."""
    moved: bool = False
    """Whether a member went to another process, which real clients do not do. From then on a
    process may have a task twice."""
    newcomers: set[str] = field(default_factory=set)
    """Members whose first known record came after a gap: they may have gone to another process with
    it."""
    moving: dict[str, Tasks] = field(default_factory=dict)
    """The members that go to another process in the present operation, with the tasks that this
    process had before the operation: a broker compares with these."""
    displaced: dict[str, StreamsMember] = field(default_factory=dict)
    """The member that had the id under which a static member returned in this operation."""
    left_target: Tasks | None = None
    """The target that the member of an operation's first record had before the operation."""
    computed: dict[str, Tasks] = field(default_factory=dict)
    """The newest target as it was computed, with members that have left since."""
    tasks_of_hash: dict[int, dict[str, int]] = field(default_factory=dict)
    """The numbers of tasks by subtopology that went with a metadata hash of this topology."""
    by_another: list[tuple[Tally, Finding]] = field(default_factory=list)
    """Targets that the sticky assignor does not compute, where another one may be configured."""
    by_sticky: int = 0
    """Targets of several members that only the sticky assignor explains."""

    def __post_init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """There is no group any more, or nothing is known of it."""
        self.group = StreamsGroup(self.group_id)
        self.seen.clear()
        self.newcomers.clear()
        self.tasks_of_hash.clear()
        self.computed = {}
        self.moved = False

    def knows(self, kind: str, member: str = "") -> bool:
        """Whether the state has the newest record of a key, or there is none."""
        return self.complete or (kind, member) in self.seen

    def knows_process(self, member_id: str) -> bool:
        """Whether the process of a member is known, and that it has been there since it joined."""
        return (streams.MEMBER, member_id) in self.seen and member_id not in self.newcomers

    def member(self, member_id: str) -> StreamsMember | None:
        """The member, if it joined."""
        return self.group.members.get(member_id)

    def any_release(self, has: Callable[[Release], bool]) -> bool:
        """Whether a release that may have written the operation behaves so."""
        return any(map(has, self.releases))

    def narrow(self, part: StreamsPart) -> None:
        """Leave out the releases that cannot have written a part. If none could, the cluster was
        up- or downgraded."""
        signs = _signs(part)
        if not signs:
            return
        fitting = tuple(r for r in self.releases if all(sign(r) for sign in signs))
        self.releases = fitting or tuple(r for r in ALL if all(sign(r) for sign in signs)) or ALL

    def replay(self, entry: LogEntry) -> None:
        """Apply a record."""
        if entry.kind == streams.GROUP and entry.value is None:
            self.begin_anew()
            self.complete = self.complete or self.past_gaps
            return
        group = self.group
        if entry.kind == streams.TOPOLOGY and entry.value != group.topology:
            self.tasks_of_hash.clear()
        if entry.kind == streams.CURRENT and entry.value is None:
            # The member stays until its own tombstone, with nothing.
            if (old := group.members.get(entry.member)) is not None:
                self.left = {entry.member: old}
                self.left_seen = {entry.key} & self.seen
                group.put_member(old._replace(assigned=Tasks(), pending=Tasks()))
            return
        if entry.kind == streams.MEMBER and entry.value is not None and entry.key in self.seen:
            before = group.members.get(entry.member)
            process = entry.value["processId"]
            if before is not None and before.process_id != process:
                self.moved = True
                self.moving[entry.member] = group.holders.tasks_of(process)
        if entry.kind == streams.MEMBER and entry.value is None:
            self.newcomers.discard(entry.member)
        elif entry.kind == streams.MEMBER and not self.knows(*entry.key):
            self.newcomers.add(entry.member)
        self.seen.add(entry.key)
        group.replay(entry.kind, entry.member, entry.value)
        if entry.kind == streams.TARGET_EPOCH:
            self.computed = dict(group.targets)


def _with_configs(release: Release) -> bool:
    return release.streams_configs


def _without_configs(release: Release) -> bool:
    return not release.streams_configs


def _with_times(release: Release) -> bool:
    return release.assignment_interval


def _with_static_members(release: Release) -> bool:
    return release.streams_static_members


_TASKS = (streams.ROLES[0], streams.PENDING_ROLES[0])


def _signs(part: StreamsPart) -> list[Callable[[Release], bool]]:
    """What the releases that wrote a part have in common."""
    signs: list[Callable[[Release], bool]] = []
    for entry in part.entries:
        value = entry.value
        if value is None:
            continue
        if entry.kind == streams.GROUP:
            if has_configs(entry):
                signs.append(_with_configs)
            elif part.name != LEAVE:  # which copies what an older release wrote
                signs.append(_without_configs)
        elif entry.kind == streams.TARGET_EPOCH and value.get("assignmentTimestamp"):
            signs.append(_with_times)
        elif entry.kind == streams.MEMBER and value.get("instanceId") is not None:
            signs.append(_with_static_members)
        elif entry.kind == streams.CURRENT and any(
            row.get("assignmentEpochs") for name in _TASKS for row in value.get(name) or ()
        ):
            signs.append(_with_configs)
    return signs


def has_configs(entry: LogEntry) -> bool:
    """Whether a value of key 17 was written by 4.2 or later."""
    value = entry.value or {}
    validated = value.get("validatedTopologyEpoch")
    return bool(value.get("lastAssignmentConfigs")) or (validated or -1) >= 0 or validated == 0
