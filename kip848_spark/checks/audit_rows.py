"""The rows that an audit task is given, and the log entries that they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.checks.control_values import ControlValue, control_values
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry, control_entry, log_entry
from kip848_spark.coordinator.records import OFFSET, record, tombstone
from kip848_spark.state import kinds
from kip848_spark.wire.batches import Batches
from kip848_spark.wire.definitions import SHIPPED

SAVED_AUDIT, STATE_AT_POINT_IN_TIME, GROUP_RECORDS, CURRENT_STATE = -2, -1, 0, 1
"""Values of `AuditRow.stage`, in the order in which a group's rows come: the saved state of an
earlier audit, the state tables as they were at a point in time, the group's records, the current
state tables."""

FULL_COMMIT = "committed_offset"
"""`AuditRow.kind` of an offset commit with its value, for the check of `offsets`. A row of the kind
`state.kinds.COMMIT` has no value: it only says that the group has a commit."""
UNREADABLE_RECORD = "unreadable"
"""`AuditRow.kind` of a control record that could not be decoded."""
_MOST_ROWS_KEPT, _MOST_BYTES_KEPT = 20_000, 16_000_000
"""How much of a group is kept to audit it again."""


class AuditRow(NamedTuple):
    """A row that a task is given: a record, or packed rows of a state table (`row_packing`).

    ``millis`` is the record's time in ms since the epoch. Of a control record, ``key`` and
    ``value`` are the bytes in the topic. Of other rows, ``value`` is JSON and ``key`` is null.
    ``offset`` of a saved audit is that of the last record that it has checked.
    ``kind`` of packed rows is the table's name.
    """

    group_id: str
    partition: int
    offset: int
    millis: int
    kind: str
    dialect: str | None
    key: bytes | None
    value: bytes | None
    stage: int


AUDIT_ROWS = pa.schema(
    [
        ("group_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("millis", pa.int64()),
        ("kind", pa.string()),
        ("dialect", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("stage", pa.int32()),
    ]
)
"""The columns of `AuditRow`."""
_MOST_ROWS_AT_ONCE, _MOST_BYTES_AT_ONCE = 8_192, 4_000_000
"""How much is decoded in one call: objects take many times the memory of the bytes."""
DecodedRow = tuple[AuditRow, ControlValue | None]
"""A row, and what the record says if it is a control record that the audit can read."""


def decoded_rows(batches: Batches) -> Iterator[DecodedRow]:
    """The rows of Arrow batches with the columns `AUDIT_ROWS`."""
    for batch in batches:
        for part in _parts(batch):
            columns = (part.column(name).to_pylist() for name in AuditRow._fields)
            rows = [AuditRow._make(row) for row in zip(*columns, strict=True)]
            yield from zip(rows, _values(rows), strict=True)


def _parts(batch: pa.RecordBatch) -> Batches:
    """Slices of a batch that are decoded at once; a single row may have more bytes."""
    lengths = pc.fill_null(pc.binary_length(batch.column("value")), 0)
    upto = np.cumsum(lengths.to_numpy(), dtype=np.int64)
    first = 0
    while first < batch.num_rows:
        most = (int(upto[first - 1]) if first else 0) + _MOST_BYTES_AT_ONCE
        end = max(first + 1, int(np.searchsorted(upto, most, side="right")))
        end = min(end, first + _MOST_ROWS_AT_ONCE)
        yield batch.slice(first, end - first)
        first = end


def _values(rows: Sequence[AuditRow]) -> list[ControlValue | None]:
    at = [number for number, row in enumerate(rows) if _is_readable(row)]
    keys, values = (
        pa.array([rows[number][field] for number in at], pa.binary())
        for field in (AuditRow._fields.index("key"), AuditRow._fields.index("value"))
    )
    found: list[ControlValue | None] = [None] * len(rows)
    for number, value in zip(at, control_values(keys, values), strict=True):
        found[number] = value
    return found


def _is_readable(row: AuditRow) -> bool:
    return row.key is not None and row.dialect == SHIPPED


class AuditStep(NamedTuple):
    """One thing of a group that `GroupAudit` takes, in the order of the offsets. ``entry`` is None
    for a control record that could not be decoded."""

    entry: LogEntry | None
    is_commit: bool
    offset: int
    millis: int

    @classmethod
    def of(cls, entry: LogEntry) -> AuditStep:
        """A control record."""
        return cls(entry, False, entry.offset, entry.timestamp)

    def give(self, audit: GroupAudit) -> None:
        """Gives the step to ``audit``."""
        if self.entry is None:
            audit.unreadable(self.offset, self.millis)
        elif self.is_commit:
            audit.commit(self.entry)
        else:
            audit.add(self.entry)


def step_of(row: AuditRow, value: ControlValue | None) -> AuditStep | None:
    """The step of a row of the stage `GROUP_RECORDS`; None for a record that is not audited.
    ``value`` is what it says if it is a control record."""
    kind = row.kind
    if kind in (FULL_COMMIT, kinds.COMMIT):
        commit = _full_commit(row) if kind == FULL_COMMIT else _placeholder_commit(row)
        return AuditStep(commit, True, row.offset, row.millis)
    if kind == UNREADABLE_RECORD or value is None:
        return AuditStep(None, False, row.offset, row.millis)
    place = row.partition, row.offset, row.millis
    entry = control_entry(place, kind, row.group_id, *value)
    return None if entry is None else AuditStep(entry, False, row.offset, row.millis)


class KeptRows:
    """The records of one group, to audit them again. They are dropped if they are too many to hold
    in memory."""

    def __init__(self) -> None:
        self._rows: list[AuditRow] = []
        self._bytes = 0
        self._dropped = False

    def add(self, row: AuditRow) -> None:
        """Takes the next record."""
        if self._dropped:
            return
        self._rows.append(row)
        self._bytes += len(row.value or b"")
        if len(self._rows) > _MOST_ROWS_KEPT or self._bytes > _MOST_BYTES_KEPT:
            self._rows, self._dropped = [], True

    def steps(self) -> Iterator[AuditStep]:
        """The steps of all records; none if they were dropped."""
        steps = map(step_of, self._rows, _values(self._rows))
        return (step for step in steps if step is not None)


def _placeholder_commit(row: AuditRow) -> LogEntry:
    """A commit without its topic: it only creates a simple group where there is none."""
    key = {"group": row.group_id, "topic": "", "partition": 0}
    value = {"offset": 0, "metadata": "", "commitTimestamp": -1}
    return log_entry(row.partition, row.offset, row.millis, record(OFFSET, 3, key, value))


def _full_commit(row: AuditRow) -> LogEntry:
    """A commit with its value, or its tombstone."""
    columns = orjson.loads(row.value or b"")
    key = {
        "group": row.group_id,
        "topic": columns["topic"],
        "partition": columns["topic_partition"],
    }
    if columns["tombstone"]:
        commit = tombstone(OFFSET, **key)
    else:
        value = {
            "offset": columns["committed_offset"],
            "leaderEpoch": columns["leader_epoch"],
            "metadata": columns["metadata"],
            "commitTimestamp": _set(columns["commit_millis"]),
            "expireTimestamp": _set(columns["expire_millis"]),
            "topicId": columns["topic_id"],
        }
        commit = record(OFFSET, columns["value_version"], key, value)
    return log_entry(row.partition, row.offset, row.millis, commit)


def _set(millis: int | None) -> int:
    """A time; -1 if it is not set, or too late for a timestamp of the table."""
    return -1 if millis is None else millis
