"""Checks classic groups, and the conversions between the classic and the consumer protocol. See
docs/kafka-facts.md#migration."""

from __future__ import annotations

from typing import Any, NamedTuple

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import OperationPart
from kip848_spark.checks.results import CRITICAL, GAP, MIGRATION
from kip848_spark.checks.transitions import partitions_by_topic
from kip848_spark.coordinator import records
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Targets
from kip848_spark.coordinator.consumer_protocol import (
    MalformedMetadataError,
    assignment_bytes,
    read_assignment,
)

NamedPartitions = set[tuple[str, int]]


class EndedConsumerGroup:
    """A consumer group as it was when its tombstones were written."""

    def __init__(self, audited: AuditedGroup, group: ConsumerGroup) -> None:
        self.complete = audited.complete
        # A static member that is replaced by a classic one may bump the epoch, but the conversion
        # uses the epoch before. Two operations in one millisecond look the same.
        before = group.epoch if audited.epoch_before is None else audited.epoch_before
        self.epochs = sorted({group.epoch, before})
        self.classic = {member.member_id for member in group.classic_members}
        self._epoch, self._targets = group.epoch, dict(group.targets)
        # Until KAFKA-19546 was fixed, the operation also computes a target, which is not used.
        unused = audited.targets_before is not None and audited.any_release(
            lambda release: not release.replacement_may_rebalance
        )
        self._epoch_before = before
        self._targets_before = audited.targets_before if unused else None

    def possible_targets(self, generation: int) -> list[Targets]:
        """What the members of a classic group of this generation may have been assigned."""
        if self._targets_before is None or generation != self._epoch_before:
            return [self._targets]
        if generation != self._epoch:
            return [self._targets_before]
        return [self._targets_before, self._targets]


def check_upgrade(audited: AuditedGroup, part: OperationPart, classic: ClassicGroup | None) -> None:
    """Checks a conversion of a classic group to a consumer group: the new group takes over the
    members and their assignments."""
    bump = part.of(records.GROUP)[0]
    if not audited.complete:
        audited.tally.add_unverifiable(MIGRATION, GAP)
        return
    if classic is None:
        fault: _UpgradeFault | None = _UpgradeFault("nothing_to_upgrade", "a classic group", None)
    else:
        fault = _upgrade_fault(audited, part, classic)
    if fault is None:
        audited.tally.add_verified(MIGRATION)
        return
    audited.tally.add_disagreement(
        MIGRATION, fault.reason, bump, fault.expected, fault.recorded, member=fault.member
    )


class _UpgradeFault(NamedTuple):
    reason: str
    expected: Any
    recorded: Any
    member: str = ""


def _upgrade_fault(
    audited: AuditedGroup, part: OperationPart, classic: ClassicGroup
) -> _UpgradeFault | None:
    (bump, *_), (target, *_) = part.of(records.GROUP), part.of(records.TARGET_EPOCH)
    assert bump.value is not None
    assert target.value is not None
    generation = bump.value["epoch"]
    if generation < classic.generation:
        return _UpgradeFault("upgrade_epoch", classic.generation, generation)
    if target.value["assignmentEpoch"] != generation:
        epoch = target.value["assignmentEpoch"]
        return _UpgradeFault("upgrade_target_epoch", generation, epoch)
    # The members need not be those of the classic group's last record, which is written when the
    # leader has sent the assignments: members may have joined or left since.
    ids = sorted(entry.member for entry in part.of(records.MEMBER))
    for kind in (records.TARGET_MEMBER, records.CURRENT):
        found = sorted(entry.member for entry in part.of(kind))
        if found != ids:
            reason = "upgrade_targets" if kind == records.TARGET_MEMBER else "upgrade_assignments"
            return _UpgradeFault(reason, ids, found)
    for entry in part.of(records.CURRENT):
        fault = _member_fault(audited, entry, classic, generation)
        if fault is not None:
            return fault
    return None


def _member_fault(
    audited: AuditedGroup, entry: LogEntry, classic: ClassicGroup, generation: int
) -> _UpgradeFault | None:
    """Compares a member's key 8 in an upgrade with its classic assignment."""
    group, value = audited.consumer, entry.value
    assert group is not None
    assert value is not None

    def fault(reason: str, expected: Any, recorded: Any) -> _UpgradeFault:
        return _UpgradeFault(reason, expected, recorded, entry.member)

    names = ("memberEpoch", "previousMemberEpoch", "state")
    epochs = {name: value[name] for name in names}
    stable = dict(zip(names, (generation, generation, 0), strict=True))
    if epochs != stable:
        return fault("upgraded_member_epoch", stable, epochs)
    wanted = {t: sorted(n) for t, n in group.target_of(entry.member).items() if n}
    assigned = {t: sorted(n) for t, n in partitions_by_topic(value["assignedPartitions"]).items()}
    if assigned != wanted or value["partitionsPendingRevocation"]:
        pending = partitions_by_topic(value["partitionsPendingRevocation"])
        found = {"assigned": assigned, "pendingRevocation": pending}
        return fault("upgraded_assignment", {"assigned": wanted, "pendingRevocation": {}}, found)
    since = {n for row in value["assignedPartitions"] for n in row.get("assignmentEpochs") or ()}
    if since - {generation}:
        return fault("upgraded_assignment_epoch", [generation], sorted(since))
    member = classic.members.get(entry.member)
    before = _classic_assignment(member.assignment) if member is not None else set()
    now = _by_name(audited, assigned)
    if before is None or now is None:
        return None
    assignments = {"assigned": sorted(before)}, {"assigned": sorted(now)}
    if not now <= before:
        return fault("upgrade_gained_partitions", *assignments)
    # In a later generation the leader may not have assigned anything yet. Partitions of a topic
    # that no longer exists are dropped.
    existing = _existing_topics(audited)
    if generation == classic.generation and {
        place for place in before - now if place[0] in existing
    }:
        return fault("upgrade_lost_partitions", *assignments)
    return None


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
            "leader_not_a_member",
            entry,
            ids,
            value["leader"],
            member="",
        )
        return
    group = audited.consumer
    if ended is None and group is not None and not group.members and not value["generation"]:
        # A coordinator forgets an empty consumer group when an unknown classic member wants to
        # join it. The next one finds no group, so nothing is deleted.
        audited.tally.add_verified(MIGRATION)
        return
    if ended is None and group is not None and audited.complete:
        audited.tally.add_disagreement(
            MIGRATION,
            "classic_record",
            entry,
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
        "generation_decreases",
        entry,
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
        "downgrade",
        entry,
        {"generation": generations[0], "members": sorted(ended.classic)},
        {"generation": value["generation"], "members": ids},
        member="",
    )


def _check_assignments(
    audited: AuditedGroup, entry: LogEntry, value: dict[str, Any], ended: EndedConsumerGroup
) -> None:
    """Checks that each member of the classic group was assigned its target."""
    possible = ended.possible_targets(value["generation"])
    faults = [_wrong_assignment(audited, value, targets) for targets in possible]
    if None in faults:
        audited.tally.add_verified(MIGRATION)
        return
    fault = faults[0]
    assert fault is not None
    audited.tally.add_disagreement(
        MIGRATION,
        "downgraded_assignment",
        entry,
        {"assigned": sorted(fault.expected)},
        {"assigned": sorted(fault.recorded)},
        member=fault.member,
    )


class _WrongAssignment(NamedTuple):
    member: str
    expected: NamedPartitions
    recorded: NamedPartitions


def _wrong_assignment(
    audited: AuditedGroup, value: dict[str, Any], targets: Targets
) -> _WrongAssignment | None:
    """The first member that was not assigned its target; None if there is none."""
    for member in value["members"] or ():
        assigned = _classic_assignment(assignment_bytes(member["assignment"]))
        target = targets.get(member["memberId"], {})
        wanted = _by_name(audited, {topic: sorted(numbers) for topic, numbers in target.items()})
        if assigned is None or wanted is None:
            continue
        # Partitions of a topic that was deleted since then are not assigned.
        existing = {topic for topic, _ in assigned} | {
            topic.name for topic in audited.known_topics.listed.values() if topic.topic_id in target
        }
        if assigned - wanted or {place for place in wanted - assigned if place[0] in existing}:
            return _WrongAssignment(member["memberId"], wanted, assigned)
    return None
