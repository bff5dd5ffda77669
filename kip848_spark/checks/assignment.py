"""A member's current assignment (key 8): how it got there, at which epoch, and what it owns."""

from __future__ import annotations

from kip848_spark.checks.group_case import Case
from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.operations import HEARTBEAT, REJOIN, Part
from kip848_spark.checks.results import CRITICAL, EPOCHS, GAP, OWNERSHIP, TRANSITIONS
from kip848_spark.checks.transitions import (
    Said,
    Situation,
    reachable,
    recorded_as,
    seen_as,
)
from kip848_spark.coordinator import records
from kip848_spark.coordinator.consumer_group import JOIN, STATIC_LEAVE, Member
from kip848_spark.coordinator.records import Json


def judge_current(case: Case, part: Part, entry: Entry, left: Member | None) -> None:
    """A value of key 8. ``left``: the static member that this one takes the place of."""
    assert entry.value is not None
    said = Said.of(entry.value)
    _ownership(case, entry, said)
    _epochs(case, entry, entry.value)
    _transition(case, part, entry, said, left)


def _ownership(case: Case, entry: Entry, said: Said) -> None:
    value, assigned, pending = said.value, said.assigned, said.pending
    both = [
        (topic, number)
        for topic in assigned.keys() & pending.keys()
        for number in assigned[topic] & pending[topic]
    ]
    member, owners = entry.member, case.owners
    taken = {
        (topic, number): owner
        for held in (assigned, pending)
        for topic, numbers in held.items()
        for number in numbers
        if (owner := owners.get((topic, number), member)) != member
    }
    if taken:
        (topic, number), owner = min(taken.items())
        name = case.known.name_of(topic) or topic
        case.tally.wrong(
            OWNERSHIP,
            entry,
            f"Partition {name}-{number} has two owners from here on, {owner} and {entry.member}: "
            "both may process its records; restart one of the two consumers.",
            {"owner": owner, "partition": [topic, number]},
            recorded_as(value, epochs=False),
            severity=CRITICAL,
        )
    elif both:
        topic, number = min(both)
        case.tally.wrong(
            OWNERSHIP,
            entry,
            f"Partition {case.known.name_of(topic) or topic}-{number} is assigned to the member "
            "and being taken from it at once: a broker refuses to load that. Restart that consumer "
            "before any broker, so that a newer record takes this one's place.",
            "disjoint lists",
            recorded_as(value, epochs=False),
            severity=CRITICAL,
        )
    elif case.census:
        case.tally.right(OWNERSHIP)
    else:
        case.tally.unknown(OWNERSHIP, GAP)


def _epochs(case: Case, entry: Entry, value: Json) -> None:
    """Member epoch <= target epoch <= group epoch, and never back."""
    group = case.consumer
    epoch = value["memberEpoch"]
    if group is None or not (case.knows(records.GROUP) and case.knows(records.TARGET_EPOCH)):
        case.tally.unknown(EPOCHS, GAP)
        return
    old = group.members.get(entry.member)
    floor = old.epoch if old is not None and epoch != STATIC_LEAVE else epoch
    if not floor <= epoch <= group.target_epoch <= group.epoch:
        case.tally.wrong(
            EPOCHS,
            entry,
            f"The member's epoch is {epoch}, which must be from {floor} up to the target's, "
            f"{group.target_epoch}, and that up to the group's, {group.epoch}: the member will be "
            "fenced or commit what it does not own; restart that consumer.",
            {"least": floor, "target": group.target_epoch, "group": group.epoch},
            epoch,
        )
    else:
        case.tally.right(EPOCHS)


def _transition(case: Case, part: Part, entry: Entry, said: Said, left: Member | None) -> None:
    if part.name == REJOIN:
        _rejoined(case, entry, left)
        return
    member = case.member(entry.member)
    known = case.knows(*entry.key) and case.knows(records.TARGET_MEMBER, entry.member)
    known = known and case.knows(records.TARGET_EPOCH) and case.knows(records.MEMBER, entry.member)
    if member is None or not known:
        case.tally.unknown(TRANSITIONS, GAP)
        return
    found, possible = reachable(member, said, _situation(case, part, entry, member))
    if found:
        case.tally.right(TRANSITIONS)
    elif not case.census:
        case.tally.unknown(TRANSITIONS, GAP)  # a member that was not seen may own what it waits for
    else:
        epochs = case.must_be(lambda release: release.partition_epochs)
        case.tally.wrong(
            TRANSITIONS,
            entry,
            "No answer of the client brings the member from its last record to this one: the "
            f"coordinator can only have written one of {len(possible)} others; compare that "
            "consumer's own log at this time, and restart it if it is stuck.",
            {"from": seen_as(member, epochs=epochs), "to one of": possible},
            recorded_as(said.value, epochs=epochs),
        )


def _rejoined(case: Case, entry: Entry, left: Member | None) -> None:
    """A static member under a new id takes over what the old one had, at epoch 0."""
    if left is None or not case.knows(records.CURRENT, left.member_id):
        case.tally.unknown(TRANSITIONS, GAP)
        return
    assert entry.value is not None
    expected = seen_as(left, epochs=False) | {"memberEpoch": JOIN, "previousMemberEpoch": JOIN}
    recorded = recorded_as(entry.value, epochs=False)
    if expected == recorded:
        case.tally.right(TRANSITIONS)
        return
    case.tally.wrong(
        TRANSITIONS,
        entry,
        f"This static member takes the place of {left.member_id} and must be given what that one "
        "had; what is missing stays unread until the group rebalances: restart one consumer.",
        expected,
        recorded,
    )


def _situation(case: Case, part: Part, entry: Entry, member: Member) -> Situation:
    group = case.consumer
    assert group is not None
    ids = group.target_of(member.member_id).keys() | member.assigned.keys() | member.pending.keys()
    asked = group.topics_of(member)
    names, listed = case.known.names, case.known.listed
    must, may = set(), set()
    for topic_id in ids:
        name = names.get(topic_id)
        if name is None:
            may.add(topic_id)
        elif name not in asked:
            must.add(topic_id)
        elif name not in listed or listed[name].topic_id != topic_id:
            may.add(topic_id)
    changed = part.name != HEARTBEAT or any(e.member == entry.member for e in part.of("5"))
    return Situation(group, case.releases, changed, ids, frozenset(must), frozenset(may))
