"""`groups` and `sql`: what a lake knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from kip848_spark.cli.display import err, out, print_json, print_rows
from kip848_spark.cli.options import (
    Call,
    ConfigOption,
    JsonOption,
    LakeOption,
    VerboseOption,
    moment,
)
from kip848_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", help="As the lake knew it then (UTC).", metavar="TIME"),
]
MOST_ROWS = 1000
"""Rows a table on the terminal shows; JSON has no such bound."""


def register(app: typer.Typer) -> None:
    app.command()(groups)
    app.command()(sql)


def groups(
    lake: LakeOption = None,
    describe: Annotated[
        list[str] | None,
        typer.Option("--describe", help="This group (repeatable).", metavar="GROUP"),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Describe every group.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Epochs and state.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Members and partitions.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Committed offsets.")] = False,
    as_of: AsOfOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """The groups of a lake, as kafka-consumer-groups shows those of a broker.

    Without --describe or --all a list. With neither --state, --members nor --offsets all three.
    """
    from kip848_spark.state import described

    state_ = Call.of(config, lake=lake).state(moment("--as-of", as_of))
    found = described(state_, None if all_ or not describe else list(describe))
    if not (describe or all_):
        _list(found, json)
        return
    parts = {"state": state, "members": members, "offsets": offsets}
    wanted = [name for name, asked in parts.items() if asked] or list(parts)
    if json:
        keep = {"state": (), "members": ("members_now",), "offsets": ("offsets",)}
        kept = {name for part in wanted for name in keep[part]}
        print_json([_json_group(group, kept) for group in found])
        return
    for group in found:
        _show(group, wanted)


def _json_group(group: dict[str, Any], kept: set[str]) -> dict[str, Any]:
    """A group with the lists asked for; ``members`` is then the list, ``member_count`` how many."""
    shown = {k: v for k, v in group.items() if k not in ("members_now", "offsets", "members")}
    shown["member_count"] = group["members"]
    if "members_now" in kept:
        shown["members"] = group["members_now"]
    if "offsets" in kept:
        shown["offsets"] = group["offsets"]
    return shown


def _list(found: list[dict[str, Any]], json: bool) -> None:
    columns = ["group_id", "type", "state", "members", "epoch", "assignor", "updated_at"]
    if json:
        hidden = ("members_now", "offsets")
        print_json([{k: v for k, v in group.items() if k not in hidden} for group in found])
    elif not found:
        out.print("The lake has no groups.")
    else:
        print_rows(
            [g | {"assignor": g["assignor"] or g["protocol"] or None} for g in found], columns
        )


def _show(group: dict[str, Any], wanted: Sequence[str]) -> None:
    out.print(f"\n[bold]{escape(group['group_id'])}[/]")
    if "state" in wanted:
        shown = ["type", "state", "epoch", "target_epoch", "assignor", "protocol", "members"]
        print_rows([group], [name for name in shown if group[name] is not None])
    if "members" in wanted and group["members_now"]:
        rows = [
            {
                "member_id": m["member_id"],
                "client_id": m["client_id"],
                "instance_id": m["instance_id"],
                "host": m["client_host"],
                "epoch": m["member_epoch"],
                "state": m["member_state"],
                "assigned": _places(m["assigned"]),
                "to give up": _places(m["pending_revocation"]),
                "target": _places(m["target"]),
            }
            for m in group["members_now"]
        ]
        print_rows(rows, [n for n in rows[0] if any(row[n] is not None for row in rows)])
    if "offsets" in wanted and group["offsets"]:
        columns = ["topic", "topic_partition", "committed_offset", "metadata", "commit_timestamp"]
        print_rows(group["offsets"], columns)


def _places(places: list[dict[str, Any]]) -> str | None:
    """``foo(0,1) bar(3)``; a topic without a known name goes by its id."""
    topics: dict[str, list[str]] = {}
    for place in places:
        name = place["topic"] or place["topic_id"] or "?"
        topics.setdefault(name, []).append(str(place["topic_partition"]))
    return " ".join(f"{name}({','.join(numbers)})" for name, numbers in topics.items()) or None


def sql(
    query: Annotated[str | None, typer.Argument(help="A query; without one, a prompt.")] = None,
    lake: LakeOption = None,
    as_of: AsOfOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Spark SQL over the lake's tables."""
    from kip848_spark.spark.querying import query_rows
    from kip848_spark.spark.views import Views

    call = Call.of(config, verbose=verbose, lake=lake)
    call.lake_path()
    time = moment("--as-of", as_of)
    with call.spark() as (session, say):
        say("reading the lake")
        Views(call.lake(session), time).register()
        if query is not None:
            rows = query_rows(session, query, None if json else MOST_ROWS + 1)
        else:
            _prompt(session, json)
            return
    _print(rows, json)


def _print(rows: list[dict[str, Any]], json: bool) -> None:
    if json:
        print_json(rows)
        return
    more = len(rows) > MOST_ROWS
    print_rows(rows[:MOST_ROWS])
    err.print(f"[dim]{f'the first {MOST_ROWS:,}' if more else f'{len(rows):,}'} rows[/]")


def _prompt(session: SparkSession, json: bool) -> None:
    from kip848_spark.spark.querying import query_rows

    err.print("[dim]Spark SQL; SHOW VIEWS lists the tables, an empty line or Ctrl-D ends.[/]")
    while True:
        try:
            query = input("kip848> ").strip()
        except EOFError:
            return
        if not query:
            return
        try:
            _print(query_rows(session, query, None if json else MOST_ROWS + 1), json)
        except UsageError as error:
            err.print(f"[red]{escape(error.message)}[/]")
