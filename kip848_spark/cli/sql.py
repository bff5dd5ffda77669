"""`sql`: queries over a lake's tables, one from the command line or many from a prompt."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import err, print_json, print_rows, printable, show_steps
from kip848_spark.cli.options import (
    AsOfOption,
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

MOST_ROWS = 1000
"""Rows a table on the terminal shows; JSON has no such bound."""


def register(app: typer.Typer) -> None:
    app.command()(sql)


def sql(
    query: Annotated[str | None, typer.Argument(help="A query; without one, a prompt.")] = None,
    lake: LakeOption = None,
    as_of: AsOfOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Spark SQL over the lake's tables."""
    from kip848_spark.spark.views import LakeViews

    call = Call.of(config, verbose=verbose, lake=lake)
    call.lake_path()
    time = moment("--as-of", as_of)
    with ExitStack() as until_done:
        with show_steps() as display:
            session = until_done.enter_context(call.session(display))
            display("reading the lake")
            LakeViews(call.lake(session), time).register()
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
    with suppress(ImportError):  # a Python without it has no editing and no history of lines
        import readline  # noqa: F401
    err.print("[dim]Spark SQL; SHOW VIEWS lists the tables, an empty line or Ctrl-D ends.[/]")
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
