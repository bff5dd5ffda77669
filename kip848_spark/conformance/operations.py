"""What the model's coordinator can write next (``spec/Conformance.tla``).

`Operations.ends` says where an operation that begins at a record can end. An operation is matched
stage by stage, in the order in which a coordinator writes. Where the log differs from every way to
go on, `Operations.allowed` has what the model allows there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kip848_spark.conformance.group import Group, Rules
from kip848_spark.conformance.reconciliation import Goal, outcomes
from kip848_spark.conformance.records import (
    CLASSIC,
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
    Partition,
    Record,
    Subscription,
)

_NEW = Subscription()


class Allowed(NamedTuple):
    """A record that the model allows. ``value`` is None for a tombstone, a text if only a property
    of the value is given."""

    key: int
    name: str
    value: Any


class _Request(NamedTuple):
    """A heartbeat (or JoinGroup) after its member was found, if its records say which it is."""

    group: Group
    at: int
    """Where its next record is expected."""
    member: str | None = None
    joins: bool = False
    """Whether the member is a new one, or a static one with a new id: its target is always written.
    """
    changed: bool = False
    must_bump: bool = False
    subscription: Subscription = _NEW


class Operations:
    """The operations that can begin at one record of a log."""

    def __init__(self, rules: Rules, group: Group, log: Sequence[Record], at: int) -> None:
        self._rules, self._group, self._log, self._at = rules, group, log, at
        self.furthest = at
        """The first record that no operation has."""
        self.allowed: list[Allowed] = []
        """What operations have there instead."""

    def ends(self) -> set[int]:
        """Where operations end: the places of the records after them."""
        found: set[int] = set()
        for operation in (
            self._heartbeat, self._removal, self._static_leave, self._resolution, self._deletion,
            self._downgrade, self._classic, self._upgrade,
        ):  # fmt: skip
            found.update(operation())
        found.discard(self._at)
        return found

    # Matching

    def _record(self, at: int) -> Record | None:
        return self._log[at] if at < len(self._log) else None

    def _is(self, at: int, key: int, name: str, value: Any) -> bool:
        """Whether the log has this record; if not, it is noted as allowed."""
        record = self._record(at)
        if (
            record is not None
            and record.key == key
            and record.name == name
            and (record.value is None) == (value is None)
            and record.value == value
        ):
            return True
        self._note(at, key, name, value)
        return False

    def _note(self, at: int, key: int, name: str, value: Any) -> None:
        if at > self.furthest:
            self.furthest, self.allowed = at, []
        if at == self.furthest:
            self.allowed.append(Allowed(key, name, value))

    def _value_at(self, at: int, key: int, name: str | None = None) -> Record | None:
        """The record there, if it is a value of this key (and member)."""
        record = self._record(at)
        if record is None or record.key != key or record.value is None:
            return None
        return record if name is None or record.name == name else None

    def _run(self, at: int, key: int, *, deleted: bool = False) -> list[Record]:
        """The records of one key from there on."""
        end = at
        while end < len(self._log):
            record = self._log[end]
            if record.key != key or (record.value is None) != deleted:
                break
            end += 1
        return list(self._log[at:end])

    # A heartbeat

    def _heartbeat(self) -> Iterator[int]:
        for request in self._requests():
            for at, bumped in self._bumps(request):
                epoch = request.group.epoch + bumped
                for end, target_epoch, targets in self._targets(request, at, epoch):
                    yield from self._steps(request, end, epoch, target_epoch, targets)

    def _requests(self) -> Iterator[_Request]:
        group, at = self._group, self._at
        record = self._log[at]
        if record.key == CURRENT and record.value is None:
            yield from self._static_return(record.name)
            return
        found = self._value_at(at, MEMBER)
        if found is None:
            fresh = group.epoch == 0 and self._rules.bumps_fresh_group
            yield _Request(group, at, must_bump=fresh and bool(group.members))
            return
        member, instance = found.name, found.value.instance
        if instance:
            holders = [m for m, s in group.members.items() if s.instance == instance]
            if any(holder != member for holder in holders):
                return
        before = group.members.get(member)
        joins = before is None
        yield from self._changed(group, at, member, before or _NEW, joins)

    def _static_return(self, old: str) -> Iterator[_Request]:
        """A static member returns: it inherits target and current assignment, at epoch 0."""
        group, at = self._group, self._at
        new = self._value_at(at + 3, MEMBER)
        before = group.members.get(old)
        if new is None or before is None or not before.instance:
            return
        current = group.current_of(old)
        changed = self._value_at(at + 6, MEMBER, new.name)
        classic = before.classic or (changed is not None and changed.value.classic)
        if current.epoch != STATIC_LEAVE and not classic:
            return
        expected = [
            (CURRENT, old, None), (TARGET, old, None), (MEMBER, old, None),
            (MEMBER, new.name, before), (TARGET, new.name, group.target_of(old)),
            (CURRENT, new.name, current._replace(epoch=0, previous=0)),
        ]  # fmt: skip
        if not all(self._is(at + i, *record) for i, record in enumerate(expected)):
            return
        after = _copy(self._rules, group).replay(self._log[at : at + 6])
        fresh = new.name != old and self._rules.repeats_copied_target
        if changed is None:
            yield _Request(after, at + 6, new.name, fresh, subscription=before)
        else:
            yield from self._changed(after, at + 6, new.name, before, fresh)

    def _changed(
        self, group: Group, at: int, member: str, before: Subscription, joins: bool
    ) -> Iterator[_Request]:
        """A member's record at ``at`` says what it subscribes to from now on."""
        after: Subscription = self._log[at].value
        topics_changed, regex_changed = after.topics != before.topics, after.regex != before.regex
        bump = topics_changed or (group.epoch == 0 and self._rules.bumps_fresh_group)
        if regex_changed and after.regex:
            bump = bump or (group.uses(after.regex, (member,)) and after.regex in group.resolved)
        elif regex_changed:
            bump = bump or after.classic or self._rules.clearing_regex_bumps
        at += 1
        if regex_changed and before.regex and not group.uses(before.regex, (member,)):
            if not self._is(at, REGEX, before.regex, None):
                return
            at += 1
        changed = topics_changed or regex_changed
        yield _Request(group, at, member, joins, changed, bump, after)

    def _bumps(self, request: _Request) -> Iterator[tuple[int, bool]]:
        """The group epoch rises if it must, or if the metadata of the topics changed."""
        group, at = request.group, request.at
        record = self._value_at(at, EPOCH)
        if record is None:
            if request.must_bump:
                self._note(at, EPOCH, "", f"epoch {group.epoch + 1}")
            else:
                yield at, False
            return
        votes = self._rules.votes_bump and self._may_change_assignor(request)
        causes = request.must_bump or votes or record.value.known != group.known
        if causes and record.value.epoch == group.epoch + 1:
            yield at + 1, True
        elif causes:
            self._note(at, EPOCH, "", f"epoch {group.epoch + 1}")
        if not request.must_bump:
            yield at, False

    @staticmethod
    def _may_change_assignor(request: _Request) -> bool:
        """Whether another assignor can have the most votes: a vote changed, or votes differ."""
        votes = {m: s.votes for m, s in request.group.members.items()}
        before = votes.get(request.member or "", "")
        if request.member is not None:
            votes[request.member] = request.subscription.votes
            if before != request.subscription.votes:
                return True
        return len({vote for vote in votes.values() if vote}) > 1

    def _targets(
        self, request: _Request, at: int, epoch: int
    ) -> Iterator[tuple[int, int, dict[str, frozenset[Partition]]]]:
        """The target of the group epoch, if one is computed: the recorded one, if it can be one."""
        group = request.group
        if group.target_epoch >= epoch:
            yield at, group.target_epoch, {}
            return
        if self._rules.has_assignment_interval:
            yield at, group.target_epoch, {}
        fresh = {request.member} if request.joins and request.member is not None else set()
        members = group.members.keys() | fresh
        if not members:
            return
        run = self._run(at, TARGET)
        targets: dict[str, frozenset[Partition]] = {}
        owned = _targets_of(group, members - {record.name for record in run})
        for number, record in enumerate(run):
            old = group.target.get(record.name)
            changes = record.value != old or record.name in fresh
            if record.name not in members or record.name in targets or not changes:
                self._note(at + number, TARGET_EPOCH, "", f"epoch {epoch}")
                return
            if REPEATED in record.value or not owned.isdisjoint(record.value):
                self._note(
                    at + number, TARGET, record.name, "partitions that are in no other target"
                )
                return
            owned |= record.value
            targets[record.name] = record.value
        end = at + len(run)
        missing = (members - group.target.keys() | fresh) - targets.keys()
        if missing:
            self._note(end, TARGET, min(missing), "its first target")
        elif self._is(end, TARGET_EPOCH, "", epoch):
            yield end + 1, epoch, targets

    def _steps(
        self,
        request: _Request,
        at: int,
        epoch: int,
        target_epoch: int,
        targets: dict[str, frozenset[Partition]],
    ) -> Iterator[int]:
        """The member takes one step. Without a record of its own, any member may have asked."""
        found = self._value_at(at, CURRENT)
        if request.member is not None:
            members: Iterable[str] = (request.member,)
        elif found is not None and found.name in request.group.members:
            members = (found.name,)
        else:
            members = ()
        recorded: Current | None = None if found is None else found.value
        for member in members:
            before = request.group.current_of(member)
            goal = self._goal(request, member, epoch, target_epoch, targets)
            for after in outcomes(self._rules, request.group, before, goal, recorded):
                if after == before:
                    yield at
                elif self._is(at, CURRENT, member, after):
                    yield at + 1
        if request.member is None and at > self._at:
            stays = any(
                self._stays(request, member, epoch, target_epoch, targets)
                for member in request.group.members
            )
            if stays:
                yield at
            elif found is None:
                self._note(at, CURRENT, "", "the step of the member whose heartbeat this is")

    def _stays(
        self,
        request: _Request,
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
        goal = self._goal(request, member, epoch, target_epoch, targets)
        return before in outcomes(self._rules, request.group, before, goal, None)

    def _goal(
        self,
        request: _Request,
        member: str,
        epoch: int,
        target_epoch: int,
        targets: dict[str, frozenset[Partition]],
    ) -> Goal:
        """Topics of the target can count as not subscribed only as long as there is no target for
        the subscription: it has just changed, or its expression is not resolved."""
        group = request.group
        regex = group.members.get(member, request.subscription).regex
        if member == request.member:
            regex = request.subscription.regex
        stale = request.changed or target_epoch < epoch or (regex and regex not in group.resolved)
        target = targets.get(member, group.target_of(member))
        may_mask = self._rules.masks_lost_topics and bool(stale)
        return Goal(target_epoch, target, request.changed, may_mask)

    # Members leave

    def _removal(self) -> Iterator[int]:
        """Members leave or are fenced: tombstones of each, and one new group epoch."""
        group, at = self._group, self._at
        gone: dict[str, Subscription] = {}
        while at < len(self._log):
            record = self._log[at]
            if record.key != CURRENT or record.value is not None:
                break
            member = record.name
            if member not in group.members or member in gone:
                self._note(at, EPOCH, "", f"epoch {group.epoch + 1}")
                return
            if not (
                self._is(at + 1, TARGET, member, None) and self._is(at + 2, MEMBER, member, None)
            ):
                return
            gone[member] = group.members[member]
            at += 3
        if not gone:
            return
        for regex in dict.fromkeys(s.regex for s in gone.values() if s.regex):
            if not group.uses(regex, gone):
                if not self._is(at, REGEX, regex, None):
                    return
                at += 1
        found = self._value_at(at, EPOCH)
        if found is None or found.value.epoch != group.epoch + 1:
            self._note(at, EPOCH, "", f"epoch {group.epoch + 1}")
        elif not self._rules.empties_target or len(gone) < len(group.members):
            yield at + 1
        elif self._is(at + 1, TARGET_EPOCH, "", group.epoch + 1):
            yield at + 2

    def _static_leave(self) -> Iterator[int]:
        """A static member leaves for a while: it keeps what it was assigned."""
        found = self._value_at(self._at, CURRENT)
        if found is None:
            return
        group = self._group
        if group.members.get(found.name, _NEW).instance:
            before = group.current_of(found.name)
            assigned = dict.fromkeys(before.assigned, 0)
            gone = before._replace(epoch=STATIC_LEAVE, assigned=assigned, pending={})
            if self._is(self._at, CURRENT, found.name, gone):
                yield self._at + 1

    # The whole group

    def _resolution(self) -> Iterator[int]:
        """Expressions are resolved; the group epoch rises if their topics changed."""
        group = self._group
        changed, seen = False, set[str]()
        for number, record in enumerate(self._run(self._at, REGEX), 1):
            if record.name in seen or not group.uses(record.name):
                return
            seen.add(record.name)
            changed = changed or record.value != group.resolved.get(record.name, frozenset())
            at = self._at + number
            if not (changed and self._value_at(at, EPOCH) is None and self._value_at(at, REGEX)):
                request = _Request(group, at, must_bump=changed)
                yield from (end for end, _ in self._bumps(request))

    def _deletion(self) -> Iterator[int]:
        """An empty group is deleted."""
        if not self._group.members and not self._group.is_empty:
            yield from self._tombstones([])

    def _downgrade(self) -> Iterator[int]:
        """The last member of the new protocol is gone: the group becomes a classic one."""
        group = self._group
        classic = {m for m, s in group.members.items() if s.classic}
        order = [record.name for record in self._run(self._at, CURRENT, deleted=True)]
        if not classic or set(order) != group.members.keys() or len(order) != len(group.members):
            return
        # A static member that just became a classic one may have raised the epoch before. If all
        # members are classic ones, any of them may be gone.
        all_classic = len(classic) == len(order)
        epochs = {group.epoch, group.epoch - 1} if all_classic else {group.epoch}
        for at in self._tombstones(order):
            found = self._value_at(at, CLASSIC)
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
                self._note(at, CLASSIC, "", f"generation {group.epoch}, members {names}")

    def _tombstones(self, order: Sequence[str]) -> Iterator[int]:
        """All tombstones of a group, key by key."""
        at = self._at
        expected = [(key, name) for key in (CURRENT, TARGET) for name in order]
        expected += [(TARGET_EPOCH, "")] + [(MEMBER, name) for name in order]
        for key, name in expected:
            if not self._is(at, key, name, None):
                return
            at += 1
        used = {s.regex for s in self._group.members.values() if s.regex}
        regexes = [record.name for record in self._run(at, REGEX, deleted=True)]
        at += len(regexes)
        if len(set(regexes)) < len(regexes) or not used | self._group.resolved.keys() >= set(
            regexes
        ):
            return
        if self._is(at, EPOCH, "", None):
            yield at + 1

    def _classic(self) -> Iterator[int]:
        """A classic group: not modelled, except that it begins and ends."""
        record, group = self._log[self._at], self._group
        if record.key != CLASSIC:
            return
        is_classic = group.generation >= 0
        if record.value is not None:
            if group.is_empty:
                yield self._at + 1
        elif is_classic and not group.classic_members:
            yield self._at + 1

    def _upgrade(self) -> Iterator[int]:
        """A classic group becomes a consumer group: its assignment is the first target."""
        group, at = self._group, self._at
        if group.generation < 0 or self._log[at].key != CLASSIC or self._log[at].value is not None:
            return
        members = self._run(at + 1, MEMBER)
        at += 1 + len(members)
        order = [record.name for record in members if record.value.classic]
        if not order or len(set(order)) < len(members):
            return
        found = self._value_at(at, EPOCH)
        if found is None or found.value.epoch < group.generation:
            self._note(at, EPOCH, "", f"epoch {group.generation} or later")
            return
        epoch = found.value.epoch
        targets = {record.name: record.value for record in self._run(at + 1, TARGET)}
        at += 1 + len(self._run(at + 1, TARGET))
        everything = [p for target in targets.values() for p in target]
        if targets.keys() != set(order) or len(set(everything)) < len(everything):
            self._note(at, TARGET, "", "one for each member, no partition twice")
            return
        if not self._is(at, TARGET_EPOCH, "", epoch):
            return
        gained = epoch if self._rules.has_partition_epochs else 0
        for number, member in enumerate(order, 1):
            assigned = dict.fromkeys(targets[member], gained)
            if not self._is(at + number, CURRENT, member, Current(epoch, epoch, STABLE, assigned)):
                return
        yield at + 1 + len(order)


def _targets_of(group: Group, members: Iterable[str]) -> set[Partition]:
    return {partition for member in members for partition in group.target_of(member)}


def _copy(rules: Rules, group: Group) -> Group:
    """A group in the same state, which may be changed."""
    copied = Group(rules)
    copied.epoch, copied.target_epoch, copied.known = group.epoch, group.target_epoch, group.known
    copied.members, copied.target = dict(group.members), dict(group.target)
    copied.current, copied.resolved = dict(group.current), dict(group.resolved)
    copied.owners = group.owners.copy()
    return copied
