"""Whether the reconciliation can lead to a member's recorded assignment (KIP-848, "Member
Reconciliation"; docs/kafka-facts.md#reconciliation).

No record says what a client acknowledged. So every acknowledgement that it may have sent is tried
on the reference's state machine, in every release that may have written the log: one of them must
give the recorded assignment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kip848_spark.coordinator.consumer_group import STATIC_LEAVE, ConsumerGroup, Member
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.reconcile import Goal, Owned, reconcile
from kip848_spark.coordinator.records import Json, Partitions
from kip848_spark.coordinator.releases import Release

PartitionSets = dict[str, frozenset[int]]
AssignmentEpochs = tuple[Mapping[str, Mapping[int, int]], Mapping[str, Mapping[int, int]]]
"""Topic id -> partition -> assignment epoch, of the assigned partitions and of those that are
pending revocation."""


class RecordedAssignment(NamedTuple):
    """A value of key 8, with its partitions by topic id."""

    value: Json
    assigned: PartitionSets
    pending: PartitionSets

    @classmethod
    def of(cls, value: Json) -> RecordedAssignment:
        """From the record's value."""
        assigned = partitions_by_topic(value["assignedPartitions"])
        return cls(value, assigned, partitions_by_topic(value["partitionsPendingRevocation"]))


class Situation(NamedTuple):
    """What a member's assignment depended on when its record was written."""

    group: ConsumerGroup
    releases: Sequence[Release]
    subscription_changed: bool
    topics: set[str]
    """Ids of the topics in the member's assignment or target."""
    must_mask: frozenset[str]
    """Those to which the member does not subscribe."""
    may_mask: frozenset[str]
    """Those that may not have existed at the time, or whose names are not known."""


def partitions_by_topic(rows: Sequence[Json]) -> PartitionSets:
    """The partitions in a list of a record, by topic id."""
    return {row["topicId"]: frozenset(row["partitions"]) for row in rows if row["partitions"]}


def epochs_of(rows: Sequence[Json]) -> dict[str, dict[int, int]]:
    """The assignment epochs in a list of a record, by topic id and partition; empty before 4.3."""
    found = {}
    for row in rows:
        epochs = row.get("assignmentEpochs")
        if epochs is not None and len(epochs) == len(row["partitions"]):
            found[row["topicId"]] = dict(zip(row["partitions"], epochs, strict=True))
    return found


def show_member(member: Member, *, epochs: bool) -> Json:
    """A member's assignment as JSON that can be compared and shown. ``epochs``: with its assignment
    epochs."""
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


def show_recorded(value: Json, *, epochs: bool) -> Json:
    """As `show_member`, of a value of key 8."""
    assigned, pending = value["assignedPartitions"], value["partitionsPendingRevocation"]
    shown: Json = {
        "memberEpoch": value["memberEpoch"],
        "previousMemberEpoch": value["previousMemberEpoch"],
        "state": value["state"],
        "assigned": _sorted(partitions_by_topic(assigned)),
        "pendingRevocation": _sorted(partitions_by_topic(pending)),
    }
    if epochs:
        shown["assignmentEpochs"] = _epochs(*_recorded_epochs(value))
    return shown


def _sorted(partitions: Mapping[str, Any]) -> dict[str, list[int]]:
    return {topic: sorted(partitions[topic]) for topic in sorted(partitions) if partitions[topic]}


def _epochs(*lists: Mapping[str, Mapping[int, int]]) -> list[tuple[str, int, int]]:
    return sorted((t, n, at) for held in lists for t, ns in held.items() for n, at in ns.items())


def reachable(
    member: Member, recorded: RecordedAssignment, situation: Situation
) -> tuple[bool, list[Json]]:
    """Whether the ``recorded`` assignment can follow the member's current one; if not, also all
    assignments that can."""
    value = recorded.value
    epochs = all(release.partition_epochs for release in situation.releases)
    if value["memberEpoch"] == STATIC_LEAVE:
        if member.instance_id is None:
            return False, []
        left = _left(member, epochs=epochs)
        return left == show_recorded(value, epochs=epochs), [left]
    since = _recorded_epochs(value) if epochs else None
    changes = not _equals(member, recorded, since)  # a coordinator writes only changes
    tried = []
    for after in _next_states(member, recorded.assigned, situation):
        if changes and _equals(after, recorded, since):
            return True, []
        tried.append(after)
    shown = [show_member(member, epochs=epochs)]
    for after in tried:
        one = show_member(after, epochs=epochs)
        if one not in shown:
            shown.append(one)
    return False, shown[1:]


def _equals(member: Member, recorded: RecordedAssignment, since: AssignmentEpochs | None) -> bool:
    """Whether a member has the ``recorded`` assignment. The same as to compare `show_recorded` with
    `show_member`, but faster. ``since``: the recorded assignment epochs; None before 4.3."""
    value = recorded.value
    if (
        member.epoch != value["memberEpoch"]
        or member.state != value["state"]
        or member.previous_epoch != value["previousMemberEpoch"]
        or not _same_partitions(member.assigned, recorded.assigned)
        or not _same_partitions(member.pending, recorded.pending)
    ):
        return False
    owned = (member.assigned, member.pending)
    return since is None or owned == since or _epochs(*owned) == _epochs(*since)


def _same_partitions(owned: Partitions, recorded: PartitionSets) -> bool:
    return sum(map(bool, owned.values())) == len(recorded) and all(
        owned.get(topic, _NONE).keys() == numbers for topic, numbers in recorded.items()
    )


_NONE: dict[int, int] = {}


def _recorded_epochs(value: Json) -> AssignmentEpochs:
    return epochs_of(value["assignedPartitions"]), epochs_of(value["partitionsPendingRevocation"])


def _left(member: Member, *, epochs: bool) -> Json:
    """A static member that leaves temporarily keeps its assignment."""
    shown = show_member(member, epochs=epochs)
    shown |= {"memberEpoch": STATIC_LEAVE, "pendingRevocation": {}}
    if epochs:
        shown["assignmentEpochs"] = [(topic, n, 0) for topic, n, _ in _epochs(member.assigned)]
    return shown


def _next_states(member: Member, recorded: PartitionSets, situation: Situation) -> Iterator[Member]:
    group = situation.group
    target = group.target_of(member.member_id)
    subscribed_topics = situation.topics - situation.must_mask
    subscriptions = [subscribed_topics]
    uncertain = (situation.may_mask & subscribed_topics) - recorded.keys()
    if uncertain:
        subscriptions.append(subscribed_topics - uncertain)
    changes = (False, True) if situation.subscription_changed else (False,)
    for release in situation.releases:
        for subscribed in subscriptions if release.masks_lost_topics else [None]:
            for changed in changes:
                goal = Goal(
                    group.target_epoch, target, subscribed, changed, group.owner_epoch, release
                )
                for owned in _acknowledgements(member):
                    try:
                        after = reconcile(member, goal, owned)
                    except GroupError:
                        continue
                    if after is not member:
                        yield after


def _acknowledgements(member: Member) -> Iterator[Owned]:
    """The partitions that the client may have sent as owned, the likeliest first; None if it sent
    no list."""
    yield {}
    yield None
    yield {topic: set(numbers) for topic, numbers in member.assigned.items()}
