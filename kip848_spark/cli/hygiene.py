"""`hygiene`: who makes the topic grow, and which committed offsets nobody needs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import out, print_json, print_rows, printable
from kip848_spark.cli.options import ConfigOption, Invocation, JsonOption, LakeOption

if TYPE_CHECKING:
    from kip848_spark.lake.hygiene import Hygiene
    from kip848_spark.lake.snapshot import LakeSnapshot
    from kip848_spark.wire.tables import Row

NAME = 24
"""The largest number of characters of a name in a table that is to fit 80 columns."""


def register(app: typer.Typer) -> None:
    app.command()(hygiene)


def hygiene(
    lake: LakeOption = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Only this group.", metavar="GROUP")
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            "--days",
            help="Look at the last N days. A group without members and records in these days "
            "counts as dead.",
            metavar="N",
            min=1,
        ),
    ] = 7,
    top: Annotated[
        int, typer.Option("--top", help="Show N rows of each list.", metavar="N", min=1)
    ] = 10,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show which groups write the most, dead groups, offsets that no member uses, and rewinds.

    --json prints all rows. Sections without rows are left out.
    """
    from kip848_spark.lake.hygiene import read_hygiene
    from kip848_spark.lake.rebalances import require_group

    state = Invocation.of(config, lake=lake).state()
    if group is not None:
        require_group(state, group)
    found = read_hygiene(state, group, days)
    if json:
        print_json(found.described())
        return
    if found.as_of is None:
        out.print("The lake has no group.")
        return
    out.print(
        f"The last {_count(days, 'day')} (UTC) up to {found.as_of:%Y-%m-%d %H:%M:%S}, the time of "
        "the newest record that is still in effect.",
        soft_wrap=not out.is_terminal,
    )
    _Sections(state, found, top, of_all=group is None).print()


class _Sections:
    """Prints the sections that have content."""

    def __init__(self, state: LakeSnapshot, found: Hygiene, top: int, of_all: bool) -> None:
        self.state = state
        self.found = found
        self.top = top
        self.of_all = of_all
        """Whether the sections are of all groups."""

    def print(self) -> None:
        found = self.found
        self._section("Who makes the topic grow", found.growth, self._growth)
        saved = sum(row["saved"] for row in found.growth)
        if saved:
            commits = sum(row["commits"] for row in found.growth)
            octets = sum(row["saved_bytes"] for row in found.growth)
            self._note(
                f"With one commit per partition every 5 s, {saved:,} of {commits:,} commits "
                f"({_bytes(octets)}) would not have been written."
            )
        self._section("Growth by day", found.growth_by_day, self._day, last=True)
        self._size()
        if found.open_transactions:
            self._section(
                "Open transactions hold back the last stable offset",
                found.open_transactions,
                self._transaction,
            )
            self._note(
                "Runs read no further than the last stable offset. `kafka-transactions.sh "
                "find-hanging` names the producer, and `abort` ends its transaction."
            )
        self._section(
            f"Dead groups: no member, and no record for {_count(found.days, 'day')}",
            found.dead_groups,
            self._dead,
        )
        self._section(
            "Offsets of topics that were deleted or created again",
            found.deleted_topics or [],
            self._deleted,
        )
        self._section(
            "Offsets of topics that the group no longer reads", found.no_longer_read, self._unread
        )
        self._expiring()
        self._rewinds()

    def _section(
        self, heading: str, rows: Sequence[Row], shown: Any, *, last: bool = False
    ) -> None:
        if not rows:
            return
        part = rows[-self.top :] if last else rows[: self.top]
        more = f" [dim]({len(part):,} of {len(rows):,})[/]" if len(part) < len(rows) else ""
        out.print(f"\n[bold]{printable(heading)}[/]{more}")
        print_rows([shown(row) for row in part])

    def _note(self, text: str) -> None:
        out.print(f"[dim]{printable(text)}[/]", soft_wrap=not out.is_terminal)

    def _growth(self, row: Row) -> dict[str, Any]:
        from kip848_spark.insight.phrases import duration

        every = row["interval_s"]
        return {
            "group": _name(row["group_id"]),
            "topic": _name(row["topic"]),
            "commits": row["commits"],
            "bytes": _bytes(row["bytes"]),
            "share": f"{row['share']:.0%}",
            "every": None if every is None else duration(every * 1000),
        }

    def _day(self, row: Row) -> dict[str, Any]:
        return {
            "day": str(row["day"]),
            "commits": row["commits"],
            "tombstones": row["tombstones"],
            "bytes": _bytes(row["bytes"]),
            "rewinds": row["rewinds"],
        }

    def _size(self) -> None:
        size = self.found.size
        records, tombstones = size["records_read"], size["tombstones_read"]
        if not records:
            return
        live = size["compacted"]
        out.print("\n[bold]Tombstones and compaction[/]")
        of_all = [
            f"{tombstones:,} of {records:,} records that were read are tombstones "
            f"({tombstones / records:.1%})."
        ]
        lines = [
            *(of_all if self.of_all else []),
            f"Commits: {_bytes(size['commit_bytes_read'])} were read; after complete compaction "
            f"{live['commits']:,} remain, about {_bytes(live['commit_bytes'])}.",
            f"Control records: {live['control_records']:,} remain, "
            f"{_bytes(live['control_bytes'])}.",
        ]
        for line in lines:
            out.print(printable(line), soft_wrap=not out.is_terminal)
        self._note("Bytes of keys and values, without the headers of records and batches.")

    def _transaction(self, row: Row) -> dict[str, Any]:
        return {
            "partition": row["partition"],
            "last stable offset": row["offset"],
            "offsets behind it": row["open_offsets"],
            "seen since": row["since"],
        }

    def _dead(self, row: Row) -> dict[str, Any]:
        return {
            "group": _name(row["group_id"]),
            "type": row["type"],
            "last activity": row["last_activity"],
            "offsets": row["offsets"],
            "topics": row["topics"],
        }

    def _deleted(self, row: Row) -> dict[str, Any]:
        return self._unread(row) | {"topic is": "a new one" if row["recreated"] else "deleted"}

    def _unread(self, row: Row) -> dict[str, Any]:
        return {
            "group": _name(row["group_id"]),
            "topic": _name(row["topic"]),
            "offsets": row["offsets"],
            "last commit": row["last_commit"],
        }

    def _expiring(self) -> None:
        from kip848_spark.insight.hygiene import RETENTION
        from kip848_spark.lake.hygiene import SOON

        hours = SOON // timedelta(hours=1)
        self._section(
            f"Groups whose offsets expire within {hours} hours", self.found.expiring, self._expires
        )
        if self.found.expiring:
            self._note(
                f"Assumed: offsets.retention.minutes={RETENTION // timedelta(minutes=1)}, Kafka's "
                "default. It counts from the time at which the group became empty."
            )
        if any(row["expires_at"] < self.found.as_of for row in self.found.expiring):
            self._note("A time in the past: the retention of this cluster is longer.")

    def _expires(self, row: Row) -> dict[str, Any]:
        return {
            "group": _name(row["group_id"]),
            "type": row["type"],
            "first offset expires": row["expires_at"],
            "offsets": row["offsets"],
            "topics": row["topics"],
        }

    def _rewinds(self) -> None:
        from kip848_spark.lake.hygiene import owner_names

        rows = self.found.rewinds
        if not rows:
            return
        names = owner_names(self.state, rows[: self.top])

        def shown(row: Row) -> dict[str, Any]:
            known, owner = names.get(row["group_id"]), row["owner"]
            if owner is not None:
                owner = _name(known.name(owner) if known else owner)
            return {
                "at": _clock(row["at"]),
                "group": _name(row["group_id"]),
                "partition": f"{_name(row['topic'])}-{row['topic_partition']}",
                "from": row["from_committed"],
                "to": row["to_committed"],
                "by": owner or "no owner",
            }

        self._section("Committed offsets that went back (UTC)", rows, shown)
        if any(row["owner"] is None for row in rows[: self.top]):
            self._note(
                "No owner: no member owned the partition then. An administrator may have reset the "
                "offset, or a consumer without a subscription has committed it."
            )


def _name(text: str) -> str:
    from kip848_spark.insight.member_names import shorten

    return shorten(text, NAME)


def _count(number: int, thing: str) -> str:
    from kip848_spark.insight.phrases import count

    return count(number, thing)


def _clock(time: datetime) -> str:
    return f"{time:%m-%d %H:%M:%S}"


def _bytes(number: float) -> str:
    """``850 B``, ``12.3 kB``, ``1.2 MB``"""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"
