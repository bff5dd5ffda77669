"""Patterns of rebalances: rolling restarts, scaling, restart loops, storms.

They are found when a lake is read, in the rebalances of a time that a user asks for. A client is
recognized by its instance id, else by its client id and host, else by its member id."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from kip848_spark.insight.partition_trouble import (
    find_partition_trouble,
    minutes,
)
from kip848_spark.wire.tables import TIMESTAMP, Row

ROLLING_RESTART = "rolling_restart"
SCALE_OUT = "scale_out"
SCALE_IN = "scale_in"
RESTART_LOOP = "restart_loop"
POLL_INTERVAL_LOOP = "poll_interval_loop"
STORM = "storm"
PATTERN_FIELDS: dict[str, pa.DataType] = {
    "pattern": pa.string(),
    "group_id": pa.string(),
    "partition": pa.int32(),
    "since": TIMESTAMP,
    "until": TIMESTAMP,
    "count": pa.int32(),
    "members": pa.list_(pa.string()),
    "episode_ids": pa.list_(pa.string()),
    "explanation": pa.string(),
}
"""The columns of the table of patterns, and their Arrow types. ``group_id`` is null for
`OFFSETS_PARTITION`; ``count`` are the members, returns, rebalances or groups that the explanation
counts; ``members`` are member ids."""

BURST_GAP = timedelta(minutes=5)
"""Changes of a group's members that follow each other within this time belong together."""
LOOP_TIMES = 3
LOOP_WINDOW = timedelta(hours=1)
"""A client that comes back this often in this time is in a restart loop."""
POLL_TIMES = 2
DEFAULT_REBALANCE_TIMEOUT_MS = 300_000
"""The default of ``max.poll.interval.ms``, which clients send as their rebalance timeout."""
POLL_TOLERANCE, POLL_EXTRA_MS = 0.1, 10_000
"""A stay is as long as the rebalance timeout if it is longer by at most this share and time."""
STORM_TIMES = 10
STORM_WINDOW = timedelta(minutes=10)

_COLUMNS = (
    "partition",
    "group_id",
    "type",
    "started_at",
    "joined",
    "left",
    "members",
    "episode_id",
    "from_offset",
)


@dataclass(frozen=True)
class _Change:
    """A client that came (1) or went (-1)."""

    at: datetime
    step: int
    client: str
    member: str
    episode: str


def find_patterns(
    rebalances: pa.Table,
    members: pa.Table | None = None,
    rebalance_timeouts: Mapping[str, int] | None = None,
) -> pa.Table:
    """The patterns in rows of `rebalances`, of any groups: the columns `PATTERN_FIELDS`, sorted by
    time.

    ``members`` are rows of `member_history` or `members` of these groups; without them, a client
    is not recognized under another member id. ``rebalance_timeouts`` are in ms, by member id."""
    clients = _clients(members)
    groups: dict[tuple[int, str], list[Row]] = defaultdict(list)
    ordered = rebalances.select(list(_COLUMNS)).sort_by("from_offset")
    for row in ordered.to_pylist():
        groups[row["partition"], row["group_id"]].append(row)
    unknown = _Clients(())
    found: list[Row] = []
    for (partition, group_id), rows in groups.items():
        of_members = clients.get(group_id, unknown)
        changes = list(_changes(rows, of_members))
        of_group = [
            *_bursts(rows, changes),
            *_loops(changes, of_members, rebalance_timeouts or {}),
        ]
        of_group += _storms(rows, of_group)
        found += [row | {"group_id": group_id, "partition": partition} for row in of_group]
    found += find_partition_trouble(rebalances)
    found.sort(key=lambda row: (row["since"], row["pattern"], row["group_id"] or ""))
    return pa.Table.from_pylist(found, schema=pa.schema(list(PATTERN_FIELDS.items())))


def _pattern(
    name: str, changes: Sequence[_Change], count: int, explanation: str, **more: Any
) -> Row:
    return {
        "pattern": name,
        "since": changes[0].at,
        "until": changes[-1].at,
        "count": count,
        "members": sorted({change.member for change in changes}),
        "episode_ids": list(dict.fromkeys(change.episode for change in changes)),
        "explanation": explanation,
        **more,
    }


class _Clients:
    """The clients of a group's members; ``rows`` are those of `member_history` or `members`."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._client = {row["member_id"]: _client(row) for row in rows}

    def of(self, member_id: str) -> str:
        return self._client.get(member_id, member_id)

    @cached_property
    def _rows_of(self) -> dict[str, list[Row]]:
        """The rows with times, by client."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self._rows:
            if "valid_from" in row:
                found[self.of(row["member_id"])].append(row)
        return found

    def crowd(self, client: str) -> int:
        """The largest number of members that a client had at a time; 1 if that is not known, or if
        each of them ended when it began: after a time in the future, the clock stands still."""
        # A member has several rows if it changes, so they are joined.
        stays: dict[str, list[tuple[datetime, datetime | None]]] = defaultdict(list)
        for row in self._rows_of.get(client, ()):
            stays[row["member_id"]].append((row["valid_from"], row["valid_to"]))
        steps = []
        for start, end in itertools.chain.from_iterable(map(_join_stays, stays.values())):
            steps.append((start, 1))
            if end is not None:
                steps.append((end, -1))
        return max(1, max(itertools.accumulate(step for _, step in sorted(steps)), default=1))


def _clients(members: pa.Table | None) -> dict[str, _Clients]:
    """The clients of each group."""
    rows: dict[str, list[Row]] = defaultdict(list)
    if members is not None:
        wanted = [name for name in _OF_CLIENT if name in members.column_names]
        for row in members.select(wanted).to_pylist():
            rows[row["group_id"]].append(row)
    return {group: _Clients(of_group) for group, of_group in rows.items()}


_OF_CLIENT = [
    "group_id", "member_id", "instance_id", "client_id", "client_host", "valid_from", "valid_to",
]  # fmt: skip


def _client(row: Row) -> str:
    if row["instance_id"]:
        return f"instance {row['instance_id']}"
    if not row["client_id"]:
        return str(row["member_id"])
    host = (row["client_host"] or "").lstrip("/")
    return f"{row['client_id']} on {host}" if host else str(row["client_id"])


def _join_stays(
    stays: list[tuple[datetime, datetime | None]],
) -> Iterator[tuple[datetime, datetime | None]]:
    stays.sort(key=lambda stay: stay[0])
    start, end = stays[0]
    for next_start, next_end in stays[1:]:
        if end is not None and next_start > end:
            yield start, end
            start = next_start
        end = next_end
    yield start, end


def _changes(rows: Iterable[Row], clients: _Clients) -> Iterator[_Change]:
    """The clients that went and came, in order."""
    for row in rows:
        for step, members in ((-1, row["left"]), (1, row["joined"])):
            for member in members:
                yield _Change(
                    row["started_at"], step, clients.of(member), member, row["episode_id"]
                )


def _bursts(rows: Sequence[Row], changes: Sequence[_Change]) -> Iterator[Row]:
    """Rolling restarts and scaling: what changes of the members that belong together add up to."""
    size_before: dict[tuple[datetime, str], int] = {}
    for row in rows:
        before = row["members"] - len(row["joined"]) + len(row["left"])
        size_before.setdefault((row["started_at"], row["episode_id"]), before)
    for burst in _split(changes, BURST_GAP):
        gone = [change for change in burst if change.step < 0]
        come = [change for change in burst if change.step > 0]
        before = size_before[burst[0].at, burst[0].episode]
        if not gone and len(come) >= 2 and before > 0:
            yield _pattern(
                SCALE_OUT,
                burst,
                len(come),
                f"{len(come)} members joined, and none left: the group grew from {before} to "
                f"{before + len(come)}",
            )
        elif not come and len(gone) >= 2 and before > len(gone):
            yield _pattern(
                SCALE_IN,
                burst,
                len(gone),
                f"{len(gone)} members left, and none joined: the group shrank from {before} to "
                f"{before - len(gone)}",
            )
        elif _is_rolling(burst, gone, come, before):
            yield _pattern(
                ROLLING_RESTART,
                burst,
                len(gone),
                f"{len(gone)} of {before} members were replaced one after the other",
            )


def _is_rolling(
    burst: Sequence[_Change], gone: Sequence[_Change], come: Sequence[_Change], before: int
) -> bool:
    """Whether at least three members and half of the group were replaced, each one once, and
    never many at a time."""
    if not max(3, before / 2) <= len(gone) == len(come) <= before:
        return False
    if max(Counter(change.member for change in gone).values()) > 1:
        return False
    down = np.cumsum([change.step for change in burst])
    most = max(1, before // 4)
    return bool(down.min() >= -most and down.max() <= most)


def _split(changes: Sequence[_Change], gap: timedelta) -> Iterator[list[_Change]]:
    part: list[_Change] = []
    for change in changes:
        if part and change.at - part[-1].at > gap:
            yield part
            part = []
        part.append(change)
    if part:
        yield part


def _loops(
    changes: Sequence[_Change], clients: _Clients, timeouts: Mapping[str, int]
) -> Iterator[Row]:
    """Clients that leave and come back again and again."""
    of_client: dict[str, list[_Change]] = defaultdict(list)
    for change in changes:
        of_client[change.client].append(change)
    for client, mine in of_client.items():
        polls = _poll_loop(client, mine, timeouts)
        if polls is not None:
            yield polls
            continue
        returns = [
            change
            for previous, change in itertools.pairwise(mine)
            if previous.step < 0 < change.step
        ]
        if len(returns) < LOOP_TIMES:
            continue
        # Several members of one client that restart once each are no loop.
        needed = LOOP_TIMES * clients.crowd(client)
        for part in _dense(returns, needed, LOOP_WINDOW):
            yield _pattern(
                RESTART_LOOP,
                [c for c in mine if c.at <= part[-1].at and c.at >= part[0].at - LOOP_WINDOW],
                len(part),
                f"{client} left and came back {len(part)} times",
            )


def _poll_loop(client: str, changes: Sequence[_Change], timeouts: Mapping[str, int]) -> Row | None:
    """A member that leaves when its rebalance timeout is over, and rejoins with the same id: its
    process is running, but does not poll in time."""
    stays: list[tuple[_Change, _Change]] = []
    last: dict[str, _Change] = {}
    back: set[str] = set()
    for change in changes:
        if change.step > 0:
            if change.member in last and last[change.member].step < 0:
                back.add(change.member)
        elif change.member in last and last[change.member].step > 0:
            timeout = timeouts.get(change.member, DEFAULT_REBALANCE_TIMEOUT_MS)
            stay = (change.at - last[change.member].at) / timedelta(milliseconds=1)
            if timeout <= stay <= timeout * (1 + POLL_TOLERANCE) + POLL_EXTRA_MS:
                stays.append((last[change.member], change))
        last[change.member] = change
    stays = [stay for stay in stays if stay[0].member in back]
    if len(stays) < POLL_TIMES:
        return None
    seconds = timeouts.get(stays[0][0].member, DEFAULT_REBALANCE_TIMEOUT_MS) / 1_000
    return _pattern(
        POLL_INTERVAL_LOOP,
        [change for stay in stays for change in stay],
        len(stays),
        f"{client} left {len(stays)} times about {seconds:g} s after it had joined, its rebalance "
        "timeout, and came back with the same member id: it probably does not poll within "
        "max.poll.interval.ms",
    )


def _dense(
    changes: Sequence[_Change], times: int, window: timedelta
) -> Iterator[Sequence[_Change]]:
    """The longest stretches in which each change has ``times`` - 1 others in a window with it."""
    at = 0
    while at + times <= len(changes):
        if changes[at + times - 1].at - changes[at].at > window:
            at += 1
            continue
        end = at + times
        while end < len(changes) and changes[end].at - changes[end - times + 1].at <= window:
            end += 1
        yield changes[at:end]
        at = end


def _storms(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Many rebalances in a short time that are no rolling restart and no scaling."""
    explained = {
        episode
        for row in others
        if row["pattern"] in (ROLLING_RESTART, SCALE_IN, SCALE_OUT)
        for episode in row["episode_ids"]
    }
    left = [
        _Change(row["started_at"], 0, "", "", row["episode_id"])
        for row in rows
        if row["episode_id"] not in explained
    ]
    return [
        _pattern(
            STORM,
            part,
            len(part),
            f"{len(part)} rebalances in {minutes(part[-1].at - part[0].at)}",
            members=[],
        )
        for part in _dense(left, STORM_TIMES, STORM_WINDOW)
    ]
