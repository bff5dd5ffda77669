"""The last rebalances of a group in words, in the sentences of `kip848 explain`.

The evidence is the history that the timelines have read already, from the hour around the
rebalances as in `explain`. Three things are only in the output of `explain`: what needs the commits
(whether a member that is gone had stopped before), rebalances before the last `MOST_EXPLAINED` of
the episode, and what is based on rebalances before the last `MOST_KNOWN` or before the report's
list, such as how often a client came back in an hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kip848_spark.insight.departures import EXPIRED, Departure, away_since
from kip848_spark.insight.phrases import shift
from kip848_spark.insight.story import Evidence, write_stories
from kip848_spark.lake.rebalances import LOOK_BACK
from kip848_spark.report.columns import milliseconds, values
from kip848_spark.report.history_rows import GroupRows, between
from kip848_spark.report.intervals import STILL
from kip848_spark.wire.tables import TIMESTAMP, Row

MOST_EXPLAINED = 3
"""The largest number of rebalances of a group that are explained: the last ones of its episode."""
MOST_KNOWN = 50
"""How many of the last rebalances of a group a story may refer to."""
MOST_EVIDENCE = 3_000
"""A story with more rows of evidence is left out; `explain` has it."""


def explain_last_episode(
    group_id: str, rebalances: pa.Table, history: GroupRows, patterns: Sequence[Row] = ()
) -> list[dict[str, Any]]:
    """The stories of the last rebalances of a group: epoch, time (``at``, ms), headline and lines.
    ``rebalances`` are its rows of that table, in the order of their offsets, and ``patterns`` rows
    with the columns `PATTERN_FIELDS`, of the group."""
    known: list[dict[str, Any]] = rebalances.slice(
        max(0, rebalances.num_rows - MOST_KNOWN)
    ).to_pylist()
    if not known:
        return []
    last = known[-1]
    episode = [row for row in known if row["episode_id"] == last["episode_id"]]
    explained = episode[-MOST_EXPLAINED:]
    begin = episode[0]["started_at"]
    start = _ms(shift(begin, -LOOK_BACK))
    end = _ms(shift(last["converged_at"] or last["started_at"], LOOK_BACK))
    evidence = [
        between(history.groups, start, end),
        between(history.members, start, end),
        between(history.assignments, _ms(begin), int(STILL)),
    ]
    if max(table.num_rows for table in evidence) > MOST_EVIDENCE:
        return []
    groups, members, assignments = (table.to_pylist() for table in evidence)
    here = [pattern for pattern in patterns if last["episode_id"] in pattern["episode_ids"]]
    gone = _closed_members(explained, members)
    found = Evidence(group_id, known, groups, members, assignments, gone, here)
    stories = write_stories(found, explained)
    at = values(pa.array([story.row["started_at"] for story in stories], TIMESTAMP))
    return [
        {
            "epoch": story.row["epoch"],
            "at": time,
            "headline": story.headline,
            "lines": [[line.label, line.text] for line in story.lines],
        }
        for story, time in zip(stories, at, strict=True)
    ]


def _closed_members(
    rebalances: Sequence[Row], members: Sequence[Row]
) -> dict[tuple[int, str], Departure]:
    """The static members that had closed before they were removed, by the offset of the rebalance
    and the member id."""
    found = {}
    for row in rebalances:
        for member in row["left"] or ():
            if (since := away_since(row, member, members)) is not None:
                gone = Departure(member, row["started_at"], 0, away_since=since, concluded=EXPIRED)
                found[row["from_offset"], member] = gone
    return found


def _ms(time: Any) -> int:
    found: int = milliseconds(pa.array([time], TIMESTAMP))[0].as_py()
    return found
