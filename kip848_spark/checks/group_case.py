"""A group under audit: its state as the reference replays it, and what of that state is known.

What was never seen is not known to be absent. So beside the state stand the pieces that have been
seen since the log was last whole, and whether *all* members are among them (the census).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.results import Tally
from kip848_spark.checks.state import Reference
from kip848_spark.checks.topics import KnownTopics, Prover
from kip848_spark.coordinator import records
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.shard import Shard

Place = tuple[str, int]


@dataclass
class Case:
    """One group: judged against what the reference makes of its records.

    After records that may be missing, or that no broker would load, the case begins anew with a
    reference of its own, and the other goes on as it was.
    """

    group_id: str
    known: KnownTopics
    releases: tuple[Release, ...]
    tally: Tally
    sure: bool = True
    """No record before the operation at hand can be missing without being superseded."""
    census: bool = True
    """What is not in the state does not exist."""
    reference: Reference = field(init=False)
    prover: Prover = field(init=False)
    seen: set[tuple[str, str]] = field(default_factory=set)
    """Keys whose newest record is in the state."""
    owners: dict[Place, str] = field(default_factory=dict)
    held: dict[str, frozenset[Place]] = field(default_factory=dict)
    rejoined: set[str] = field(default_factory=set)
    """Members that took a static member's place in the operation at hand."""
    began: int | None = None
    """The epoch of the group, if it was there, when the operation at hand began."""
    generation: int | None = None
    """The last generation on record while the group was classic."""

    def __post_init__(self) -> None:
        self.reference = Reference(self.group_id, self.releases)
        self.prover = Prover(self.known)

    # What the group is

    @property
    def shard(self) -> Shard:
        """What the reference holds: this group, and no other."""
        return self.reference.shard

    @property
    def consumer(self) -> ConsumerGroup | None:
        """The group, if it is of the new protocol."""
        group = self.reference.shard.groups.get(self.group_id)
        return group if isinstance(group, ConsumerGroup) else None

    @property
    def classic(self) -> ClassicGroup | None:
        """The group, if it is a classic one. On record it may still be one without a type, though
        members have joined."""
        group = self.shard.groups.get(self.group_id)
        return group if isinstance(group, ClassicGroup) else None

    def member(self, member_id: str) -> Member | None:
        """A member, if it is there."""
        group = self.consumer
        return None if group is None else group.members.get(member_id)

    def knows(self, kind: str, member: str = "") -> bool:
        """Whether the newest record of this key is in the state, or there is none."""
        return self.census or (kind, member) in self.seen

    def may_be(self, asks: Callable[[Release], bool]) -> bool:
        """Whether some release that may have written this answers yes."""
        return any(asks(release) for release in self.releases)

    def must_be(self, asks: Callable[[Release], bool]) -> bool:
        """Whether every release that may have written this answers yes."""
        return all(asks(release) for release in self.releases)

    # What happens to it

    def written_by(self, releases: tuple[Release, ...]) -> None:
        """The log goes on in these releases."""
        if releases == self.releases:
            return
        self.releases = releases
        self.reference.written_by(releases[-1])

    def apply(self, entry: Entry) -> str | None:
        """Replay a record; what a broker would say if it refused to load it."""
        fault = self.reference.replay(entry)
        self.seen.add(entry.key)
        if self.census and entry.kind == records.MEMBER and entry.value is None:
            # Members come and go under ever new ids.
            gone = (records.MEMBER, records.TARGET_MEMBER, records.CURRENT)
            self.seen.difference_update((kind, entry.member) for kind in gone)
        if entry.kind == records.CURRENT or (entry.kind == records.MEMBER and entry.value is None):
            self.hold(entry.member)
        if entry.kind == records.CLASSIC_GROUP or (
            entry.kind == records.GROUP and entry.value is None
        ):
            self._begin_anew(entry)
        return fault

    def _begin_anew(self, entry: Entry) -> None:
        """A group ended or was replaced: from here on all of it is known."""
        value = entry.value
        if value is not None:
            self.generation = value["generation"]
        elif entry.kind == records.GROUP:
            self.generation = None
        if self.sure:
            self.census = True
        self.seen.clear()
        self.owners.clear()
        self.held.clear()

    def hold(self, member_id: str) -> None:
        """Bring the owners up to what a member holds now."""
        for place in self.held.pop(member_id, frozenset()):
            if self.owners.get(place) == member_id:
                del self.owners[place]
        member = self.member(member_id)
        if member is None:
            return
        places = frozenset(
            (topic, number)
            for held in (member.assigned, member.pending)
            for topic, numbers in held.items()
            for number in numbers
        )
        self.held[member_id] = places
        for place in places:
            self.owners[place] = member_id

    def doubt(self, *, forget: bool) -> None:
        """Records may be missing here; ``forget``: even what was seen may be gone by now."""
        self.sure = False
        self.census = False
        self.prover.proven = None
        if forget:
            self.forget()

    def forget(self) -> None:
        """Nothing is known of the group any more."""
        self.reference = Reference(self.group_id, self.releases)
        self.census = False
        self.seen.clear()
        self.owners.clear()
        self.held.clear()
        self.generation = None
        self.prover.proven = None
