"""Chooses the groups that get a timeline, and completes it with stories and stalled commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.snapshot import LakeSnapshot, plain
from kip848_spark.report import stalls
from kip848_spark.report.columns import GroupNumbers, LeftOut, group_rows, milliseconds
from kip848_spark.report.groups import GroupSources, named, rebalances_of_groups
from kip848_spark.report.history_rows import (
    MOST_ROWS_READ,
    MOST_TIMELINES,
    History,
    choose_groups,
    read_history,
)
from kip848_spark.report.rebalance_rows import ListedRebalances
from kip848_spark.report.stories import explain_last_episode
from kip848_spark.report.timelines import Period, draw_timelines, rebalance_marks
from kip848_spark.wire.tables import TIMESTAMP, Row


def timelines_section(
    snapshot: LakeSnapshot,
    sources: GroupSources,
    numbers: GroupNumbers,
    names: Mapping[str, str],
    listed: ListedRebalances,
    rebalances: Mapping[str, Any],
    findings: pa.Array,
    since: datetime | None,
    newest: datetime | None,
    left_out: LeftOut,
) -> tuple[list[dict[str, Any]], pa.Array]:
    """The timelines (docs/report.md), and int32[groups]: the one of each group; null for none.

    ``listed`` are the rows and patterns of the report's list of rebalances, which is in the section
    ``rebalances``."""
    chosen = choose_groups(numbers, rebalances_of_groups(sources, numbers), findings)
    history = read_history(snapshot, chosen, numbers, names, since) if chosen else None
    if history is None or newest is None:
        return [], pa.nulls(len(numbers.group_ids), pa.int32())
    end = _ms(newest)
    start = _ms(history.since) if history.since is not None else 0
    drawn = draw_timelines(
        history,
        chosen,
        rebalance_marks(rebalances, chosen),
        _wanted_now(snapshot, chosen, numbers, names),
        Period(start, end),
    )
    _note_left_out(history, drawn, numbers, left_out)
    _add_stories(drawn, history, listed, numbers)
    _add_stalls(snapshot, drawn, numbers, history, end, left_out)
    return drawn, _positions(drawn, numbers)


def _ms(moment: datetime) -> int:
    found: int = milliseconds(pa.array([moment], TIMESTAMP))[0].as_py()
    return found


def _note_left_out(
    history: History,
    drawn: Sequence[Mapping[str, Any]],
    numbers: GroupNumbers,
    left_out: LeftOut,
) -> None:
    count = len(numbers.group_ids)
    if len(drawn) < count:
        left_out.add(
            f"Timelines: {len(drawn):,} of {count:,} groups have one, at most {MOST_TIMELINES}: "
            "those with most rebalances and findings. `kip848 history GROUP` and `kip848 explain "
            "GROUP` show every group."
        )
    if history.cut and history.since is not None:
        left_out.add(
            f"Timelines: they begin at {history.since:%Y-%m-%d %H:%M:%S} UTC, because there are "
            f"more than {MOST_ROWS_READ:,} intervals before."
        )


def _wanted_now(
    snapshot: LakeSnapshot,
    chosen: Sequence[int],
    numbers: GroupNumbers,
    names: Mapping[str, str],
) -> dict[int, frozenset[tuple[str, int]]]:
    """The partitions in the current target assignment of each group."""
    of_groups = pc.field("group_id").isin(numbers.group_ids.take(pa.array(chosen, pa.int32())))
    rows = snapshot.select(
        "assignments",
        of_groups & (pc.field("role") == "target"),
        ["group_id", "topic", "topic_id", "topic_partition"],
    )
    rows = rows.set_column(1, "topic", named(rows, names))
    found: dict[int, set[tuple[str, int]]] = {}
    for row in plain(numbers.replace(rows)):
        found.setdefault(row["group"], set()).add((row["topic"], row["topic_partition"]))
    return {group: frozenset(places) for group, places in found.items()}


def _add_stories(
    drawn: Sequence[dict[str, Any]],
    history: History,
    listed: ListedRebalances,
    numbers: GroupNumbers,
) -> None:
    shown = pa.array([one["group"] for one in drawn], pa.int32())
    position = pa.array(range(listed.rows.num_rows), pa.int64())
    rows = numbers.replace(listed.rows).append_column("row", position)
    rows = rows.filter(pc.is_in(rows["group"], value_set=shown))
    rows = rows.sort_by([("group", "ascending"), ("from_offset", "ascending")]).combine_chunks()
    groups, spans = group_rows(rows["group"].combine_chunks())
    of_group = dict(zip(groups, spans, strict=True))
    patterns: dict[str, list[Row]] = {}
    for pattern in plain(listed.patterns):
        patterns.setdefault(pattern["group_id"], []).append(pattern)
    ids = numbers.group_ids
    for one in drawn:
        start, end = of_group.get(one["group"], (0, 0))
        mine = rows.slice(start, end - start)
        group_id = ids[one["group"]].as_py()
        one["stories"] = explain_last_episode(
            group_id, mine, history.of_group(one["group"]), patterns.get(group_id, ())
        )


def _add_stalls(
    snapshot: LakeSnapshot,
    drawn: Sequence[dict[str, Any]],
    numbers: GroupNumbers,
    history: History,
    end: int,
    left_out: LeftOut,
) -> None:
    records = snapshot.count_rows("records")
    known = records <= stalls.MOST_RECORDS
    for one in drawn:
        one["stalls"], one["stalls_known"] = stalls.NO_STALLS, known
    if not known:
        left_out.add(
            "Timelines: commits that came to a stop are not marked, because the lake has more than "
            f"{stalls.MOST_RECORDS:,} records. `kip848 explain GROUP` looks at a group's commits."
        )
        return
    groups = numbers.group_ids.take(pa.array([one["group"] for one in drawn], pa.int32()))
    commits = stalls.read_commits(snapshot, groups, numbers, history.since)
    found, spans = group_rows(commits["group"].combine_chunks())
    of_group = dict(zip(found, spans, strict=True))
    for one in drawn:
        start, stop = of_group.get(one["group"], (0, 0))
        one["stalls"] = stalls.find_stalls(commits.slice(start, stop - start), one, end)


def _positions(drawn: Sequence[Mapping[str, Any]], numbers: GroupNumbers) -> pa.Array:
    groups = pa.array([one["group"] for one in drawn], pa.int32())
    rows = pa.array(range(len(numbers.group_ids)), pa.int32())
    return pc.index_in(rows, value_set=groups)
