"""`sql`: queries a lake's tables, with one query on the command line or at a prompt."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from kip848_spark.cli.options import (
    ConfigOption,
    Invocation,
    JsonOption,
    LakeOption,
    RunAsOfOption,
    VerboseOption,
    parse_time_option,
)
from kip848_spark.cli.sql_engines import Engine, Engines
from kip848_spark.cli.sql_output import MOST_ROWS, Format, chosen_format, write
from kip848_spark.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command()(sql)


def sql(
    query: Annotated[
        str | None, typer.Argument(help="The query. Without one, a prompt opens.", metavar="QUERY")
    ] = None,
    lake: LakeOption = None,
    engine: Annotated[
        Engine,
        typer.Option(
            "--engine",
            help="auto: DuckDB if its result is the one that Spark would give, else Spark.",
        ),
    ] = Engine.AUTO,
    format_: Annotated[
        Format | None, typer.Option("--format", help="The form of the result. Default: table.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the result to this file.", metavar="FILE"),
    ] = None,
    as_of: RunAsOfOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Query the lake in Spark's SQL dialect. Spark starts only for what DuckDB can't answer."""
    form = chosen_format(format_, json, out)
    invocation = Invocation.of(config, verbose=verbose, lake=lake)
    invocation.lake_path()
    time = parse_time_option("--as-of", as_of)
    most = MOST_ROWS + 1 if form is Format.TABLE else None
    with ExitStack() as until_done:
        engines = Engines(invocation, engine, time, until_done)
        if query is not None:
            write(engines.run(query, most), form, out)
            return
        if out is not None:
            raise UsageError("--out needs a query.", "Write the query as an argument.")
        from kip848_spark.cli.sql_prompt import prompt

        prompt(engines, lambda text: write(engines.run(text, most), form, None))
