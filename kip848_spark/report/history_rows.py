"""Reads the history of the groups that get a timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.lake.history import has_history
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.columns import GroupNumbers, milliseconds
from kip848_spark.report.groups import named
from kip848_spark.report.intervals import STILL
from kip848_spark.state.history_fields import (
    ASSIGNMENT_HISTORY,
    GROUP_HISTORY,
    MEMBER_HISTORY,
)
from kip848_spark.wire.array_types import Int64Array
from kip848_spark.wire.tables import TIMESTAMP

MOST_TIMELINES = 200
MOST_ROWS_READ = 1_000_000
"""The largest number of rows of `assignment_history` that are read: the newest ones."""

_INTERVAL = ["valid_from", "valid_to", "from_offset", "to_offset", "known_from", "known_to"]
_COLUMNS = {
    GROUP_HISTORY: [
        "group_id", "type", "state", "epoch", "assignor", "members", "metadata_hash", *_INTERVAL,
    ],
    MEMBER_HISTORY: [
        "group_id", "member_id", "instance_id", "client_id", "client_host", "subscribed_topics",
        "subscribed_regex", "assignor", "member_state", "member_epoch", *_INTERVAL,
    ],
    ASSIGNMENT_HISTORY: [
        "group_id", "member_id", "topic_id", "topic", "topic_partition", "role", *_INTERVAL,
    ],
}  # fmt: skip


@dataclass(frozen=True)
class History:
    """Rows of the history tables of some groups since ``since`` (UTC; None: all), each with the
    column ``group`` (int32, a row of the report's table `groups`), sorted by it and then by offset.
    ``cut`` is true if earlier rows were left out because of their number."""

    groups: pa.Table
    members: pa.Table
    assignments: pa.Table
    since: datetime | None
    cut: bool

    def of_group(self, group: int) -> GroupRows:
        """The rows of one group."""
        return GroupRows(*(_slice(table, group) for table in self.tables))

    @property
    def tables(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """`groups`, `members` and `assignments`."""
        return self.groups, self.members, self.assignments


@dataclass(frozen=True)
class GroupRows:
    """The rows of one group."""

    groups: pa.Table
    members: pa.Table
    assignments: pa.Table


def choose_groups(
    numbers: GroupNumbers, rebalances: Mapping[str, pa.Array], findings: pa.Array
) -> list[int]:
    """The groups that get a timeline, at most `MOST_TIMELINES`, the most eventful first: those with
    most findings and those with most rebalances in turn, then the others by id."""
    count = len(numbers.group_ids)
    by_findings = _most(findings)
    by_rebalances = _most(rebalances["rebalances"])
    turns: dict[int, None] = {}
    for pair in zip(by_rebalances, by_findings, strict=True):
        turns.update((group, None) for group in pair if group >= 0)
    turns.update((group, None) for group in range(min(count, MOST_TIMELINES)))
    return list(turns)[:MOST_TIMELINES]


def _most(counts: pa.Array) -> list[int]:
    """The rows with the largest counts above 0, and then -1: as many as there can be timelines."""
    numbers = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False)
    order = np.argsort(-numbers, kind="stable")[:MOST_TIMELINES]
    chosen = order[numbers[order] > 0].tolist()
    return [*chosen, *[-1] * (MOST_TIMELINES - len(chosen))]


def read_history(
    snapshot: LakeSnapshot,
    chosen: Sequence[int],
    numbers: GroupNumbers,
    names: Mapping[str, str],
    since: datetime | None,
) -> History | None:
    """The history of the groups ``chosen`` since a time; None if the lake has none."""
    if not has_history(snapshot):
        return None
    wanted = pc.field("group_id").isin(numbers.group_ids.take(pa.array(chosen, pa.int32())))
    since, cut = _start(snapshot, wanted, since)
    if since is not None:
        ended = pc.field("valid_to")
        wanted &= ended.is_null() | (ended >= pa.scalar(since, TIMESTAMP))
    groups, members, assignments = (_read(snapshot, table, wanted, numbers) for table in _COLUMNS)
    topic = assignments.column_names.index("topic")
    assignments = assignments.set_column(topic, "topic", named(assignments, names))
    return History(groups, members, assignments, since, cut)


def _start(
    snapshot: LakeSnapshot, wanted: pc.Expression, since: datetime | None
) -> tuple[datetime | None, bool]:
    """The time from which `MOST_ROWS_READ` rows of `assignment_history` are true, or ``since`` if
    it is later; and whether it is not."""
    ends = snapshot.select(ASSIGNMENT_HISTORY, wanted, ["valid_to"])["valid_to"]
    if len(ends) <= MOST_ROWS_READ:
        return since, False
    newest = np.sort(ends.drop_null().cast(pa.int64()).to_numpy())[::-1]
    still = len(ends) - len(newest)
    last = newest[max(0, min(MOST_ROWS_READ - still, len(newest) - 1))]
    limit = datetime.fromtimestamp(int(last) / 1e6, UTC)
    if since is not None and limit <= since:
        return since, False
    return limit, True


def _read(
    snapshot: LakeSnapshot, table: str, wanted: pc.Expression, numbers: GroupNumbers
) -> pa.Table:
    found = numbers.replace(snapshot.select(table, wanted, _COLUMNS[table]))
    order = [("group", "ascending"), ("from_offset", "ascending")]
    return found.sort_by(order).combine_chunks()


def _slice(table: pa.Table, group: int) -> pa.Table:
    column = table["group"].to_numpy()
    start, end = np.searchsorted(column, [group, group + 1])
    return table.slice(int(start), int(end - start))


def times(rows: pa.Table) -> tuple[Int64Array, Int64Array]:
    """int64[n] each: from when and until when (ms) the rows were true; `STILL` if they are."""
    start = milliseconds(rows["valid_from"]).to_numpy(zero_copy_only=False)
    end = milliseconds(rows["valid_to"]).fill_null(int(STILL)).to_numpy(zero_copy_only=False)
    return start, end


def between(rows: pa.Table, start: int, end: int) -> pa.Table:
    """The rows that were true at some time between two times (ms)."""
    begins, ends = times(rows)
    return rows.take(pa.array(np.flatnonzero((begins <= end) & (ends >= start))))
