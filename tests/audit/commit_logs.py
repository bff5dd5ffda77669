"""Captures with their offset commits, and audits of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.checks.audit_rows import FULL_COMMIT, AuditRow, AuditStep, step_of
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.results import Tally
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.records import OFFSET
from kip848_spark.wire.control_plans import CONTROL_PLAN
from kip848_spark.wire.record_stream import decode_batches
from tests.audit.raw_records import entries_of
from tests.captures import COMMITTED
from tests.conftest import DATA


@lru_cache
def with_commits(capture: str) -> tuple[LogEntry, ...]:
    """The control records and the offset commits of a capture, in offset order."""
    control = [e for e in entries_of(DATA / capture / COMMITTED) if int(e.kind) in range(2, 17)]
    return tuple(sorted([*control, *_commits(capture)], key=lambda e: (e.partition, e.offset)))


def _commits(capture: str) -> Iterable[LogEntry]:
    table = pq.read_table(DATA / capture / COMMITTED)
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    starts = dict.fromkeys(table["partition"].to_pylist(), 0)
    batches = iter(table.combine_chunks().to_batches())
    for _, columns in decode_batches(CONTROL_PLAN.plan, starts, False, batches):
        for row in pa.table(columns).to_pylist():
            if row["kind"] == "offset_commit" and row["error"] is None:
                step = step_of(_audit_row(row), None)
                assert step is not None
                assert step.entry is not None
                yield step.entry


def _audit_row(row: dict[str, object]) -> AuditRow:
    """As the audit's input has a commit with its value."""
    names = ("topic", "topic_partition", "tombstone", "committed_offset", "leader_epoch")
    value = {name: row[name] for name in (*names, "metadata", "topic_id", "value_version")}
    for name in ("commit", "expire"):
        value[f"{name}_millis"] = _millis(row[f"{name}_timestamp"])
    return AuditRow(
        str(row["group_id"]),
        int(str(row["partition"])),
        int(str(row["offset"])),
        _millis(row["timestamp"]) or 0,
        FULL_COMMIT,
        None,
        None,
        orjson.dumps(value),
        0,
    )


def _millis(time: object) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)  # type: ignore[attr-defined]


def audit_with_commits(
    log: Iterable[LogEntry],
    known: KnownTopics,
    coverage: Coverage | None = None,
    release: str | None = None,
) -> Tally:
    """What the audit of control records and commits comes to."""
    context = AuditContext(coverage or Coverage(), known, release)
    audits: dict[tuple[int, str], GroupAudit] = {}
    for item in log:
        key = item.partition, item.group
        if key not in audits:
            audits[key] = GroupAudit(*key, context)
        AuditStep(item, item.kind == OFFSET, item.offset, item.timestamp).give(audits[key])
    tally = Tally()
    for one in audits.values():
        tally.add(one.finish())
    return tally
