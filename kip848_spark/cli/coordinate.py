"""`coordinate`: runs the reference coordinator on a script of requests."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from kip848_spark.cli.display import say
from kip848_spark.cli.options import AssignorsOption
from kip848_spark.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command()(coordinate)


def coordinate(
    release: Annotated[
        str,
        typer.Option(
            "--release", help="The release to follow, such as 4.3 or 4.0.0; or kip.", metavar="R"
        ),
    ],
    script: Annotated[
        Path,
        typer.Option(
            "--script", help="A file of JSON lines; - for standard input.", metavar="FILE"
        ),
    ],
    seed: Annotated[
        int, typer.Option("--seed", help="The seed of generated ids.", metavar="N")
    ] = 0,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="A broker setting. May be repeated.", metavar="K=V"),
    ] = None,
    assignors: AssignorsOption = None,
) -> None:
    """Run the reference coordinator on a script of requests, topic changes and clock ticks.

    Input and output are JSON lines; the output has the responses and the records written.
    """
    from kip848_spark.coordinator import run_script
    from kip848_spark.coordinator.releases import release_note

    if note := release_note(release):
        say(note, wrap=True)
    settings: dict[str, str] = {}
    for text in config or ():
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"{text!r} is not a broker setting.", "Write --config name=value.")
        settings[name.strip()] = value.strip()
    if assignors is not None:
        settings["group.consumer.assignors"] = assignors
    if str(script) == "-":
        lines = sys.stdin.buffer
    else:
        try:
            lines = script.open("rb")
        except OSError as cause:
            raise UsageError(f"The script {script} can't be read: {cause.strerror}.") from None
    with lines:
        for line in run_script(_decoded(lines), release, seed, settings):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode()
        except UnicodeDecodeError as bad:
            raise UsageError(f"line {number}: not UTF-8 (byte {bad.start + 1})") from None
