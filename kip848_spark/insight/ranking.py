"""Which groups rebalance most, and which clients come and go: counts over rows of `rebalances`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.phrases import count, counts_of_causes, duration
from kip848_spark.insight.rebalance_fields import OPEN

_SEVERAL = 2
"""A client comes and goes if it joined and left at least this often."""
_AT_A_TIME = 200
"""Groups whose members are read at a time."""


def busiest_groups(rebalances: pa.Table, top: int) -> list[dict[str, Any]]:
    """The ``top`` groups with most rebalances: their number, the longest one in ms, the partitions
    that moved, the milliseconds that partitions had no owner, the most frequent cause, and the time
    of the last one."""
    sums = rebalances.group_by("group_id").aggregate(
        [
            ("epoch", "count"),
            ("duration_ms", "max"),
            ("partitions_moved", "sum"),
            ("unowned_ms", "sum"),
            ("started_at", "max"),
        ]
    )
    names = {
        "group_id": "group_id",
        "epoch_count": "rebalances",
        "duration_ms_max": "longest_ms",
        "partitions_moved_sum": "partitions_moved",
        "unowned_ms_sum": "unowned_ms",
        "started_at_max": "last_at",
    }
    sums = sums.rename_columns([names[name] for name in sums.column_names])
    found: list[dict[str, Any]] = sums.sort_by(
        [("rebalances", "descending"), ("group_id", "ascending")]
    )[:top].to_pylist()
    causes: dict[str, dict[str, int]] = defaultdict(dict)
    for (group, cause), number in _counts(rebalances, "causes").items():
        causes[group][cause] = number
    for row in found:
        mine = causes[row["group_id"]]
        row["most_frequent_cause"] = min(mine, key=lambda c: (-mine[c], c), default=None)
    return found


def flapping_clients(
    rebalances: pa.Table, names_of: Callable[[Sequence[str]], Mapping[str, MemberNames]], top: int
) -> list[dict[str, Any]]:
    """The ``top`` clients that joined and left most often. ``names_of`` gives the names of the
    members of some groups; it is asked for a few groups at a time, those with most changes first,
    until no other group can have a client among the ``top``."""
    changes: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: {"joined": {}, "left": {}})
    for name in ("joined", "left"):
        for (group, member), number in _counts(rebalances, name).items():
            changes[group][name][member] = number
    sums = {group: [sum(of.values()) for of in both.values()] for group, both in changes.items()}
    possible = {group: sum(pair) for group, pair in sums.items() if min(pair) >= _SEVERAL}
    ordered = sorted(possible, key=lambda group: (-possible[group], group))
    found: list[dict[str, Any]] = []
    for start in range(0, len(ordered), _AT_A_TIME):
        groups = ordered[start : start + _AT_A_TIME]
        if len(found) == top and possible[groups[0]] < found[-1]["joined"] + found[-1]["left"]:
            break
        names = names_of(groups)
        for group in groups:
            found += _flapping(group, changes[group], names.get(group) or MemberNames(()))
        found.sort(key=lambda one: (-one["joined"] - one["left"], one["group_id"], one["client"]))
        del found[top:]
    return found


def _flapping(
    group: str, changes: Mapping[str, Mapping[str, int]], names: MemberNames
) -> Iterator[dict[str, Any]]:
    """The clients of a group that came and went. ``changes`` counts for each member how often it
    ``joined`` and ``left``."""
    clients: dict[str, dict[str, Any]] = {}
    for name, numbers in changes.items():
        for member, number in numbers.items():
            row = clients.setdefault(
                names.client(member),
                {
                    "group_id": group,
                    "client": names.name(member),
                    "about": names.about(member) or None,
                    "joined": 0,
                    "left": 0,
                    "member_ids": set(),
                },
            )
            row[name] += number
            row["member_ids"].add(member)
    for row in clients.values():
        if min(row["joined"], row["left"]) >= _SEVERAL:
            yield {**row, "member_ids": len(row["member_ids"])}


def summary(rebalances: pa.Table) -> str:
    """``214 rebalances of 12 groups: 120 left_or_expired and 94 member_joined; half took up to 3.2
    s, the longest 2 min``"""
    if not len(rebalances):
        return "no rebalances"
    groups = len(pc.unique(rebalances["group_id"]))
    causes: Counter[str] = Counter()
    for (_, cause), number in _counts(rebalances, "causes").items():
        causes[cause] += number
    words = counts_of_causes(causes)
    text = f"{count(len(rebalances), 'rebalance')} of {count(groups, 'group')}: {words}"
    took = rebalances["duration_ms"].drop_null()
    if len(took) > 1:
        middle = pc.quantile(took, 0.5)[0].as_py()
        text += (
            f"; half took up to {duration(middle)}, the longest {duration(pc.max(took).as_py())}"
        )
    unfinished = pc.sum(pc.equal(rebalances["outcome"], OPEN)).as_py()
    return text + (f"; {unfinished:,} not converged" if unfinished else "")


def _counts(rebalances: pa.Table, column: str) -> dict[tuple[str, str], int]:
    """How often each value is in the lists of ``column``, by group and value."""
    lists = rebalances[column].combine_chunks()
    groups = rebalances["group_id"].combine_chunks().take(pc.list_parent_indices(lists))
    pairs = pa.table({"group": groups, "value": pc.list_flatten(lists)})
    counted = pairs.group_by(["group", "value"]).aggregate([([], "count_all")])
    columns = (counted[name].to_pylist() for name in ("group", "value", "count_all"))
    return {(group, value): number for group, value, number in zip(*columns, strict=True)}
