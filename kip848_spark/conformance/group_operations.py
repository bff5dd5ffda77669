"""What the model's coordinator can write besides heartbeats: members leave,
expressions are resolved, whole groups begin, end or change their type (``spec/Coordinator.tla``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kip848_spark.conformance.heartbeat import Request, group_epochs
from kip848_spark.conformance.log_matcher import LogMatcher
from kip848_spark.conformance.records import (
    CLASSIC,
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    STABLE,
    STATIC_LEAVE,
    TARGET,
    TARGET_EPOCH,
    Current,
    MemberValue,
)


def removal(log: LogMatcher) -> Iterator[int]:
    """Members leave or are fenced: tombstones of each, and one new group epoch."""
    group, at = log.group, log.at
    gone: dict[str, MemberValue] = {}
    while at < len(log.records):
        record = log.records[at]
        if record.key != CURRENT or record.value is not None:
            break
        member = record.name
        if member not in group.members or member in gone:
            log.note(at, EPOCH, "", f"epoch {group.epoch + 1}")
            return
        if not (
            log.matches(at + 1, TARGET, member, None) and log.matches(at + 2, MEMBER, member, None)
        ):
            return
        gone[member] = group.members[member]
        at += 3
    if not gone:
        return
    for regex in dict.fromkeys(s.regex for s in gone.values() if s.regex):
        if not group.uses(regex, gone):
            if not log.matches(at, REGEX, regex, None):
                return
            at += 1
    found = log.value_at(at, EPOCH)
    if found is None or found.value.epoch != group.epoch + 1:
        log.note(at, EPOCH, "", f"epoch {group.epoch + 1}")
    elif not log.rules.empties_target or len(gone) < len(group.members):
        yield at + 1
    elif log.matches(at + 1, TARGET_EPOCH, "", group.epoch + 1):
        yield at + 2


def static_leave(log: LogMatcher) -> Iterator[int]:
    """A static member leaves for a while: it keeps what it was assigned."""
    found = log.value_at(log.at, CURRENT)
    if found is None:
        return
    group = log.group
    if group.members.get(found.name, MemberValue()).instance:
        before = group.current_of(found.name)
        assigned = dict.fromkeys(before.assigned, 0)
        gone = before._replace(epoch=STATIC_LEAVE, assigned=assigned, pending={})
        if log.matches(log.at, CURRENT, found.name, gone):
            yield log.at + 1


def resolution(log: LogMatcher) -> Iterator[int]:
    """Expressions are resolved; the group epoch rises if their topics changed."""
    group = log.group
    changed, seen = False, set[str]()
    for number, record in enumerate(log.run_of(log.at, REGEX), 1):
        if record.name in seen or not group.uses(record.name):
            return
        seen.add(record.name)
        changed = changed or record.value != group.resolved.get(record.name, frozenset())
        at = log.at + number
        if not (changed and log.value_at(at, EPOCH) is None and log.value_at(at, REGEX)):
            request = Request(group, at, must_bump=changed)
            yield from (end for end, _ in group_epochs(log, request))


def deletion(log: LogMatcher) -> Iterator[int]:
    """An empty group is deleted."""
    if not log.group.members and not log.group.is_empty:
        yield from _tombstones(log, [])


def downgrade(log: LogMatcher) -> Iterator[int]:
    """The last member of the new protocol is gone: the group becomes a classic one."""
    group = log.group
    classic = {m for m, s in group.members.items() if s.classic}
    order = [record.name for record in log.run_of(log.at, CURRENT, deleted=True)]
    if not classic or set(order) != group.members.keys() or len(order) != len(group.members):
        return
    # A static member that just became a classic one may have raised the epoch before. If all
    # members are classic ones, any of them may be gone.
    all_classic = len(classic) == len(order)
    epochs = {group.epoch, group.epoch - 1} if all_classic else {group.epoch}
    for at in _tombstones(log, order):
        found = log.value_at(at, CLASSIC)
        if (
            found is not None
            and found.value.members
            and found.value.members <= classic
            and (all_classic or found.value.members == classic)
            and found.value.generation in epochs
        ):
            yield at + 1
        else:
            names = ", ".join(sorted(classic))
            log.note(at, CLASSIC, "", f"generation {group.epoch}, members {names}")


def _tombstones(log: LogMatcher, order: Sequence[str]) -> Iterator[int]:
    """All tombstones of a group, key by key."""
    at = log.at
    expected = [(key, name) for key in (CURRENT, TARGET) for name in order]
    expected += [(TARGET_EPOCH, "")] + [(MEMBER, name) for name in order]
    for key, name in expected:
        if not log.matches(at, key, name, None):
            return
        at += 1
    used = {s.regex for s in log.group.members.values() if s.regex}
    regexes = [record.name for record in log.run_of(at, REGEX, deleted=True)]
    at += len(regexes)
    if len(set(regexes)) < len(regexes) or not used | log.group.resolved.keys() >= set(regexes):
        return
    if log.matches(at, EPOCH, "", None):
        yield at + 1


def classic(log: LogMatcher) -> Iterator[int]:
    """A classic group: not modelled, except that it begins and ends."""
    record, group = log.records[log.at], log.group
    if record.key != CLASSIC:
        return
    is_classic = group.generation >= 0
    if record.value is not None:
        if group.is_empty:
            yield log.at + 1
    elif is_classic and not group.classic_members:
        yield log.at + 1


def upgrade(log: LogMatcher) -> Iterator[int]:
    """A classic group becomes a consumer group: its assignment is the first target."""
    group, at = log.group, log.at
    if group.generation < 0 or log.records[at].key != CLASSIC or log.records[at].value is not None:
        return
    members = log.run_of(at + 1, MEMBER)
    at += 1 + len(members)
    order = [record.name for record in members if record.value.classic]
    if not order or len(set(order)) < len(members):
        return
    found = log.value_at(at, EPOCH)
    if found is None or found.value.epoch < group.generation:
        log.note(at, EPOCH, "", f"epoch {group.generation} or later")
        return
    epoch = found.value.epoch
    targets = {record.name: record.value for record in log.run_of(at + 1, TARGET)}
    at += 1 + len(log.run_of(at + 1, TARGET))
    everything = [p for target in targets.values() for p in target]
    if targets.keys() != set(order) or len(set(everything)) < len(everything):
        log.note(at, TARGET, "", "one for each member, no partition twice")
        return
    if not log.matches(at, TARGET_EPOCH, "", epoch):
        return
    gained = epoch if log.rules.has_partition_epochs else 0
    for number, member in enumerate(order, 1):
        assigned = dict.fromkeys(targets[member], gained)
        if not log.matches(at + number, CURRENT, member, Current(epoch, epoch, STABLE, assigned)):
            return
    yield at + 1 + len(order)
