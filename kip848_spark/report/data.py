"""The data of a report: everything that the page shows, as plain values for JSON.

docs/report.md describes the structure. It is read from a finished lake without a JVM; sums are made
by Arrow, so that the time does not grow with the number of records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.phrases import shift
from kip848_spark.insight.rebalance_fields import OPEN
from kip848_spark.insight.severities import SEVERITIES
from kip848_spark.lake.hygiene import Hygiene, read_hygiene
from kip848_spark.lake.readiness import LakeReadiness, assess_lake
from kip848_spark.lake.snapshot import NOT_REPLAYED, LakeSnapshot
from kip848_spark.lake.tables import TABLES
from kip848_spark.lake.topics import latest_topics
from kip848_spark.report import overview as at_a_glance
from kip848_spark.report.columns import LeftOut, milliseconds
from kip848_spark.report.finding_rows import (
    findings_of_groups,
    findings_table,
    read_distinct_findings,
)
from kip848_spark.report.group_timelines import timelines_section
from kip848_spark.report.groups import (
    GroupSources,
    count_topics,
    group_table,
    number_groups,
    read_sources,
    topic_names,
)
from kip848_spark.report.hygiene_rows import groups_of, hygiene_section
from kip848_spark.report.member_rows import members_table
from kip848_spark.report.readiness_rows import readiness_section, verdicts_of_groups
from kip848_spark.report.rebalance_rows import read_period, rebalances_section
from kip848_spark.version import __version__
from kip848_spark.wire.tables import TIMESTAMP

FORMAT = 1
"""The version of the structure. It rises if a field is removed or gets another meaning."""
PERIOD = timedelta(days=30)
"""How long before the newest record the report begins, if no other time is given."""


@dataclass(frozen=True)
class ReportOptions:
    """``since``: what began earlier (UTC) is not in the lists of rebalances and timelines; None:
    `PERIOD` before the newest record. ``cluster``: facts of the cluster, for the readiness
    (`lake.readiness.assess_lake`). ``readiness``: the verdicts, if they are known already."""

    since: datetime | None = None
    cluster: Mapping[str, Any] | None = None
    readiness: LakeReadiness | None = None


def report_data(snapshot: LakeSnapshot, options: ReportOptions | None = None) -> dict[str, Any]:
    """The report of a lake. Raises LakeError if a table can't be read."""
    return _Report(snapshot, options or ReportOptions()).data()


class _Report:
    """Reads the tables that several sections need, once."""

    def __init__(self, snapshot: LakeSnapshot, options: ReportOptions) -> None:
        snapshot.open_tables()
        self.snapshot = snapshot
        self.left_out = LeftOut()
        self.missing: dict[str, str] = {}
        self.runs = at_a_glance.read_runs(snapshot)
        self.newest = _newest(snapshot)
        self.since = options.since or (self.newest and shift(self.newest, -PERIOD))
        self.rebalances = read_period(snapshot, self.since)
        self.findings = self._findings()
        self.hygiene = self._hygiene()
        self.topics = latest_topics(snapshot)
        self.sources = self._sources()
        self.numbers = number_groups(self.sources, self.left_out)
        self.names = topic_names(self.sources, self.topics)
        self.readiness = options.readiness or assess_lake(snapshot, options.cluster)
        self._note_missing()

    def data(self) -> dict[str, Any]:
        """The report."""
        audited = at_a_glance.read_agreement(self.snapshot)
        rebalances, listed = rebalances_section(
            self.snapshot, self.rebalances, self.numbers, self.left_out
        )
        of_findings = findings_of_groups(self.findings, self.numbers)
        timelines, of_timelines = timelines_section(
            self.snapshot, self.sources, self.numbers, self.names, listed, rebalances,
            of_findings["findings"], self.since, self.newest, self.left_out,
        )  # fmt: skip
        groups = group_table(
            self.sources,
            self.numbers,
            self.names,
            of_findings
            | verdicts_of_groups(self.readiness, self.numbers)
            | {"timeline": of_timelines},
        )
        sections = {
            "overview": at_a_glance.overview(
                self.snapshot, self.sources.groups, self.runs, audited, self.findings,
                self.left_out,
            ),
            "groups": groups,
            "rebalances": rebalances,
            "readiness": readiness_section(self.snapshot, self.readiness, self.numbers),
            "hygiene": self.hygiene
            and hygiene_section(self.snapshot, self.hygiene, self.numbers, self.left_out),
            "findings": findings_table(self.findings, self.numbers, self.left_out),
            "members": members_table(
                self.snapshot, self.sources.members, self.sources.assignments, self.numbers,
                self.left_out,
            ),
            "timelines": timelines,
        }  # fmt: skip
        run = self.snapshot.run
        return {
            "format": FORMAT,
            "program": {"name": "kip848-spark", "version": __version__},
            "made_at": round(time.time() * 1000),
            "lake": {
                "path": self.snapshot.path,
                "source": run.source,
                "cluster_id": run.identity.cluster_id,
                "topic": run.identity.topic,
                "run_id": run.run_id,
            },
            "period": {"from": _ms(self.since), "to": _ms(self.newest)},
            "left_out": self.left_out.sentences,
            "missing": list(dict.fromkeys(self.missing.values())),
            "missing_sections": self.missing,
            "summary": self._summary(audited, sections),
            **sections,
        }

    def _findings(self) -> pa.Table:
        return read_distinct_findings(self.snapshot)

    def _hygiene(self) -> Hygiene | None:
        needed = ("commit_summaries", "offset_activity", "rewinds")
        if all(map(self.snapshot.has, needed)):
            return read_hygiene(self.snapshot)
        return None

    def _sources(self) -> GroupSources:
        activity = None
        if self.hygiene is not None and self.hygiene.as_of is not None:
            in_period = pc.field("day") >= self.hygiene.since.date()
            activity = self.snapshot.select(
                "offset_activity", in_period, ["group_id", "commits", "bytes"]
            )
        further = pc.unique(self.findings["group_id"].combine_chunks()).drop_null()
        if self.hygiene is not None:
            named = pa.array(sorted(set(groups_of(self.hygiene))), pa.string())
            further = pa.concat_arrays([further, named])
        has_rebalances = self.snapshot.has("rebalances")
        return read_sources(
            self.snapshot, self.rebalances if has_rebalances else None, activity, further
        )

    def _note_missing(self) -> None:
        """Says what this lake does not have, by section."""
        if not self.snapshot.run.is_replayed:
            self.missing["replay"] = (
                f"{NOT_REPLAYED} What these records say about groups is not in this report, and "
                "commits among them are not counted."
            )
        later = "An earlier version of this program wrote it; the next `kip848 run` adds them."
        missing = [name for name in TABLES if not self.snapshot.has(name)]
        for section, tables in _TABLES_OF.items():
            lacking = [name for name in tables if name in missing]
            if lacking:
                tables_ = "the table" if len(lacking) == 1 else "the tables"
                self.missing[section] = f"The lake lacks {tables_} {', '.join(lacking)}. {later}"
        if "audit" not in self.missing and not at_a_glance.has_audit(self.runs):
            self.missing["audit"] = (
                "No run has audited this lake, so there is neither agreement nor a finding. "
                "`kip848 audit` audits it."
            )
        if self.topics is None and "topics" not in self.missing:
            self.missing["topics"] = (
                "No run has asked a cluster for its topics: which topics were deleted, and the "
                "names of topics that records only name by id, are not known."
            )

    def _summary(self, audited: at_a_glance.Audited, sections: Mapping[str, Any]) -> dict[str, Any]:
        groups, rebalances = self.sources.groups, self.rebalances
        list_ = sections["readiness"]["verdicts"]
        verdicts = dict(
            zip(
                (list_["dictionaries"]["verdict"][code] for code in list_["columns"]["verdict"]),
                list_["columns"]["groups"],
                strict=True,
            )
        )
        by_day = sections["overview"]["records_by_day"]["columns"]["day"]
        open_ = pc.sum(pc.equal(rebalances["outcome"], OPEN)).as_py() or 0
        roots = self.findings.filter(self.findings["root"].is_null())
        severities = sections["findings"]
        worst = severities["columns"]["severity"]
        ends = [run["finished_at"] for run in self.runs if run["finished_at"] is not None]
        return {
            "groups": groups.num_rows,
            "groups_deleted": self.numbers.deleted,
            "members": self.sources.members.num_rows,
            "topics": count_topics(self.sources, self.names),
            "partitions": self.sources.assignments.num_rows,
            "records": self._of_runs("records_read"),
            "records_missing": self._of_runs("missing"),
            "quarantined": self._of_runs("quarantined"),
            "unknown": self._of_runs("unknown"),
            "rebalances": rebalances.num_rows,
            "rebalances_open": open_,
            "unowned_ms": pc.sum(rebalances["unowned_ms"]).as_py() or 0,
            "longest_ms": pc.max(rebalances["duration_ms"]).as_py(),
            "findings": self.findings.num_rows,
            "findings_roots": roots.num_rows,
            "findings_worst": _worst(severities["dictionaries"]["severity"]) if worst else None,
            "verified": audited.total("verified"),
            "unverifiable": audited.total("unverifiable"),
            "disagreed": audited.total("disagreed"),
            "verdicts": verdicts,
            "dead_groups": None if self.hygiene is None else len(self.hygiene.dead_groups),
            "rewinds": None if self.hygiene is None else len(self.hygiene.rewinds),
            "newest_record": _ms(self.newest),
            "oldest_record": min(by_day, default=None),
            "last_run_at": _ms(max(ends, default=None)),
        }

    def _of_runs(self, column: str) -> int:
        return sum(run[column] or 0 for run in self.runs)


_TABLES_OF = {
    "history": ("group_history", "member_history", "assignment_history"),
    "rebalances": ("rebalances",),
    "hygiene": ("commit_summaries", "offset_activity", "rewinds"),
    "audit": ("agreement", "findings"),
    "activity": ("offset_activity",),
    "readiness": ("member_history", "offset_activity", "rebalances"),
}
"""The tables that each section needs, which lakes of earlier versions may lack."""


def _worst(severities: list[str]) -> str:
    return max(severities, key=SEVERITIES.index)


def _newest(snapshot: LakeSnapshot) -> datetime | None:
    """The time of the newest record that is in effect or began a rebalance (UTC); None if the lake
    has no group."""
    found = [pc.max(snapshot.select("groups", None, ["updated_at"])["updated_at"]).as_py()]
    if snapshot.has("rebalances"):
        rows = snapshot.select("rebalances", None, ["started_at", "converged_at"])
        found += [pc.max(rows[name]).as_py() for name in rows.column_names]
    return max((one.astimezone(UTC) for one in found if one is not None), default=None)


def _ms(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    found: int = milliseconds(pa.array([moment], TIMESTAMP))[0].as_py()
    return found
