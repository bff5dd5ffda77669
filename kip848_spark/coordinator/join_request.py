"""Parts of a JoinGroup request that classic groups and consumer groups both read."""

from __future__ import annotations

import base64
from typing import Any

from kip848_spark.coordinator.consumer_protocol import subscription_bytes
from kip848_spark.coordinator.records import Json

MEMBER_ID_REQUIRED_FROM = 4
"""From this version on, a dynamic member first receives its id and then joins again with it."""


def read_protocols(request: Json) -> tuple[tuple[str, bytes], ...]:
    """The protocols that a member offers, with its metadata for each (decoded from base64, or
    encoded).
    """
    offered = []
    for row in request.get("protocols") or ():
        metadata: Any = row.get("metadata")
        decoded = isinstance(metadata, dict)
        data = subscription_bytes(metadata) if decoded else base64.b64decode(metadata or "")
        offered.append((row["name"], data))
    return tuple(offered)
