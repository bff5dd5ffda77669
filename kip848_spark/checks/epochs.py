"""Group and target epochs, and that each bump of a group's epoch has a cause beside it."""

from __future__ import annotations

from typing import NamedTuple

from kip848_spark.checks.group_case import Case
from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.operations import BROKEN, Part
from kip848_spark.checks.results import CAUSES, EPOCHS, GAP
from kip848_spark.coordinator import records
from kip848_spark.coordinator.consumer_group import ConsumerGroup


def judge_epoch(case: Case, entry: Entry) -> None:
    """Key 3, against the epoch before it."""
    assert entry.value is not None
    if not case.knows(records.GROUP):
        case.tally.unknown(EPOCHS, GAP)
        return
    group = case.consumer
    if group is not None and (records.GROUP, "") in case.seen:
        expected = [group.epoch + 1]
    else:
        expected = sorted({release.first_epoch + 1 for release in case.releases})
    if entry.value["epoch"] in expected:
        case.tally.right(EPOCHS)
        return
    case.tally.wrong(
        EPOCHS,
        entry,
        f"The group's epoch must be {expected[0]} here, one more than before; members that go by "
        f"epoch {entry.value['epoch']} may be fenced: look for a lost record or a second writer.",
        expected[0],
        entry.value["epoch"],
    )


def judge_target_epoch(case: Case, entry: Entry) -> None:
    """Key 6: a target is always made for the group's newest epoch, and once."""
    assert entry.value is not None
    if not case.knows(records.GROUP):
        case.tally.unknown(EPOCHS, GAP)
        return
    group = case.consumer
    epoch = entry.value["assignmentEpoch"]
    again = (
        group is not None
        and (records.TARGET_EPOCH, "") in case.seen
        and epoch <= group.target_epoch
    )
    # A new group's epochs are equal: before its first key 3 nothing calls for a target.
    bumped = (records.GROUP, "") in case.seen
    if group is not None and bumped and epoch == group.epoch and not again:
        case.tally.right(EPOCHS)
        return
    expected = None if group is None or not bumped else group.epoch
    case.tally.wrong(
        EPOCHS,
        entry,
        f"The target is marked as made for epoch {epoch}, but the group is at {expected}"
        f"{' and has that target already' if again else ''}: members will converge to an epoch "
        "that is not the group's; look for a lost record, and restart one consumer of the group.",
        expected,
        epoch,
    )


class Bump(NamedTuple):
    """What a part says that calls for a new group epoch, found before it is replayed."""

    entry: Entry | None
    """Its key 3, if it has one."""
    causes: tuple[str, ...]
    demands: bool
    """Whether the causes call for an epoch in the same operation, in every release."""
    known: bool

    @classmethod
    def of(cls, case: Case, part: Part) -> Bump:
        """What of a part is a cause, against the state before it."""
        bumps = part.of(records.GROUP)
        group = case.consumer
        causes: list[str] = []
        demands = False
        known = True
        for entry in part.of(records.MEMBER):
            known = known and case.knows(records.MEMBER, entry.member)
            if regex := (entry.value or {}).get("subscribedTopicRegex"):  # resolved before?
                known = known and case.knows(records.REGEX, regex)
            cause, sure = _subscription(case, group, entry)
            if cause:
                causes.append(cause)
                demands = demands or sure
        if part.of(records.MEMBER, values=False):
            causes.append("member left")
            demands = True
        for entry in part.of(records.REGEX):
            assert entry.value is not None
            known = known and case.knows(records.REGEX, entry.member)
            old = group.resolved.get(entry.member) if group is not None else None
            topics = frozenset(entry.value["topics"])
            if (old.topics if old is not None else frozenset()) != topics:
                causes.append("pattern")
                demands = True
        if part.of(records.TOPICS):
            causes.append("metadata")
        bump = bumps[0] if bumps else None
        if bump is not None and bump.value is not None:
            known = known and case.knows(records.GROUP)
            before = group.metadata_hash if group is not None else 0
            if bump.value.get("metadataHash", 0) != before:
                causes.append("metadata")
            fresh = bool(part.of(records.MEMBER)) and (group is None or group.epoch == 0)
            if fresh and case.may_be(lambda release: release.bumps_fresh_group):
                causes.append("first epoch")
        return cls(bump, tuple(causes), demands, known)


def _subscription(case: Case, group: ConsumerGroup | None, entry: Entry) -> tuple[str, bool]:
    """The cause that a member's record is, and whether every release sees it as one."""
    value = entry.value
    assert value is not None
    old = group.members.get(entry.member) if group is not None else None
    names = frozenset(value["subscribedTopicNames"])
    if names != (old.topic_names if old is not None else frozenset()):
        return ("subscription" if old is not None else "member joined"), True
    regex = value["subscribedTopicRegex"] or ""
    if regex != (old.regex if old is not None else ""):
        resolved = group is not None and regex in group.resolved
        if resolved:
            return "pattern", group is not None and bool(group.regex_counts[regex])
        if not regex:
            return "pattern", case.must_be(lambda release: release.clearing_regex_bumps)
    return "", False


def judge_bump(case: Case, part: Part, bump: Bump) -> None:
    """A part's new epoch has a cause, and its cause a new epoch."""
    at = part.entries[0]
    if part.name == BROKEN:
        return
    if bump.entry is not None:
        if bump.causes:
            case.tally.right(CAUSES)
        elif not bump.known:
            case.tally.unknown(CAUSES, GAP)
        else:
            case.tally.wrong(
                CAUSES,
                bump.entry,
                "The group's epoch rises here, and with it a rebalance begins, but nothing beside "
                "it changed: no member, subscription, pattern or topic; look for a lost record.",
                "a cause beside the bump",
                [],
            )
    elif bump.demands:
        if not bump.known:
            case.tally.unknown(CAUSES, GAP)
        else:
            case.tally.wrong(
                CAUSES,
                at,
                f"This calls for a new group epoch ({', '.join(bump.causes)}), but none is "
                "recorded: the members may keep an assignment that does not fit any more; restart "
                "one of them, so that the group rebalances.",
                "a record of key 3 in the same operation",
                list(bump.causes),
            )
