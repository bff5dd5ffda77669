"""The cluster at a glance: groups, records by kind and day, the audits, gaps and runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.checks.results import CHECKS, LIVE
from kip848_spark.lake.ledger import AUDIT, PARTIAL_AUDIT
from kip848_spark.lake.snapshot import LakeSnapshot, plain
from kip848_spark.report.columns import LeftOut, ReportTable, report_table, rows_table
from kip848_spark.report.reading import read_table
from kip848_spark.state.kinds import COMMIT
from kip848_spark.wire.tables import TIMESTAMP, Row

MOST_RUNS = 60
MOST_GAPS = 200

CHECKS_IN_WORDS = {
    "state": "The tables of groups, members, assignments and offsets are what the records say.",
    "loading": "A broker can load every record.",
    "order": "The records of an operation come in an order that a coordinator writes.",
    "epochs": "Group, target and member epochs follow each other as they must.",
    "causes": "Every new group epoch has a cause, and every cause leads to a new epoch.",
    "metadata_hash": "The hash of a group's topics is that of the topics it is about.",
    "targets": "The target assignment is the one that the assignor computes.",
    "transitions": "A member's assignment follows from its last one and a possible answer of it.",
    "ownership": "No partition has two owners.",
    "migration": "A conversion between the protocols takes over all members and partitions.",
    "value_times": "A time inside a record fits the time at which the record was written.",
    "commits": "A committed offset is of an existing partition, and stays while it is needed.",
    "live": "The state tables agree with what the running cluster answers.",
}
"""What each check of the audit looks at (docs/audit.md)."""

CAUSES_OF_GAPS = {
    "transaction": "markers of transactions, and records of transactions that were aborted",
    "compaction": "the log cleaner had deleted the records before they were read",
    "unknown": "neither the records around the gap nor their keys tell the cause",
}
"""What each cause of missing offsets means (docs/design.md)."""


@dataclass(frozen=True)
class Audited:
    """The rows of `agreement` of all audits, added up by check."""

    rows: Sequence[Row]
    reasons: Sequence[Row]

    def total(self, name: str) -> int:
        """The sum of a column over the checks of the records."""
        return sum(row[name] for row in self.rows if row["check"] != LIVE)


def overview(
    snapshot: LakeSnapshot,
    groups: pa.Table,
    runs: Sequence[Row],
    audited: Audited,
    findings: pa.Table | None,
    left_out: LeftOut,
) -> dict[str, ReportTable]:
    """The section `overview` (docs/report.md). ``groups`` are the current ones, ``runs`` the
    finished ones; ``findings`` have the columns check and severity."""
    by_day = records_by_day(snapshot)
    return {
        "groups": _count(groups, ["type", "state"], "groups"),
        "records_by_kind": _records_by_kind(by_day),
        "records_by_day": report_table(
            by_day.select(["day", "kind", "records"]).sort_by(
                [("day", "ascending"), ("kind", "ascending")]
            ),
            ["kind"],
        ),
        **_agreement(audited),
        "findings_by_check": _count(
            pa.table({"check": pa.array([], pa.string()), "severity": pa.array([], pa.string())})
            if findings is None
            else findings,
            ["check", "severity"],
            "findings",
        ),
        **_gaps(snapshot, left_out),
        "runs": _runs(runs, left_out),
        "errors": _errors(runs),
    }


def _count(rows: pa.Table, by: Sequence[str], name: str) -> ReportTable:
    found = rows.select(list(by)).group_by(list(by)).aggregate([([], "count_all")])
    found = found.rename_columns([*by, name])
    order = [(name, "descending"), *((column, "ascending") for column in by)]
    return report_table(found.sort_by(order), by)


def records_by_day(snapshot: LakeSnapshot) -> pa.Table:
    """day (date), kind, records, tombstones: of the records that could be decoded. Commits are
    counted from their summaries, so that the large table `records` is not read."""
    control = read_table(snapshot, "group_records", ["timestamp", "kind", "tombstone"])
    days = pc.floor_temporal(control["timestamp"], unit="day").cast(pa.date32())
    counted = control.set_column(0, "day", days).set_column(
        2, "tombstone", pc.fill_null(control["tombstone"], False).cast(pa.int64())
    )
    sums = counted.group_by(["day", "kind"]).aggregate([([], "count_all"), ("tombstone", "sum")])
    found = sums.rename_columns(["day", "kind", "records", "tombstones"])
    if not snapshot.has("offset_activity"):
        return found
    activity = snapshot.select("offset_activity", None, ["day", "commits", "tombstones"])
    sums = activity.group_by("day").aggregate([("commits", "sum"), ("tombstones", "sum")])
    commits = pa.table(
        {
            "day": sums["day"],
            "kind": pa.array([COMMIT] * sums.num_rows, pa.string()),
            "records": pc.add(sums["commits_sum"], sums["tombstones_sum"]),
            "tombstones": sums["tombstones_sum"],
        }
    )
    return pa.concat_tables([found, commits.cast(found.schema)])


def _records_by_kind(by_day: pa.Table) -> ReportTable:
    sums = by_day.group_by("kind").aggregate([("records", "sum"), ("tombstones", "sum")])
    found = sums.rename_columns(["kind", "records", "tombstones"])
    return report_table(found.sort_by([("records", "descending"), ("kind", "ascending")]), ["kind"])


def read_agreement(snapshot: LakeSnapshot) -> Audited:
    """The agreement of all audits of the lake, added up."""
    sums: dict[str, Counter[str]] = {}
    reasons: Counter[tuple[str, str]] = Counter()
    names = ("verified", "unverifiable", "disagreed")
    for row in plain(read_table(snapshot, "agreement", ["check", *names, "reasons"])):
        found = sums.setdefault(row["check"], Counter(dict.fromkeys(names, 0)))
        found.update({name: row[name] or 0 for name in names})
        for reason, count in (row["reasons"] or {}).items():
            reasons[row["check"], reason] += count
    known = {name: number for number, name in enumerate(CHECKS)}
    checks = sorted(sums, key=lambda name: known.get(name, len(known)))
    ordered = sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))
    return Audited(
        [{"check": name, **sums[name]} for name in checks],
        [{"check": check, "reason": reason, "count": n} for (check, reason), n in ordered],
    )


def _agreement(audited: Audited) -> dict[str, ReportTable]:
    numbers = {name: pa.int64() for name in ("verified", "unverifiable", "disagreed")}
    text = pa.string()
    rows = [{**row, "about": CHECKS_IN_WORDS.get(row["check"])} for row in audited.rows]
    return {
        "agreement": rows_table(rows, {"check": text, **numbers, "about": text}, ["check"]),
        "not_judged": rows_table(
            audited.reasons,
            {"check": text, "reason": text, "count": pa.int64()},
            ["check", "reason"],
        ),
    }


def _gaps(snapshot: LakeSnapshot, left_out: LeftOut) -> dict[str, ReportTable]:
    columns = ["partition", "first_offset", "last_offset", "cause", "run_id"]
    gaps = read_table(snapshot, "gaps", columns)
    missing = pc.add(pc.subtract(gaps["last_offset"], gaps["first_offset"]), 1)
    gaps = gaps.add_column(3, "offsets", missing)
    sums = gaps.group_by("cause").aggregate([([], "count_all"), ("offsets", "sum")])
    sums = sums.rename_columns(["cause", "ranges", "offsets"])
    sums = sums.sort_by([("offsets", "descending"), ("cause", "ascending")])
    about = [CAUSES_OF_GAPS.get(cause) for cause in sums["cause"].to_pylist()]
    sums = sums.append_column("about", pa.array(about, pa.string()))
    if gaps.num_rows > MOST_GAPS:
        left_out.add(
            f"Gaps: the {MOST_GAPS} largest of {gaps.num_rows:,} ranges are listed; "
            "the sums are of all."
        )
    order = [("offsets", "descending"), ("partition", "ascending"), ("first_offset", "ascending")]
    return {
        "gaps": report_table(sums, ["cause"]),
        "gap_list": report_table(
            gaps.take(pc.select_k_unstable(gaps, MOST_GAPS, order)), ["cause", "run_id"]
        ),
    }


def read_runs(snapshot: LakeSnapshot) -> list[Row]:
    """The finished runs, the newest first."""
    rows = plain(snapshot.select("runs", None))
    return sorted(rows, key=lambda row: str(row["run_id"]), reverse=True)


def _runs(runs: Sequence[Row], left_out: LeftOut) -> ReportTable:
    shown = left_out.cut_rows(
        runs, MOST_RUNS, lambda most, all_: f"Runs: the last {most} of {all_:,} are listed."
    )
    counts = ("decoded", "tombstones", "unknown", "quarantined", "missing")
    fields: Mapping[str, pa.DataType] = {
        "run_id": pa.string(),
        "started_at": TIMESTAMP,
        "finished_at": TIMESTAMP,
        "records": pa.int64(),
        **dict.fromkeys(counts, pa.int64()),
        "audit": pa.string(),
        "source": pa.string(),
    }
    rows = [{**row, "records": row["records_read"], "audit": _audit_of(row)} for row in shown]
    found = rows_table(rows, fields, ["audit", "source"])
    found["columns"]["steps"] = [
        [[name, ms] for name, ms in (row["durations_ms"] or {}).items()] for row in shown
    ]
    return found


def _audit_of(run: Mapping[str, Any]) -> str | None:
    steps = run["durations_ms"] or {}
    return "complete" if AUDIT in steps else "partial" if PARTIAL_AUDIT in steps else None


def has_audit(runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any of the runs audited."""
    return any(_audit_of(run) for run in runs)


def _errors(runs: Sequence[Row]) -> ReportTable:
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update(run["errors"] or {})
    rows = [{"reason": name, "records": n} for name, n in counts.most_common()]
    return rows_table(rows, {"reason": pa.string(), "records": pa.int64()})
