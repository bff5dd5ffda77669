"""Checks the records of share groups against the state before them: their order, epochs, the causes
of new epochs, targets and share state (docs/kafka-facts.md#share-groups)."""

from __future__ import annotations

from typing import NamedTuple

from kip848_spark.checks.completed_target import BY_PROPERTIES, OTHER_ASSIGNOR
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import DELETE, LEAVE, OperationPart
from kip848_spark.checks.order_rules import (
    repeats_partition,
    report_disorder,
    report_invalid_order,
    report_no_change,
    report_orphan_tombstone,
    report_repeated_partition,
    report_unknown_member,
)
from kip848_spark.checks.results import CAUSES, EPOCHS, GAP, ORDER, TARGETS, WARNING
from kip848_spark.checks.share_operations import entries_of
from kip848_spark.checks.share_target import ShareTarget, ShareTargets, compare_share_target
from kip848_spark.checks.share_view import ShareView
from kip848_spark.checks.targets import shares_of
from kip848_spark.coordinator.share_group import (
    SHARE_CURRENT,
    SHARE_GROUP,
    SHARE_MEMBER,
    SHARE_STATE,
    SHARE_TARGET,
    SHARE_TARGET_EPOCH,
)
from kip848_spark.coordinator.share_heartbeat import assignment_pending
from kip848_spark.coordinator.share_replay import partitions_of, share_state_of
from kip848_spark.wire.pseudonyms import ANONYMIZED, is_anonymized

_OF_MEMBER = (SHARE_MEMBER, SHARE_TARGET, SHARE_CURRENT)


def check_share_order(view: ShareView, part: OperationPart) -> None:
    """Checks the order of the records in a part, and that each key is in it once."""
    if not report_disorder(view.tally, part, _OF_MEMBER):
        view.tally.add_verified(ORDER)


def check_emptied_group(view: ShareView, part: OperationPart) -> None:
    """Checks the operation in which the last member leaves: from 4.4 on, it writes a target."""
    if not view.complete or view.group is None or view.group.members:
        return
    written = bool(entries_of(part, SHARE_TARGET_EPOCH))
    if any(release.empties_target == written for release in view.releases):
        return
    report_invalid_order(view.tally, part)


def check_share_record(view: ShareView, entry: LogEntry) -> None:
    """Checks one record: it changes something, and what it is about exists."""
    if entry.value is None:
        if view.complete and entry.kind in _OF_MEMBER and entry.member not in view.members:
            report_orphan_tombstone(view.tally, entry)
    elif entry.kind == SHARE_GROUP:
        _check_group_epoch(view, entry)
    elif entry.kind == SHARE_TARGET_EPOCH:
        _check_target_epoch(view, entry)
    elif entry.kind in (SHARE_TARGET, SHARE_CURRENT) and _is_unknown(view, entry):
        report_unknown_member(view.tally, entry)
    elif repeats_partition(entry, ("topicPartitions", "assignedPartitions")):
        report_repeated_partition(view.tally, entry)
    elif _changes_nothing(view, entry):
        report_no_change(view.tally, entry)


def _is_unknown(view: ShareView, entry: LogEntry) -> bool:
    return view.complete and entry.member not in view.members


def _changes_nothing(view: ShareView, entry: LogEntry) -> bool:
    group, value = view.group, entry.value
    if group is None or value is None or not view.has_record(*entry.key):
        return False
    if entry.kind == SHARE_MEMBER:
        member = group.members.get(entry.member)
        names = sorted(value["subscribedTopicNames"])
        return member is not None and group.member_record(member)["value"]["data"] == (
            value | {"subscribedTopicNames": names}
        )
    if entry.kind == SHARE_TARGET:
        return group.targets.get(entry.member) == partitions_of(value["topicPartitions"])
    return False


# Epochs and their causes


def _check_group_epoch(view: ShareView, entry: LogEntry) -> None:
    assert entry.value is not None
    if not view.knows(SHARE_GROUP):
        view.tally.add_unverifiable(EPOCHS, GAP)
        return
    if view.group is not None and view.has_record(SHARE_GROUP):
        expected = [view.group.epoch + 1]
    else:
        expected = sorted({release.first_epoch + 1 for release in view.releases})
    if entry.value["epoch"] in expected:
        view.tally.add_verified(EPOCHS)
    else:
        view.tally.add_disagreement(EPOCHS, "group_epoch", entry, expected[0], entry.value["epoch"])


def _check_target_epoch(view: ShareView, entry: LogEntry) -> None:
    assert entry.value is not None
    if not view.knows(SHARE_GROUP):
        view.tally.add_unverifiable(EPOCHS, GAP)
        return
    group, epoch = view.group, entry.value["assignmentEpoch"]
    again = (
        group is not None and view.has_record(SHARE_TARGET_EPOCH) and (epoch <= group.target_epoch)
    )
    bumped = group is not None and view.has_record(SHARE_GROUP)
    if group is not None and bumped and epoch == group.epoch and not again:
        view.tally.add_verified(EPOCHS)
        return
    view.tally.add_disagreement(
        EPOCHS,
        "target_again" if again else "target_epoch",
        entry,
        group.epoch if group is not None and bumped else None,
        epoch,
    )


class ShareCauses(NamedTuple):
    """The causes in a part of an operation for a new group epoch."""

    causes: list[str]
    required: bool
    """Whether they require a new epoch in this part."""
    known: bool
    """Whether the state before the part is known well enough to find every cause."""


def share_causes(view: ShareView, part: OperationPart) -> ShareCauses:
    """Finds the causes by comparing a part with the state before it."""
    causes, required, known = [], False, True
    for entry in entries_of(part, SHARE_MEMBER):
        assert entry.value is not None
        known = known and view.knows(SHARE_MEMBER, entry.member)
        old = view.members.get(entry.member)
        if old is None or old.topic_names != frozenset(entry.value["subscribedTopicNames"]):
            causes.append("subscription" if old is not None else "member joined")
            required = True
    if part.name == LEAVE:
        causes.append("member left")
        required = True
    for entry in entries_of(part, SHARE_GROUP):
        assert entry.value is not None
        known = known and view.complete
        if view.group is None or entry.value["metadataHash"] != view.group.metadata_hash:
            causes.append("metadata")
    if view.group is not None and _pending(view):
        causes.append("initialized partitions")
    return ShareCauses(causes, required, known)


def _pending(view: ShareView) -> bool:
    group = view.group
    assert group is not None
    own = group.release
    try:
        for release in view.releases:
            group.release = release
            if assignment_pending(group):
                return True
    finally:
        group.release = own
    return False


def check_share_cause(view: ShareView, part: OperationPart, found: ShareCauses) -> None:
    """Checks that a new group epoch has a cause, and that a cause comes with a new epoch."""
    if part.name == DELETE:
        return
    bumps = entries_of(part, SHARE_GROUP)
    if bumps:
        if found.causes:
            view.tally.add_verified(CAUSES)
        elif not found.known:
            view.tally.add_unverifiable(CAUSES, GAP)
        else:
            epoch = (bumps[0].value or {}).get("epoch")
            view.tally.add_disagreement(
                CAUSES,
                "no_cause",
                bumps[0],
                "a cause in the same operation",
                {"epoch": epoch, "causes": []},
            )
    elif found.required and found.known:
        view.tally.add_disagreement(
            CAUSES,
            "no_new_epoch",
            part.entries[0],
            "a record of key 11 in the same operation",
            {"causes": found.causes},
        )
    elif found.required:
        view.tally.add_unverifiable(CAUSES, GAP)


# Targets and share state


def check_share_target(
    view: ShareView, entry: LogEntry, before: ShareTargets, *, topics_changed: bool
) -> None:
    """Checks the target that a value of key 12 completes. ``before`` is the target of each
    member."""
    group = view.group
    if group is None or not view.complete:
        view.tally.add_unverifiable(TARGETS, GAP)
        return
    place = _not_initialized(view, before)
    if place is not None:
        view.tally.add_disagreement(
            TARGETS,
            "not_initialized",
            entry,
            {"partition": place[:2], "owner": place[2]},
            {"partition": place[:2]},
            member=place[2],
        )
        return
    strangers = group.targets.keys() - group.members.keys()
    if strangers:
        view.tally.add_disagreement(
            TARGETS,
            "not_a_target_for_each_member",
            entry,
            sorted(group.members),
            sorted(group.targets),
            member=min(strangers),
        )
        return
    verdict = compare_share_target(
        ShareTarget(group, before, view.existing, topics_changed, view.releases)
    )
    seen = view.default_targets
    if verdict.fault is None:
        seen.verified += len(group.members) > 1
        view.tally.add_verified(TARGETS, None if verdict.exact else BY_PROPERTIES)
        return
    if verdict.by_order and is_anonymized(entry.group):
        view.tally.add_unverifiable(TARGETS, ANONYMIZED)
        return
    recorded = shares_of(group.targets)
    found = len(view.tally.findings)
    view.tally.add_disagreement(
        TARGETS,
        "another_target",
        entry,
        {"assignors": ["simple"], "targets": verdict.expected},
        {"fault": verdict.fault, "targets": recorded},
    )
    if len(view.tally.findings) > found:
        seen.contradicted.append((view.tally, view.tally.findings[-1]))


_LEAST_CONTRADICTED = 3
_MOST_VERIFIED = 4
"""So many targets are contradicted for each one that is verified."""


def accept_other_share_assignor(view: ShareView) -> None:
    """Call this after the last record. If nearly all targets are not those of Kafka's assignor, the
    brokers have another one in ``group.share.assignors``: what it computes is not known. One wrong
    target is followed by others, since each depends on the last one."""
    seen = view.default_targets
    contradicted = len(seen.contradicted)
    if contradicted < _LEAST_CONTRADICTED or contradicted <= _MOST_VERIFIED * seen.verified:
        return
    for tally, finding in seen.contradicted:
        tally.findings.remove(finding)
        tally.disagreed[TARGETS] -= 1
        tally.add_unverifiable(TARGETS, OTHER_ASSIGNOR)


def _not_initialized(view: ShareView, before: ShareTargets) -> tuple[str, int, str] | None:
    """A partition without share state that a member was given in this target, with the member."""
    assert view.group is not None
    initialized = view.group.share_state.initialized
    for member, target in view.targets.items():
        old = before.get(member, {})
        for topic, numbers in target.items():
            known = initialized[topic].partitions if topic in initialized else frozenset[int]()
            for number in numbers:
                if number not in known and number not in old.get(topic, {}):
                    return topic, number, member
    return None


def check_share_state(view: ShareView, entry: LogEntry) -> None:
    """Checks a value of key 15: only partitions that were asked for are initialized, and none is
    lost while its topic stays."""
    assert entry.value is not None
    if not view.knows(SHARE_STATE):
        return
    after = share_state_of(entry.value)
    group = view.group
    initialized = group.share_state.initialized if group is not None else {}
    initializing = group.share_state.initializing if group is not None else {}
    for topic_id, topic in after.initialized.items():
        old = initialized[topic_id].partitions if topic_id in initialized else frozenset[int]()
        asked = initializing[topic_id].partitions if topic_id in initializing else frozenset[int]()
        wrong = (topic.partitions - old - asked) | (old - topic.partitions)
        if wrong:
            view.tally.add_disagreement(
                TARGETS,
                "share_state",
                entry,
                {topic_id: sorted(old | (topic.partitions & asked))},
                {topic_id: sorted(topic.partitions)},
                severity=WARNING,
            )
            return
