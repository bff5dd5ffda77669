"""The last rebalances of a group in words, as `kip848 explain` shows them.

The evidence is the history that the timelines have read already. What needs the commits (whether a
member that is gone had stopped before) is only in the output of `explain`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from kip848_spark.insight.phrases import shift
from kip848_spark.insight.story import Evidence, write_stories
from kip848_spark.report.columns import milliseconds, values
from kip848_spark.report.history_rows import GroupRows, between
from kip848_spark.wire.tables import TIMESTAMP

MOST_EXPLAINED = 3
"""The largest number of rebalances of a group that are explained: the last ones of its episode."""
MOST_KNOWN = 50
"""How many of the last rebalances of a group a story may refer to."""
MOST_EVIDENCE = 3_000
"""A story with more rows of evidence is left out; `explain` has it."""
_AROUND = timedelta(minutes=5)
"""Evidence is what was true at some time this long before or after the rebalances."""


def explain_last_episode(
    group_id: str, rebalances: pa.Table, history: GroupRows
) -> list[dict[str, Any]]:
    """The stories of the last rebalances of a group: epoch, time (``at``, ms), headline and lines.
    ``rebalances`` are its rows of that table, in the order of their offsets."""
    known: list[dict[str, Any]] = rebalances.slice(
        max(0, rebalances.num_rows - MOST_KNOWN)
    ).to_pylist()
    if not known:
        return []
    episode = [row for row in known if row["episode_id"] == known[-1]["episode_id"]]
    explained = episode[-MOST_EXPLAINED:]
    start = _ms(shift(episode[0]["started_at"], -_AROUND))
    end = _ms(shift(explained[-1]["converged_at"] or explained[-1]["started_at"], _AROUND))
    evidence = [
        between(table, start, end)
        for table in (history.groups, history.members, history.assignments)
    ]
    if max(table.num_rows for table in evidence) > MOST_EVIDENCE:
        return []
    groups, members, assignments = (table.to_pylist() for table in evidence)
    stories = write_stories(Evidence(group_id, known, groups, members, assignments), explained)
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


def _ms(time: Any) -> int:
    found: int = milliseconds(pa.array([time], TIMESTAMP))[0].as_py()
    return found
