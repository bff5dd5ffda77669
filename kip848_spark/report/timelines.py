"""The report's timelines: who owned which partition of a group when."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.ownership import ASSIGNED, PENDING
from kip848_spark.insight.story import CLASSIC, SHARE
from kip848_spark.report.columns import (
    ReportTable,
    encode,
    plain_table,
    report_table,
    values,
)
from kip848_spark.report.history_rows import GroupRows, History, times
from kip848_spark.report.intervals import STILL, Intervals, merge, outside, without
from kip848_spark.state.codes import factorize
from kip848_spark.wire.array_types import Int64Array

MOST_ROWS = 3_000
"""The largest number of intervals of one kind in a timeline: the newest ones."""
MOST_ROWS_IN_ALL = 400_000
"""The largest number of intervals in all timelines, about 15 MB of JSON."""

_STATES = {"stable": 0, "unrevoked_partitions": 1, "unreleased_partitions": 2, "unknown": 3}
_IDENTITY = ["member_id", "instance_id", "client_id", "client_host"]


@dataclass(frozen=True)
class Period:
    """The time that the timelines cover at most, in ms."""

    start: int
    end: int


def draw_timelines(
    history: History,
    chosen: Sequence[int],
    marks: Mapping[int, ReportTable],
    wanted_now: Mapping[int, frozenset[tuple[str, int]]],
    period: Period,
) -> list[dict[str, Any]]:
    """The timelines of the groups ``chosen``, in their order. ``marks`` are the rebalances of each
    group; ``wanted_now`` are the partitions in its current target assignment."""
    found: list[dict[str, Any]] = []
    rows = 0
    for group in chosen:
        of_group = history.of_group(group)
        if not of_group.groups.num_rows:
            continue
        drawn = _Timeline(group, of_group, wanted_now.get(group, frozenset()), period, history.cut)
        rows += drawn.rows
        if rows > MOST_ROWS_IN_ALL:
            break
        found.append(drawn.described(marks.get(group)))
    return found


class _Timeline:
    """The timeline of one group."""

    def __init__(
        self,
        group: int,
        rows: GroupRows,
        wanted_now: frozenset[tuple[str, int]],
        period: Period,
        cut: bool,
    ) -> None:
        self.group, self.period, self.cut = group, period, cut
        self.groups, self.history = rows.groups, rows.members
        self.group_times = times(rows.groups)
        """From when until when each row of ``groups`` was true (ms)."""
        held = pc.is_in(rows.assignments["role"], value_set=pa.array([ASSIGNED, PENDING]))
        held_rows = rows.assignments.filter(held)
        self.places, place = self._places(held_rows)
        self.ids = pc.unique(
            pa.concat_arrays(
                [
                    rows.members["member_id"].combine_chunks(),
                    held_rows["member_id"].combine_chunks(),
                ]
            )
        )
        exclusive = not {CLASSIC, SHARE} & set(rows.groups["type"].to_pylist())
        self.owned, self.unowned = self._ownership(held_rows, place, wanted_now, exclusive)
        self.states = self._latest(merge(self._states()))
        self.epochs = self._epochs()
        kinds = (self.owned, self.unowned, self.states)
        self.rows = sum(len(found.start) for found in kinds) + int(self.epochs["length"])

    def _places(self, held: pa.Table) -> tuple[pa.Table, Int64Array]:
        """The partitions by topic and number, and int64[n]: the one of each row."""
        pairs = held.select(["topic", "topic_partition"])
        places = pairs.group_by(["topic", "topic_partition"]).aggregate([])
        places = places.sort_by([("topic", "ascending"), ("topic_partition", "ascending")])
        ids = [
            pc.binary_join_element_wise(
                rows["topic_partition"].cast(pa.string()), rows["topic"], " "
            )
            for rows in (pairs, places)
        ]
        place = pc.index_in(ids[0], value_set=ids[1].combine_chunks())
        return places, place.to_numpy().astype(np.int64)

    def _ownership(
        self,
        held: pa.Table,
        place: Int64Array,
        wanted_now: frozenset[tuple[str, int]],
        exclusive: bool,
    ) -> tuple[Intervals, Intervals]:
        start, end = times(held)
        member = self._member(held["member_id"])
        pending = pc.equal(held["role"], PENDING).to_numpy().astype(np.int64)
        owned = Intervals(place, member * 2 + pending, start, end)
        nothing = Intervals(*(np.empty(0, np.int64) for _ in range(4)))
        unowned = nothing
        if exclusive:
            until = np.array(
                [int(STILL) if one in wanted_now else 0 for one in self._place_names()], np.int64
            )
            lasting = owned.take(np.flatnonzero(owned.end > owned.start))
            nobody = outside(without(lasting, until), *self._unknown_times())
            unowned = self._latest(merge(nobody))
        return self._latest(merge(owned)), unowned

    def _unknown_times(self) -> tuple[Int64Array, Int64Array]:
        """int64[m] each: from when until when (ms) records of the group are missing, as
        `insight.ownership.unknown_times` says."""
        start, end = self.group_times
        follows = np.append(start[1:], STILL)
        again = np.append(self.groups["known_from"].is_valid().to_numpy()[1:], False)
        unknown = self.groups["known_to"].is_valid().to_numpy() | again
        return end[unknown], follows[unknown]

    def _place_names(self) -> list[tuple[str, int]]:
        return list(
            zip(
                self.places["topic"].to_pylist(),
                self.places["topic_partition"].to_pylist(),
                strict=True,
            )
        )

    def _member(self, ids: pa.ChunkedArray) -> Int64Array:
        found = pc.index_in(ids, value_set=self.ids)
        return np.asarray(found.to_numpy(), np.int64)

    def _states(self) -> Intervals:
        start, end = times(self.history)
        texts = pc.fill_null(self.history["member_state"], "stable").combine_chunks()
        names = texts.unique().to_pylist()
        codes = np.array([_STATES.get(name, 3) for name in names], np.int64)
        state = codes[factorize(texts)] if len(texts) else np.empty(0, np.int64)
        return Intervals(self._member(self.history["member_id"]), state, start, end)

    def _latest(self, found: Intervals) -> Intervals:
        """The intervals in the period, at most `MOST_ROWS`: the last ones to begin."""
        inside = np.flatnonzero(found.end > self.period.start)
        if len(inside) > MOST_ROWS:
            self.cut = True
            order = np.argsort(found.start[inside], kind="stable")[-MOST_ROWS:]
            inside = np.sort(inside[order])
        return found.take(inside)

    def described(self, marks: ReportTable | None) -> dict[str, Any]:
        """The timeline as docs/report.md describes it."""
        seen = np.unique(np.concatenate([self.owned.value // 2, self.states.subject]))
        position = np.full(len(self.ids), -1, np.int64)
        position[seen] = np.arange(len(seen))
        starts = self._first_times()
        return {
            "group": self.group,
            "from": starts,
            "to": self.period.end,
            "cut": "Earlier times are left out because there are too many intervals."
            if self.cut
            else None,
            "members": self._members(self.ids.take(pa.array(seen))),
            "partitions": self._partitions(),
            "owned": plain_table(
                len(self.owned.start),
                {
                    "partition": self.owned.subject.tolist(),
                    "member": position[self.owned.value // 2].tolist(),
                    **_ends(self.owned),
                    "role": (self.owned.value % 2).tolist(),
                },
            ),
            "unowned": plain_table(
                len(self.unowned.start),
                {"partition": self.unowned.subject.tolist(), **_ends(self.unowned)},
            ),
            "states": plain_table(
                len(self.states.start),
                {
                    "member": position[self.states.subject].tolist(),
                    **_ends(self.states),
                    "state": self.states.value.tolist(),
                },
            ),
            "epochs": self.epochs,
            "marks": marks or NO_MARKS,
        }

    def _first_times(self) -> int:
        """The beginning of the time that is covered: where all kinds of intervals are complete."""
        begins = self.group_times[0]
        first = max(int(begins.min(initial=self.period.end)), self.period.start)
        for found in (self.owned, self.states, self.unowned):
            if len(found.start) == MOST_ROWS:
                first = max(first, int(found.start.min()))
        return first

    def _members(self, ids: pa.Array) -> ReportTable:
        rows = self.history.filter(pc.is_in(self.history["member_id"], value_set=ids))
        spans = rows.group_by(_IDENTITY, use_threads=False).aggregate(
            [("valid_from", "min"), ("valid_to", "max"), ("valid_to", "count"), ([], "count_all")]
        )
        plain = [
            {
                **row,
                "valid_from": row["valid_from_min"],
                "valid_to": row["valid_to_max"]
                if row["valid_to_count"] == row["count_all"]
                else None,
            }
            for row in spans.to_pylist()
        ]
        names = MemberNames(plain)
        members = ids.to_pylist()
        clients: dict[str, int] = {}
        return plain_table(
            len(members),
            {
                "name": [names.name(one) for one in members],
                "member_id": members,
                "about": [names.about(one) for one in members],
                "client": [clients.setdefault(names.client(one), len(clients)) for one in members],
            },
        )

    def _partitions(self) -> ReportTable:
        topic, entries = encode(self.places["topic"])
        numbers = values(self.places["topic_partition"])
        return plain_table(len(numbers), {"topic": topic, "partition": numbers}, topic=entries)

    def _epochs(self) -> ReportTable:
        start, end = self.group_times
        rows = np.flatnonzero((end > start) & (end > self.period.start))[-MOST_ROWS:]
        found = self.groups.take(pa.array(rows)).select(["epoch", "state", "members"])
        table = report_table(found, ["state"])
        ends = Intervals(start[rows], start[rows], start[rows], end[rows])
        table["columns"] = {**_ends(ends), **table["columns"]}
        return table


def _ends(found: Intervals) -> dict[str, list[Any]]:
    """``from`` and ``to``; null while an interval lasts."""
    end = found.end.astype(object)
    end[found.end >= STILL] = None
    return {"from": found.start.tolist(), "to": end.tolist()}


NO_MARKS: ReportTable = plain_table(
    0,
    {name: [] for name in ("at", "epoch", "causes", "outcome", "duration_ms", "row")},
    causes=[],
    outcome=[],
)
"""The marks of a group without rebalances."""


def rebalance_marks(section: Mapping[str, Any], chosen: Sequence[int]) -> dict[int, ReportTable]:
    """The rebalances of the groups ``chosen`` in the report's list, as marks of their timelines."""
    listed = section["list"]
    columns = listed["columns"]
    group = np.array(columns["group"], np.int64)
    order = np.flatnonzero(np.isin(group, chosen))
    order = order[np.argsort(group[order], kind="stable")]
    names = {"at": "started_at", "epoch": "epoch", "causes": "causes", "outcome": "outcome",
             "duration_ms": "duration_ms"}  # fmt: skip
    arrays = {name: np.array(columns[source], object)[order] for name, source in names.items()}
    found = {}
    starts = np.flatnonzero(np.diff(group[order], prepend=-1)).tolist()
    for start, end in itertools.pairwise([*starts, len(order)]):
        last = slice(max(start, end - MOST_ROWS), end)
        found[int(group[order[start]])] = plain_table(
            end - last.start,
            {
                **{name: array[last].tolist() for name, array in arrays.items()},
                "row": order[last].tolist(),
            },
            causes=listed["dictionaries"]["causes"],
            outcome=listed["dictionaries"]["outcome"],
        )
    return found
