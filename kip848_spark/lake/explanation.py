"""Explains the rebalances of a group: reads the evidence and writes the story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from kip848_spark.errors import NotFoundError, quoted_if_blank
from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.phrases import (
    between,
    clock,
    counts_of_causes,
    duration,
    moment,
    ranges,
    shift,
)
from kip848_spark.insight.story import Evidence, RebalanceStory, cause_words, write_stories
from kip848_spark.insight.timeline import Timeline, draw
from kip848_spark.lake.history import has_history, removed_before
from kip848_spark.lake.ledger import LAKE
from kip848_spark.lake.rebalances import (
    LOOK_BACK,
    departures,
    name_topics,
    patterns_around,
    read_rebalances,
    require_group,
)
from kip848_spark.lake.snapshot import LakeSnapshot, plain
from kip848_spark.state.history_fields import (
    ASSIGNMENT_HISTORY,
    GROUP_HISTORY,
    MEMBER_HISTORY,
)
from kip848_spark.wire.tables import Row

MOST_EXPLAINED = 10
"""The largest number of rebalances that are explained one by one: the last ones."""
_MARGIN = 0.08
"""The part of a timeline before its first rebalance, and the part after its last one."""
_SHORTEST = timedelta(seconds=2)
"""The shortest time of such a part."""


@dataclass(frozen=True)
class Explanation:
    """The rebalances of a group in a time, explained.

    ``group`` is the group's current row (state ``Dead`` if it was deleted). ``rebalances`` are all
    rebalances in the requested time, ``stories`` those that are explained. ``last`` is the group's
    last rebalance of all. ``through`` is the end of the last run that read the topic. ``epoch`` is
    the requested epoch, if there is one: a group that was deleted and created again may have
    reached it several times. ``removed_before`` is the time before which maintenance has removed
    the history.
    """

    group: Row
    since: datetime | None
    until: datetime | None
    rebalances: Sequence[Row]
    stories: Sequence[RebalanceStory]
    last: Row | None
    evidence: Evidence
    through: datetime | None
    epoch: int | None = None
    removed_before: datetime | None = None

    @property
    def names(self) -> MemberNames:
        """Names for the members."""
        return self.evidence.names()

    def summary(self) -> str:
        """The rebalances in a sentence: how many, why, and which one took longest."""
        rows = self.rebalances
        causes = Counter(cause for row in rows for cause in row["causes"] or ())
        why = counts_of_causes(causes, "× ", cause_words)
        start, end = rows[0]["started_at"], rows[-1]["started_at"]
        text = (
            f"{len(rows):,} rebalances of {quoted_if_blank(self.group['group_id'])}"
            f"{'' if self.epoch is None else f' to epoch {self.epoch}'} from {moment(start)} to "
            f"{clock(end, start)} UTC: {why}"
        )
        slowest = max(rows, key=lambda row: row["slowest_ms"] or 0)
        if slowest["slowest_ms"]:
            name = self.names.name(slowest["slowest_member"])
            text += f"; the longest wait was {duration(slowest['slowest_ms'])}, for {name}"
            text += f" (epoch {slowest['epoch']})"
        return text

    def timeline(self, width: int, most: int) -> Timeline | None:
        """The timeline of the rebalances that are explained; None if there is none."""
        if not self.stories:
            return None
        explained = [story.row for story in self.stories]
        return draw(
            self.evidence.members,
            self.evidence.assignments,
            explained,
            self.names,
            _window(explained),
            width,
            most,
        )

    def described(self) -> dict[str, Any]:
        """The explanation as plain values."""
        names = self.names
        return {
            "group_id": self.group["group_id"],
            "type": self.group["type"],
            "state": self.group["state"],
            "since": self.since,
            "until": self.until,
            "through": self.through,
            "summary": self.summary() if self.rebalances else None,
            "patterns": list(self.evidence.patterns),
            "rebalances_in_time": len(self.rebalances),
            "last_rebalance_at": self.last and self.last["started_at"],
            "rebalances": [_described(story, names) for story in self.stories],
        }


def explain(
    snapshot: LakeSnapshot,
    group_id: str,
    since: datetime | None = None,
    until: datetime | None = None,
    epoch: int | None = None,
) -> Explanation:
    """Explains the rebalances of a group that began at or after ``since`` and before ``until``
    (UTC), or the rebalance to ``epoch``. Without ``since`` and ``epoch``, it explains the last
    episode (before ``until``): the last rebalance and those that overlap with it.

    Raises NotFoundError if the lake never had such a group, or the group no such epoch, and
    LakeError if the lake has no history.
    """
    group = require_group(snapshot, group_id)
    known = plain(read_rebalances(snapshot, [group_id]))
    known = [row for row in known if row["partition"] == group["partition"]]
    known.sort(key=lambda row: row["from_offset"])
    wanted = _choose(known, group_id, since, until, epoch)
    explained = wanted[-MOST_EXPLAINED:]
    evidence = _gather(snapshot, group_id, known, explained)
    return Explanation(
        group=group,
        since=since,
        until=until,
        rebalances=wanted,
        stories=write_stories(evidence, explained),
        last=known[-1] if known else None,
        evidence=evidence,
        through=_last_read(snapshot),
        epoch=epoch,
        removed_before=removed_before(snapshot, group["partition"]),
    )


def _last_read(snapshot: LakeSnapshot) -> datetime | None:
    """The end of the last finished run that read the topic (UTC)."""
    runs = snapshot.rows("runs")
    return max((run["finished_at"] for run in runs if run["source"] != LAKE), default=None)


def most_eventful(snapshot: LakeSnapshot) -> tuple[str, int] | None:
    """The group and the epoch of the rebalance with the longest wait, and among equals with the
    most time without owner, or the most partitions that moved; None if there is no rebalance."""
    rows = plain(read_rebalances(snapshot))
    measures = ("slowest_ms", "unowned_ms", "partitions_moved")
    worst = max(rows, key=lambda row: [row[name] or 0 for name in measures], default=None)
    return None if worst is None else (worst["group_id"], worst["epoch"])


def _choose(
    known: Sequence[Row],
    group_id: str,
    since: datetime | None,
    until: datetime | None,
    epoch: int | None,
) -> list[Row]:
    if epoch is not None:
        found = [row for row in known if row["epoch"] == epoch]
        if not found:
            epochs = ranges(row["epoch"] for row in known)
            raise NotFoundError(
                f"The lake has no rebalance of {quoted_if_blank(group_id)} to epoch {epoch}.",
                f"It has rebalances to epochs {epochs}." if known else "It has none at all.",
            )
        return found
    found = [
        row
        for row in known
        if (since is None or row["started_at"] >= since)
        and (until is None or row["started_at"] < until)
    ]
    if since is not None or not found:
        return found
    episode = found[-1]["episode_id"]
    return [row for row in found if row["episode_id"] == episode]


def _gather(
    snapshot: LakeSnapshot, group_id: str, known: Sequence[Row], explained: Sequence[Row]
) -> Evidence:
    """Reads the rows around the rebalances ``explained``."""
    if not explained or not has_history(snapshot):
        return Evidence(group_id, known)
    start, end = _window(explained)
    episodes = {row["episode_id"] for row in explained}
    # A partition may have lost its owner earlier in the episode.
    begin = min(row["started_at"] for row in known if row["episode_id"] in episodes)
    later = [row for row in known if row["from_offset"] > explained[-1]["from_offset"]]
    of_group = pc.field("group_id") == group_id
    of_group &= pc.field("partition") == explained[0]["partition"]
    still = pc.field("valid_to").is_null()
    around = (pc.field("valid_from") <= shift(end, LOOK_BACK)) & (
        still | (pc.field("valid_to") >= shift(start, -LOOK_BACK))
    )
    within = still | (pc.field("valid_to") >= begin)
    if later:
        within &= pc.field("from_offset") < later[0]["from_offset"]
    groups = plain(snapshot.select(GROUP_HISTORY, of_group & around))
    members = plain(snapshot.select(MEMBER_HISTORY, of_group & around))
    assignments = plain(snapshot.select(ASSIGNMENT_HISTORY, of_group & within))
    for rows in (groups, members, assignments):
        rows.sort(key=lambda row: row["from_offset"])
    name_topics(snapshot, assignments)
    gone = departures(snapshot, explained, members, assignments)
    patterns = patterns_around(snapshot, episodes, start, end, [group_id])
    return Evidence(group_id, known, groups, members, assignments, gone, patterns)


def _window(explained: Sequence[Mapping[str, Any]]) -> tuple[datetime, datetime]:
    """The time of the rebalances, and a little before and after."""
    start = min(row["started_at"] for row in explained)
    end = max(
        row["converged_at"]
        or shift(row["started_at"], timedelta(milliseconds=row["slowest_ms"] or 0))
        for row in explained
    )
    margin = max(_SHORTEST, (end - start) * _MARGIN)
    return shift(start, -margin).astimezone(UTC), shift(end, margin).astimezone(UTC)


def _described(story: RebalanceStory, names: MemberNames) -> dict[str, Any]:
    row = story.row
    mentioned = {*(row["trigger_members"] or ()), *(row["blocked_members"] or ())}
    mentioned |= {row["slowest_member"]} - {None}
    return {
        **row,
        "headline": story.headline,
        "lines": [{"label": line.label, "text": line.text} for line in story.lines],
        "member_names": [names.described(member) for member in sorted(mentioned)],
        "departures": [departure.described() for departure in story.departures],
        "given_up": [{"topic": topic, "topic_partition": n} for topic, n in story.given_up],
        "without_owner": [
            {
                "topic": one.place[0],
                "topic_partition": one.place[1],
                "from": one.start,
                "to": one.end,
                "ms": None if one.end is None else between(one.start, one.end),
            }
            for one in story.unowned
        ],
    }
