"""The command line: `kip848 VERB`. Exit codes are those of `kip848_spark.errors`."""

from __future__ import annotations

import logging
import os
import sys
import time

import typer
from rich.console import Console

from kip848_spark.cli import (
    audit,
    coordinate,
    decode,
    demo,
    dump_capture,
    environment,
    groups,
    jobs,
    repair,
    simulate,
    sql,
)
from kip848_spark.cli.display import printable
from kip848_spark.errors import Kip848Error
from kip848_spark.version import __version__

INTERRUPTED = 130

app = typer.Typer(
    name="kip848",
    help="What happened to your Kafka consumer groups, why, and was it right.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for verbs in (
    audit, demo, jobs, groups, sql, dump_capture, decode, coordinate, repair, simulate, environment
):  # fmt: skip
    verbs.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kip848-spark {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """The root holds no options but this one and those of shell completion."""


def main() -> None:
    """Runs a verb; ends the process with its exit code, and one sentence if it went wrong."""
    errors = Console(stderr=True, soft_wrap=True)
    # Libraries log to the root logger, which writes to the terminal unless it is given a handler.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        app()
    except Kip848Error as error:
        errors.print(f"[bold red]error:[/] {printable(error.message)}")
        if error.hint:
            errors.print(f"       {printable(error.hint)}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        errors.print("[yellow]interrupted[/]")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def command() -> None:
    """`main`, for a process that has nothing else to do: it ends at once.

    Arrow's threads, when the interpreter is taken down around them, abort the process now and
    then (seen once in fifty runs of `groups`), and a good answer would end with a bad exit code.
    """
    os.environ["TZ"] = "UTC"  # PySpark gives times in the zone of the process; here all are UTC
    time.tzset()
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
