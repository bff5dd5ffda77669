"""The reference group coordinator of KIP-848, in plain Python, written to be read beside the KIP.

It takes requests and the current time, and returns responses and records. ``Coordinator.replay``
loads a log as a broker does. Start reading at :mod:`.heartbeat` and :mod:`.reconcile`;
``docs/coordinator.md`` lists the module of every other rule.
"""

from __future__ import annotations

from kip848_spark.coordinator.coordinator import APIS, Client, Coordinator, Step
from kip848_spark.coordinator.faults import GroupError, ReplayError
from kip848_spark.coordinator.releases import RELEASES, Release
from kip848_spark.coordinator.script import run_script

__all__ = [
    "APIS",
    "RELEASES",
    "Client",
    "Coordinator",
    "GroupError",
    "Release",
    "ReplayError",
    "Step",
    "run_script",
]
