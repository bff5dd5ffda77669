"""The audit of a lake: checks the control records of every group, and compares its state.

One Spark job with one shuffle, by group. What a check needs beside its group's rows, the missing
offsets and the names of topics, is small and sent to every task.
"""

from __future__ import annotations

import itertools
import sys
from collections import ChainMap
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.checks.context import AuditContext, KnownLine
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group_task import (
    AGAIN,
    AGAIN_COUNT,
    DISAGREED,
    FINDING,
    FINDING_COUNT,
    NOTE,
    RESULT_SCHEMA,
    SAVED,
    SAVED_COUNT,
    UNVERIFIABLE,
    VERIFIED,
    audit_groups,
)
from kip848_spark.checks.results import CHECKS, Tally
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.assignors import Assignor, CustomAssignor
from kip848_spark.coordinator.topics import Topic
from kip848_spark.insight.severities import SEVERITIES
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.findings import FINDING_ORDER
from kip848_spark.lake.ledger import DONE, Run
from kip848_spark.spark.collect import collect_rows
from kip848_spark.spark.jobs.audit_input import COMMITS_REPLAYED, audit_input, record_count
from kip848_spark.spark.jobs.point_in_time import points_in_time, sampled_buckets, state_at
from kip848_spark.spark.jobs.replay import topic_names
from kip848_spark.spark.jobs.saved_audits import add_saved, find_saved
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.progress import WorkerCount, counted
from kip848_spark.spark.schemas import with_constants
from kip848_spark.spark.storage.tables import LakeTables, TableRow
from kip848_spark.wire.offset_gaps import TRANSACTION

_COLLECTED = 10_000
"""Up to this many findings, the driver collects and writes them without another Spark job."""
SAVE_AFTER = 100
"""The audit of a group is saved after this many records: to replay fewer takes no time."""
_KAFKA = "kafka:"
"""Of the names of sources that were asked; the runs of other sources asked nobody."""
_COUNTED_AT_ONCE = 1_000
"""Input rows after which a task reports progress: a worker checks some thousand rows a second."""


@dataclass(frozen=True)
class AuditRequest:
    """What to audit: some groups (all if None), verdicts since a time, one release.

    ``assignors`` is the brokers' setting ``group.consumer.assignors`` (`find_assignors`); None if
    it is not known.
    With ``after``, a run id, the audit checks only groups with records of later runs, and counts
    only verdicts on those records; ``offsets`` is then the first offset of each partition that
    those runs read.
    """

    groups: Sequence[str] | None = None
    since: datetime | None = None
    release: str | None = None
    after: str | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    assignors: Mapping[str, Assignor | None] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether nothing that was not audited before is left out."""
        return self.groups is None and self.since is None and self.release is None


def audit(
    lake: LakeTables, run: Run, request: AuditRequest, count: WorkerCount | None = None
) -> None:
    """Audits the lake, and adds the rows of ``run`` to `agreement` and `findings`. ``count`` counts
    the rows that the tasks have checked."""
    _send_code(request.assignors)
    offsets = points_in_time(run) if request.after is None else {}
    buckets = sampled_buckets(lake, run) if offsets else 0
    runs = lake.rows("runs")
    saves = request.is_complete and record_count(run, runs) > COMMITS_REPLAYED
    with ThreadPoolExecutor(1) as pool:  # Spark plans the input while a small job lists the topics
        topics = pool.submit(known_topics, lake)
        earlier = state_at(lake, run, offsets, buckets) if offsets else None
        saved = find_saved(lake, request.after) if saves and request.after else None
        rows = audit_input(lake, run, runs, request.groups, request.after, earlier, saved)
        context = AuditContext(
            coverage(lake, run, runs),
            topics.result(),
            request.release,
            request.assignors,
            known_lines([Run.from_row(row) for row in runs if row["outcome"] == DONE] + [run]),
            None if request.since is None else round(request.since.timestamp() * 1000),
            request.offsets,
            offsets,
            buckets,
            SAVE_AFTER if saves else None,
        )

    def verdicts_on(rows: DataFrame) -> DataFrame:
        by_group = rows.repartition("group_id")
        ordered = by_group.sortWithinPartitions("group_id", "stage", "partition", "offset")
        task = counted(audit_groups(context), count, _COUNTED_AT_ONCE)
        return map_in_arrow(ordered, task, RESULT_SCHEMA).persist()

    with ExitStack() as stack:
        verdicts = first = verdicts_on(rows)
        stack.callback(first.unpersist)
        results = _counted(first)
        if results.again:
            groups = first.where(F.col("verdict") == AGAIN).select("group_id")
            after = request.after
            second = verdicts_on(audit_input(lake, run, runs, None, after, changed=groups))
            stack.callback(second.unpersist)
            results.add(_counted(second))
            verdicts = first.union(second)
        _write(lake, run, verdicts, results)


@dataclass
class _Results:
    """The counts of all tasks; the number of findings, of saved audits, and of groups that are to
    be audited again."""

    tally: Tally = field(default_factory=Tally)
    findings: int = 0
    saved: int = 0
    again: int = 0

    def add(self, other: _Results) -> None:
        """Adds the results of another audit, of groups that are to be audited again."""
        self.tally.add(other.tally)
        self.findings += other.findings
        self.saved += other.saved


def _write(lake: LakeTables, run: Run, verdicts: DataFrame, results: _Results) -> None:
    cluster_id = run.identity.cluster_id
    lake.append_rows("agreement", results.tally.rows(), run.run_id, cluster_id)
    if results.findings:
        found = _findings(verdicts)
        if results.findings <= _COLLECTED:
            lake.append_rows("findings", collect_rows(found), run.run_id, cluster_id)
        else:
            lake.append("findings", with_constants("findings", found, run.run_id, cluster_id))
    if results.saved:
        add_saved(lake, verdicts, run)


# The context of the checks


def _send_code(assignors: Mapping[str, Assignor | None] | None) -> None:
    """Sends the modules of custom assignors to the workers with each task, since they may not be
    installed there."""
    for assignor in (assignors or {}).values():
        if isinstance(assignor, CustomAssignor):
            module = sys.modules[type(assignor.assignor).__module__]
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def coverage(lake: LakeTables, run: Run, runs: Sequence[TableRow]) -> Coverage:
    """Where control records may be missing: the table `gaps`, without the gaps that transactions
    left, and what maintenance has removed. ``runs``: the rows of that table, in which ``run`` may
    not be finished."""
    gaps = lake.max_by_key("gaps", "last_offset", ("partition", "run_id"), "cause", TRANSACTION)
    ends: dict[int, int] = {}
    restarts: set[tuple[int, int]] = set()
    done = [Run.from_row(row) for row in runs if row["outcome"] == DONE]
    for one in [*done, run]:
        for part in one.ranges:
            ends[part.partition] = max(ends.get(part.partition, -1), part.end - 1)
            if 0 < part.start < part.end:
                restarts.add((part.partition, part.start))
    hidden = [(key[0], last) for key, last in gaps.items()]
    return Coverage.of(hidden, ends, restarts, run.kept_from or {})


def known_lines(runs: Sequence[Run]) -> tuple[KnownLine, ...]:
    """Between which offsets all records are of one line of releases, because all brokers answered
    it both before and after. An answer says nothing about records before the first one."""
    asked = sorted(
        (run for run in runs if run.source.startswith(_KAFKA)), key=lambda run: run.run_id
    )
    found: list[KnownLine] = []
    for line, answers in itertools.groupby(asked, key=lambda run: run.broker_line):
        ends = [{part.partition: part.end for part in run.ranges} for run in answers]
        if line is not None and len(ends) > 1:
            # A partition counts from the first run that has it.
            first, last = ChainMap(*ends[:-1]), ChainMap(*ends[::-1])
            found.append(KnownLine(line, dict(first), dict(last)))
    return tuple(found)


def known_topics(lake: LakeTables) -> KnownTopics:
    """The cluster's topics when a run listed them last, and the name of every topic id in the
    records."""
    newest = max((run_id for (run_id,) in lake.distinct("topics", ["run_id"])), default="")
    table = lake.columns(
        "topics",
        ("topic", "topic_id", "partitions", "racks"),
        [Condition("run_id", "equals", newest)],
    ).to_pylist()
    # Sorted, since the search for a hash tries the ids of one name in this order.
    names = sorted(topic_names(lake).items())
    return KnownTopics.of(
        (
            Topic(
                row["topic"],
                row["topic_id"],
                row["partitions"],
                tuple(tuple(racks) for racks in row["racks"] or ()),
            )
            for row in table
        ),
        names,
    )


# The results


def _counted(verdicts: DataFrame) -> _Results:
    results = _Results()
    tally = results.tally
    counted = verdicts.where(~F.col("verdict").isin(FINDING, SAVED, AGAIN))
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
        elif row["verdict"] == FINDING_COUNT:
            results.findings += number
        elif row["verdict"] == SAVED_COUNT:
            results.saved += number
        elif row["verdict"] == AGAIN_COUNT:
            results.again += number
    return results


def _findings(verdicts: DataFrame) -> DataFrame:
    """The rows of `findings`."""
    return verdicts.where(F.col("verdict") == FINDING).select(
        "finding_id", "caused_by", "check", "reason", "severity", "group_id", "member_id",
        "partition", "offset", "timestamp", "expected", "recorded", "explanation",
    )  # fmt: skip


def agreement_rows(lake: LakeTables, run_id: str) -> list[dict[str, Any]]:
    """The rows of `agreement` of a run, one for each check, in the order of `CHECKS`."""
    found = [dict(row) for row in lake.rows("agreement") if row["run_id"] == run_id]
    return sorted(found, key=lambda row: CHECKS.index(row["check"]))


def findings_rows(lake: LakeTables, run_id: str, most: int | None = None) -> list[dict[str, Any]]:
    """The rows of `findings` of a run, the most severe first; at most ``most``."""
    worst_first = F.array(*map(F.lit, reversed(SEVERITIES)))
    order = F.array_position(worst_first, F.col("severity"))
    rows = lake.read("findings").where(F.col("run_id") == run_id)
    rows = rows.orderBy(order, *FINDING_ORDER)
    if most is not None:
        rows = rows.limit(most)
    return collect_rows(rows)
