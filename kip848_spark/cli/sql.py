"""`sql`: queries a lake's tables, with one query on the command line or at a prompt."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import err, print_json, print_rows, printable, show_steps
from kip848_spark.cli.options import (
    AsOfOption,
    ConfigOption,
    Invocation,
    JsonOption,
    LakeOption,
    VerboseOption,
    parse_time_option,
)
from kip848_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ROWS = 1000
"""The largest number of rows in a table on the terminal. JSON has no limit."""


def register(app: typer.Typer) -> None:
    app.command()(sql)


def sql(
    query: Annotated[
        str | None, typer.Argument(help="The query. Without one, a prompt opens.")
    ] = None,
    lake: LakeOption = None,
    as_of: AsOfOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Query the lake's tables with Spark SQL."""
    from kip848_spark.spark.views import LakeViews

    invocation = Invocation.of(config, verbose=verbose, lake=lake)
    invocation.lake_path()
    time = parse_time_option("--as-of", as_of)
    with ExitStack() as until_done:
        with show_steps() as display:
            session = until_done.enter_context(invocation.session(display))
            display("reading the lake")
            LakeViews(invocation.lake(session), time).register()
            rows = [] if query is None else _rows(session, query, json)
        if query is None:
            _prompt(session, json)
            return
    _print(rows, json)


def _rows(session: SparkSession, query: str, json: bool) -> list[dict[str, Any]]:
    from kip848_spark.spark.query import query_rows

    return query_rows(session, query, None if json else MOST_ROWS + 1)


def _print(rows: list[dict[str, Any]], json: bool) -> None:
    if json:
        print_json(rows)
        return
    more = len(rows) > MOST_ROWS
    print_rows(rows[:MOST_ROWS])
    err.print(f"[dim]{f'the first {MOST_ROWS:,}' if more else f'{len(rows):,}'} rows[/]")


def _prompt(session: SparkSession, json: bool) -> None:
    with suppress(ImportError):  # this Python has no line editing
        import readline  # noqa: F401
    err.print("[dim]Spark SQL. SHOW VIEWS lists the tables. An empty line or Ctrl-D ends.[/]")
    while True:
        try:
            query = input("kip848> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if not query:
            return
        try:
            with err.status("running the query …"):
                rows = _rows(session, query, json)
            _print(rows, json)
        except UsageError as error:
            err.print(f"[red]{printable(error.message)}[/]", soft_wrap=True)
