"""Rows of the tables from which stories are told, written by hand: short forms for tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Row = dict[str, Any]

GROUP = "orders-billing"
NIGHT = datetime(2026, 11, 20, 2, 14, 7, tzinfo=UTC)
PARTITION = 12


def at(seconds: float) -> datetime:
    """The time so many seconds after `NIGHT`."""
    return NIGHT + timedelta(seconds=seconds)


def interval(
    start: float, end: float | None, offsets: tuple[int, int | None], known: bool = True
) -> Row:
    """The columns of an interval; times in seconds after `NIGHT`."""
    return {
        "valid_from": at(start),
        "valid_to": None if end is None else at(end),
        "from_offset": offsets[0],
        "to_offset": offsets[1],
        "known_from": None if known else at(start),
        "known_to": None,
        "partition": PARTITION,
        "group_id": GROUP,
        "cluster_id": None,
    }


def member(
    name: str,
    start: float,
    end: float | None,
    offsets: tuple[int, int | None],
    *,
    member_id: str = "",
    host: str = "",
    **columns: Any,
) -> Row:
    """A row of `member_history`: the client ``name``, whose member id is made from it unless it is
    given."""
    row = {
        "member_id": member_id or f"id-of-{name}",
        "instance_id": None,
        "rack_id": None,
        "client_id": name,
        "client_host": f"/{host or '10.0.4.1'}",
        "subscribed_topics": ["orders"],
        "subscribed_regex": None,
        "assignor": None,
        "member_epoch": 1,
        "previous_member_epoch": 0,
        "member_state": "stable",
        "is_classic": False,
    }
    return row | interval(start, end, offsets) | columns


def part(
    name: str,
    number: int,
    role: str,
    start: float,
    end: float | None,
    offsets: tuple[int, int | None],
    *,
    topic: str = "orders",
    member_id: str = "",
) -> Row:
    """A row of `assignment_history`."""
    row = {
        "member_id": member_id or f"id-of-{name}",
        "topic_id": f"id of {topic}",
        "topic": topic,
        "topic_partition": number,
        "role": role,
        "assignment_epoch": None,
    }
    return row | interval(start, end, offsets)


def group(
    epoch: int, start: float, end: float | None, offsets: tuple[int, int | None], **columns: Any
) -> Row:
    """A row of `group_history`."""
    row = {
        "type": "consumer",
        "state": "Stable",
        "protocol_type": "consumer",
        "protocol": None,
        "assignor": "uniform",
        "epoch": epoch,
        "target_epoch": epoch,
        "metadata_hash": None,
        "members": 3,
    }
    return row | interval(start, end, offsets) | columns


def rebalance(
    epoch: int,
    causes: Sequence[str],
    start: float,
    end: float | None,
    offset: int,
    **columns: Any,
) -> Row:
    """A row of `rebalances`. The members in lists are client names, of members that `member`
    made."""
    row = {
        "group_id": GROUP,
        "partition": PARTITION,
        "type": "consumer",
        "epoch": epoch,
        "started_at": at(start),
        "converged_at": None if end is None else at(end),
        "duration_ms": None if end is None else round((end - start) * 1000),
        "causes": sorted(causes),
        "likely": None,
        "joined": [],
        "left": [],
        "trigger_members": [],
        "members": 3,
        "partitions_moved": 0,
        "minimal_moves": 0,
        "revoked": 0,
        "blocked_members": [],
        "slowest_member": None,
        "slowest_ms": None,
        "unowned_ms": 0,
        "superseded_by": None,
        "episode_id": f"{PARTITION}-{offset}",
        "outcome": "open" if end is None else "converged",
        "complete": True,
        "evidence": [offset],
        "from_offset": offset,
        "to_offset": None if end is None else offset + 50,
        "cluster_id": None,
    }
    row |= columns
    for name in ("joined", "left", "trigger_members", "blocked_members"):
        row[name] = [f"id-of-{client}" for client in row[name]]
    if row["slowest_member"]:
        row["slowest_member"] = f"id-of-{row['slowest_member']}"
    return row
