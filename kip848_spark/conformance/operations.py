"""Where an operation of the model's coordinator can end (``spec/Conformance.tla``).

An operation is matched stage by stage, in the order in which a coordinator writes.
"""

from __future__ import annotations

from kip848_spark.conformance.group_operations import (
    classic,
    deletion,
    downgrade,
    removal,
    resolution,
    static_leave,
    upgrade,
)
from kip848_spark.conformance.heartbeat import heartbeat
from kip848_spark.conformance.log_matcher import LogMatcher

_OPERATIONS = (
    heartbeat, removal, static_leave, resolution, deletion, downgrade, classic, upgrade,
)  # fmt: skip


def operation_ends(log: LogMatcher) -> set[int]:
    """The places after the operations that can begin at ``log.at``. What operations have instead
    of the log's records is noted in ``log.allowed``."""
    found: set[int] = set()
    for operation in _OPERATIONS:
        found.update(operation(log))
    found.discard(log.at)
    return found
