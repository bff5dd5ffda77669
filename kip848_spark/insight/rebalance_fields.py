"""The columns of the table `rebalances`."""

from __future__ import annotations

import pyarrow as pa

from kip848_spark.wire.tables import TIMESTAMP

REBALANCES = "rebalances"
"""The name of the table."""
_STRINGS = pa.list_(pa.string())

REBALANCE_FIELDS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "group_id": pa.string(),
    "type": pa.string(),
    "epoch": pa.int32(),
    "started_at": TIMESTAMP,
    "converged_at": TIMESTAMP,
    "duration_ms": pa.int64(),
    "causes": _STRINGS,
    "likely": pa.string(),
    "joined": _STRINGS,
    "left": _STRINGS,
    "trigger_members": _STRINGS,
    "members": pa.int32(),
    "partitions_moved": pa.int32(),
    "minimal_moves": pa.int32(),
    "revoked": pa.int32(),
    "blocked_members": _STRINGS,
    "slowest_member": pa.string(),
    "slowest_ms": pa.int64(),
    "unowned_ms": pa.int64(),
    "superseded_by": pa.int32(),
    "episode_id": pa.string(),
    "outcome": pa.string(),
    "complete": pa.bool_(),
    "evidence": pa.list_(pa.int64()),
    "from_offset": pa.int64(),
    "to_offset": pa.int64(),
}
"""The columns of `rebalances` that the control records give, and their Arrow types. The table in
the lake has the column ``cluster_id`` as well."""

JOINED = "member_joined"
LEFT = "left_or_expired"
REBALANCE_TIMEOUT = "rebalance_timeout"
SUBSCRIPTION = "subscription_changed"
ASSIGNOR = "assignor_changed"
TOPICS = "topics_changed"
REGEX = "regex_resolved"
UPGRADED = "upgraded"
DOWNGRADED = "downgraded"
REPLACED = "static_member_replaced"
REJOINED = "rejoined"
UNKNOWN = "unknown"

CAUSES = (
    ASSIGNOR,
    DOWNGRADED,
    LEFT,
    JOINED,
    REBALANCE_TIMEOUT,
    REGEX,
    REJOINED,
    REPLACED,
    SUBSCRIPTION,
    TOPICS,
    UNKNOWN,
    UPGRADED,
)
"""The values in the column ``causes``, sorted."""

CONVERGED = "converged"
SUPERSEDED = "superseded"
GROUP_DELETED = "group_deleted"
OPEN = "open"
CUT_BY_GAP = "cut_by_gap"
OUTCOMES = (CONVERGED, SUPERSEDED, GROUP_DELETED, OPEN, CUT_BY_GAP)
"""The values of the column ``outcome``."""
