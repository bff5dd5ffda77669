"""`rebalances`: lists the rebalances of a lake, and the groups and clients with most of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
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
    parse_window,
)
from kip848_spark.errors import UsageError, quoted_if_blank

if TYPE_CHECKING:
    import pyarrow as pa

    from kip848_spark.insight.member_names import MemberNames
    from kip848_spark.lake.snapshot import LakeSnapshot
    from kip848_spark.wire.tables import Row

MOST_PATTERNS = 20
"""The largest number of patterns on the terminal: the last ones."""
MOST_ROWS = 200
"""The largest number of rebalances on the terminal: the last ones. JSON has no limit."""


def register(app: typer.Typer) -> None:
    app.command()(rebalances)


def rebalances(
    group: Annotated[str | None, typer.Argument(help="Only this group.", metavar="GROUP")] = None,
    lake: LakeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    cause: Annotated[
        str | None,
        typer.Option("--cause", help="Only this cause, such as left_or_expired.", metavar="C"),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            help="Show the N groups that rebalance most, and the clients that come and go.",
            metavar="N",
            min=1,
        ),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List rebalances: when, why, how long, what moved, and who was waited for.

    `kip848 explain GROUP` describes a group's rebalances in words.
    """
    from kip848_spark.lake.history import removed_before, removed_note
    from kip848_spark.lake.rebalances import (
        member_names,
        patterns_of,
        read_rebalances,
        require_group,
        with_cause,
    )
    from kip848_spark.lake.snapshot import plain

    start, end = parse_window(since, until)
    _check_cause(cause)
    state = Invocation.of(config, lake=lake).state()
    partition = None if group is None else require_group(state, group)["partition"]
    groups = None if group is None else [group]
    found = read_rebalances(state, groups, start, end)
    if cause is not None:
        found = with_cause(found, cause)
    if top is not None:
        _show_top(state, found, top, json)
        return
    if json:
        print_json(plain(found))
        return
    removed = removed_before(state, partition)
    if removed is not None and (start is None or start < removed):
        note(removed_note(removed))
    if not len(found):
        out.print(f"{_nothing(group, cause, start, end)}.", soft_wrap=not out.is_terminal)
        return
    names = member_names(state, found[-MOST_ROWS:], ("slowest_member",))
    _list(found, names, patterns_of(state, found, groups), group is None)


def _check_cause(cause: str | None) -> None:
    from kip848_spark.insight.rebalance_fields import CAUSES

    if cause is not None and cause not in CAUSES:
        raise UsageError(
            f"No rebalance has the cause {cause}.", f"Choose from {', '.join(CAUSES)}."
        )


def _nothing(
    group: str | None, cause: str | None, since: datetime | None, until: datetime | None
) -> str:
    parts = [
        f"of {printable(quoted_if_blank(group))}" if group is not None else "",
        f"with the cause {cause}" if cause else "",
        f"since {since:%Y-%m-%d %H:%M:%S} UTC" if since else "",
        f"before {until:%Y-%m-%d %H:%M:%S} UTC" if until else "",
    ]
    return " ".join(filter(None, ("The lake has no rebalance", *parts)))


def _list(
    found: pa.Table, names: Mapping[str, MemberNames], patterns: list[Row], named: bool
) -> None:
    from kip848_spark.insight.ranking import summary
    from kip848_spark.insight.story import pattern_words
    from kip848_spark.lake.snapshot import plain

    left_out = len(found) - MOST_ROWS
    if left_out > 0:
        say(
            f"{left_out:,} earlier rebalances are left out; choose a time with --since and "
            "--until, or add --json.",
            style="dim",
        )
    of_episode: dict[str, Counter[str]] = {}
    for pattern in patterns:
        for episode in pattern["episode_ids"]:
            of_episode.setdefault(episode, Counter())[pattern_words(pattern["pattern"])] += 1
    shown = [
        _row(row, names, named) | {"pattern": _counted(of_episode.get(row["episode_id"], {}))}
        for row in plain(found[-MOST_ROWS:])
    ]
    print_rows(shown, [n for n in shown[0] if any(row[n] is not None for row in shown)])
    out.print(f"\n{printable(summary(found))}", soft_wrap=not out.is_terminal)
    _show_patterns(patterns)


def _counted(patterns: Mapping[str, int]) -> list[str] | None:
    return [name if n == 1 else f"{n} × {name}" for name, n in patterns.items()] or None


def _show_patterns(patterns: list[Row]) -> None:
    from kip848_spark.insight.story import pattern_sentence

    for pattern in patterns[-MOST_PATTERNS:]:
        whose = f"{pattern['group_id']}: " if pattern["group_id"] is not None else ""
        out.print(
            f"  [bold]{printable(whose)}[/]{printable(pattern_sentence(pattern))}",
            soft_wrap=not out.is_terminal,
        )


def _row(row: Mapping[str, Any], names: Mapping[str, MemberNames], named: bool) -> dict[str, Any]:
    from kip848_spark.insight.phrases import duration

    slowest, moved = row["slowest_member"], row["partitions_moved"]
    known = names.get(row["group_id"])
    waited = None
    if slowest is not None and row["slowest_ms"]:
        name = known.name(slowest) if known else slowest
        waited = f"{name} {duration(row['slowest_ms'])}"
    fewest = row["minimal_moves"]
    least = f" ({fewest} necessary)" if moved and fewest not in (None, moved) else ""
    return {
        "started": row["started_at"],
        **({"group": row["group_id"]} if named else {}),
        "epoch": row["epoch"],
        "causes": row["causes"],
        "took": _took(row),
        "moved": None if moved is None else f"{moved}{least}",
        "waited for": waited,
    }


def _took(row: Mapping[str, Any]) -> str | None:
    """How long a rebalance took, or why that is not known."""
    from kip848_spark.insight.phrases import duration

    took = None if row["duration_ms"] is None else duration(row["duration_ms"])
    match row["outcome"]:
        case "converged":
            return took
        case "superseded":
            return f"{took or '?'} (with {row['superseded_by']})"
        case "group_deleted":
            return "deleted"
        case "cut_by_gap":
            return "not known"
    return "not converged" if row["type"] != "classic" else None


def _show_top(state: LakeSnapshot, found: pa.Table, top: int, json: bool) -> None:
    from kip848_spark.insight.phrases import duration
    from kip848_spark.insight.ranking import busiest_groups, summary
    from kip848_spark.lake.rebalances import flapping_of, patterns_of

    groups = busiest_groups(found, top)
    clients = flapping_of(state, found, top)
    patterns = patterns_of(state, found)
    if json:
        print_json(
            {"summary": summary(found), "groups": groups, "clients": clients, "patterns": patterns}
        )
        return
    out.print(f"{printable(summary(found))}", soft_wrap=not out.is_terminal)
    if not groups:
        return
    out.print("\n[bold]Groups that rebalance most[/]")
    print_rows(
        {
            "group": one["group_id"],
            "rebalances": one["rebalances"],
            "longest": None if one["longest_ms"] is None else duration(one["longest_ms"]),
            "moved": one["partitions_moved"],
            "without owner": duration(one["unowned_ms"]) if one["unowned_ms"] else None,
            "most frequent cause": one["most_frequent_cause"],
            "last": one["last_at"],
        }
        for one in groups
    )
    if clients:
        out.print("\n[bold]Clients that come and go[/]")
        print_rows(_without_empty(clients))
    if patterns:
        out.print("\n[bold]Patterns[/]")
        _show_patterns(patterns)


def _without_empty(rows: Sequence[dict[str, Any]]) -> list[Row]:
    shown = [{"group": row["group_id"], **row} for row in rows]
    for row in shown:
        del row["group_id"]
    kept = [name for name in shown[0] if any(row[name] is not None for row in shown)]
    return [{name: row[name] for name in kept} for row in shown]
