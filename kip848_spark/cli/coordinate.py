"""`coordinate`: the reference coordinator, driven by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kip848_spark.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command()(coordinate)


def coordinate(
    release: Annotated[
        str, typer.Option("--release", help="kip, 4.0, 4.1, 4.2 or 4.3.", metavar="R")
    ],
    script: Annotated[
        Path, typer.Option("--script", help="JSON lines; - for standard input.", metavar="FILE")
    ],
    seed: Annotated[int, typer.Option("--seed", help="Of the ids that are made up.")] = 0,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="A broker setting (repeatable).", metavar="K=V"),
    ] = None,
) -> None:
    """Requests, topic changes and ticks in, responses and records out: JSON lines both ways."""
    from kip848_spark.coordinator import RELEASES, run_script

    if release not in RELEASES:
        raise UsageError(
            f"There is no release {release}.", f"The reference knows {', '.join(RELEASES)}."
        )
    settings: dict[str, str] = {}
    for text in config or ():
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"{text!r} is not a broker setting.", "Write --config name=value.")
        settings[name.strip()] = value.strip()
    if str(script) == "-":
        lines = sys.stdin
    else:
        try:
            lines = script.open(encoding="utf-8")
        except OSError as cause:
            raise UsageError(f"The script {script} can't be read: {cause.strerror}.") from None
    with lines:
        for line in run_script(lines, release, seed, settings):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
