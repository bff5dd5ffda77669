"""One step of a member towards its target (``spec/Coordinator.tla``, "Reconciliation").

A request is hidden, so all that it can have said is tried: whether the member has acknowledged what
it had to revoke, and from 4.2 on, which topics count as not subscribed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kip848_spark.conformance.group import ModelGroup, Rules
from kip848_spark.conformance.records import (
    STABLE,
    STATIC_LEAVE,
    UNRELEASED,
    UNREVOKED,
    Current,
    Partition,
)

_REPORTS = ((False, False), (True, True), (True, False))
"""Whether a report acknowledges what is pending, and what the next step takes: it has no list; the
list is empty; it is what the member was assigned."""


class StepInput(NamedTuple):
    """What a member is reconciled with."""

    epoch: int
    """The assignment epoch."""
    target: frozenset[Partition]
    changed: bool
    """Whether the request changed the subscription."""
    may_mask: bool
    """Whether topics of the target can count as not subscribed (4.2)."""


def outcomes(
    rules: Rules, group: ModelGroup, before: Current, given: StepInput, recorded: Current | None
) -> Iterator[Current]:
    """What the member can have after one request; ``before`` itself: no record is written.
    ``recorded`` selects the topics that can count as not subscribed.
    """
    if before.epoch == STATIC_LEAVE:
        return
    masks = [frozenset[str]()]
    if given.may_mask:
        masks += _masks(rules, group, before, given, recorded)
    for acknowledges_pending, acknowledges_lost in _REPORTS:
        for mask in masks:
            yield from _reconcile(
                rules, group, before, given, acknowledges_pending, acknowledges_lost, mask
            )


def _masks(
    rules: Rules, group: ModelGroup, before: Current, given: StepInput, recorded: Current | None
) -> list[frozenset[str]]:
    """The sets of topics that can count as not subscribed. A topic of which something is assigned
    afterwards can't. The largest set waits for no other partition, the smallest one for all."""
    after = before if recorded is None else recorded
    kept = {topic for topic, _ in after.assigned}
    largest = {topic for topic, _ in (*given.target, *before.assigned)} - kept
    would_have = {
        p[0]
        for p in given.target
        if p in before.assigned or (after.state != UNREVOKED and _is_free(rules, group, before, p))
    }
    return [frozenset(largest), frozenset(largest & would_have)]


def _reconcile(
    rules: Rules,
    group: ModelGroup,
    before: Current,
    given: StepInput,
    acknowledges_pending: bool,
    acknowledges_lost: bool,
    mask: frozenset[str],
) -> Iterator[Current]:
    drops = given.changed and rules.masks_lost_topics
    epoch = before.epoch
    if before.state == STABLE and epoch == given.epoch:
        if drops:
            yield from _unsubscribe(rules, before, mask, acknowledges_lost)
        else:
            yield before
        return
    if before.state == UNREVOKED:
        if not acknowledges_pending:
            if drops:
                yield from _unsubscribe(rules, before, mask, False)
            else:
                yield before
            return
        epoch = min(epoch + rules.epochs_after_revocation, given.epoch)
    yield _step(rules, group, before, given, epoch, acknowledges_lost, mask)


def _is_free(rules: Rules, group: ModelGroup, before: Current, partition: Partition) -> bool:
    if not group.owners[partition]:
        return True
    return rules.own_pending_is_free and partition in before.pending


def _step(
    rules: Rules,
    group: ModelGroup,
    before: Current,
    given: StepInput,
    epoch: int,
    acknowledged: bool,
    mask: frozenset[str],
) -> Current:
    """OneStep: revoke first, then move to the target epoch and take what is free."""
    target = given.target
    if mask:
        target = frozenset(p for p in target if p[0] not in mask)
    kept = {p: at for p, at in before.assigned.items() if p in target}
    lost = {p: at for p, at in before.assigned.items() if p not in target}
    if lost and not acknowledged:
        return Current(epoch, before.epoch, UNREVOKED, kept, lost)
    gained = given.epoch if rules.has_partition_epochs else 0
    free = {p: gained for p in target if p not in kept and _is_free(rules, group, before, p)}
    state = STABLE if len(kept) + len(free) == len(target) else UNRELEASED
    return Current(given.epoch, before.epoch, state, kept | free, {})


def _unsubscribe(
    rules: Rules, before: Current, mask: frozenset[str], acknowledged: bool
) -> Iterator[Current]:
    """Unsubscribe: partitions of topics that are no longer subscribed are given up at once."""
    stepped = before._replace(previous=before.epoch) if rules.unsubscribing_steps else before
    gone = {p: at for p, at in before.assigned.items() if p[0] in mask}
    if not gone:
        yield before
        if not before.pending:  # nothing is subscribed
            yield stepped
        return
    rest = {p: at for p, at in before.assigned.items() if p[0] not in mask}
    if acknowledged:
        yield stepped._replace(assigned=rest)
    else:
        pending = {**before.pending, **gone}
        yield stepped._replace(state=UNREVOKED, assigned=rest, pending=pending)
