"""`groups` and `sql`: what a lake knows."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from kip848_spark.cli.display import err, out, print_json, print_rows
from kip848_spark.cli.options import Call, ConfigOption, JsonOption, LakeOption, VerboseOption
from kip848_spark.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kip848_spark.spark.views import Views

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
    verbose: VerboseOption = False,
) -> None:
    """The groups of a lake, as kafka-consumer-groups shows those of a broker.

    Without --describe or --all a list. With neither --state, --members nor --offsets all three.
    """
    from kip848_spark.spark.views import Views

    call = Call.of(config, verbose=verbose, lake=lake)
    call.lake_path()
    moment = _time(as_of)
    with call.spark() as (session, say):
        say("reading the lake")
        views = Views(call.lake(session), moment)
        found = _described(views, None if all_ or not describe else list(describe))
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


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--as-of {text!r} is not a time.", "Write it as 2026-11-21T10:00 (UTC)."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _described(views: Views, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """Groups with their members (each with its partitions) and offsets, sorted by name."""
    from pyspark.sql import functions as F

    def rows(table: str, *order: str) -> list[dict[str, Any]]:
        frame: DataFrame = views.table(table)
        if names is not None:
            frame = frame.where(F.col("group_id").isin(list(names)))
        return [row.asDict(recursive=True) for row in frame.orderBy(*order).collect()]

    found = {
        row["group_id"]: row | {"members_now": [], "offsets": []}
        for row in rows("groups", "group_id")
    }
    missing = [name for name in names or () if name not in found]
    if missing:
        known = [row["group_id"] for row in views.table("groups").select("group_id").collect()]
        near = difflib.get_close_matches(missing[0], known, 3, 0.5)
        hint = f"Did you mean {', '.join(near)}?" if near else "`kip848 groups` lists them."
        raise NotFoundError(f"The lake has no group {missing[0]}.", hint)
    members: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows("members", "group_id", "member_id"):
        roles: dict[str, list[Any]] = {"assigned": [], "pending_revocation": [], "target": []}
        members[row["group_id"], row["member_id"]] = row | roles
        found[row["group_id"]]["members_now"].append(members[row["group_id"], row["member_id"]])
    for row in rows("assignments", "group_id", "member_id", "topic", "topic_id", "topic_partition"):
        owner = members.get((row["group_id"], row["member_id"]))
        if owner is not None:
            place = {name: row[name] for name in ("topic", "topic_id", "topic_partition")}
            owner[row["role"]].append(place)
    for row in rows("offsets", "group_id", "topic", "topic_partition"):
        if row["group_id"] in found:
            found[row["group_id"]]["offsets"].append(row)
    return list(found.values())


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
    from kip848_spark.spark.views import Views

    call = Call.of(config, verbose=verbose, lake=lake)
    call.lake_path()
    moment = _time(as_of)
    with call.spark() as (session, say):
        say("reading the lake")
        Views(call.lake(session), moment).register()
        if query is not None:
            rows, more = _query(session, query, json)
        else:
            _prompt(session, json)
            return
    _print(rows, more, json)


def _query(session: SparkSession, query: str, json: bool) -> tuple[list[dict[str, Any]], bool]:
    """The rows of a query, and whether there are more than are shown."""
    from pyspark.errors import PySparkException

    try:
        frame = session.sql(query.rstrip().rstrip(";"))
        if not json:
            frame = frame.limit(MOST_ROWS + 1)
        rows = [row.asDict(recursive=True) for row in frame.collect()]
    except PySparkException as cause:
        first = str(cause).splitlines()[0]
        raise UsageError(f"Spark does not accept the query: {first}") from None
    more = not json and len(rows) > MOST_ROWS
    return (rows[:MOST_ROWS] if more else rows), more


def _print(rows: list[dict[str, Any]], more: bool, json: bool) -> None:
    if json:
        for row in rows:
            print_json(row)
        return
    print_rows(rows)
    err.print(f"[dim]{'the first ' if more else ''}{len(rows):,} rows[/]")


def _prompt(session: SparkSession, json: bool) -> None:
    err.print("[dim]Spark SQL; SHOW VIEWS lists the tables, an empty line or Ctrl-D ends.[/]")
    while True:
        try:
            query = input("kip848> ").strip()
        except EOFError:
            return
        if not query:
            return
        try:
            _print(*_query(session, query, json), json)
        except UsageError as error:
            err.print(f"[red]{escape(error.message)}[/]")
