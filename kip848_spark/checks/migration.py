"""Classic groups, and the operations that turn a group from one protocol to the other."""

from __future__ import annotations

from typing import Any

from kip848_spark.checks.group_case import Case
from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.operations import Part
from kip848_spark.checks.results import CRITICAL, GAP, MIGRATION
from kip848_spark.checks.transitions import places
from kip848_spark.coordinator import records
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.consumer_protocol import (
    MalformedMetadataError,
    assignment_bytes,
    read_assignment,
)

Named = set[tuple[str, int]]


class Dissolved:
    """A consumer group as it was when its tombstones were written."""

    def __init__(self, group: ConsumerGroup, census: bool, began: int | None) -> None:
        """``began``: the group's epoch as the operation at hand began."""
        self.census = census
        # A member that is replaced by one of the classic protocol may raise the epoch, but the
        # conversion takes the one before; two operations of one millisecond look the same.
        self.epochs = sorted({group.epoch, group.epoch if began is None else began})
        self.classic = {member.member_id for member in group.classic_members}
        self.targets = {member: group.target_of(member) for member in group.members}


def judge_upgrade(case: Case, part: Part, classic: ClassicGroup | None) -> None:
    """A classic group becomes a consumer group, with its members and what they had."""
    bump = part.of(records.GROUP)[0]
    if not case.census:
        case.tally.unknown(MIGRATION, GAP)
        return
    fault = "there was no classic group to convert"
    expected: Any = None
    recorded: Any = None
    if classic is not None:
        fault, expected, recorded = _upgrade_fault(case, part, classic)
    if not fault:
        case.tally.right(MIGRATION)
        return
    case.tally.wrong(
        MIGRATION,
        bump,
        f"The group was converted to the new protocol, but {fault}; members may be fenced or lose "
        "partitions: restart the group's consumers.",
        expected,
        recorded,
        member="",
    )


def _upgrade_fault(case: Case, part: Part, classic: ClassicGroup) -> tuple[str, Any, Any]:
    (bump, *_), (target, *_) = part.of(records.GROUP), part.of(records.TARGET_EPOCH)
    assert bump.value is not None
    assert target.value is not None
    generation = bump.value["epoch"]
    if generation < classic.generation:
        return "its epoch is behind the classic generation", classic.generation, generation
    if target.value["assignmentEpoch"] != generation:
        return "its target's epoch is another", generation, target.value["assignmentEpoch"]
    # Who joined or left since the classic group's last record is in no record: it is written when
    # the leader has sent the assignments.
    ids = sorted(entry.member for entry in part.of(records.MEMBER))
    for kind in (records.TARGET_MEMBER, records.CURRENT):
        found = sorted(entry.member for entry in part.of(kind))
        if found != ids:
            return f"its records of key {kind} are not those of its members", ids, found
    for entry in part.of(records.CURRENT):
        fault = _taken_over(case, entry, classic, generation)
        if fault[0]:
            return fault
    return "", None, None


def _taken_over(
    case: Case, entry: Entry, classic: ClassicGroup, generation: int
) -> tuple[str, Any, Any]:
    """One member's key 8 of an upgrade, against what it had."""
    group, value = case.consumer, entry.value
    assert group is not None
    assert value is not None
    epochs = (value["memberEpoch"], value["previousMemberEpoch"], value["state"])
    if epochs != (generation, generation, 0):
        return f"{entry.member} is not at that epoch", (generation, generation, 0), epochs
    wanted = {t: sorted(n) for t, n in group.target_of(entry.member).items() if n}
    held = {t: sorted(n) for t, n in places(value["assignedPartitions"]).items()}
    if held != wanted or value["partitionsPendingRevocation"]:
        return f"{entry.member} does not have its target", wanted, held
    since = {n for row in value["assignedPartitions"] for n in row.get("assignmentEpochs") or ()}
    if since - {generation}:
        return f"{entry.member} has partitions since another epoch", generation, sorted(since)
    member = classic.members.get(entry.member)
    before = _given(member.assignment) if member is not None else set()
    now = _names(case, held)
    if before is None or now is None:
        return "", None, None
    if not now <= before:
        return f"{entry.member} has what it had not before", sorted(before), sorted(now)
    # Of a later generation the members may have been given nothing yet, and what a topic that
    # does not exist had is dropped.
    there = _existing(case)
    if generation == classic.generation and {place for place in before - now if place[0] in there}:
        return f"{entry.member} lost partitions on the way", sorted(before), sorted(now)
    return "", None, None


def _existing(case: Case) -> set[str]:
    """Names of topics that there were at the conversion: those that its hash or its key 4 is of,
    or else those of which somebody has a partition."""
    if case.prover.proven is not None:
        return set(case.prover.proven)
    group = case.consumer
    assert group is not None
    names = (case.known.name_of(topic) for target in group.targets.values() for topic in target)
    return {name for name in names if name is not None}


def _given(assignment: bytes) -> Named | None:
    try:
        rows = read_assignment(assignment).partitions
    except MalformedMetadataError:
        return None
    return {(topic, number) for topic, numbers in rows for number in numbers}


def _names(case: Case, held: dict[str, list[int]]) -> Named | None:
    """Partitions by name; None if a name is not known."""
    found = set()
    for topic_id, numbers in held.items():
        name = case.known.name_of(topic_id)
        if name is None:
            return None
        found |= {(name, number) for number in numbers}
    return found


def judge_classic(case: Case, entry: Entry, dissolved: Dissolved | None) -> None:
    """A classic group's record: after a conversion, or in the course of its generations."""
    value = entry.value
    assert value is not None
    ids = sorted(member["memberId"] for member in value["members"] or ())
    if ids and value["leader"] not in ids:
        case.tally.wrong(
            MIGRATION,
            entry,
            "The classic group's leader is none of its members: nobody will hand out partitions at "
            "the next rebalance; restart the group's consumers.",
            ids,
            value["leader"],
            member="",
        )
        return
    if dissolved is None and case.consumer is not None and case.census:
        case.tally.wrong(
            MIGRATION,
            entry,
            "This is a classic group's record, but the group is of the new protocol, and nothing "
            "ended it: a broker that loads this log forgets that group; look for a second writer.",
            "the consumer group's tombstones before it",
            entry.record,
            severity=CRITICAL,
            member="",
        )
        return
    if dissolved is not None:
        _downgrade(case, entry, value, ids, dissolved)
        return
    known = case.classic
    if known is None:
        if not case.census:
            case.tally.unknown(MIGRATION, GAP)
        return
    if value["generation"] >= known.generation:
        case.tally.right(MIGRATION)
        return
    case.tally.wrong(
        MIGRATION,
        entry,
        f"The classic group's generation goes back from {known.generation}: its members will be "
        "fenced; look for a second writer or a lost record.",
        known.generation,
        value["generation"],
        member="",
    )


def _downgrade(
    case: Case, entry: Entry, value: dict[str, Any], ids: list[str], dissolved: Dissolved
) -> None:
    if not dissolved.census:
        case.tally.unknown(MIGRATION, GAP)
        return
    generations = dissolved.epochs if ids else [0]
    strangers = sorted(set(ids) - dissolved.classic)
    missing = sorted(dissolved.classic - set(ids)) if ids else []
    if value["generation"] in generations and not strangers and not missing:
        _downgraded(case, entry, value, dissolved)
        return
    case.tally.wrong(
        MIGRATION,
        entry,
        "The group was converted back to the classic protocol, but not with its own epoch as "
        "generation and its own members: they will be fenced and join anew; see that they did.",
        {"generation": generations[0], "members": sorted(dissolved.classic)},
        {"generation": value["generation"], "members": ids},
        member="",
    )


def _downgraded(case: Case, entry: Entry, value: dict[str, Any], dissolved: Dissolved) -> None:
    """Each member of the classic group is told what its target was."""
    for member in value["members"] or ():
        told = _given(assignment_bytes(member["assignment"]))
        target = dissolved.targets[member["memberId"]]
        wanted = _names(case, {topic: sorted(numbers) for topic, numbers in target.items()})
        if told is None or wanted is None:
            continue
        # Of a topic that was deleted since nobody is told.
        there = {topic for topic, _ in told} | {
            topic.name for topic in case.known.listed.values() if topic.topic_id in target
        }
        if told - wanted or {place for place in wanted - told if place[0] in there}:
            case.tally.wrong(
                MIGRATION,
                entry,
                "The group was converted back to the classic protocol, but "
                f"{member['memberId']} was not told to have what its target was: partitions stay "
                "unread, or are read twice, until the group rebalances; restart one consumer.",
                sorted(wanted),
                sorted(told),
                member=member["memberId"],
            )
            return
    case.tally.right(MIGRATION)
