"""Checks group and target epochs, and that every bump of a group's epoch has a cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import INVALID_ORDER, OperationPart
from kip848_spark.checks.results import CAUSES, EPOCHS, GAP
from kip848_spark.coordinator import records
from kip848_spark.coordinator.assignors import ASSIGNORS
from kip848_spark.coordinator.consumer_group import ConsumerGroup
from kip848_spark.coordinator.target import assignor_after, assignor_before


def check_group_epoch(audited: AuditedGroup, entry: LogEntry) -> None:
    """Checks a value of key 3: the group's epoch rises by one."""
    assert entry.value is not None
    if not audited.knows(records.GROUP):
        audited.tally.add_unverifiable(EPOCHS, GAP)
        return
    group = audited.consumer
    if group is not None and (records.GROUP, "") in audited.seen:
        expected = [group.epoch + 1]
    else:
        expected = sorted({release.first_epoch + 1 for release in audited.releases})
    if entry.value["epoch"] in expected:
        audited.tally.add_verified(EPOCHS)
        return
    audited.tally.add_disagreement(
        EPOCHS,
        "group_epoch",
        entry,
        expected[0],
        entry.value["epoch"],
    )


def begins_anew(audited: AuditedGroup, entries: Sequence[LogEntry]) -> bool:
    """Whether an operation begins a group anew without tombstones: a classic JoinGroup has made the
    coordinator forget an empty group, so the epochs start again
    (docs/kafka-facts.md#epoch-restarts-without-a-tombstone)."""
    group, joins = audited.consumer, entries[0]
    if group is None or group.members or not audited.complete:
        return False
    if joins.kind != records.MEMBER or joins.value is None:
        return False
    first_epochs = {release.first_epoch for release in audited.releases}
    for entry in entries:
        if entry.value is not None and entry.kind == records.GROUP:
            epoch = entry.value["epoch"]
            return epoch != group.epoch + 1 and epoch - 1 in first_epochs
        if entry.value is not None and entry.kind == records.CURRENT:
            epoch = entry.value["memberEpoch"]
            return epoch < group.target_epoch and epoch in first_epochs - {0}
    return False


def check_target_epoch(audited: AuditedGroup, entry: LogEntry) -> None:
    """Checks a value of key 6: a target is computed for the group's newest epoch, and only once."""
    assert entry.value is not None
    if not audited.knows(records.GROUP):
        audited.tally.add_unverifiable(EPOCHS, GAP)
        return
    group = audited.consumer
    epoch = entry.value["assignmentEpoch"]
    again = (
        group is not None
        and (records.TARGET_EPOCH, "") in audited.seen
        and epoch <= group.target_epoch
    )
    # The epochs of a new group are equal: there is no target before its first key 3.
    bumped = (records.GROUP, "") in audited.seen
    if group is not None and bumped and epoch == group.epoch and not again:
        audited.tally.add_verified(EPOCHS)
        return
    expected = None if group is None or not bumped else group.epoch
    audited.tally.add_disagreement(
        EPOCHS,
        "target_again" if again else "target_epoch",
        entry,
        expected,
        epoch,
    )


class EpochBump(NamedTuple):
    """The causes in a part of an operation for a new group epoch. See
    docs/kafka-facts.md#what-bumps-the-group-epoch."""

    entry: LogEntry | None
    """The value of key 3, if the part has one."""
    causes: tuple[str, ...]
    required: bool
    """Whether the causes require a new epoch in the same operation, in every release."""
    known: bool
    """Whether the state before the part is known well enough to find every cause."""
    votes_unknown: bool
    """Whether votes for assignors, which are not known, may be the cause."""

    @classmethod
    def of(cls, audited: AuditedGroup, part: OperationPart) -> EpochBump:
        """Finds the causes by comparing the part with the state before it. Call this before the
        part is replayed."""
        bumps = part.of(records.GROUP)
        group = audited.consumer
        causes: list[str] = []
        required = False
        known = True
        for entry in part.of(records.MEMBER):
            known = known and audited.knows(records.MEMBER, entry.member)
            if regex := (entry.value or {}).get("subscribedTopicRegex"):
                # It matters whether the expression had been resolved before.
                known = known and audited.knows(records.REGEX, regex)
            cause, always = _subscription_cause(audited, group, entry)
            if cause:
                causes.append(cause)
                required = required or always
        if part.of(records.MEMBER, values=False):
            causes.append("member left")
            required = True
        for entry in part.of(records.REGEX):
            assert entry.value is not None
            known = known and audited.knows(records.REGEX, entry.member)
            old = group.resolved.get(entry.member) if group is not None else None
            topics = frozenset(entry.value["topics"])
            if (old.topics if old is not None else frozenset()) != topics:
                causes.append("pattern")
                required = True
        if part.of(records.TOPICS):
            causes.append("metadata")
        bump = bumps[0] if bumps else None
        if bump is not None and bump.value is not None:
            known = known and audited.knows(records.GROUP)
            before = group.metadata_hash if group is not None else 0
            if bump.value.get("metadataHash", 0) != before:
                causes.append("metadata")
            fresh = bool(part.of(records.MEMBER)) and (group is None or group.epoch == 0)
            if fresh and audited.any_release(lambda release: release.bumps_fresh_group):
                causes.append("first epoch")
            if not causes and group is not None and _may_change_assignor(audited, group, part):
                causes.append("assignor")
        votes_unknown = not audited.complete and audited.any_release(
            lambda release: release.assignor_votes_bump
        )
        return cls(bump, tuple(causes), required, known, votes_unknown)


def _may_change_assignor(audited: AuditedGroup, group: ConsumerGroup, part: OperationPart) -> bool:
    """Whether a heartbeat may have changed the assignor with the most votes, which bumps the epoch
    from 4.4 on. With equal votes, a heartbeat without any change may do so, and no record names
    its member."""
    if not audited.any_release(lambda release: release.assignor_votes_bump):
        return False
    votes = Counter(m.server_assignor for m in group.members.values() if m.server_assignor)
    changed = [entry for entry in part.of(records.MEMBER) if entry.value is not None]
    pairs: list[tuple[str | None, str | None]] = [(vote, vote) for vote in votes]
    for entry in changed:
        old = group.members.get(entry.member)
        vote = None if old is None else old.server_assignor
        pairs.append((vote, entry.value["serverAssignor"] if entry.value else None))
    before = assignor_before(votes)
    for old_vote, new_vote in pairs:
        after = assignor_after(votes, old_vote, new_vote)
        default = audited.default_assignor
        if before != after and not (default is not None and {before, after} == {None, default}):
            return True
    # The order in which equal votes for other assignors are read is not known.
    most = [name for name, count in votes.items() if count == max(votes.values())]
    return len(most) > 1 and not set(most) <= ASSIGNORS.keys()


def _subscription_cause(
    audited: AuditedGroup, group: ConsumerGroup | None, entry: LogEntry
) -> tuple[str, bool]:
    """The cause that a value of key 5 is, or "", and whether it is one in every release."""
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
            return "pattern", audited.every_release(lambda release: release.clearing_regex_bumps)
    return "", False


def check_bump_cause(audited: AuditedGroup, part: OperationPart, bump: EpochBump) -> None:
    """Checks that a new group epoch has a cause, and that a cause comes with a new epoch."""
    at = part.entries[0]
    if part.name == INVALID_ORDER:
        return
    if bump.entry is not None:
        if bump.causes:
            audited.tally.add_verified(CAUSES)
        elif not bump.known or bump.votes_unknown:
            audited.tally.add_unverifiable(CAUSES, GAP)
        else:
            audited.tally.add_disagreement(
                CAUSES,
                "no_cause",
                bump.entry,
                "a cause in the same operation",
                {"epoch": (bump.entry.value or {}).get("epoch"), "causes": []},
            )
    elif bump.required:
        if not bump.known:
            audited.tally.add_unverifiable(CAUSES, GAP)
        else:
            audited.tally.add_disagreement(
                CAUSES,
                "no_new_epoch",
                at,
                "a record of key 3 in the same operation",
                {"causes": list(bump.causes)},
            )
