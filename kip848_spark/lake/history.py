"""The state of the groups at any moment, from the history tables.

A history table has a row for each interval in which a row of a state table was true, so that the
state at a time does not depend on when runs took place, or on whether old versions of the tables
still exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.errors import NotFoundError, no_such_group, quoted_if_blank
from kip848_spark.lake.ledger import RETENTION, Run
from kip848_spark.lake.snapshot import LakeSnapshot, one_of, plain
from kip848_spark.lake.tables import TABLES
from kip848_spark.state.history_fields import (
    ASSIGNMENT_HISTORY,
    GROUP_HISTORY,
    MEMBER_HISTORY,
)
from kip848_spark.state.kinds import COMMIT

HISTORY_OF = {
    "groups": GROUP_HISTORY,
    "members": MEMBER_HISTORY,
    "assignments": ASSIGNMENT_HISTORY,
}
"""The history table of each state table."""
STATE_TABLES = (*HISTORY_OF, "offsets")
"""The tables whose rows at any moment are known."""


def has_history(snapshot: LakeSnapshot) -> bool:
    """True if the lake has the history tables. A lake of an earlier version gets them from the
    next run."""
    return all(map(snapshot.has, HISTORY_OF.values()))


def removed_before(snapshot: LakeSnapshot, partition: int | None = None) -> datetime | None:
    """The time (UTC) before which maintenance has removed the history, of a partition of the topic
    or of any; None if it has removed none."""
    kept = snapshot.run.kept_since
    if kept is None:
        return None
    runs = [Run.from_row(row) for row in snapshot.rows("runs")]
    if not any(RETENTION in run.durations_ms and sum(run.removed.values()) for run in runs):
        return None
    first: dict[int, int] = {}
    for r in (r for run in runs for r in run.ranges):
        first[r.partition] = min(r.start, first.get(r.partition, r.start))
    removed = any(
        offset > first.get(number, offset)
        for number, offset in (snapshot.run.kept_from or {}).items()
        if partition in (None, number)
    )
    return kept.astimezone(UTC) if removed else None


def removed_note(time: datetime) -> str:
    """The sentence for a result of `removed_before`."""
    return f"Maintenance has removed what happened before {_text(time)}."


def state_at(newest: LakeSnapshot, time: datetime | None) -> LakeSnapshot | StateAt:
    """The state tables at ``time`` (UTC; None: now). ``newest`` is the lake as its last run left
    it, which is also the answer for every time after that run.

    A lake without history tables only knows the state at the end of each run: then the result is
    the last run that had finished by ``time``. Raises LakeError if there is none, and NotFoundError
    if ``time`` is before everything that the lake knows.
    """
    finished = newest.run.finished_at
    if time is None or finished is None or time >= finished:
        return newest
    if not has_history(newest):
        return newest.earlier(time)
    state = StateAt(newest, time)
    first = state.first_known()
    if first is None or time < first:
        raise NotFoundError(
            f"Nothing is known of {_text(time)}.",
            f"The lake's history begins at {_text(first)}."
            if first
            else "The lake has no history of any group.",
        )
    return state


def without_history(newest: LakeSnapshot, state: LakeSnapshot | StateAt) -> str | None:
    """A sentence that says that ``state`` (from `state_at`) is the end of an earlier run; None
    if it is not."""
    if isinstance(state, StateAt) or state is newest:
        return None
    end = state.run.finished_at
    assert end is not None
    return (
        f"This lake has no history yet, so this is the state at the end of run {state.run.run_id} "
        f"({_text(end)}). The next run adds the history."
    )


@dataclass(frozen=True)
class UnknownGroups:
    """Groups that may have existed at a time of which the lake has not all records."""

    first_known_later: int
    """The number of groups of which only later records are known."""
    first: datetime | None
    """The time at which the first of these groups is known (UTC)."""
    last_known_before: int
    """The number of other groups, which existed when the known history of their partition ended."""


class StateAt:
    """The state tables as they were at ``time`` (UTC): all records with that timestamp or an
    earlier one are applied, where time never goes backwards within a partition of the topic.

    It has the methods of `LakeSnapshot` for the tables `groups`, `members`, `assignments` and
    `offsets`. In `groups`, ``last_offset`` and ``updated_at`` are the record that made the row
    true.
    """

    def __init__(self, snapshot: LakeSnapshot, time: datetime) -> None:
        self.snapshot = snapshot
        self.time = time

    def table(self, table: str, groups: Sequence[str] | None = None) -> pa.Table:
        """A state table as it was, or its rows of ``groups``. Raises LakeError."""
        if table == "offsets":
            return self._offsets(groups)
        found = self.snapshot.select(
            HISTORY_OF[table], _at(self.time) & of_groups(self.snapshot, groups)
        )
        if table == "groups":
            found = found.append_column("last_offset", found["from_offset"])
            found = found.append_column("updated_at", found["valid_from"])
        return found.select(list(TABLES[table].fields))

    def rows(self, table: str, groups: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """As `table`, as plain values."""
        return plain(self.table(table, groups))

    def group_ids(self, table: str) -> set[str]:
        """The ids of all groups in a state table as it was."""
        found = self.snapshot.select(HISTORY_OF[table], _at(self.time), ["group_id"])
        return set(pc.unique(found["group_id"]).to_pylist())

    def missing_group(self, name: str) -> NotFoundError:
        """The error that says why the group ``name`` is not in the state at this time."""
        found = self.snapshot.select(GROUP_HISTORY, pc.field("group_id") == name)
        intervals = sorted(plain(found), key=lambda row: row["from_offset"])
        when = _text(self.time)
        if not intervals:
            known = self.snapshot.group_ids(GROUP_HISTORY) | self.snapshot.group_ids("groups")
            if name in known:
                return _unknown(name, self.time, None)
            return no_such_group(name, known)
        later = next((row for row in intervals if row["valid_from"] > self.time), None)
        if later is not None and later["known_from"] is not None:
            return _unknown(name, self.time, later["valid_from"])
        if intervals[0]["partition"] in self._ended_unseen()["partition"].to_pylist():
            return _unknown(name, self.time, None)
        if later is intervals[0]:
            first = self._first_known(later["partition"])
            if first > self.time:
                return _unknown(name, self.time, first)
            return NotFoundError(
                f"The group {quoted_if_blank(name)} did not exist at {when}.",
                f"Its first record is of {_text(later['valid_from'])}.",
            )
        gone = max(row["valid_to"] for row in intervals if row["valid_to"] is not None)
        again = f", and it existed again from {_text(later['valid_from'])}" if later else ""
        return NotFoundError(
            f"The group {quoted_if_blank(name)} did not exist at {when}.",
            f"It existed until {_text(gone)}{again}.",
        )

    def unknown_groups(self) -> UnknownGroups:
        """The groups that may have existed at this time, although `table` does not return them."""
        columns = ["group_id", "valid_from"]
        later = self.snapshot.select(GROUP_HISTORY, pc.field("known_from") > self.time, columns)
        known = self.group_ids("groups")
        later = _without(later, known)
        names = set(later["group_id"].to_pylist())
        ended = _without(self._ended_unseen(), known | names)
        return UnknownGroups(
            first_known_later=len(names),
            first=_earliest(later),
            last_known_before=len(pc.unique(ended["group_id"])),
        )

    def first_known(self) -> datetime | None:
        """The earliest time of which anything is known (UTC): maintenance may have removed the
        history before it."""
        found = self.snapshot.select(GROUP_HISTORY, None, ["valid_from"])
        return self._kept(_earliest(found))

    def _kept(self, first: datetime | None) -> datetime | None:
        kept = self.snapshot.run.kept_since
        return first if first is None or kept is None else max(first, kept.astimezone(UTC))

    def _first_known(self, partition: int) -> datetime:
        here = pc.field("partition") == partition
        found = self.snapshot.select(GROUP_HISTORY, here, ["valid_from"])
        first = self._kept(_earliest(found))
        assert first is not None, "a group of the partition has an interval"
        return first

    def _ended_unseen(self) -> pa.Table:
        """``group_id`` and ``partition`` of the intervals that ended with the known history of
        their partition, if it had not begun again by this time."""
        columns = ["group_id", "partition", "to_offset"]
        ended = self.snapshot.select(GROUP_HISTORY, pc.field("known_to") <= self.time, columns)
        begun = pc.field("known_from").is_valid() & (pc.field("valid_from") <= self.time)
        begun_rows = self.snapshot.select(GROUP_HISTORY, begun, ["partition", "from_offset"])
        newest = begun_rows.group_by("partition").aggregate([("from_offset", "max")])
        place = pc.index_in(ended["partition"], newest["partition"].combine_chunks())
        again = newest["from_offset_max"].combine_chunks().take(place.combine_chunks())
        unknown = pc.fill_null(pc.less(again, ended["to_offset"].combine_chunks()), True)
        return ended.filter(unknown).select(["group_id", "partition"])

    def _offsets(self, groups: Sequence[str] | None) -> pa.Table:
        """The newest commit of each group, topic and partition, unless it is a tombstone."""
        wanted = of_groups(self.snapshot, groups)
        history = self.snapshot.select(GROUP_HISTORY, wanted, ["partition"])
        here = pc.field("partition").isin(pc.unique(history["partition"]))
        later = self.snapshot.select(
            "records", here & (pc.field("timestamp") > self.time), ["partition", "offset"]
        )
        ends = later.group_by("partition").aggregate([("offset", "min")])
        columns = [*TABLES["offsets"].fields, "tombstone"]
        wanted &= here & (pc.field("kind") == COMMIT) & pc.field("error").is_null()
        wanted &= pc.field("timestamp") <= self.time
        commits = self.snapshot.select("records", wanted, columns)
        end = pc.index_in(commits["partition"], ends["partition"].combine_chunks())
        before = pc.less(commits["offset"], ends["offset_min"].combine_chunks().take(end))
        return newest_commits(commits.filter(pc.fill_null(before, True)))


def newest_commits(commits: pa.Table) -> pa.Table:
    """The columns of `offsets`: of ``commits``, records of that kind with the column ``tombstone``,
    the newest one of each group, topic and partition, unless it is a tombstone."""
    place = ["group_id", "topic", "topic_partition"]
    if len(commits):
        newest = commits.group_by(place).aggregate([("offset", "max")])
        keys = [*place, "offset"]
        newest = newest.rename_columns(keys)
        commits = commits.join(newest, keys, join_type="inner", use_threads=False)
        commits = commits.filter(pc.invert(commits["tombstone"]))
    return commits.select(list(TABLES["offsets"].fields))


def _without(intervals: pa.Table, names: set[str]) -> pa.Table:
    """The rows whose ``group_id`` is not one of ``names``."""
    others = [name not in names for name in intervals["group_id"].to_pylist()]
    return intervals.filter(pa.array(others, pa.bool_()))


def _earliest(intervals: pa.Table) -> datetime | None:
    """The earliest ``valid_from`` in UTC; None without rows."""
    first: datetime | None = pc.min(intervals["valid_from"]).as_py()
    return None if first is None else first.astimezone(UTC)


def _at(time: datetime) -> pc.Expression:
    """The intervals that contain ``time``."""
    end = pc.field("valid_to")
    return (pc.field("valid_from") <= time) & (end.is_null() | (end > time))


def of_groups(snapshot: LakeSnapshot, groups: Sequence[str] | None) -> pc.Expression:
    """True for the rows of ``groups`` (all if None) in a table with the columns ``group_id`` and
    ``partition``. If all of them exist, the partitions let the reader skip most of a large
    table."""
    if groups is None:
        return pc.scalar(True)
    wanted = one_of("group_id", groups)
    known = snapshot.select("groups", wanted, ["group_id", "partition"])
    if set(known["group_id"].to_pylist()) == set(groups):
        wanted &= pc.field("partition").isin(pc.unique(known["partition"]))
    return wanted


def _unknown(name: str, time: datetime, since: datetime | None) -> NotFoundError:
    if since is None:
        return NotFoundError(
            f"The history of the group {quoted_if_blank(name)} is not known at {_text(time)}.",
            "The log cleaner had removed records of its partition before the lake read them. "
            "Leave out the time for the current state.",
        )
    return NotFoundError(
        f"The group {quoted_if_blank(name)} is not known before {_text(since)}.",
        f"At {_text(time)} it may have existed, but the lake has no complete records of that time.",
    )


def _text(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
