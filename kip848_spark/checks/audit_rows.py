"""The rows that an audit task is given, and the log entries that they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import LogEntry, control_entry, log_entry
from kip848_spark.coordinator.records import OFFSET, Json, record, tombstone
from kip848_spark.state import kinds

STATE_AT_POINT_IN_TIME, GROUP_RECORDS, CURRENT_STATE = -1, 0, 1
"""Values of `AuditRow.stage`, in the order in which a group's rows come: the state tables as they
were at a point in time, the group's records, the current state tables."""

FULL_COMMIT = "committed_offset"
"""`AuditRow.kind` of an offset commit with its value, for the check of `offsets`. A row of the kind
`replay.kinds.COMMIT` has no value: it only says that the group has a commit."""
UNREADABLE_RECORD = "unreadable"
"""`AuditRow.kind` of a control record that could not be decoded."""
_DECODED_FIELDS = ("consumerSubscription", "consumerAssignment", "metadataKind")
"""Fields that `group_records` has beside the bytes they were decoded from."""
_MOST_ROWS = 20_000
_MOST_CHARACTERS = 32_000_000


class AuditRow(NamedTuple):
    """A row that a task is given: a record, or packed rows of a state table (`row_packing`).

    ``millis`` is the record's time in ms since the epoch. ``value`` is JSON; it is null for a
    tombstone. ``kind`` of packed rows is the table's name.
    """

    group_id: str
    partition: int
    offset: int
    millis: int
    kind: str
    member_id: str | None
    regular_expression: str | None
    dialect: str | None
    value: str | None
    stage: int


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


def step_of(row: AuditRow) -> AuditStep | None:
    """The step of a row of the stage `GROUP_RECORDS`; None for a record that is not audited."""
    kind = row.kind
    if kind == UNREADABLE_RECORD:
        return AuditStep(None, False, row.offset, row.millis)
    if kind in (FULL_COMMIT, kinds.COMMIT):
        commit = _full_commit(row) if kind == FULL_COMMIT else _placeholder_commit(row)
        return AuditStep(commit, True, row.offset, row.millis)
    value = None if row.value is None else _value(kind, row.value)
    place = row.partition, row.offset, row.millis
    entry = control_entry(place, kind, row.group_id, row.member_id, row.regular_expression, value)
    return None if entry is None else AuditStep(entry, False, row.offset, row.millis)


class KeptRows:
    """The records of one group, to audit them again. They are dropped if they are too many to hold
    in memory."""

    def __init__(self) -> None:
        self._rows: list[AuditRow] = []
        self._characters = 0
        self._dropped = False

    def add(self, row: AuditRow) -> None:
        """Takes the next record."""
        if self._dropped:
            return
        self._rows.append(row)
        self._characters += len(row.value or "")
        if len(self._rows) > _MOST_ROWS or self._characters > _MOST_CHARACTERS:
            self._rows, self._dropped = [], True

    def steps(self) -> Iterator[AuditStep]:
        """The steps of all records; none if they were dropped."""
        return (step for step in map(step_of, self._rows) if step is not None)


def _value(kind: str, text: str) -> Json:
    """The value of a control record, without the fields decoded from embedded bytes."""
    value: Json = orjson.loads(text)
    if kind == kinds.CLASSIC:
        _drop_decoded(value["members"])
    elif kind == kinds.MEMBER and value["classicMemberMetadata"] is not None:
        _drop_decoded(value["classicMemberMetadata"]["supportedProtocols"])
    return value


def _drop_decoded(rows: Sequence[Json]) -> None:
    for row in rows:
        for name in _DECODED_FIELDS:
            row.pop(name, None)


def _placeholder_commit(row: AuditRow) -> LogEntry:
    """A commit without its topic: it only creates a simple group where there is none."""
    key = {"group": row.group_id, "topic": "", "partition": 0}
    value = {"offset": 0, "metadata": "", "commitTimestamp": -1}
    return log_entry(row.partition, row.offset, row.millis, record(OFFSET, 3, key, value))


def _full_commit(row: AuditRow) -> LogEntry:
    """A commit with its value, or its tombstone."""
    columns = orjson.loads(row.value or "")
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
