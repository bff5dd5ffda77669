"""The audit task: a function of Arrow batches that runs in Spark's Python workers.

A task is given all rows of its groups, one group after the other: the state of the group at a point
in time, its records in offset order, then its rows of the current state tables. It holds the state
of one group at a time, and returns counts of verdicts and findings.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from itertools import chain, groupby

import orjson
import pyarrow as pa

from kip848_spark.checks.audit_rows import (
    CURRENT_STATE,
    FULL_COMMIT,
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

VERIFIED, UNVERIFIABLE, DISAGREED, NOTE, FINDING, FINDING_COUNT = (
    "verified", "unverifiable", "disagreed", "note", "finding", "finding count",
)  # fmt: skip
"""What a result row is: a count by check, a finding, or the number of findings of the task."""

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
    ]
)
"""A result row of a task; ``verdict`` is one of the constants above."""

_DIALECT_FREE = (FULL_COMMIT, kinds.COMMIT, UNREADABLE_RECORD)
"""Values of `AuditRow.kind` of which every release writes the same."""
_GC_THRESHOLD = 50_000
_MOST_RESULTS = 4096
"""Result rows after which a batch is returned."""
_MOST_TEXT = 500
"""Characters of an exception's text that a finding keeps."""
AUDIT_FAILED = "the audit itself failed on a group"
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
        tally, findings, budget = Tally(), 0, Budget()
        for _, rows in groupby(decoded_rows(batches), _group_id):
            of_group = _audit_group(rows, context, budget)
            results += map(_finding_row, with_texts(of_group.findings, context.topics.names))
            findings += len(of_group.findings)
            tally.add(dataclasses.replace(of_group, findings=[]))
            if len(results) >= _MOST_RESULTS:
                yield pa.RecordBatch.from_pylist(results, schema=RESULT_SCHEMA)
                results = []
        results += [*_count_rows(tally), {"verdict": FINDING_COUNT, "number": findings}]
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
        if tally.findings:
            steps = [] if self._early_access else list(self._rows.steps())
            tally.findings = with_causes(tally.findings, steps, self._context, self._budget)
        return tally


def _is_simple_group(row: StateRow) -> bool:
    """Whether this is the row of a group that exists only because of its offset commits. A task is
    not given all of those, so at a point in time such groups are not compared."""
    if row[0] != GROUPS:
        return False
    values = named_values(row)
    return values["type"] == "classic" and not values["protocol_type"]


def _group_id(decoded: DecodedRow) -> str:
    return decoded[0].group_id


def _audit_group(rows: Iterator[DecodedRow], context: AuditContext, budget: Budget) -> Tally:
    """The verdicts on a group. An exception must not stop the audit of the other groups: this
    group is then unverifiable, and a finding says so."""
    first = next(rows)
    group = _GroupTask(first, context, budget)
    for row, value in chain((first,), rows):
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
    row = dataclasses.asdict(finding)
    if row["timestamp"] is not None:
        row["timestamp"] *= 1000  # to us
    return {"verdict": FINDING, **row}


def _count_rows(tally: Tally) -> Iterator[Json]:
    for check, number in tally.verified.items():
        yield {"verdict": VERIFIED, "check": check, "number": number}
    for check, number in tally.disagreed.items():
        yield {"verdict": DISAGREED, "check": check, "number": number}
    for (check, reason), number in tally.unverifiable.items():
        yield {"verdict": UNVERIFIABLE, "check": check, "reason": reason, "number": number}
    for (check, reason), number in tally.notes.items():
        yield {"verdict": NOTE, "check": check, "reason": reason, "number": number}
