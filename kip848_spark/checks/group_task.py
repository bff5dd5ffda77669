"""The function of an audit that runs in Spark's Python workers: rows in, verdicts out.

A task gets whole groups, one after the other: first a group's records in the order of their
offsets, then its rows of the state tables. It holds the state of one group at a time.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from kip848_spark.checks.completed_target import BY_PROPERTIES
from kip848_spark.checks.group import GroupAudit
from kip848_spark.checks.log_entries import Entry, control_entry, entry
from kip848_spark.checks.results import (
    LOADING,
    ORDER,
    STATE,
    WARNING,
    Finding,
    Tally,
    as_json,
)
from kip848_spark.checks.settings import Settings
from kip848_spark.checks.state import (
    GROUPS,
    JUDGED_TYPES,
    OFFSETS,
    StateRow,
    named_said,
    state_rows,
)
from kip848_spark.checks.state_comparison import NOT_LOADED, OTHER_DIALECT, OTHER_TYPE, agree
from kip848_spark.coordinator.records import OFFSET, record, tombstone
from kip848_spark.state import kinds
from kip848_spark.wire.batches import Batches, BatchFunction
from kip848_spark.wire.definitions import SHIPPED
from kip848_spark.wire.tables import TIMESTAMP

Json = dict[str, Any]

VERIFIED, UNVERIFIABLE, DISAGREED, NOTE, FINDING, FOUND = (
    "verified", "unverifiable", "disagreed", "note", "finding", "found",
)  # fmt: skip
REPLAYED = "committed_offset"
"""The kind of a commit that is replayed as it is; a `COMMIT` row only says that there was one."""
UNREADABLE = "unreadable"
"""The kind of a control record that could not be decoded."""

VERDICT = pa.schema(
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
    ]
)
"""One line of what a worker says: a count, a finding, or how many of those it had."""


class Row(NamedTuple):
    """What a worker is given: a record, or rows of a state table as `packing` has them.

    ``value`` is JSON (null for a tombstone). ``last`` says what of a group comes first:
    `IN_BETWEEN`, `RECORDS` or `NOW`. Rows of a state table have its name for a kind.
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
    last: int


_GROUP = attrgetter("group_id")
_DECODED = ("consumerSubscription", "consumerAssignment", "metadataKind")
"""What `group_records` has beside the bytes it was decoded from."""
_OBJECTS = 50_000
_MOST_LINES = 4096
_MOST_TEXT = 500
FAILED = "the audit itself failed on a group"
COMPARED_IN_BETWEEN = "rows compared as they were at an offset in between"
IN_BETWEEN, RECORDS, NOW = -1, 0, 1
"""What rows of a group come first: state tables as they were once, its records, those of now."""
OFFSETS_COMPARED = "groups of which committed offsets were replayed and compared"
VERIFIED_BY = (BY_PROPERTIES, COMPARED_IN_BETWEEN, OFFSETS_COMPARED)
"""Of the reasons in `agreement` those that tell by what means something was verified."""


def judge(settings: Settings) -> BatchFunction:
    """Columns of `Row`, sorted by group, ``last`` and offset, to lines of `VERDICT`."""

    def run(batches: Batches) -> Batches:
        # Nearly all that is made here goes with its group; to look for cycles after every 700
        # objects, as Python does, takes a tenth of the time.
        gc.set_threshold(_OBJECTS)
        lines: list[Json] = []
        tally, findings = Tally(), 0
        for _, rows in groupby(_rows_of(batches), _GROUP):
            found = _judged(rows, settings)
            lines += map(_finding, found.findings)
            findings += len(found.findings)
            tally.add(dataclasses.replace(found, findings=[]))
            if len(lines) >= _MOST_LINES:
                yield pa.RecordBatch.from_pylist(lines, schema=VERDICT)
                lines = []
        lines += [*_counts(tally), {"verdict": FOUND, "number": findings}]
        yield pa.RecordBatch.from_pylist(lines, schema=VERDICT)

    return run


class _Group:
    """One group: its audit, and its rows of the state tables."""

    def __init__(self, first: Row, settings: Settings) -> None:
        self.group_id = first.group_id
        self.last = first
        """The newest of its records."""
        self._audit = GroupAudit(first.partition, self.group_id, settings)
        self._now: list[Row] = []
        self._early = 0
        self._commits = False
        self._cut = settings.cut(first.partition, self.group_id)
        self._then: list[StateRow] = []
        self._compared = Tally()

    def add(self, row: Row) -> None:
        """Takes the next row."""
        if row.last == NOW:
            self._now.append(row)
            return
        if row.last == IN_BETWEEN:
            self._then += self._rows(row)
            return
        self.last = row
        kind = row.kind
        if kind == REPLAYED:
            self._commits = True
            self._audit.commit(_replayed(row))
        elif kind == kinds.COMMIT:
            self._audit.commit(_commit(row))
        elif kind == UNREADABLE:
            self._audit.unreadable(row.offset, row.millis)
        elif row.dialect != SHIPPED:
            self._early += 1
        elif not self._early:
            value = None if row.value is None else _value(kind, row.value)
            place = row.partition, row.offset, row.millis
            item = control_entry(
                place, kind, self.group_id, row.member_id, row.regular_expression, value
            )
            if item is not None:
                self._audit.add(item)
                if self._cut is not None and item.offset > self._cut:
                    self._compare_then()

    def _rows(self, row: Row) -> list[StateRow]:
        return state_rows(row.kind, self.group_id, orjson.loads(row.value or ""))

    def _compare_then(self) -> None:
        """The state at the cut, which lies right behind what the reference has replayed."""
        self._cut = None
        reference = self._audit.reference
        ours = [row for row in self._then if not _of_commits(row)]
        theirs = [row for row in reference.rows() if not _of_commits(row)]
        if _is_judged(ours) and self._audit.at_rest and reference.fault is None:
            agree(self._compared, ours, theirs)

    def verdicts(self) -> Tally:
        """No row follows."""
        audit = self._audit
        tally = Tally() if self._early else audit.finish()
        if self._cut is not None and not self._early:
            self._compare_then()
        tally.add(self._compared)
        if compared := self._compared.verified[STATE]:
            tally.notes[STATE, COMPARED_IN_BETWEEN] = compared
        if self._early:
            tally.unverifiable[ORDER, OTHER_DIALECT] = self._early
        now = [told for row in self._now for told in self._rows(row)]
        reason = None
        if self._early:
            reason = OTHER_DIALECT
        elif not _is_judged(now):
            reason = OTHER_TYPE
        elif audit.reference.fault is not None:
            reason = NOT_LOADED
        ours = [row for row in now if row[0] != OFFSETS]
        agree(tally, ours, audit.reference.rows(), reason)
        if self._commits:
            ours = [row for row in now if row[0] == OFFSETS]
            agree(tally, ours, audit.reference.offset_rows())
            tally.notes[STATE, OFFSETS_COMPARED] += 1
        return tally


def _is_judged(rows: Sequence[StateRow]) -> bool:
    """Whether the rows are of a group that the reference replays."""
    return all(named_said(row)["type"] in JUDGED_TYPES for row in rows if row[0] == GROUPS)


def _of_commits(row: StateRow) -> bool:
    """Whether this is a group that only commits have made: not all of them are told here."""
    if row[0] != GROUPS:
        return False
    said = named_said(row)
    return said["type"] == "classic" and not said["protocol_type"]


def _rows_of(batches: Batches) -> Iterator[Row]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in Row._fields)
        yield from map(Row._make, zip(*columns, strict=True))


def _judged(rows: Iterator[Row], settings: Settings) -> Tally:
    """The verdicts on a group. What no rule was made for must not stop the audit of the others:
    the group is then unverifiable, and a finding says so."""
    first = next(rows)
    group = _Group(first, settings)
    for row in chain((first,), rows):
        try:
            group.add(row)
        except Exception as failure:  # whatever it is
            return _failed(group.last, failure)
    try:
        return group.verdicts()
    except Exception as failure:  # as above
        return _failed(group.last, failure)


def _failed(row: Row, failure: Exception) -> Tally:
    """The verdict on a group on whose ``row`` the audit failed."""
    tally = Tally()
    tally.unknown(LOADING, FAILED)
    tally.findings.append(
        Finding(
            check=LOADING,
            severity=WARNING,
            group_id=row.group_id,
            member_id=row.member_id,
            partition=row.partition,
            offset=row.offset,
            timestamp=row.millis,
            expected=as_json("a group that this program can judge"),
            recorded=as_json(f"{type(failure).__name__}: {failure}"[:_MOST_TEXT]),
            explanation="This program failed on the group, at this record or soon after it, so "
            "nothing of the group is judged: please report it with the group's records.",
        )
    )
    return tally


def _value(kind: str, text: str) -> Json:
    """The value of a control record, without what was decoded from the bytes in it."""
    value: Json = orjson.loads(text)
    if kind == kinds.CLASSIC:
        _drop_decoded(value["members"])
    elif kind == kinds.MEMBER and value["classicMemberMetadata"] is not None:
        _drop_decoded(value["classicMemberMetadata"]["supportedProtocols"])
    return value


def _drop_decoded(rows: Sequence[Json]) -> None:
    for row in rows:
        for name in _DECODED:
            row.pop(name, None)


def _commit(row: Row) -> Entry:
    """A commit, as far as it matters to a group: it makes a simple one where there is none."""
    key = {"group": row.group_id, "topic": "", "partition": 0}
    value = {"offset": 0, "metadata": "", "commitTimestamp": row.millis}
    return entry(row.partition, row.offset, row.millis, record(OFFSET, 3, key, value))


def _replayed(row: Row) -> Entry:
    """A commit, or its tombstone, as it is on record."""
    said = orjson.loads(row.value or "")
    key = {
        "group": row.group_id,
        "topic": said["topic"],
        "partition": said["topic_partition"],
    }
    if said["tombstone"]:
        told = tombstone(OFFSET, **key)
    else:
        value = {
            "offset": said["committed_offset"],
            "leaderEpoch": said["leader_epoch"],
            "metadata": said["metadata"],
            "commitTimestamp": row.millis,
            "topicId": said["topic_id"],
        }
        told = record(OFFSET, 4, key, value)
    return entry(row.partition, row.offset, row.millis, told)


def _finding(finding: Any) -> Json:
    line = dataclasses.asdict(finding)
    if line["timestamp"] is not None:
        line["timestamp"] *= 1000
    return {"verdict": FINDING, **line}


def _counts(tally: Tally) -> Iterator[Json]:
    for check, number in tally.verified.items():
        yield {"verdict": VERIFIED, "check": check, "number": number}
    for check, number in tally.disagreed.items():
        yield {"verdict": DISAGREED, "check": check, "number": number}
    for (check, reason), number in tally.unverifiable.items():
        yield {"verdict": UNVERIFIABLE, "check": check, "reason": reason, "number": number}
    for (check, reason), number in tally.notes.items():
        yield {"verdict": NOTE, "check": check, "reason": reason, "number": number}
