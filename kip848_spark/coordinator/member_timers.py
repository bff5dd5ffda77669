"""The timers of a member of a consumer group: their keys, and how to cancel them all."""

from __future__ import annotations

from kip848_spark.coordinator.shard import Shard


def session_key(group_id: str, member_id: str) -> str:
    """Key of the timer that ends a member's session."""
    return f"session-{group_id}-{member_id}"


def rebalance_key(group_id: str, member_id: str) -> str:
    """Key of the timer of a member that must revoke partitions."""
    return f"rebalance-{group_id}-{member_id}"


def join_key(group_id: str, member_id: str) -> str:
    """Key of the timer of a classic member that was told to rejoin a consumer group."""
    return f"join-{group_id}-{member_id}"


def sync_key(group_id: str, member_id: str) -> str:
    """Key of the timer of a classic member that joined and must sync."""
    return f"sync-{group_id}-{member_id}"


def cancel_timers(shard: Shard, group_id: str, member_id: str) -> None:
    """Cancel every timer of a member."""
    for key in (session_key, rebalance_key, join_key, sync_key):
        shard.timers.cancel(key(group_id, member_id))
