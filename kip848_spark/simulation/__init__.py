"""Simulated clusters: clients that drive the reference coordinator, reproducible by seed."""

from __future__ import annotations

from kip848_spark.simulation.plan import ClusterPlan, plan_cluster
from kip848_spark.simulation.profiles import PROFILES, Profile
from kip848_spark.simulation.simulate import SimulationResult, simulate

__all__ = ["PROFILES", "ClusterPlan", "Profile", "SimulationResult", "plan_cluster", "simulate"]
