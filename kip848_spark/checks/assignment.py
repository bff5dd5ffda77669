"""A member's current assignment (key 8): ownership, epochs, and the transition to it."""

from __future__ import annotations

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import HEARTBEAT, REJOIN, OperationPart
from kip848_spark.checks.release import reconciling
from kip848_spark.checks.results import CRITICAL, EPOCHS, GAP, OWNERSHIP, TRANSITIONS
from kip848_spark.checks.transitions import (
    RecordedAssignment,
    Situation,
    reachable,
    show_member,
    show_recorded,
)
from kip848_spark.coordinator import records
from kip848_spark.coordinator.consumer_group import JOIN, STATIC_LEAVE, Member
from kip848_spark.coordinator.records import Json


def check_assignment(
    audited: AuditedGroup, part: OperationPart, entry: LogEntry, replaced: Member | None
) -> None:
    """Checks a value of key 8. ``replaced``: the static member that this one replaces, if any."""
    assert entry.value is not None
    recorded = RecordedAssignment.of(entry.value)
    _check_ownership(audited, entry, recorded)
    _check_epochs(audited, entry, entry.value)
    _check_transition(audited, part, entry, recorded, replaced)


def _check_ownership(audited: AuditedGroup, entry: LogEntry, recorded: RecordedAssignment) -> None:
    value, assigned, pending = recorded.value, recorded.assigned, recorded.pending
    in_both_lists = [
        (topic, number)
        for topic in assigned.keys() & pending.keys()
        for number in assigned[topic] & pending[topic]
    ]
    member, owners = entry.member, audited.owners
    taken = {
        (topic, number): owner
        for owned in (assigned, pending)
        for topic, numbers in owned.items()
        for number in numbers
        if (owner := owners.get((topic, number), member)) != member
    }
    if taken:
        (topic, number), owner = min(taken.items())
        audited.tally.add_disagreement(
            OWNERSHIP,
            "two_owners",
            entry,
            {"owner": owner, "partition": [topic, number]},
            show_recorded(value, epochs=False),
            severity=CRITICAL,
        )
    elif in_both_lists:
        topic, number = min(in_both_lists)
        audited.tally.add_disagreement(
            OWNERSHIP,
            "assigned_and_revoked",
            entry,
            {"partition": [topic, number]},
            show_recorded(value, epochs=False),
            severity=CRITICAL,
        )
    elif audited.complete:
        audited.tally.add_verified(OWNERSHIP)
    else:
        audited.tally.add_unverifiable(OWNERSHIP, GAP)


def _check_epochs(audited: AuditedGroup, entry: LogEntry, value: Json) -> None:
    """Member epoch <= target epoch <= group epoch, and the member epoch never decreases."""
    group = audited.consumer
    epoch = value["memberEpoch"]
    if group is None or not (audited.knows(records.GROUP) and audited.knows(records.TARGET_EPOCH)):
        audited.tally.add_unverifiable(EPOCHS, GAP)
        return
    old = group.members.get(entry.member)
    floor = old.epoch if old is not None and epoch != STATIC_LEAVE else epoch
    if not floor <= epoch <= group.target_epoch <= group.epoch:
        audited.tally.add_disagreement(
            EPOCHS,
            "member_epoch",
            entry,
            {"least": floor, "target": group.target_epoch, "group": group.epoch},
            epoch,
        )
    else:
        audited.tally.add_verified(EPOCHS)


def _check_transition(
    audited: AuditedGroup,
    part: OperationPart,
    entry: LogEntry,
    recorded: RecordedAssignment,
    replaced: Member | None,
) -> None:
    if part.name == REJOIN:
        _check_rejoin(audited, entry, replaced)
        return
    member = audited.member(entry.member)
    known = audited.knows(*entry.key) and audited.knows(records.TARGET_MEMBER, entry.member)
    known = (
        known
        and audited.knows(records.TARGET_EPOCH)
        and audited.knows(records.MEMBER, entry.member)
    )
    if member is None or not known:
        audited.tally.add_unverifiable(TRANSITIONS, GAP)
        return
    found, possible = reachable(member, recorded, _situation(audited, part, entry, member))
    if found:
        audited.tally.add_verified(TRANSITIONS)
    elif not audited.complete:
        # A member that was not read may own a partition that this one waits for.
        audited.tally.add_unverifiable(TRANSITIONS, GAP)
    else:
        epochs = audited.every_release(lambda release: release.partition_epochs)
        audited.tally.add_disagreement(
            TRANSITIONS,
            "unreachable",
            entry,
            {"from": show_member(member, epochs=epochs), "to one of": possible},
            show_recorded(recorded.value, epochs=epochs),
        )


def _check_rejoin(audited: AuditedGroup, entry: LogEntry, replaced: Member | None) -> None:
    """A static member that rejoins with a new id takes over the assignment of the old one, at
    epoch 0."""
    if replaced is None or not audited.knows(records.CURRENT, replaced.member_id):
        audited.tally.add_unverifiable(TRANSITIONS, GAP)
        return
    assert entry.value is not None
    before = show_member(replaced, epochs=False)
    expected = before | {"memberEpoch": JOIN, "previousMemberEpoch": JOIN}
    recorded = show_recorded(entry.value, epochs=False)
    if expected == recorded:
        audited.tally.add_verified(TRANSITIONS)
        return
    audited.tally.add_disagreement(
        TRANSITIONS,
        "static_rejoin",
        entry,
        {"from": before, "replaced": replaced.member_id, "to one of": [expected]},
        recorded,
    )


def _situation(
    audited: AuditedGroup, part: OperationPart, entry: LogEntry, member: Member
) -> Situation:
    group = audited.consumer
    assert group is not None
    ids = group.target_of(member.member_id).keys() | member.assigned.keys() | member.pending.keys()
    subscribed = group.topics_of(member)
    names, listed = audited.known_topics.names, audited.known_topics.listed
    must, may = set(), set()
    for topic_id in ids:
        name = names.get(topic_id)
        if name is None:
            may.add(topic_id)
        elif name not in subscribed:
            must.add(topic_id)
        elif name not in listed or listed[name].topic_id != topic_id:
            may.add(topic_id)
    changed = part.name != HEARTBEAT or any(e.member == entry.member for e in part.of("5"))
    releases = reconciling(audited.releases)
    return Situation(group, releases, changed, ids, frozenset(must), frozenset(may))
