"""The server-side assignors of KIP-848, by name: ``range`` and ``uniform``, and users' own."""

from __future__ import annotations

from kip848_spark.coordinator.assignors.custom import (
    ASSIGNORS,
    CustomAssignor,
    GroupMember,
    GroupSpec,
    PartitionAssignor,
    TopicMetadata,
    find_assignors,
)
from kip848_spark.coordinator.assignors.model import AssignmentSpec, Assignor, MemberSpec
from kip848_spark.coordinator.assignors.range import assign_range
from kip848_spark.coordinator.assignors.uniform import assign_uniform

__all__ = [
    "ASSIGNORS",
    "AssignmentSpec",
    "Assignor",
    "CustomAssignor",
    "GroupMember",
    "GroupSpec",
    "MemberSpec",
    "PartitionAssignor",
    "TopicMetadata",
    "assign_range",
    "assign_uniform",
    "find_assignors",
]
