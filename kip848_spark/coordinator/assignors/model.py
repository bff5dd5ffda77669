"""What an assignor is given and gives back (KIP-848 "Broker API", AssignmentSpec)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Assignment = dict[str, set[int]]
"""Topic id -> partitions."""
GroupAssignment = dict[str, Assignment]


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member as an assignor sees it; its topics are the ids of those that exist."""

    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    target: Assignment
    """Its partitions by the last target: what stickiness keeps."""


@dataclass(frozen=True, slots=True)
class AssignmentSpec:
    """A group as an assignor sees it. The order of the members is the order of the visits."""

    members: tuple[MemberSpec, ...]
    partitions: dict[str, int]
    """Topic id -> number of partitions, for every topic some member asks for."""
    homogeneous: bool


Assignor = Callable[[AssignmentSpec], GroupAssignment]
