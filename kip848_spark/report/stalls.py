"""Times in which commits of an owned partition came to a stop."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.columns import GroupNumbers, ReportTable, milliseconds, plain_table
from kip848_spark.report.intervals import STILL
from kip848_spark.state.codes import combine, factorize
from kip848_spark.state.kinds import COMMIT
from kip848_spark.wire.array_types import Int64Array
from kip848_spark.wire.tables import TIMESTAMP

MOST_RECORDS = 3_000_000
"""Commits are looked at if the lake has at most so many records."""
TIMES_USUAL = 10
SHORTEST_MS = 60_000
"""A stall is at least so many times as long as the usual time between two commits of the partition,
and at least this long."""
FEWEST_COMMITS = 5
"""Partitions with fewer commits have no usual time."""
MOST_STALLS = 500
"""The largest number of stalls in a timeline: the longest ones."""

NO_STALLS: ReportTable = plain_table(
    0, {name: [] for name in ("partition", "from", "to", "usual_ms")}
)


def read_commits(
    snapshot: LakeSnapshot, groups: pa.Array, numbers: GroupNumbers, since: Any
) -> pa.Table:
    """group (a row of the report's table), topic, topic_partition, at (ms): the commits of some
    groups since a time, by group."""
    wanted = (pc.field("kind") == COMMIT) & pc.field("group_id").isin(groups)
    wanted &= ~pc.field("tombstone")
    if since is not None:
        wanted &= pc.field("timestamp") >= pa.scalar(since, TIMESTAMP)
    columns = ["group_id", "topic", "topic_partition", "timestamp"]
    found = numbers.replace(snapshot.select("records", wanted, columns))
    at = milliseconds(found["timestamp"])
    found = found.drop_columns("timestamp").append_column("at", at)
    order = ("group", "topic", "topic_partition", "at")
    return found.sort_by([(name, "ascending") for name in order]).combine_chunks()


def find_stalls(commits: pa.Table, timeline: Mapping[str, Any], end: int) -> ReportTable:
    """The stalls of one group, cut to the times in which a member owned the partition. ``commits``
    are those of the group, by partition and time; ``end`` is the time of the newest record (ms)."""
    partitions = timeline["partitions"]
    owned: dict[int, list[tuple[int, int | None]]] = {}
    columns = timeline["owned"]["columns"]
    for one in zip(*(columns[name] for name in ("partition", "from", "to")), strict=True):
        owned.setdefault(one[0], []).append(one[1:])
    if not commits.num_rows or not partitions["length"]:
        return NO_STALLS
    place = _places(commits, partitions)
    at = commits["at"].to_numpy()
    starts = np.flatnonzero(np.diff(place, prepend=-2))
    found: list[tuple[int, int, int | None, int]] = []
    for first, last in itertools.pairwise([*starts, len(place)]):
        number = int(place[first])
        if number < 0 or last - first < FEWEST_COMMITS:
            continue
        mine = at[first:last]
        usual = int(np.median(np.diff(mine)))
        least = max(TIMES_USUAL * usual, SHORTEST_MS)
        begins, ends = mine, np.append(mine[1:], end)
        long = np.flatnonzero(ends - begins >= least)
        for row in long.tolist():
            is_last = row == len(mine) - 1
            until = int(STILL) if is_last else int(ends[row])
            found += [
                (number, begin, stop, usual)
                for begin, stop in _while_owned(owned.get(number, ()), int(begins[row]), until)
                if (stop or end) - begin >= least
            ]
    found.sort(key=lambda stall: (stall[2] or end) - stall[1], reverse=True)
    kept = sorted(found[:MOST_STALLS], key=lambda stall: stall[:2])
    listed = [list(column) for column in zip(*kept, strict=True)] or [[], [], [], []]
    names = ("partition", "from", "to", "usual_ms")
    return plain_table(len(kept), dict(zip(names, listed, strict=True)))


def _places(commits: pa.Table, partitions: ReportTable) -> Int64Array:
    """int64[n]: the partition of the timeline that each commit is of; -1 for others."""
    names = partitions["dictionaries"]["topic"]
    topics = pa.array([names[n] for n in partitions["columns"]["topic"]], pa.string())
    numbers = pa.array(partitions["columns"]["partition"], pa.int64())
    topic = factorize(pa.concat_arrays([topics, commits["topic"].combine_chunks()]))
    number = pa.concat_arrays(
        [numbers, commits["topic_partition"].cast(pa.int64()).combine_chunks()]
    )
    code = combine(topic, number.to_numpy())
    known, rest = code[: len(topics)], code[len(topics) :]
    found = pc.index_in(pa.array(rest), value_set=pa.array(known))
    return np.asarray(pc.fill_null(found, -1).to_numpy(), np.int64)


def _while_owned(
    owned: Iterable[tuple[int, int | None]], start: int, until: int
) -> Iterator[tuple[int, int | None]]:
    """The parts of a time in which one member owned the partition; ``owned`` are the times of that
    partition."""
    for begin, stop in owned:
        first, last = max(start, begin), min(until, int(STILL) if stop is None else stop)
        if last > first:
            yield first, None if last >= int(STILL) else last
