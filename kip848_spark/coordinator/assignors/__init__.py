"""The server-side assignors of KIP-848, by name: ``range`` and ``uniform``."""

from __future__ import annotations

from kip848_spark.coordinator.assignors.model import AssignmentSpec, Assignor, MemberSpec
from kip848_spark.coordinator.assignors.range import assign_range
from kip848_spark.coordinator.assignors.uniform import assign_uniform

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}

__all__ = [
    "ASSIGNORS",
    "AssignmentSpec",
    "Assignor",
    "MemberSpec",
    "assign_range",
    "assign_uniform",
]
