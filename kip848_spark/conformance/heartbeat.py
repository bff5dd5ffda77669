"""What the model's coordinator can write for a heartbeat, or for a JoinGroup of
a member of a consumer group (``spec/Coordinator.tla``, "Heartbeat").

The stages are those of a coordinator: the member, the group epoch, the target, the member's step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kip848_spark.conformance.group import ModelGroup
from kip848_spark.conformance.log_matcher import LogMatcher
from kip848_spark.conformance.reconciliation import StepInput, outcomes
from kip848_spark.conformance.records import (
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    REPEATED,
    STABLE,
    STATIC_LEAVE,
    TARGET,
    TARGET_EPOCH,
    UNREVOKED,
    Current,
    MemberValue,
    Partition,
)

_NEW = MemberValue()


class Request(NamedTuple):
    """A heartbeat (or JoinGroup) after its member was found, if its records say which it is."""

    group: ModelGroup
    at: int
    """Where its next record is expected."""
    member: str | None = None
    joins: bool = False
    """Whether the member is a new one, or a static one with a new id: its target is always written.
    """
    changed: bool = False
    must_bump: bool = False
    subscription: MemberValue = _NEW


def heartbeat(log: LogMatcher) -> Iterator[int]:
    for request in _requests(log):
        for at, bumped in group_epochs(log, request):
            epoch = request.group.epoch + bumped
            for end, target_epoch, targets in _targets(log, request, at, epoch):
                yield from _steps(log, request, end, epoch, target_epoch, targets)


def _requests(log: LogMatcher) -> Iterator[Request]:
    group, at = log.group, log.at
    record = log.records[at]
    if record.key == CURRENT and record.value is None:
        yield from _static_return(log, record.name)
        return
    found = log.value_at(at, MEMBER)
    if found is None:
        fresh = group.epoch == 0 and log.rules.bumps_fresh_group
        yield Request(group, at, must_bump=fresh and bool(group.members))
        return
    member, instance = found.name, found.value.instance
    if instance:
        holders = [m for m, s in group.members.items() if s.instance == instance]
        if any(holder != member for holder in holders):
            return
    before = group.members.get(member)
    joins = before is None
    yield from _changed(log, group, at, member, before or _NEW, joins)


def _static_return(log: LogMatcher, old: str) -> Iterator[Request]:
    """A static member returns: it inherits target and current assignment, at epoch 0."""
    group, at = log.group, log.at
    new = log.value_at(at + 3, MEMBER)
    before = group.members.get(old)
    if new is None or before is None or not before.instance:
        return
    current = group.current_of(old)
    changed = log.value_at(at + 6, MEMBER, new.name)
    classic = before.classic or (changed is not None and changed.value.classic)
    if current.epoch != STATIC_LEAVE and not classic:
        return
    expected = [
        (CURRENT, old, None), (TARGET, old, None), (MEMBER, old, None),
        (MEMBER, new.name, before), (TARGET, new.name, group.target_of(old)),
        (CURRENT, new.name, current._replace(epoch=0, previous=0)),
    ]  # fmt: skip
    if not all(log.matches(at + i, *record) for i, record in enumerate(expected)):
        return
    after = group.copy().replay(log.records[at : at + 6])
    fresh = new.name != old and log.rules.repeats_copied_target
    if changed is None:
        yield Request(after, at + 6, new.name, fresh, subscription=before)
    else:
        yield from _changed(log, after, at + 6, new.name, before, fresh)


def _changed(
    log: LogMatcher, group: ModelGroup, at: int, member: str, before: MemberValue, joins: bool
) -> Iterator[Request]:
    """A member's record at ``at`` says what it subscribes to from now on."""
    after: MemberValue = log.records[at].value
    topics_changed, regex_changed = after.topics != before.topics, after.regex != before.regex
    bump = topics_changed or (group.epoch == 0 and log.rules.bumps_fresh_group)
    if regex_changed and after.regex:
        bump = bump or (group.uses(after.regex, (member,)) and after.regex in group.resolved)
    elif regex_changed:
        bump = bump or after.classic or log.rules.clearing_regex_bumps
    at += 1
    if regex_changed and before.regex and not group.uses(before.regex, (member,)):
        if not log.matches(at, REGEX, before.regex, None):
            return
        at += 1
    changed = topics_changed or regex_changed
    yield Request(group, at, member, joins, changed, bump, after)


def group_epochs(log: LogMatcher, request: Request) -> Iterator[tuple[int, bool]]:
    """The group epoch rises if it must, or if the metadata of the topics changed."""
    group, at = request.group, request.at
    record = log.value_at(at, EPOCH)
    if record is None:
        if request.must_bump:
            log.note(at, EPOCH, "", f"epoch {group.epoch + 1}")
        else:
            yield at, False
        return
    votes = log.rules.votes_bump and _may_change_assignor(request)
    causes = request.must_bump or votes or record.value.known != group.known
    if causes and record.value.epoch == group.epoch + 1:
        yield at + 1, True
    elif causes:
        log.note(at, EPOCH, "", f"epoch {group.epoch + 1}")
    if not request.must_bump:
        yield at, False


def _may_change_assignor(request: Request) -> bool:
    """Whether another assignor can have the most votes: a vote changed, or votes differ."""
    votes = {m: s.votes for m, s in request.group.members.items()}
    before = votes.get(request.member or "", "")
    if request.member is not None:
        votes[request.member] = request.subscription.votes
        if before != request.subscription.votes:
            return True
    return len({vote for vote in votes.values() if vote}) > 1


def _targets(
    log: LogMatcher, request: Request, at: int, epoch: int
) -> Iterator[tuple[int, int, dict[str, frozenset[Partition]]]]:
    """The target of the group epoch, if one is computed: the recorded one, if it can be one."""
    group = request.group
    if group.target_epoch >= epoch:
        yield at, group.target_epoch, {}
        return
    if log.rules.has_assignment_interval:
        yield at, group.target_epoch, {}
    fresh = {request.member} if request.joins and request.member is not None else set()
    members = group.members.keys() | fresh
    if not members:
        return
    run = log.run_of(at, TARGET)
    targets: dict[str, frozenset[Partition]] = {}
    owned = group.targets_of(members - {record.name for record in run})
    for number, record in enumerate(run):
        old = group.target.get(record.name)
        changes = record.value != old or record.name in fresh
        if record.name not in members or record.name in targets or not changes:
            log.note(at + number, TARGET_EPOCH, "", f"epoch {epoch}")
            return
        if REPEATED in record.value or not owned.isdisjoint(record.value):
            log.note(at + number, TARGET, record.name, "partitions that are in no other target")
            return
        owned |= record.value
        targets[record.name] = record.value
    end = at + len(run)
    missing = (members - group.target.keys() | fresh) - targets.keys()
    if missing:
        log.note(end, TARGET, min(missing), "its first target")
    elif log.matches(end, TARGET_EPOCH, "", epoch):
        yield end + 1, epoch, targets


def _steps(
    log: LogMatcher,
    request: Request,
    at: int,
    epoch: int,
    target_epoch: int,
    targets: dict[str, frozenset[Partition]],
) -> Iterator[int]:
    """The member takes one step. Without a record of its own, any member may have asked."""
    found = log.value_at(at, CURRENT)
    if request.member is not None:
        members: Iterable[str] = (request.member,)
    elif found is not None and found.name in request.group.members:
        members = (found.name,)
    else:
        members = ()
    recorded: Current | None = None if found is None else found.value
    for member in members:
        before = request.group.current_of(member)
        given = _step_input(log, request, member, epoch, target_epoch, targets)
        for after in outcomes(log.rules, request.group, before, given, recorded):
            if after == before:
                yield at
            elif log.matches(at, CURRENT, member, after):
                yield at + 1
    if request.member is None and at > log.at:
        stays = any(
            _stays(log, request, member, epoch, target_epoch, targets)
            for member in request.group.members
        )
        if stays:
            yield at
        elif found is None:
            log.note(at, CURRENT, "", "the step of the member whose heartbeat this is")


def _stays(
    log: LogMatcher,
    request: Request,
    member: str,
    epoch: int,
    target_epoch: int,
    targets: dict[str, frozenset[Partition]],
) -> bool:
    """Whether a heartbeat of this member can leave its current assignment as it is."""
    before = request.group.current_of(member)
    if before.state == UNREVOKED or (before.state == STABLE and before.epoch == target_epoch):
        return before.epoch != STATIC_LEAVE
    if before.epoch != before.previous:
        return False
    given = _step_input(log, request, member, epoch, target_epoch, targets)
    return before in outcomes(log.rules, request.group, before, given, None)


def _step_input(
    log: LogMatcher,
    request: Request,
    member: str,
    epoch: int,
    target_epoch: int,
    targets: dict[str, frozenset[Partition]],
) -> StepInput:
    """Topics of the target can count as not subscribed only as long as there is no target for
    the subscription: it has just changed, or its expression is not resolved. A member that
    subscribes to nothing can have a target all the same (docs/coordinator.md, "Subscription
    type")."""
    group = request.group
    subscription = group.members.get(member, request.subscription)
    if member == request.member:
        subscription = request.subscription
    regex = subscription.regex
    stale = request.changed or target_epoch < epoch or (regex and regex not in group.resolved)
    target = targets.get(member, group.target_of(member))
    may_mask = log.rules.masks_lost_topics and bool(stale or not (subscription.topics or regex))
    return StepInput(target_epoch, target, request.changed, may_mask)
