"""The audit of a lake: every group's control records judged, and its state compared.

One job: the tasks get whole groups, for nothing that a group's verdict needs lies outside of it but
where records are missing and what the topics are called, and both are small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group_task import (
    DISAGREED,
    FINDING,
    FOUND,
    NOTE,
    UNVERIFIABLE,
    VERDICT,
    VERIFIED,
    judge,
)
from kip848_spark.checks.results import CHECKS, Tally
from kip848_spark.checks.settings import Settings
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.topics import Topic
from kip848_spark.lake.ledger import DONE, Run
from kip848_spark.spark.collect import collect_rows
from kip848_spark.spark.jobs.audit_input import gathered
from kip848_spark.spark.jobs.point_in_time import cuts_of, share_of, state_then
from kip848_spark.spark.jobs.replay import topic_names
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.progress import WorkerCount, counted
from kip848_spark.spark.storage.tables import LakeTables, TableRow, with_constants
from kip848_spark.wire.offset_gaps import TRANSACTION

_COLLECTED = 10_000
"""Findings up to which they are written by the driver, without another job."""
_COUNTED_AT_ONCE = 1_000
"""Rows of a group's input: a worker judges some thousand a second."""


@dataclass(frozen=True)
class Asked:
    """What an audit is asked for: groups (all if None), verdicts since a time, the release.

    ``after``: only groups with records of later runs than this one are judged, and only verdicts
    on those records are counted; then ``offsets`` are where these records begin.
    """

    groups: Sequence[str] | None = None
    since: datetime | None = None
    release: str | None = None
    after: str | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all is judged that was not before."""
        return self.groups is None and self.since is None and self.release is None


def audit(lake: LakeTables, run: Run, asked: Asked, count: WorkerCount | None = None) -> None:
    """Judges what the lake holds, and adds the rows of ``run`` to `agreement` and `findings`.
    ``count`` counts the rows that the workers have judged."""
    cuts = cuts_of(run) if asked.after is None else {}
    share = share_of(lake, run) if cuts else 0
    runs = lake.rows("runs")
    with ThreadPoolExecutor(1) as beside:  # a small job, meanwhile a large plan is made
        topics = beside.submit(known_topics, lake)
        then = state_then(lake, run, cuts, share) if cuts else None
        rows = gathered(lake, run, runs, asked.groups, asked.after, then)
        settings = Settings(
            coverage(lake, run, runs),
            topics.result(),
            asked.release,
            None if asked.since is None else round(asked.since.timestamp() * 1000),
            asked.offsets,
            cuts,
            share,
        )
    whole = rows.repartition("group_id")
    ordered = whole.sortWithinPartitions("group_id", "last", "partition", "offset")
    task = counted(judge(settings), count, _COUNTED_AT_ONCE)
    verdicts = map_in_arrow(ordered, task, VERDICT).persist()
    try:
        tally, findings = _counted(verdicts)
        cluster_id = run.identity.cluster_id
        lake.append_rows("agreement", tally.rows(), run.run_id, cluster_id)
        if findings:
            found = _findings(verdicts)
            if findings <= _COLLECTED:
                lake.append_rows("findings", collect_rows(found), run.run_id, cluster_id)
            else:
                lake.append("findings", with_constants("findings", found, run.run_id, cluster_id))
    finally:
        verdicts.unpersist()


# What is known beside the records


def coverage(lake: LakeTables, run: Run, runs: Sequence[TableRow]) -> Coverage:
    """Where control records of the lake's topic may be missing: holes that no transaction left.
    ``runs``: the rows of that table; ``run`` may not be done yet."""
    holes = lake.max_by_key("gaps", "last_offset", ("partition", "run_id"), "cause", TRANSACTION)
    ends: dict[int, int] = {}
    restarts: set[tuple[int, int]] = set()
    done = [Run.from_row(row) for row in runs if row["outcome"] == DONE]
    for one in [*done, run]:
        for part in one.ranges:
            ends[part.partition] = max(ends.get(part.partition, -1), part.end - 1)
            if 0 < part.start < part.end:
                restarts.add((part.partition, part.start))
    return Coverage.of(((key[0], last) for key, last in holes.items()), ends, restarts)


def known_topics(lake: LakeTables) -> KnownTopics:
    """The cluster's topics when they were listed last, and every id the records name."""
    table = lake.rows("topics")
    newest = max((row["run_id"] for row in table), default=None)
    pairs = topic_names(lake).where(F.col("topic").isNotNull()).collect()
    # Spark gives them in any order, and ids of one name are tried in the order they are given.
    names = sorted((row["topic_id"], row["topic"]) for row in pairs)
    return KnownTopics.of(
        (
            Topic(
                row["topic"],
                row["topic_id"],
                row["partitions"],
                tuple(tuple(racks) for racks in row["racks"] or ()),
            )
            for row in table
            if row["run_id"] == newest
        ),
        names,
    )


# What is written


def _counted(verdicts: DataFrame) -> tuple[Tally, int]:
    """The counts of all tasks, and how many findings there are."""
    tally, findings = Tally(), 0
    counted = verdicts.where(F.col("verdict") != FINDING)
    for row in counted.select("verdict", "check", "reason", "number").collect():
        check, number = row["check"], row["number"]
        if row["verdict"] == VERIFIED:
            tally.verified[check] += number
        elif row["verdict"] == DISAGREED:
            tally.disagreed[check] += number
        elif row["verdict"] == UNVERIFIABLE:
            tally.unverifiable[check, row["reason"]] += number
        elif row["verdict"] == NOTE:
            tally.notes[check, row["reason"]] += number
        elif row["verdict"] == FOUND:
            findings += number
    return tally, findings


def _findings(verdicts: DataFrame) -> DataFrame:
    """The rows of `findings`."""
    return verdicts.where(F.col("verdict") == FINDING).select(
        "check", "severity", "group_id", "member_id", "partition", "offset", "timestamp",
        "expected", "recorded", "explanation",
    )  # fmt: skip


def agreement_rows(lake: LakeTables, run_id: str) -> list[dict[str, Any]]:
    """What the audit of a run came to, a row a check, in the order of `CHECKS`."""
    found = [dict(row) for row in lake.rows("agreement") if row["run_id"] == run_id]
    return sorted(found, key=lambda row: CHECKS.index(row["check"]))


def findings_rows(lake: LakeTables, run_id: str, most: int | None = None) -> list[dict[str, Any]]:
    """What the audit of a run found, the worst first."""
    order = F.array_position(
        F.array(*(F.lit(name) for name in ("critical", "error", "warning", "info"))),
        F.col("severity"),
    )
    rows = lake.read("findings").where(F.col("run_id") == run_id)
    rows = rows.orderBy(
        order, "partition", "offset", "group_id", "check", "member_id", "expected", "recorded"
    )
    if most is not None:
        rows = rows.limit(most)
    return collect_rows(rows)
