"""Coordinators with one broken rule each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from kip848_spark.coordinator import heartbeat, membership, reconcile
from kip848_spark.coordinator import records as record_forms
from kip848_spark.coordinator.assignors import ASSIGNORS, AssignmentSpec
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member, MemberState


def _free_always(*_: Any) -> bool:
    return True


def _always_acknowledged(*_: Any) -> bool:
    return False


def _bump_by_two(group_id: str, epoch: int, metadata_hash: int | None) -> dict[str, Any]:
    return _real_epoch(group_id, epoch + 1, metadata_hash)


_real_epoch = record_forms.group_epoch
_real_target_epoch = record_forms.target_epoch
_real_reconcile = reconcile.reconcile
_real_refresh = heartbeat.refresh_metadata
_real_uniform = ASSIGNORS["uniform"]


def _stale_target_epoch(group_id: str, epoch: int, timestamp: int) -> dict[str, Any]:
    return _real_target_epoch(group_id, epoch - 1, timestamp)


def _never_reconciles(member: Member, *_: Any) -> Member:
    return member


def _keeps_pending(member: Member, goal: Any, owned: Any) -> Member:
    after = _real_reconcile(member, goal, owned)
    return after if after.state is not MemberState.STABLE or not member.pending else member


def _epoch_ahead(member: Member, goal: Any, owned: Any) -> Member:
    after = _real_reconcile(member, goal, owned)
    return after if after is member else after.at_epoch(after.epoch + 1)


def _epoch_back(member: Member, goal: Any, owned: Any) -> Member:
    after = _real_reconcile(member, goal, owned)
    return after if after is member or after.epoch < 2 else after.at_epoch(1)


def _takes_all(spec: AssignmentSpec) -> Any:
    everything = {topic: list(range(count)) for topic, count in spec.partitions.items()}
    return {member.member_id: everything for member in spec.members}


def _forgets_a_partition(spec: AssignmentSpec) -> Any:
    result = _real_uniform(spec)
    for share in result.values():
        for numbers in share.values():
            if numbers:
                numbers.pop()
                return result
    return result


def _remove_without_tombstones(shard: Any, group: ConsumerGroup, member: Member) -> None:
    group.remove_member(member.member_id)


def _no_bump(*_: Any, **__: Any) -> None:
    return None


def _forgets_where_it_was(member: Member, epoch: int, **changes: Any) -> Member:
    return member._replace(epoch=epoch, **changes)


def _partitions_ahead(member: Member, goal: Any, owned: Any) -> Member:
    after = _real_reconcile(member, goal, owned)
    ahead = {t: {n: e + 1 for n, e in ns.items()} for t, ns in after.assigned.items()}
    return after if after is member else after._replace(assigned=ahead)


def _always_a_target(shard: Any, group: ConsumerGroup, *_: Any, **__: Any) -> None:
    _real_refresh(shard, group, *_, **__)
    if group.members and set(group.targets) == set(group.members):
        shard.append(_real_target_epoch(group.group_id, group.target_epoch, 1))


Mutant = Callable[[], AbstractContextManager[Any]]
MUTANTS: dict[str, Mutant] = {
    "assigns partitions that others still own": lambda: patch.object(
        reconcile, "_is_free", _free_always
    ),
    "removes partitions without revoking": lambda: patch.object(
        reconcile, "_not_acknowledged", _always_acknowledged
    ),
    "bumps by two": lambda: patch.object(record_forms, "group_epoch", _bump_by_two),
    "writes the previous target epoch": lambda: patch.object(
        record_forms, "target_epoch", _stale_target_epoch
    ),
    "never reconciles": lambda: patch.object(heartbeat, "reconcile", _never_reconciles),
    "never finishes a revocation": lambda: patch.object(heartbeat, "reconcile", _keeps_pending),
    "exceeds the target epoch": lambda: patch.object(heartbeat, "reconcile", _epoch_ahead),
    "decreases the epoch": lambda: patch.object(heartbeat, "reconcile", _epoch_back),
    "assigns a partition twice": lambda: patch.dict(ASSIGNORS, uniform=_takes_all),
    "leaves partitions unassigned": lambda: patch.dict(ASSIGNORS, uniform=_forgets_a_partition),
    "writes no tombstones": lambda: patch.object(
        membership, "append_member_tombstones", _remove_without_tombstones
    ),
    "does not bump when a member leaves": lambda: patch.object(
        membership, "bump_after_removal", _no_bump
    ),
    "ignores topic changes": lambda: patch.object(heartbeat, "refresh_metadata", _no_bump),
    "never computes a target": lambda: patch.object(heartbeat, "update_target", _no_bump),
    "loses the previous epoch": lambda: patch.object(Member, "at_epoch", _forgets_where_it_was),
    "writes later assignment epochs": lambda: patch.object(
        heartbeat, "reconcile", _partitions_ahead
    ),
    "writes a target twice": lambda: patch.object(heartbeat, "refresh_metadata", _always_a_target),
    "accepts any epoch": lambda: patch.object(membership, "check_epoch", _no_bump),
}
