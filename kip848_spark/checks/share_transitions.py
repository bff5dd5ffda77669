"""Checks the assignments of members of share groups (key 14): a member moves to its target in one
step, without the topics that it does not subscribe to (docs/kafka-facts.md#share-groups)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import EPOCHS, GAP, TRANSITIONS
from kip848_spark.checks.share_view import ShareView
from kip848_spark.coordinator.share_group import (
    SHARE_CURRENT,
    SHARE_MEMBER,
    SHARE_TARGET,
    SHARE_TARGET_EPOCH,
    ShareMember,
)

_STABLE = 0
_TOPIC_UNKNOWN = "the name of a topic in the target is not known"


class MemberBefore(NamedTuple):
    """A member before a record of key 14."""

    member: ShareMember | None
    recorded: bool
    """Whether it had an assignment on record."""
    known: bool
    """Whether the records that a verdict needs were read."""

    @classmethod
    def of(cls, view: ShareView, entry: LogEntry) -> MemberBefore:
        """The member of ``entry``, which was not replayed yet."""
        needed = (
            (SHARE_TARGET_EPOCH, ""),
            (SHARE_MEMBER, entry.member),
            (SHARE_TARGET, entry.member),
            (SHARE_CURRENT, entry.member),
        )
        return cls(
            view.members.get(entry.member),
            view.has_record(SHARE_CURRENT, entry.member),
            view.group is not None and all(view.knows(*key) for key in needed),
        )


def check_share_transition(view: ShareView, entry: LogEntry, old: MemberBefore) -> None:
    """Checks a value of key 14, after the operation that has it was replayed."""
    value, member = entry.value, old.member
    assert value is not None
    if view.group is None or not old.known:
        view.tally.add_unverifiable(EPOCHS, GAP)
        view.tally.add_unverifiable(TRANSITIONS, GAP)
        return
    if member is None:  # `check_share_record` reports it
        return
    targets = [view.group.target_epoch]
    if not view.has_record(SHARE_TARGET_EPOCH):
        targets = sorted({release.first_epoch for release in view.releases})
    before = member if old.recorded else ShareMember(entry.member)
    if not _check_epochs(view, entry, before, targets):
        return
    recorded = _sets(value["assignedPartitions"])
    target = {t: set(n) for t, n in view.targets.get(entry.member, {}).items() if n}
    least = _least(view, member, target)
    if least is None:
        view.tally.add_unverifiable(TRANSITIONS, _TOPIC_UNKNOWN)
        return
    filters = any(release.masks_lost_topics for release in view.releases)
    whole = any(not release.masks_lost_topics for release in view.releases)
    most = {t: n for t, n in target.items() if _subscribes(view, member, t)}
    valid = (whole and recorded == target) or (
        filters
        and all(recorded.get(topic) == numbers for topic, numbers in least.items())
        and all(most.get(topic) == numbers for topic, numbers in recorded.items())
    )
    moved = value["memberEpoch"] != before.epoch or recorded != _member_sets(before)
    if valid and moved and value["state"] == _STABLE:
        view.tally.add_verified(TRANSITIONS)
        return
    view.tally.add_disagreement(
        TRANSITIONS,
        "unreachable",
        entry,
        {
            "from": _shown(before.epoch, before.previous_epoch, _member_sets(before)),
            "to one of": []
            if not moved
            else [_shown(value["memberEpoch"], value["previousMemberEpoch"], most)],
        },
        _shown(value["memberEpoch"], value["previousMemberEpoch"], recorded, state=value["state"]),
    )


def _check_epochs(
    view: ShareView, entry: LogEntry, before: ShareMember, targets: list[int]
) -> bool:
    value = entry.value
    assert value is not None
    epoch, previous = value["memberEpoch"], value["previousMemberEpoch"]
    same = epoch == before.epoch and previous == before.previous_epoch
    moved = epoch != before.epoch and previous == before.epoch
    if epoch in targets and (same or moved):
        view.tally.add_verified(EPOCHS)
        return True
    view.tally.add_disagreement(
        EPOCHS,
        "member_epochs",
        entry,
        {
            "least": targets[0],
            "target": targets[-1],
            "previous": before.previous_epoch if epoch == before.epoch else before.epoch,
        },
        {"memberEpoch": epoch, "previousMemberEpoch": previous},
    )
    return False


def _subscribes(view: ShareView, member: ShareMember, topic_id: str) -> bool:
    return view.name_of(topic_id) in member.topic_names


def _least(
    view: ShareView, member: ShareMember, target: Mapping[str, set[int]]
) -> dict[str, set[int]] | None:
    """What the member must have of its target; None if that cannot be known. A topic may have been
    deleted before the coordinator has dropped its share state."""
    assert view.group is not None
    least = {}
    for topic, numbers in target.items():
        if view.name_of(topic) is None:
            return None
        if view.existing is not None:
            exists = topic in view.existing.values()
        else:
            exists = topic in view.group.share_state.initialized and not view.topics_changed
        if exists and _subscribes(view, member, topic):
            least[topic] = numbers
    return least


def _sets(rows: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    return {row["topicId"]: set(row["partitions"]) for row in rows if row["partitions"]}


def _member_sets(member: ShareMember) -> dict[str, set[int]]:
    return {topic: set(numbers) for topic, numbers in member.assigned.items() if numbers}


def _shown(
    epoch: int, previous: int, assigned: Mapping[str, set[int]], state: int = _STABLE
) -> dict[str, Any]:
    """An assignment as the check of consumer groups shows it."""
    return {
        "memberEpoch": epoch,
        "previousMemberEpoch": previous,
        "state": state,
        "assigned": {topic: sorted(numbers) for topic, numbers in assigned.items()},
        "pendingRevocation": {},
        "assignmentEpochs": [],
    }
