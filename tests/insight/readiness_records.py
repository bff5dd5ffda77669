"""Records of groups, in the form that `kip848 dump` prints, for readiness tests."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from kip848_spark.coordinator import records

Record = dict[str, Any]


def member(
    member_id: str = "m-1",
    *,
    client_id: str = "app",
    host: str = "/10.0.0.1",
    instance_id: str | None = None,
    topics: Sequence[str] = ("orders",),
    owned: Sequence[int] = (0,),
    session_timeout: int = 45_000,
    rack: str | None = None,
    subscription_data: bytes | None = None,
    assignment_data: bytes | None = None,
    raw_subscription: bytes | None = None,
    raw_assignment: bytes | None = None,
) -> dict[str, Any]:
    """A member of a classic group. The raw bytes take the place of the embedded metadata."""

    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    subscription: Any = {
        "topics": list(topics),
        "userData": text(subscription_data),
        "ownedPartitions": [],
        "generationId": 1,
        "rackId": rack,
    }
    assignment: Any = {
        "assignedPartitions": [{"topic": topics[0], "partitions": list(owned)}] if owned else [],
        "userData": text(assignment_data),
    }
    return {
        "memberId": member_id,
        "groupInstanceId": instance_id,
        "clientId": client_id,
        "clientHost": host,
        "rebalanceTimeout": 300_000,
        "sessionTimeout": session_timeout,
        "subscription": subscription if raw_subscription is None else text(raw_subscription),
        "assignment": assignment if raw_assignment is None else text(raw_assignment),
    }


def classic(
    *members: dict[str, Any],
    group: str = "g",
    protocol: str | None = "cooperative-sticky",
    protocol_type: str = "consumer",
) -> Record:
    """Key 2: a classic group."""
    return records.record(
        "2",
        3,
        {"group": group},
        {
            "protocolType": protocol_type,
            "generation": 1,
            "protocol": protocol if members else None,
            "leader": members[0]["memberId"] if members else None,
            "currentStateTimestamp": 1_793_534_400_000,
            "members": list(members),
        },
    )


def consumer_member(
    member_id: str,
    *,
    group: str = "g",
    assignor: str | None = None,
    classic_timeout: int | None = None,
    client_id: str = "app",
) -> Record:
    """Key 5: a member of a consumer group; with ``classic_timeout`` one that uses the classic
    protocol with this session timeout."""
    value: dict[str, Any] = {
        "instanceId": None,
        "rackId": None,
        "clientId": client_id,
        "clientHost": "/10.0.0.1",
        "subscribedTopicNames": ["orders"],
        "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": 300_000,
        "serverAssignor": assignor,
        "classicMemberMetadata": None,
    }
    if classic_timeout is not None:
        metadata = {"topics": ["orders"], "userData": None}
        value["classicMemberMetadata"] = {
            "sessionTimeoutMs": classic_timeout,
            "supportedProtocols": [{"name": "range", "metadata": metadata}],
        }
    return records.record("5", 0, {"groupId": group, "memberId": member_id}, value)


def consumer(*members: Record, group: str = "g", epoch: int = 3) -> list[Record]:
    """A consumer group: its members, and key 3."""
    return [*members, records.group_epoch(group, epoch, 7)]


def commit(group: str = "g", partition: int = 0) -> Record:
    """Key 1: a committed offset."""
    return records.record(
        "1",
        3,
        {"group": group, "topic": "orders", "partition": partition},
        {
            "offset": 5,
            "leaderEpoch": -1,
            "metadata": "",
            "commitTimestamp": 1_793_534_400_000,
        },
    )


def share(group: str = "g") -> Record:
    """Key 11: a share group."""
    return records.record("11", 0, {"groupId": group}, {"epoch": 2, "metadataHash": 0})


def streams(group: str = "g") -> Record:
    """Key 17: a streams group."""
    return records.record("17", 0, {"groupId": group}, {"epoch": 2, "metadataHash": 0})
