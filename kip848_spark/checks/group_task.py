"""The audit task: a function of Arrow batches that runs in Spark's Python workers.

A task is given all rows of its groups, one group after the other: the state of the group at a point
in time, its records in offset order, then its rows of the current state tables. It holds the state
of one group at a time, and returns counts of verdicts and findings.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from typing import NamedTuple

import orjson
import pyarrow as pa

from kip848_spark.checks.audit_rows import (
    CURRENT_STATE,
    FULL_COMMIT,
    SAVED_AUDIT,
    STATE_AT_POINT_IN_TIME,
    UNREADABLE_RECORD,
    AuditRow,
    DecodedRow,
    KeptRows,
    decoded_rows,
    step_of,
)
from kip848_spark.checks.commits import BY_VERSION
from kip848_spark.checks.completed_target import BY_PROPERTIES
from kip848_spark.checks.context import AuditContext
from kip848_spark.checks.control_values import ControlValue
from kip848_spark.checks.finding_causes import Budget, with_causes
from kip848_spark.checks.finding_ids import with_ids
from kip848_spark.checks.finding_text import with_texts
from kip848_spark.checks.group import BY_ANSWER, GroupAudit
from kip848_spark.checks.results import (
    LOADING,
    ORDER,
    STATE,
    WARNING,
    Finding,
    Tally,
    as_json,
)
from kip848_spark.checks.saved_audit import resume_audit, save_audit
from kip848_spark.checks.state import (
    GROUPS,
    OFFSETS,
    StateRow,
    named_values,
    state_rows,
)
from kip848_spark.checks.state_comparison import (
    NOT_LOADED,
    OTHER_DIALECT,
    compare_rows,
)
from kip848_spark.coordinator.records import Json
from kip848_spark.state import kinds
from kip848_spark.wire.batches import Batches, BatchFunction
from kip848_spark.wire.definitions import SHIPPED
from kip848_spark.wire.tables import TIMESTAMP

VERIFIED, UNVERIFIABLE, DISAGREED, NOTE = "verified", "unverifiable", "disagreed", "note"
FINDING, SAVED, AGAIN = "finding", "saved", "again"
FINDING_COUNT, SAVED_COUNT, AGAIN_COUNT = "finding count", "saved count", "again count"
"""What a result row is: a count by check; a finding; the saved audit of a group (`saved_audit`); a
group that is to be audited again from all its records, since the audit that went on from a saved
one has findings (it has no other results); or the number of such rows of the task."""

RESULT_SCHEMA = pa.schema(
    [
        ("verdict", pa.string()),
        ("check", pa.string()),
        ("reason", pa.string()),
        ("number", pa.int64()),
        ("severity", pa.string()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("expected", pa.string()),
        ("recorded", pa.string()),
        ("explanation", pa.string()),
        ("finding_id", pa.string()),
        ("caused_by", pa.string()),
        ("saved", pa.string()),
    ]
)
"""A result row of a task; ``verdict`` is one of the constants above."""

_DIALECT_FREE = (FULL_COMMIT, kinds.COMMIT, UNREADABLE_RECORD)
"""Values of `AuditRow.kind` of which every release writes the same."""
_RECORDS_PER_MEMBER = 6
"""The audit of a group is saved if it has replayed this many records for each member: what it saves
is then small beside what a later audit need not read."""
_GC_THRESHOLD = 50_000
_MOST_RESULTS, _MOST_BYTES = 4096, 16_000_000
"""Result rows, and bytes of saved audits, after which a batch is returned."""
_MOST_TEXT = 500
"""Characters of an exception's text that a finding keeps."""
AUDIT_FAILED = "the audit itself failed on a group"
CORRECTION_FAILED = "causes of findings: the audit failed on a corrected log"
COMPARED_AT_POINT_IN_TIME = "rows compared at an earlier offset"
OFFSETS_COMPARED = "groups whose committed offsets were replayed and compared"
VERIFIED_BY = (BY_ANSWER, BY_PROPERTIES, BY_VERSION, COMPARED_AT_POINT_IN_TIME, OFFSETS_COMPARED)
"""Of the reasons in `agreement`, those that say how something was verified."""


def audit_groups(context: AuditContext) -> BatchFunction:
    """A function of Arrow batches: columns `AUDIT_ROWS`, sorted by group, stage and offset, to rows
    of `RESULT_SCHEMA`."""

    def run(batches: Batches) -> Batches:
        # Nearly every object that is created here is freed with its group. Python's default, a
        # search for cycles after 700 new objects, took a tenth of the time.
        gc.set_threshold(_GC_THRESHOLD)
        results: list[Json] = []
        tally, budget = Tally(), Budget()
        findings = saved = again = size = 0
        for group_id, rows in groupby(decoded_rows(batches), _group_id):
            of_group = _audit_group(rows, context, budget)
            if of_group is None:
                results.append({"verdict": AGAIN, "group_id": group_id})
                again += 1
                continue
            verdicts = of_group.tally
            results += map(_finding_row, with_texts(verdicts.findings, context.topics.names))
            findings += len(verdicts.findings)
            tally.add(dataclasses.replace(verdicts, findings=[]))
            if of_group.saved is not None:
                results.append(of_group.saved)
                saved += 1
                size += len(of_group.saved["saved"])
            if len(results) >= _MOST_RESULTS or size >= _MOST_BYTES:
                yield pa.RecordBatch.from_pylist(results, schema=RESULT_SCHEMA)
                results, size = [], 0
        results += _count_rows(tally)
        results += [
            {"verdict": FINDING_COUNT, "number": findings},
            {"verdict": SAVED_COUNT, "number": saved},
            {"verdict": AGAIN_COUNT, "number": again},
        ]
        yield pa.RecordBatch.from_pylist(results, schema=RESULT_SCHEMA)

    return run


class _GroupTask:
    """One group: the audit of its records, and the comparison of its rows of the state tables."""

    def __init__(self, decoded: DecodedRow, context: AuditContext, budget: Budget) -> None:
        first = decoded[0]
        self.group_id = first.group_id
        self.newest = decoded
        """The newest record of the group."""
        self._context = context
        self._budget = budget
        self._audit = GroupAudit(first.partition, self.group_id, context)
        self._current: list[AuditRow] = []
        self._rows = KeptRows()
        self._steps = 0
        self._early_access = 0
        self._full_commits = False
        self._partitions = {first.partition}
        self.resumed_after: int | None = None
        """If a saved audit goes on, the offset of the last record before that."""
        self.saved: Json | None = None
        """A row of `RESULT_SCHEMA` with the saved audit, after `finish`."""
        self._point_in_time = context.point_in_time(first.partition, self.group_id)
        self._rows_at_point: list[StateRow] = []
        self._compared_at_point = Tally()

    def add(self, row: AuditRow, value: ControlValue | None) -> None:
        """Takes the next row, and what it says if it is a control record."""
        if row.stage == CURRENT_STATE:
            self._current.append(row)
            return
        if row.stage == STATE_AT_POINT_IN_TIME:
            self._rows_at_point += self._unpack(row)
            return
        if row.stage == SAVED_AUDIT:
            self.resumed_after = row.offset
            resume_audit(self._audit, row.value or b"")
            return
        self._partitions.add(row.partition)
        if self.resumed_after is not None:
            if len(self._partitions) > 1:
                raise ValueError("the group has moved to another partition")
            if row.offset <= self.resumed_after:
                return
        self.newest = row, value
        audited = row.kind in _DIALECT_FREE or row.dialect == SHIPPED
        self._early_access += not audited
        if self._early_access and row.kind not in _DIALECT_FREE:
            return
        self._rows.add(row)
        step = step_of(row, value)
        if step is None:
            return
        self._steps += 1
        self._full_commits = self._full_commits or row.kind == FULL_COMMIT
        step.give(self._audit)
        if step.is_commit or step.entry is None:
            return
        if self._point_in_time is not None and step.offset > self._point_in_time:
            self._compare_at_point(step.offset)

    def _unpack(self, row: AuditRow) -> list[StateRow]:
        return state_rows(row.kind, self.group_id, orjson.loads(row.value or b""))

    def _compare_at_point(self, before: int | None = None) -> None:
        """Compares the state at the point in time, when the reference has replayed up to it:
        ``before`` is the offset of the record that was added last and is beyond it."""
        self._point_in_time = None
        reference = self._audit.reference
        ours = [row for row in self._rows_at_point if not _is_simple_group(row)]
        theirs = [row for row in reference.rows(before) if not _is_simple_group(row)]
        comparable = self._audit.only_last_is_pending and reference.fault is None
        if comparable:
            compare_rows(self._compared_at_point, ours, theirs)

    def finish(self) -> Tally:
        """Call this after the last row. Returns all verdicts on the group."""
        audit = self._audit
        least = self._context.save_after
        if least is not None and len(self._partitions) == 1 and not self._early_access:
            self._save(least)
        tally = Tally() if self._early_access else audit.finish()
        if self._point_in_time is not None and not self._early_access:
            self._compare_at_point()
        tally.add(self._compared_at_point)
        if compared := self._compared_at_point.verified[STATE]:
            tally.notes[STATE, COMPARED_AT_POINT_IN_TIME] = compared
        if self._early_access:
            tally.unverifiable[ORDER, OTHER_DIALECT] = self._early_access
        current = [unpacked for row in self._current for unpacked in self._unpack(row)]
        theirs, reason = list(audit.reference.rows()), None
        if self._early_access:
            reason = OTHER_DIALECT
        elif audit.reference.fault is not None:
            reason = NOT_LOADED
        ours = [row for row in current if row[0] != OFFSETS]
        compare_rows(tally, ours, theirs, reason)
        if self._full_commits:
            ours = [row for row in current if row[0] == OFFSETS]
            compare_rows(tally, ours, audit.reference.offset_rows())
            tally.notes[STATE, OFFSETS_COMPARED] += 1
        self._budget.add(self._steps)
        if tally.findings and self.resumed_after is None:
            steps = [] if self._early_access else list(self._rows.steps())
            tally.findings = with_causes(tally.findings, steps, self._context, self._budget)
            for name, number in self._budget.failures.items():
                tally.unverifiable[LOADING, f"{CORRECTION_FAILED} ({name})"] += number
            self._budget.failures.clear()
        return tally

    def _save(self, least: int) -> None:
        """Saves the audit if it has replayed ``least`` records, and enough for its members."""
        group = self._audit.audited.consumer
        members = 0 if group is None else len(group.members)
        if self._steps < max(least, _RECORDS_PER_MEMBER * members):
            return
        state = save_audit(self._audit)
        if state is not None:
            last = self._audit.checked[-1]
            self.saved = {
                "verdict": SAVED,
                "group_id": self.group_id,
                "partition": last.partition,
                "offset": last.offset,
                "timestamp": last.timestamp * 1000,  # to us
                "saved": state,
            }


class _GroupResult(NamedTuple):
    """The verdicts on a group, and a row of `RESULT_SCHEMA` with its saved audit, if there is
    one."""

    tally: Tally
    saved: Json | None = None


def _is_simple_group(row: StateRow) -> bool:
    """Whether this is the row of a group that exists only because of its offset commits. A task is
    not given all of those, so at a point in time such groups are not compared."""
    if row[0] != GROUPS:
        return False
    values = named_values(row)
    return values["type"] == "classic" and not values["protocol_type"]


def _group_id(decoded: DecodedRow) -> str:
    return decoded[0].group_id


def _audit_group(
    rows: Iterator[DecodedRow], context: AuditContext, budget: Budget
) -> _GroupResult | None:
    """The verdicts on a group; None if it is to be audited again from all its records. An exception
    must not stop the audit of the other groups: this group is then unverifiable, and a finding says
    so."""
    first = next(rows)
    group = _GroupTask(first, context, budget)
    tally = _verdicts(group, chain((first,), rows))
    if not tally.findings:
        return _GroupResult(tally, group.saved)
    return _GroupResult(tally) if group.resumed_after is None else None


def _verdicts(group: _GroupTask, rows: Iterable[DecodedRow]) -> Tally:
    for row, value in rows:
        try:
            group.add(row, value)
        except Exception as failure:  # a record may hold values that no check expects
            return _failed(group.newest, failure)
    try:
        return group.finish()
    except Exception as failure:  # as above
        return _failed(group.newest, failure)


def _failed(newest: DecodedRow, failure: Exception) -> Tally:
    """The verdict on a group whose audit raised an exception at or after the record ``newest``."""
    row, value = newest
    tally = Tally()
    tally.add_unverifiable(LOADING, AUDIT_FAILED)
    tally.findings.append(
        Finding(
            check=LOADING,
            reason="audit_failed",
            severity=WARNING,
            group_id=row.group_id,
            member_id=None if value is None else value.member_id,
            partition=row.partition,
            offset=row.offset,
            timestamp=row.millis,
            expected=as_json("a group that this program can audit"),
            recorded=as_json(f"{type(failure).__name__}: {failure}"[:_MOST_TEXT]),
        )
    )
    tally.findings = with_ids(tally.findings)
    return tally


def _finding_row(finding: Finding) -> Json:
    row: Json = {"verdict": FINDING}
    row.update((name, getattr(finding, name)) for name in Finding.__slots__)
    if row["timestamp"] is not None:
        row["timestamp"] *= 1000  # to us
    return row


def _count_rows(tally: Tally) -> Iterator[Json]:
    for check, number in tally.verified.items():
        yield {"verdict": VERIFIED, "check": check, "number": number}
    for check, number in tally.disagreed.items():
        yield {"verdict": DISAGREED, "check": check, "number": number}
    for (check, reason), number in tally.unverifiable.items():
        yield {"verdict": UNVERIFIABLE, "check": check, "reason": reason, "number": number}
    for (check, reason), number in tally.notes.items():
        yield {"verdict": NOTE, "check": check, "reason": reason, "number": number}
