"""A timeline of a group: a row for each client, a column for each part of the time.

A cell is one of the characters in `CELLS`; the command line chooses how each is shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kip848_spark.insight.chronicle import lasting
from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.ownership import END, PENDING
from kip848_spark.wire.tables import Row

ABSENT, MEMBER, WAITING, REVOKING, JOINED, GONE, RETURNED = " ", "=", "-", "#", "+", "x", "o"
CELLS = {
    ABSENT: "not a member",
    MEMBER: "member",
    WAITING: "waits for partitions",
    REVOKING: "must give up partitions",
    JOINED: "joined",
    GONE: "gone",
    RETURNED: "gone and back",
}
"""The meaning of each cell. If several apply to one column, the last of them is shown. A client
that is gone and then joins within a column is `RETURNED`; one that joins and then leaves is
`GONE`."""
_NUMBER = re.compile(r"(\d{1,18})")
_PRECEDENCE = "".join(CELLS)
_STATES = {"unrevoked_partitions": REVOKING, "unreleased_partitions": WAITING}


@dataclass(frozen=True)
class TimelineRow:
    """The row of a client: its name, its member ids, and a cell for each column."""

    name: str
    member_ids: tuple[str, ...]
    cells: str


@dataclass(frozen=True)
class Timeline:
    """A timeline between ``start`` and ``end`` (UTC).

    ``marks`` are pairs of a column and the epoch of the rebalance that starts there.
    ``left_out`` is the number of clients without a row.
    """

    start: datetime
    end: datetime
    rows: tuple[TimelineRow, ...]
    marks: tuple[tuple[int, int], ...]
    left_out: int

    @property
    def column(self) -> timedelta:
        """The time that a column stands for."""
        width = max((len(row.cells) for row in self.rows), default=1)
        return (self.end - self.start) / width


def draw(
    members: Sequence[Row],
    assignments: Sequence[Row],
    rebalances: Sequence[Row],
    names: MemberNames,
    window: tuple[datetime, datetime],
    width: int,
    most: int,
) -> Timeline:
    """The timeline of ``window`` with ``width`` columns and at most ``most`` rows.

    ``members`` and ``assignments`` are rows of the history tables. If there are too many clients,
    those have a row to which most happened.
    """
    start, end = window
    axis = _Axis(start, end, width)
    clients: dict[str, list[Row]] = {}
    for row in members:
        if row["valid_from"] <= end and (row["valid_to"] or END) >= start:
            clients.setdefault(names.client(row["member_id"]), []).append(row)
    pending: dict[str, list[Row]] = {}
    for row in assignments:
        if row["role"] == PENDING:
            pending.setdefault(names.client(row["member_id"]), []).append(row)
    lines = {
        client: _cells(lasting(rows), pending.get(client, ()), axis)
        for client, rows in clients.items()
    }
    involved = {
        names.client(member)
        for row in rebalances
        for member in (*(row["trigger_members"] or ()), row["slowest_member"])
        if member is not None
    }
    shown = _most_eventful(lines, involved, most)
    made = [
        TimelineRow(
            names.name(clients[client][-1]["member_id"]),
            tuple(dict.fromkeys(row["member_id"] for row in clients[client])),
            lines[client],
        )
        for client in shown
    ]
    marks = tuple(
        (axis.column(row["started_at"]), row["epoch"])
        for row in rebalances
        if start <= row["started_at"] <= end
    )
    return Timeline(
        start,
        end,
        tuple(sorted(made, key=lambda row: _natural(row.name))),
        marks,
        len(lines) - len(made),
    )


@dataclass(frozen=True)
class _Axis:
    start: datetime
    end: datetime
    width: int

    def column(self, time: datetime) -> int:
        """The column of a time; times before and after are in the first and last one."""
        part = (time - self.start) / max(self.end - self.start, timedelta(microseconds=1))
        return min(self.width - 1, max(0, int(part * self.width)))


def _cells(rows: Sequence[Row], pending: Sequence[Row], axis: _Axis) -> str:
    """The cells of one client. ``rows`` are in the order of their offsets."""
    cells = [ABSENT] * axis.width

    def put(mark: str, since: datetime, until: datetime | None) -> None:
        if since > axis.end or (until or END) < axis.start:
            return
        for column in range(axis.column(since), axis.column(until or axis.end) + 1):
            cells[column] = max(cells[column], mark, key=_PRECEDENCE.index)

    for row in rows:
        put(_STATES.get(row["member_state"], MEMBER), row["valid_from"], row["valid_to"])
    for row in pending:
        put(REVOKING, row["valid_from"], row["valid_to"])
    for time, mark in _comings_and_goings(rows):
        if axis.start <= time <= axis.end:
            column = axis.column(time)
            back = mark == JOINED and cells[column] in (GONE, RETURNED)
            cells[column] = RETURNED if back else mark
    return "".join(cells)


def _comings_and_goings(rows: Sequence[Row]) -> list[tuple[datetime, str]]:
    """When a client joined (`JOINED`) and when it was gone (`GONE`), in order. A client that gets
    another member id in one record was gone and is back."""
    found = []
    for before, row in zip([None, *rows], rows, strict=False):
        if not _goes_on(before, row) and row["known_from"] is None:
            found.append((row["valid_from"], row["from_offset"], True))
    for row, after in zip(rows, [*rows[1:], None], strict=False):
        seen = row["valid_to"] is not None and row.get("known_to") is None
        if seen and not _goes_on(row, after):
            found.append((row["valid_to"], row["to_offset"], False))
    return [(time, JOINED if joined else GONE) for time, _, joined in sorted(found)]


def _goes_on(row: Row | None, after: Row | None) -> bool:
    """Whether ``after`` is the same member after its row has changed."""
    return (
        row is not None
        and after is not None
        and row["valid_to"] == after["valid_from"]
        and row["member_id"] == after["member_id"]
    )


def _natural(text: str) -> list[tuple[int, str]]:
    """A key by which ``worker-9`` comes before ``worker-10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(text)]


def _most_eventful(lines: Mapping[str, str], involved: Collection[str], most: int) -> Sequence[str]:
    """At most ``most`` clients: those that are involved first, then those that change most."""

    def weight(client: str) -> tuple[bool, int]:
        return client in involved, len({*lines[client]} - {MEMBER, ABSENT})

    return sorted(lines, key=weight, reverse=True)[:most]
