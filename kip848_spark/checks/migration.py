"""Checks classic groups, and the conversions between the classic and the consumer protocol. See
docs/kafka-facts.md#migration."""

from __future__ import annotations

from typing import Any

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import OperationPart
from kip848_spark.checks.results import CRITICAL, GAP, MIGRATION
from kip848_spark.checks.transitions import partitions_by_topic
from kip848_spark.coordinator import records
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.consumer_protocol import (
    MalformedMetadataError,
    assignment_bytes,
    read_assignment,
)

NamedPartitions = set[tuple[str, int]]


class EndedConsumerGroup:
    """A consumer group as it was when its tombstones were written."""

    def __init__(self, group: ConsumerGroup, complete: bool, epoch_before: int | None) -> None:
        """``epoch_before``: the group's epoch before this operation."""
        self.complete = complete
        # A static member that is replaced by a classic one may bump the epoch, but the conversion
        # uses the epoch before. Two operations in one millisecond look the same.
        before = group.epoch if epoch_before is None else epoch_before
        self.epochs = sorted({group.epoch, before})
        self.classic = {member.member_id for member in group.classic_members}
        self.targets = {member: group.target_of(member) for member in group.members}


def check_upgrade(audited: AuditedGroup, part: OperationPart, classic: ClassicGroup | None) -> None:
    """Checks a conversion of a classic group to a consumer group: the new group takes over the
    members and their assignments."""
    bump = part.of(records.GROUP)[0]
    if not audited.complete:
        audited.tally.add_unverifiable(MIGRATION, GAP)
        return
    fault = "there was no classic group to convert"
    expected: Any = None
    recorded: Any = None
    if classic is not None:
        fault, expected, recorded = _upgrade_fault(audited, part, classic)
    if not fault:
        audited.tally.add_verified(MIGRATION)
        return
    audited.tally.add_disagreement(
        MIGRATION,
        bump,
        f"The group was converted to the consumer protocol, but {fault}. Members may be fenced or "
        "lose partitions: restart the group's consumers.",
        expected,
        recorded,
        member="",
    )


def _upgrade_fault(
    audited: AuditedGroup, part: OperationPart, classic: ClassicGroup
) -> tuple[str, Any, Any]:
    (bump, *_), (target, *_) = part.of(records.GROUP), part.of(records.TARGET_EPOCH)
    assert bump.value is not None
    assert target.value is not None
    generation = bump.value["epoch"]
    if generation < classic.generation:
        return "its epoch is lower than the classic generation", classic.generation, generation
    if target.value["assignmentEpoch"] != generation:
        return (
            "the epoch of its target differs from its own",
            generation,
            target.value["assignmentEpoch"],
        )
    # The members need not be those of the classic group's last record, which is written when the
    # leader has sent the assignments: members may have joined or left since.
    ids = sorted(entry.member for entry in part.of(records.MEMBER))
    for kind in (records.TARGET_MEMBER, records.CURRENT):
        found = sorted(entry.member for entry in part.of(kind))
        if found != ids:
            return f"its members do not match its records of key {kind}", ids, found
    for entry in part.of(records.CURRENT):
        fault = _member_fault(audited, entry, classic, generation)
        if fault[0]:
            return fault
    return "", None, None


def _member_fault(
    audited: AuditedGroup, entry: LogEntry, classic: ClassicGroup, generation: int
) -> tuple[str, Any, Any]:
    """Compares a member's key 8 in an upgrade with its classic assignment. Returns the fault ("" if
    there is none), what was expected, and what was found."""
    group, value = audited.consumer, entry.value
    assert group is not None
    assert value is not None
    epochs = (value["memberEpoch"], value["previousMemberEpoch"], value["state"])
    if epochs != (generation, generation, 0):
        return (
            f"{entry.member} is not stable at the group's epoch",
            (generation, generation, 0),
            epochs,
        )
    wanted = {t: sorted(n) for t, n in group.target_of(entry.member).items() if n}
    assigned = {t: sorted(n) for t, n in partitions_by_topic(value["assignedPartitions"]).items()}
    if assigned != wanted or value["partitionsPendingRevocation"]:
        return f"the assignment of {entry.member} is not its target", wanted, assigned
    since = {n for row in value["assignedPartitions"] for n in row.get("assignmentEpochs") or ()}
    if since - {generation}:
        return f"{entry.member} has a wrong assignment epoch", generation, sorted(since)
    member = classic.members.get(entry.member)
    before = _classic_assignment(member.assignment) if member is not None else set()
    now = _by_name(audited, assigned)
    if before is None or now is None:
        return "", None, None
    if not now <= before:
        return f"{entry.member} gained partitions", sorted(before), sorted(now)
    # In a later generation the leader may not have assigned anything yet. Partitions of a topic
    # that no longer exists are dropped.
    existing = _existing_topics(audited)
    if generation == classic.generation and {
        place for place in before - now if place[0] in existing
    }:
        return f"{entry.member} lost partitions", sorted(before), sorted(now)
    return "", None, None


def _existing_topics(audited: AuditedGroup) -> set[str]:
    """Names of topics that existed at the conversion: those that its hash or its key 4 is of; if
    they are not known, those in a target."""
    if audited.prover.proven is not None:
        return set(audited.prover.proven)
    group = audited.consumer
    assert group is not None
    names = (
        audited.known_topics.name_of(topic) for target in group.targets.values() for topic in target
    )
    return {name for name in names if name is not None}


def _classic_assignment(assignment: bytes) -> NamedPartitions | None:
    """The partitions of a classic member; None if its assignment is malformed."""
    try:
        rows = read_assignment(assignment).partitions
    except MalformedMetadataError:
        return None
    return {(topic, number) for topic, numbers in rows for number in numbers}


def _by_name(audited: AuditedGroup, partitions: dict[str, list[int]]) -> NamedPartitions | None:
    """Partitions with topic names instead of ids; None if a name is not known."""
    found = set()
    for topic_id, numbers in partitions.items():
        name = audited.known_topics.name_of(topic_id)
        if name is None:
            return None
        found |= {(name, number) for number in numbers}
    return found


def check_classic_record(
    audited: AuditedGroup, entry: LogEntry, ended: EndedConsumerGroup | None
) -> None:
    """Checks a value of key 2: a new generation, or the result of converting the consumer group
    ``ended``."""
    value = entry.value
    assert value is not None
    ids = sorted(member["memberId"] for member in value["members"] or ())
    if ids and value["leader"] not in ids:
        audited.tally.add_disagreement(
            MIGRATION,
            entry,
            "The leader of the classic group is not one of its members, so nobody will assign "
            "partitions at the next rebalance: restart the group's consumers.",
            ids,
            value["leader"],
            member="",
        )
        return
    if ended is None and audited.consumer is not None and audited.complete:
        audited.tally.add_disagreement(
            MIGRATION,
            entry,
            "This is a record of a classic group, but the group is a consumer group and was not "
            "deleted. A broker that loads this log loses the consumer group: look for a second "
            "writer.",
            "the consumer group's tombstones before it",
            entry.record,
            severity=CRITICAL,
            member="",
        )
        return
    if ended is not None:
        _check_downgrade(audited, entry, value, ids, ended)
        return
    known = audited.classic
    if known is None:
        if not audited.complete:
            audited.tally.add_unverifiable(MIGRATION, GAP)
        return
    if value["generation"] >= known.generation:
        audited.tally.add_verified(MIGRATION)
        return
    audited.tally.add_disagreement(
        MIGRATION,
        entry,
        f"Expected a classic generation of at least {known.generation}, found "
        f"{value['generation']}. The members will be fenced: look for a second writer or a lost "
        "record.",
        known.generation,
        value["generation"],
        member="",
    )


def _check_downgrade(
    audited: AuditedGroup,
    entry: LogEntry,
    value: dict[str, Any],
    ids: list[str],
    ended: EndedConsumerGroup,
) -> None:
    if not ended.complete:
        audited.tally.add_unverifiable(MIGRATION, GAP)
        return
    generations = ended.epochs if ids else [0]
    strangers = sorted(set(ids) - ended.classic)
    missing = sorted(ended.classic - set(ids)) if ids else []
    if value["generation"] in generations and not strangers and not missing:
        _check_assignments(audited, entry, value, ended)
        return
    audited.tally.add_disagreement(
        MIGRATION,
        entry,
        "The group was converted back to the classic protocol, but its generation is not the "
        "group's epoch, or its members are not the group's. The members will be fenced and must "
        "rejoin: check that they did.",
        {"generation": generations[0], "members": sorted(ended.classic)},
        {"generation": value["generation"], "members": ids},
        member="",
    )


def _check_assignments(
    audited: AuditedGroup, entry: LogEntry, value: dict[str, Any], ended: EndedConsumerGroup
) -> None:
    """Checks that each member of the classic group was assigned its target."""
    for member in value["members"] or ():
        assigned = _classic_assignment(assignment_bytes(member["assignment"]))
        target = ended.targets[member["memberId"]]
        wanted = _by_name(audited, {topic: sorted(numbers) for topic, numbers in target.items()})
        if assigned is None or wanted is None:
            continue
        # Partitions of a topic that was deleted since then are not assigned.
        existing = {topic for topic, _ in assigned} | {
            topic.name for topic in audited.known_topics.listed.values() if topic.topic_id in target
        }
        if assigned - wanted or {place for place in wanted - assigned if place[0] in existing}:
            audited.tally.add_disagreement(
                MIGRATION,
                entry,
                "The group was converted back to the classic protocol, but "
                f"the assignment of {member['memberId']} is not its target. Partitions stay unread "
                "or are read twice until the group rebalances: restart one consumer.",
                sorted(wanted),
                sorted(assigned),
                member=member["memberId"],
            )
            return
    audited.tally.add_verified(MIGRATION)
