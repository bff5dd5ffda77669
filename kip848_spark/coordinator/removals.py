"""What must be gone before a tombstone is loaded: a broker refuses to load a log in which a group,
a member or a target is deleted too early (docs/kafka-facts.md#replay).
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any, Protocol

from kip848_spark.coordinator.faults import ReplayError

REMOVED = -1
"""The epochs of a member after the tombstone of its assignment, and of a target after its own."""


class _Group(Protocol):
    group_id: str
    target_epoch: int

    @property
    def members(self) -> Sized: ...

    @property
    def targets(self) -> Mapping[str, Any]: ...


def check_group_removal(group: _Group) -> None:
    """Raises ReplayError if members, targets or the target epoch are still there."""
    for what, there in (("members", group.members), ("targets", group.targets)):
        if there:
            raise ReplayError(f"group {group.group_id!r} is removed but has {len(there)} {what}")
    if group.target_epoch != REMOVED:
        raise ReplayError(
            f"group {group.group_id!r} is removed but its target's epoch is still there"
        )


def check_member_removal(group: _Group, member_id: str, epoch: int) -> None:
    """Raises ReplayError if the member's assignment (``epoch`` is its own) or target is there."""
    if epoch != REMOVED:
        raise ReplayError(f"member {member_id!r} is removed but its assignment is not")
    if member_id in group.targets:
        raise ReplayError(f"member {member_id!r} is removed but its target is not")


def check_target_removal(group: _Group) -> None:
    """Raises ReplayError if a member still has a target."""
    if group.targets:
        raise ReplayError(
            f"the target of {group.group_id!r} is removed but members still have theirs"
        )
