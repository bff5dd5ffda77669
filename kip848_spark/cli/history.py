"""`history`: what happened in a group, and who owned a partition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import note, out, print_json, print_rows, printable, say
from kip848_spark.cli.options import (
    ConfigOption,
    Invocation,
    JsonOption,
    LakeOption,
    SinceOption,
    UntilOption,
    parse_time_option,
    parse_window,
)
from kip848_spark.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from kip848_spark.insight.chronicle import Event, Ownership
    from kip848_spark.insight.member_names import MemberNames
    from kip848_spark.lake.chronicle import GroupChronicle, PartitionChronicle
    from kip848_spark.lake.snapshot import LakeSnapshot

MOST_EVENTS = 1000
"""The largest number of lines on the terminal: the last ones. JSON has no limit."""


def register(app: typer.Typer) -> None:
    app.command()(history)


def history(
    group: Annotated[str | None, typer.Argument(help="The group.", metavar="GROUP")] = None,
    lake: LakeOption = None,
    partition: Annotated[
        str | None,
        typer.Option(
            "--partition",
            help="Show the owners of this partition instead, such as orders-3 (or orders:3).",
            metavar="TOPIC-P",
        ),
    ] = None,
    in_group: Annotated[
        str | None,
        typer.Option(
            "--group", help="The group; with --partition, only its ownership.", metavar="GROUP"
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="With --partition: the owner at this time.", metavar="TIME"),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show who joined and left a group and who owned what, or the owners of a partition."""
    from kip848_spark.lake.chronicle import group_chronicle
    from kip848_spark.lake.history import removed_note

    _check(group, partition, in_group, at, since or until)
    start, end = parse_window(since, until)
    moment = parse_time_option("--at", at)
    state = Invocation.of(config, lake=lake).state()
    if partition is not None:
        _partition(state, partition, group or in_group, moment, (start, end), json)
        return
    found = group_chronicle(state, group or in_group or "", start, end)
    if json:
        print_json(found.described())
    else:
        _show_events(found, start, end)
        if found.removed_before is not None and (start is None or start < found.removed_before):
            note(removed_note(found.removed_before))


def _check(
    group: str | None,
    partition: str | None,
    in_group: str | None,
    at: str | None,
    window: str | None,
) -> None:
    if group is None and in_group is None and partition is None:
        raise UsageError(
            "Neither a group nor a partition is given.",
            "Name a group, such as `kip848 history orders`, or add --partition TOPIC-P.",
        )
    if group is not None and in_group is not None and group != in_group:
        raise UsageError("Two groups are given.", "Name one, as the argument or with --group.")
    if at is not None and partition is None:
        raise UsageError(
            "--at needs --partition.", "`kip848 groups --describe GROUP --as-of T` shows a group."
        )
    if at is not None and window is not None:
        raise UsageError("--at can't be combined with --since or --until.", "Choose one.")


def _show_events(found: GroupChronicle, since: datetime | None, until: datetime | None) -> None:
    if not found.events:
        times = [
            f"{word} {time:%Y-%m-%d %H:%M:%S} UTC"
            for word, time in (("since", since), ("before", until))
            if time is not None
        ]
        name = printable(found.group["group_id"])
        out.print(f"The lake knows of no event in {name} {' and '.join(times)}".rstrip() + ".")
        return
    left_out = len(found.events) - MOST_EVENTS
    if left_out > 0:
        say(
            f"{left_out:,} earlier events are left out; choose a time with --since and --until, or "
            "add --json.",
            style="dim",
        )
    rows: list[dict[str, Any]] = []
    for event in found.events[-MOST_EVENTS:]:
        rows.append(
            {
                "time": event.at,
                "epoch": event.epoch,
                "member": None if event.member_id is None else found.names.name(event.member_id),
                "event": _words(event, found.names),
            }
        )
    print_rows(rows)
    if found.known_from is not None:
        note(
            f"What happened before {found.known_from:%Y-%m-%d %H:%M:%S} UTC is not known: records "
            "are missing."
        )


def _words(event: Event, names: MemberNames) -> str:
    from kip848_spark.insight import chronicle
    from kip848_spark.insight.phrases import partitions

    places = partitions(event.partitions)
    about = names.about(event.member_id) if event.member_id else ""
    where = f" ({about})" if about else ""
    return {
        chronicle.KNOWN: "the known history begins",
        chronicle.CREATED: "group created",
        chronicle.DELETED: "group deleted",
        chronicle.UNKNOWN: "the known history ends",
        chronicle.EPOCH: "new epoch",
        chronicle.PRESENT: f"was a member{where}" + (f" and owned {places}" if places else ""),
        chronicle.JOINED: f"joined{where}",
        chronicle.AWAY: "is away: a static member, which can return within its session timeout",
        chronicle.RETURNED: "returned",
        chronicle.GONE: "left, expired or was removed",
        chronicle.GOT: f"got {places}",
        chronicle.MUST_GIVE_UP: f"must give up {places}",
        chronicle.GAVE_UP: f"no longer owns {places}",
    }[event.kind]


def _partition(
    state: LakeSnapshot,
    text: str,
    group: str | None,
    at: datetime | None,
    window: tuple[datetime | None, datetime | None],
    json: bool,
) -> None:
    from kip848_spark.lake.chronicle import parse_partition, partition_chronicles

    place = parse_partition(text)
    found = partition_chronicles(state, place, group, *window)
    if at is not None:
        found = _at(found, at)
    if json:
        print_json([row for one in found for row in one.described()])
        return
    rows = [row for one in found for row in _rows(one, named=group is None)]
    if not rows:
        raise NotFoundError(
            f"No group owned {place[0]}-{place[1]} during this time.",
            "Leave out the times to see all owners.",
        )
    print_rows(rows)


def _rows(found: PartitionChronicle, *, named: bool) -> Sequence[dict[str, Any]]:
    return [
        {
            **({"group": found.group_id} if named else {}),
            "from": one.start,
            "to": one.end,
            "lasted": _lasted(one),
            "owner": _owner(one, found.names),
            "about": None if one.member_id is None else found.names.about(one.member_id) or None,
        }
        for one in found.owners
    ]


def _owner(one: Ownership, names: MemberNames) -> str:
    if one.member_id is None:
        return "nobody" if one.known else "not known"
    marks = [
        words for words, holds in (("away", one.away), ("giving it up", one.giving_up)) if holds
    ]
    return names.name(one.member_id) + (f" ({', '.join(marks)})" if marks else "")


def _lasted(one: Ownership) -> str:
    from kip848_spark.insight.phrases import between, duration

    return "still" if one.end is None else duration(between(one.start, one.end))


def _at(found: Sequence[PartitionChronicle], time: datetime) -> list[PartitionChronicle]:
    """The owner at a time in each group. Raises NotFoundError if that time is not known in any."""
    from dataclasses import replace

    kept = [
        replace(
            one,
            owners=[
                own
                for own in one.owners
                if own.known and own.start <= time and (own.end is None or own.end > time)
            ],
        )
        for one in found
    ]
    known = [one for one in kept if one.owners]
    if not known:
        first = min(own.start for one in found for own in one.owners).astimezone(UTC)
        raise NotFoundError(
            f"The owner at {time:%Y-%m-%d %H:%M:%S} UTC is not known.",
            f"The first known owner is of {first:%Y-%m-%d %H:%M:%S} UTC."
            if first > time
            else "Records of that time are missing.",
        )
    return known
