"""A group under audit: its state as the reference replays it, and how much of that state is known.

A record that was not read may still exist. So the state comes with the keys that were read since
the last gap, and with a flag that says whether those are all there are (`AuditedGroup.complete`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import Finding, Tally
from kip848_spark.checks.state import Reference
from kip848_spark.checks.stateful import Stateful
from kip848_spark.checks.topics import KnownTopics, Prover
from kip848_spark.coordinator import records
from kip848_spark.coordinator.assignors import ASSIGNORS, Assignor
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member, Targets
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.shard import Shard

OwnedPartition = tuple[str, int]
"""Topic id and partition."""


@dataclass
class DefaultTargets(Stateful):
    """Targets of several members none of which asked for an assignor: the broker's default one has
    computed them."""

    STATE = ("verified",)
    verified: int = 0
    contradicted: list[tuple[Tally, Finding]] = field(default_factory=list)


@dataclass
class AuditedGroup(Stateful):
    """The state of one group, as the reference replays it, and the tally of the checks on it.

    Where records may be missing, and after a record that no broker would load, the group starts
    over with a new reference; `GroupAudit.reference` goes on with the old one.
    """

    STATE = (
        "releases", "past_gaps", "complete", "seen", "owners", "owned", "generation",
    )  # fmt: skip
    group_id: str
    known_topics: KnownTopics
    releases: tuple[Release, ...]
    """Every release that may have written the operation that is being checked."""
    tally: Tally
    configured: InitVar[Mapping[str, Assignor | None] | None] = None
    """The brokers' setting ``group.consumer.assignors``; None if it is not known."""
    past_gaps: bool = True
    """True once the log cleaner cannot have removed a record that still matters."""
    complete: bool = True
    """True if all of the group was read: what is not in the state does not exist."""
    default_assignor: str | None = field(init=False, default=None)
    """The assignor of groups in which no member asks for one; None if it is not known."""
    assignors: Mapping[str, Assignor] = field(init=False)
    """By name, the assignors whose targets can be judged."""
    reference: Reference = field(init=False)
    prover: Prover = field(init=False)
    seen: set[tuple[str, str]] = field(default_factory=set)
    """Keys whose newest record is in the state."""
    owners: dict[OwnedPartition, str] = field(default_factory=dict)
    """The member that owns each partition: it is assigned, or its revocation is pending."""
    owned: dict[str, frozenset[OwnedPartition]] = field(default_factory=dict)
    """The same, by member."""
    rejoined: set[str] = field(default_factory=set)
    """Members that replaced a static member in this operation."""
    epoch_before: int | None = None
    """The group's epoch before this operation; None if there was no consumer group."""
    targets_before: Targets | None = None
    """The group's targets before this operation, if it has computed new ones."""
    default_targets: DefaultTargets = field(init=False)
    generation: int | None = None
    """The newest generation on record while the group was a classic one."""

    def __post_init__(self, configured: Mapping[str, Assignor | None] | None) -> None:
        self.assignors = ASSIGNORS
        if configured is not None:
            self.default_assignor = next(iter(configured))
            given = {name: one for name, one in configured.items() if one is not None}
            self.assignors = {**ASSIGNORS, **given}
        self.reference = Reference(self.group_id, self.releases)
        self.prover = Prover(self.known_topics)
        self.default_targets = DefaultTargets()

    # The group's state

    @property
    def shard(self) -> Shard:
        """The reference's coordinator shard, which holds this group and no other."""
        return self.reference.shard

    @property
    def consumer(self) -> ConsumerGroup | None:
        """The group, if it is a consumer group."""
        group = self.reference.shard.groups.get(self.group_id)
        return group if isinstance(group, ConsumerGroup) else None

    @property
    def classic(self) -> ClassicGroup | None:
        """The group, if it is a classic one. Its protocol type may be missing on record even
        though members have joined."""
        group = self.shard.groups.get(self.group_id)
        return group if isinstance(group, ClassicGroup) else None

    def member(self, member_id: str) -> Member | None:
        """A member of the consumer group; None if there is no such member."""
        group = self.consumer
        return None if group is None else group.members.get(member_id)

    def knows(self, kind: str, member: str = "") -> bool:
        """Whether the state holds the newest record of this key, or no such record exists."""
        return self.complete or (kind, member) in self.seen

    def any_release(self, predicate: Callable[[Release], bool]) -> bool:
        """Whether ``predicate`` holds for some release that may have written this operation."""
        return any(predicate(release) for release in self.releases)

    def every_release(self, predicate: Callable[[Release], bool]) -> bool:
        """Whether ``predicate`` holds for every release that may have written this operation."""
        return all(predicate(release) for release in self.releases)

    # Changes of the state

    def set_releases(self, releases: tuple[Release, ...]) -> None:
        """Sets the releases that may have written the operations from here on."""
        if releases == self.releases:
            return
        self.releases = releases
        self.reference.set_releases(releases)

    def apply(self, entry: LogEntry) -> str | None:
        """Replays a record. Returns why a broker would refuse to load it; None if it would not."""
        fault = self.reference.replay(entry)
        self.seen.add(entry.key)
        if self.complete and entry.kind == records.MEMBER and entry.value is None:
            # Members come with ever new ids: without this, `seen` would grow without bound.
            gone = (records.MEMBER, records.TARGET_MEMBER, records.CURRENT)
            self.seen.difference_update((kind, entry.member) for kind in gone)
        if entry.kind == records.CURRENT or (entry.kind == records.MEMBER and entry.value is None):
            self._update_owners(entry.member)
        if entry.kind == records.CLASSIC_GROUP or (
            entry.kind == records.GROUP and entry.value is None
        ):
            self._start_over(entry)
        return fault

    def _start_over(self, entry: LogEntry) -> None:
        """The group ended or was replaced: no earlier record matters from here on."""
        value = entry.value
        if value is not None:
            self.generation = value["generation"]
        elif entry.kind == records.GROUP:
            self.generation = None
        if self.past_gaps:
            self.complete = True
        self._clear()

    def _clear(self) -> None:
        self.seen.clear()
        self.owners.clear()
        self.owned.clear()

    def _update_owners(self, member_id: str) -> None:
        """Brings `owners` up to date with the member's assignment."""
        for partition in self.owned.pop(member_id, frozenset()):
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        member = self.member(member_id)
        if member is None:
            return
        owned = frozenset(
            (topic, number)
            for assignment in (member.assigned, member.pending)
            for topic, numbers in assignment.items()
            for number in numbers
        )
        self.owned[member_id] = owned
        for partition in owned:
            self.owners[partition] = member_id

    def begin_anew(self) -> None:
        """The coordinator had forgotten the group, which was empty, without a record: a new group
        of this id begins."""
        self.reference = Reference(self.group_id, self.releases)
        self._clear()

    def mark_gap(self, *, forget: bool) -> None:
        """Records may be missing here. With ``forget``, tombstones of records that were read may
        be among them, so nothing that was read counts any more."""
        self.past_gaps = False
        self.complete = False
        self.prover.proven = None
        if forget:
            self.forget()

    def forget(self) -> None:
        """Drops the state: nothing is known of the group any more."""
        self.reference = Reference(self.group_id, self.releases)
        self.complete = False
        self._clear()
        self.generation = None
        self.prover.proven = None
