"""Groups with their members and offsets, put together from the state tables for showing."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F

from kip848_spark.errors import NotFoundError
from kip848_spark.spark.views import Views


def described(views: Views, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The groups ``names`` (all if None), sorted: the columns of `groups`, with ``members_now``
    (rows of `members`, each with its partitions by role) and ``offsets`` (rows of `offsets`).

    Raises NotFoundError, with names that are near, if there is no such group.
    """

    def rows(table: str, *order: str) -> list[dict[str, Any]]:
        frame = views.table(table)
        if names is not None:
            frame = frame.where(F.col("group_id").isin(list(names)))
        return [row.asDict(recursive=True) for row in frame.orderBy(*order).collect()]

    found = {
        row["group_id"]: row | {"members_now": [], "offsets": []}
        for row in rows("groups", "group_id")
    }
    missing = [name for name in names or () if name not in found]
    if missing:
        raise _unknown(views, missing[0])
    members: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows("members", "group_id", "member_id"):
        roles: dict[str, list[Any]] = {"assigned": [], "pending_revocation": [], "target": []}
        member = row | roles
        members[row["group_id"], row["member_id"]] = member
        found[row["group_id"]]["members_now"].append(member)
    for row in rows("assignments", "group_id", "member_id", "topic", "topic_id", "topic_partition"):
        owner = members.get((row["group_id"], row["member_id"]))
        if owner is not None:
            place = {name: row[name] for name in ("topic", "topic_id", "topic_partition")}
            owner[row["role"]].append(place)
    for row in rows("offsets", "group_id", "topic", "topic_partition"):
        if row["group_id"] in found:  # a deleted group's last commits may outlive it
            found[row["group_id"]]["offsets"].append(row)
    return list(found.values())


def _unknown(views: Views, name: str) -> NotFoundError:
    known = [row["group_id"] for row in views.table("groups").select("group_id").collect()]
    near = difflib.get_close_matches(name, known, 3, 0.5)
    hint = f"Did you mean {', '.join(near)}?" if near else "`kip848 groups` lists them."
    return NotFoundError(f"The lake has no group {name}.", hint)
