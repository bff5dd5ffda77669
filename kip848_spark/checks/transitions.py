"""Whether a member's next assignment is one that the reconciliation can reach (facts B).

What a client acknowledged is in no record. So every answer it may have given is tried on the
reference's state machine, in every release that may have written the log: one must explain what
is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kip848_spark.coordinator.consumer_group import STATIC_LEAVE, ConsumerGroup, Member
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.reconcile import Goal, Owned, reconcile
from kip848_spark.coordinator.records import Json, Partitions
from kip848_spark.coordinator.releases import Release

Places = dict[str, frozenset[int]]
Gained = tuple[Mapping[str, Mapping[int, int]], Mapping[str, Mapping[int, int]]]
"""Assignment epochs of what is assigned, and of what is pending revocation."""


class Said(NamedTuple):
    """What a record of key 8 says."""

    value: Json
    assigned: Places
    pending: Places

    @classmethod
    def of(cls, value: Json) -> Said:
        """From the record's value."""
        assigned = places(value["assignedPartitions"])
        return cls(value, assigned, places(value["partitionsPendingRevocation"]))


class Situation(NamedTuple):
    """What a member stood before when its record was written."""

    group: ConsumerGroup
    releases: Sequence[Release]
    subscription_changed: bool
    topics: set[str]
    """Ids of those that the member has, or shall have."""
    must_mask: frozenset[str]
    """Topic ids the member does not ask for."""
    may_mask: frozenset[str]
    """Topic ids that may not have existed then, or whose names are not known."""


def places(rows: Sequence[Json]) -> Places:
    """Partitions by topic, of a record's list."""
    return {row["topicId"]: frozenset(row["partitions"]) for row in rows if row["partitions"]}


def epochs_of(rows: Sequence[Json]) -> dict[str, dict[int, int]]:
    """Assignment epochs by partition, of a record's list; empty where none are kept."""
    found = {}
    for row in rows:
        epochs = row.get("assignmentEpochs")
        if epochs is not None and len(epochs) == len(row["partitions"]):
            found[row["topicId"]] = dict(zip(row["partitions"], epochs, strict=True))
    return found


def seen_as(member: Member, *, epochs: bool) -> Json:
    """A member's assignment in a form that can be compared and shown."""
    shown: Json = {
        "memberEpoch": member.epoch,
        "previousMemberEpoch": member.previous_epoch,
        "state": int(member.state),
        "assigned": _sorted(member.assigned),
        "pendingRevocation": _sorted(member.pending),
    }
    if epochs:
        shown["assignmentEpochs"] = _epochs(member.assigned, member.pending)
    return shown


def recorded_as(value: Json, *, epochs: bool) -> Json:
    """As `seen_as`, of the value of a record."""
    assigned, pending = value["assignedPartitions"], value["partitionsPendingRevocation"]
    shown: Json = {
        "memberEpoch": value["memberEpoch"],
        "previousMemberEpoch": value["previousMemberEpoch"],
        "state": value["state"],
        "assigned": _sorted(places(assigned)),
        "pendingRevocation": _sorted(places(pending)),
    }
    if epochs:
        shown["assignmentEpochs"] = _epochs(*_said_gained(value))
    return shown


def _sorted(partitions: Mapping[str, Any]) -> dict[str, list[int]]:
    return {topic: sorted(partitions[topic]) for topic in sorted(partitions) if partitions[topic]}


def _epochs(*lists: Mapping[str, Mapping[int, int]]) -> list[tuple[str, int, int]]:
    return sorted((t, n, at) for held in lists for t, ns in held.items() for n, at in ns.items())


def reachable(member: Member, said: Said, situation: Situation) -> tuple[bool, list[Json]]:
    """Whether what is ``said`` can follow ``member``; if not, all that can."""
    value = said.value
    epochs = all(release.partition_epochs for release in situation.releases)
    if value["memberEpoch"] == STATIC_LEAVE:
        if member.instance_id is None:
            return False, []
        left = _left(member, epochs=epochs)
        return left == recorded_as(value, epochs=epochs), [left]
    gained = _said_gained(value) if epochs else None
    changes = not _is(member, said, gained)  # what changes nothing is not written
    tried = []
    for after in _steps(member, said.assigned, situation):
        if changes and _is(after, said, gained):
            return True, []
        tried.append(after)
    seen = [seen_as(member, epochs=epochs)]
    for after in tried:
        shown = seen_as(after, epochs=epochs)
        if shown not in seen:
            seen.append(shown)
    return False, seen[1:]


def _is(member: Member, said: Said, gained: Gained | None) -> bool:
    """Whether a member is as it is ``said`` to be, as comparing `recorded_as` with `seen_as`, which
    make more of it. ``gained``: since which epochs it has its partitions; None if that is not kept.
    """
    value = said.value
    if (
        member.epoch != value["memberEpoch"]
        or member.state != value["state"]
        or member.previous_epoch != value["previousMemberEpoch"]
        or not _are(member.assigned, said.assigned)
        or not _are(member.pending, said.pending)
    ):
        return False
    held = (member.assigned, member.pending)
    return gained is None or held == gained or _epochs(*held) == _epochs(*gained)


def _are(held: Partitions, recorded: Places) -> bool:
    return sum(map(bool, held.values())) == len(recorded) and all(
        held.get(topic, _NONE).keys() == numbers for topic, numbers in recorded.items()
    )


_NONE: dict[int, int] = {}


def _said_gained(value: Json) -> Gained:
    return epochs_of(value["assignedPartitions"]), epochs_of(value["partitionsPendingRevocation"])


def _left(member: Member, *, epochs: bool) -> Json:
    """A static member that went for a while keeps what it has."""
    shown = seen_as(member, epochs=epochs)
    shown |= {"memberEpoch": STATIC_LEAVE, "pendingRevocation": {}}
    if epochs:
        shown["assignmentEpochs"] = [(topic, n, 0) for topic, n, _ in _epochs(member.assigned)]
    return shown


def _steps(member: Member, recorded: Places, situation: Situation) -> Iterator[Member]:
    group = situation.group
    target = group.target_of(member.member_id)
    asked_for = situation.topics - situation.must_mask
    asks = [asked_for]
    doubtful = (situation.may_mask & asked_for) - recorded.keys()
    if doubtful:
        asks.append(asked_for - doubtful)
    changes = (False, True) if situation.subscription_changed else (False,)
    for release in situation.releases:
        for subscribed in asks if release.masks_lost_topics else [None]:
            for changed in changes:
                goal = Goal(
                    group.target_epoch, target, subscribed, changed, group.owner_epoch, release
                )
                for owned in _answers(member):
                    try:
                        after = reconcile(member, goal, owned)
                    except GroupError:
                        continue
                    if after is not member:
                        yield after


def _answers(member: Member) -> Iterator[Owned]:
    """What the client may have said that it owns, the likeliest first."""
    yield {}
    yield None
    yield {topic: set(numbers) for topic, numbers in member.assigned.items()}
