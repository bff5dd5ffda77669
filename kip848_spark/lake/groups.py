"""Finds and describes the groups of a lake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kip848_spark.errors import no_such_group
from kip848_spark.lake.history import StateAt
from kip848_spark.lake.snapshot import LakeSnapshot


def check_groups(names: Iterable[str], group_ids: Callable[[str], set[str]]) -> None:
    """Raises NotFoundError if one of the groups ``names`` is neither in the state tables nor (if it
    was deleted) in the records. ``group_ids`` returns the group ids in a table."""
    unknown, known = set(names), set[str]()
    for table in ("groups", "group_records", "records"):
        known |= group_ids(table)
        unknown -= known
        if not unknown:
            return
    raise no_such_group(min(unknown), known)


def describe_groups(
    state: LakeSnapshot | StateAt,
    names: Sequence[str] | None = None,
    *,
    members_too: bool = True,
    offsets_too: bool = True,
) -> list[dict[str, Any]]:
    """The groups ``names`` (all if None), sorted by id, one dict for each: the columns of `groups`,
    ``members_now`` (rows of `members`, each with its partitions by role) and ``offsets`` (rows of
    `offsets`). Without ``members_too`` or ``offsets_too``, these tables are not read and the lists
    are empty: at an earlier time, the offsets of all groups are in as many records as the lake has.
    Of a group in two partitions of the topic, only the one with its latest record counts.

    Raises NotFoundError, with similar names in the hint, if there is no such group.
    """

    def rows(table: str, *order: str) -> list[dict[str, Any]]:
        found = state.rows(table, names)
        return sorted(found, key=lambda row: [(row[n] is not None, row[n]) for n in order])

    found = {
        row["group_id"]: row | {"members_now": [], "offsets": []}
        for row in rows("groups", "group_id", "updated_at")
    }
    live = {(name, row["partition"]) for name, row in found.items()}
    missing = [name for name in names or () if name not in found]
    if missing:
        raise state.missing_group(missing[0])
    members: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows("members", "group_id", "member_id") if members_too else ():
        if (row["group_id"], row["partition"]) not in live:
            continue
        roles: dict[str, Any] = {"assigned": [], "pending_revocation": [], "target": []}
        member = row | roles
        members[row["group_id"], row["member_id"]] = member
        found[row["group_id"]]["members_now"].append(member)
    order = ("group_id", "member_id", "topic", "topic_id", "topic_partition")
    for row in rows("assignments", *order) if members_too else ():
        owner = members.get((row["group_id"], row["member_id"]))
        if owner is not None and owner["partition"] == row["partition"]:
            place = {name: row[name] for name in ("topic", "topic_id", "topic_partition")}
            owner[row["role"]].append(place)
    for row in rows("offsets", "group_id", "topic", "topic_partition") if offsets_too else ():
        # A deleted group's last commits may outlive it.
        if (row["group_id"], row["partition"]) in live:
            found[row["group_id"]]["offsets"].append(row)
    return list(found.values())
