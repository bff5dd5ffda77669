"""Clusters that never were: clients driven against the reference coordinator, by seed."""

from __future__ import annotations

from kip848_spark.simulation.plan import ClusterPlan, plan_cluster
from kip848_spark.simulation.profiles import PROFILES, Profile
from kip848_spark.simulation.simulate import Outcome, simulate

__all__ = ["PROFILES", "ClusterPlan", "Outcome", "Profile", "plan_cluster", "simulate"]
