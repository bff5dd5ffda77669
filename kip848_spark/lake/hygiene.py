"""Reads what `kip848 hygiene` shows: who makes the topic grow, and which offsets nobody needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.insight import hygiene
from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.phrases import shift
from kip848_spark.lake.rebalances import member_names
from kip848_spark.lake.snapshot import LakeSnapshot, plain
from kip848_spark.lake.topics import latest_topics
from kip848_spark.state.kinds import COMMIT
from kip848_spark.wire.tables import Row

SOON = timedelta(days=2)
"""Offsets that expire within this time are shown."""
ASSUMPTIONS = {
    "offsets_retention_s": hygiene.RETENTION.total_seconds(),
    "commit_interval_s": hygiene.INTERVAL.total_seconds(),
    "expires_within_s": SOON.total_seconds(),
}
"""What the sections assume about brokers and clients, in seconds."""


@dataclass(frozen=True)
class Hygiene:
    """The sections of the report, each a sequence of rows; see the functions of `insight.hygiene`.

    ``as_of`` is the time of the newest record that is still in effect, None if the lake has no
    group. The period are ``days`` days (UTC) from ``since`` on, of which the last one is that of
    ``as_of``. A group is dead after ``days`` times 24 hours of silence. ``deleted_topics`` and
    ``open_transactions`` are None if no run has asked a cluster."""

    as_of: datetime | None
    days: int
    since: datetime
    growth: Sequence[Row]
    growth_by_day: Sequence[Row]
    growth_by_day_and_group: Sequence[Row]
    dead_groups: Sequence[Row]
    deleted_topics: Sequence[Row] | None
    no_longer_read: Sequence[Row]
    expiring: Sequence[Row]
    size: Row
    open_transactions: Sequence[Row] | None
    rewinds: Sequence[Row]

    def described(self) -> dict[str, Any]:
        """The sections as plain values, with the assumptions behind them."""
        return {
            "as_of": self.as_of,
            "days": self.days,
            "assumptions": dict(ASSUMPTIONS),
            "growth": list(self.growth),
            "growth_by_day": list(self.growth_by_day),
            "growth_by_day_and_group": list(self.growth_by_day_and_group),
            "dead_groups": list(self.dead_groups),
            "offsets_of_deleted_topics": _list(self.deleted_topics),
            "offsets_no_longer_read": list(self.no_longer_read),
            "expiring_groups": list(self.expiring),
            "size": self.size,
            "open_transactions": _list(self.open_transactions),
            "rewinds": list(self.rewinds),
        }


def _list(rows: Sequence[Row] | None) -> list[Row] | None:
    return None if rows is None else list(rows)


def read_hygiene(snapshot: LakeSnapshot, group: str | None = None, days: int = 7) -> Hygiene:
    """The report on the groups of a lake, or on one group. Raises LakeError, also if the lake has
    no summaries of commits yet, which a new run adds."""
    wanted = None if group is None else pc.field("group_id") == group
    groups = snapshot.select("groups", None)
    now = pc.max(groups["updated_at"]).as_py()
    groups = groups if wanted is None else groups.filter(wanted)
    offsets = snapshot.select("offsets", wanted)
    first = shift(now or datetime.now(UTC), -timedelta(days=days - 1))
    since = datetime.combine(first, time.min, UTC)
    recent = pc.field("day") >= since.date()
    recent = recent if wanted is None else recent & wanted
    activity = snapshot.select("offset_activity", recent, hygiene.ACTIVITY_COLUMNS)
    rewinds = pc.field("at") >= since
    rewinds = rewinds if wanted is None else rewinds & wanted
    return Hygiene(
        as_of=now,
        days=days,
        since=since,
        growth=hygiene.growth(snapshot.select("commit_summaries", recent, hygiene.SUMMARY_COLUMNS)),
        growth_by_day=hygiene.growth_by_day(activity),
        growth_by_day_and_group=hygiene.growth_by_day(activity, ("group_id", "topic")),
        dead_groups=[]
        if now is None
        else hygiene.dead_groups(groups, offsets, now, timedelta(days=days)),
        deleted_topics=_deleted_topics(snapshot, offsets),
        no_longer_read=hygiene.offsets_no_longer_read(
            groups, snapshot.select("members", wanted), _assignments(snapshot, wanted), offsets
        ),
        expiring=[] if now is None else hygiene.expiring_offsets(groups, offsets, now, SOON),
        size=_size(snapshot, offsets, wanted),
        open_transactions=_open_transactions(snapshot),
        rewinds=hygiene.rewind_rows(snapshot.select("rewinds", rewinds)),
    )


def _assignments(snapshot: LakeSnapshot, wanted: pc.Expression | None) -> pa.Table:
    return snapshot.select("assignments", wanted, ["group_id", "topic"])


def _deleted_topics(snapshot: LakeSnapshot, offsets: pa.Table) -> Sequence[Row] | None:
    topics = latest_topics(snapshot)
    return None if topics is None else hygiene.offsets_of_deleted_topics(offsets, topics)


def _open_transactions(snapshot: LakeSnapshot) -> list[Row] | None:
    runs = sorted(plain(snapshot.select("runs", None)), key=lambda run: str(run["run_id"]))
    if all(run.get("open_offsets") is None for run in runs):
        return None
    return hygiene.open_transactions(runs)


def _size(snapshot: LakeSnapshot, offsets: pa.Table, wanted: pc.Expression | None) -> Row:
    """`insight.hygiene.compacted_size`, beside what was read: ``records``, and ``tombstones`` among
    them (of all groups), and the bytes of all commits and their tombstones
    (``commit_bytes_read``)."""
    columns = ["commits", "tombstones", "bytes"]
    activity = snapshot.select("offset_activity", wanted, columns)
    control = pc.field("kind") != COMMIT
    control = control if wanted is None else control & wanted
    runs = plain(snapshot.select("runs", None, ["records_read", "tombstones"]))
    sums = {name: pc.sum(activity[name]).as_py() or 0 for name in columns}
    live = snapshot.select("control_state", control, ["offset", "raw_key", "raw_value"])
    return {
        "records_read": sum(run["records_read"] or 0 for run in runs),
        "tombstones_read": sum(run["tombstones"] or 0 for run in runs),
        "commits_read": sums["commits"],
        "commit_tombstones_read": sums["tombstones"],
        "commit_bytes_read": sums["bytes"],
        "compacted": hygiene.compacted_size(offsets, live),
    }


def owner_names(snapshot: LakeSnapshot, rewinds: Sequence[Row]) -> dict[str, MemberNames]:
    """Names, by group, for the owners in rows of the section ``rewinds``."""
    schema = pa.schema({"group_id": pa.string(), "partition": pa.int32(), "owner": pa.string()})
    rows = [{name: row[name] for name in schema.names} for row in rewinds]
    return member_names(snapshot, pa.Table.from_pylist(rows, schema), ("owner",))
