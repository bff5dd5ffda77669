"""The command line: `kip848 VERB`. Exit codes are those of `kip848_spark.errors`."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
import traceback
from contextlib import suppress

import typer

from kip848_spark.cli import (
    audit,
    conform,
    coordinate,
    decode,
    demo,
    dump_capture,
    environment,
    explain,
    findings,
    groups,
    history,
    hygiene,
    jobs,
    maintain,
    readiness,
    rebalances,
    repair,
    report,
    simulate,
    sql,
)
from kip848_spark.cli.display import log_as_json, log_line, say
from kip848_spark.cli.standard_output import guard_standard_output
from kip848_spark.cli.verbs import Verbs
from kip848_spark.errors import CRASHED, FINDINGS, INTERRUPTED, Kip848Error, OutputError
from kip848_spark.version import __version__

_CRASH = "This is a bug in kip848-spark. Please report it with these lines."

app = Verbs(
    name="kip848",
    help="""Shows what happened to Kafka's consumer groups, and checks the group coordinator.

    It reads the topic __consumer_offsets into Delta tables, a lake. Begin with `kip848 doctor`
    and `kip848 run`, or without a cluster with `kip848 demo`.""",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for verbs in (
    jobs, audit, findings, groups, explain, rebalances, history, hygiene, readiness, report, sql,
    dump_capture, decode, simulate, conform, coordinate, repair, maintain, environment, demo,
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
    """The options of `kip848` itself."""


def main() -> None:
    """Runs a verb. Ends the process with its exit code, and prints one sentence if it fails."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what the terminal can't show is escaped
            stream.reconfigure(errors="backslashreplace")
    # Without a handler, the root logger would print what libraries log.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        try:
            app()
        except SystemExit as end:
            if end.code in (None, 0, FINDINGS):
                sys.stdout.flush()  # here, so that its errors are handled too
            raise
    except Kip848Error as error:
        _say_error(error.message, error.exit_code, error.hint)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say("interrupted", level="error", style="yellow", exit_code=INTERRUPTED)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if log_as_json():
            log_line("error", f"{_CRASH} {traceback.format_exc()}", exit_code=CRASHED)
        else:
            traceback.print_exception(error)
            _say_error(_CRASH, CRASHED)
        sys.exit(CRASHED)


def _say_error(text: str, exit_code: int, hint: str | None = None) -> None:
    """Says why the command ends with ``exit_code``."""
    label, hint_line = "[bold red]error:[/]", "       {}"
    say(
        text, level="error", label=label, hint=hint, hint_line=hint_line, highlight=True,
        exit_code=exit_code,
    )  # fmt: skip


def command() -> None:
    """The entry point of the command `kip848`: `main`, and then an immediate end of the process.

    Without it, Arrow's threads sometimes abort the process while the interpreter shuts down (in one
    of fifty runs of `groups`), which would turn a correct answer into a bad exit code.
    """
    os.environ["TZ"] = "UTC"  # PySpark returns times in the process's time zone
    time.tzset()
    guard_standard_output()
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    with suppress(OutputError, SystemExit):  # after another error
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
