"""`simulate`: writes a capture of a simulated cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from kip848_spark.cli.display import progress_bar, say
from kip848_spark.cli.options import AssignorsOption

_RELEASE = "4.3"


def register(app: typer.Typer) -> None:
    app.command()(simulate)


def simulate(
    profile: Annotated[
        str,
        typer.Option(
            "--profile", help="Event rates: steady, churn, migration, chaos or types.", metavar="P"
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="A new folder for the capture.", metavar="FOLDER")
    ],
    records: Annotated[
        int, typer.Option("--records", help="The number of records.", metavar="N", min=1)
    ] = 100_000,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", help="The random seed. Equal seeds give equal captures.", metavar="N"
        ),
    ] = 0,
    release: Annotated[
        str, typer.Option("--release", help="The Kafka release, such as 4.2 or 4.0.0.", metavar="R")
    ] = _RELEASE,
    partitions: Annotated[
        int, typer.Option("--partitions", help="The partitions of __consumer_offsets.", metavar="N")
    ] = 50,
    groups: Annotated[
        int | None,
        typer.Option(
            "--groups",
            help="The number of groups. Default: one per 25,000 records, but 4 if that is fewer.",
            metavar="G",
        ),
    ] = None,
    assignors: AssignorsOption = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Compact the log, as the log cleaner does.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Check the invariants after every operation.")
    ] = True,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", help="The number of processes. Default: one per core.", metavar="N", min=1
        ),
    ] = None,
) -> None:
    """Write a capture of a simulated cluster, and the expected results to OUT/_truth.

    Clients of both protocols use the reference coordinator: they crash, leave, migrate and lose
    messages. Read the capture with --source parquet:OUT.
    """
    from kip848_spark import simulation
    from kip848_spark.coordinator.releases import release_note
    from kip848_spark.insight.phrases import count

    if release != _RELEASE and (note := release_note(release)):
        say(note, wrap=True)
    plan = simulation.plan_cluster(
        profile,
        records,
        seed,
        release=release,
        partitions=partitions,
        groups=groups,
        assignors=assignors,
    )
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as progress:
        task = progress.add_task("", total=records)
        outcome = simulation.simulate(
            plan,
            out,
            compact=compact,
            check=check,
            workers=workers,
            progress=lambda some: progress.advance(task, some),
        )
    minutes = round(outcome.span / 60_000)
    say(
        f"{count(outcome.records, 'record')} of {count(outcome.groups, 'group')} over "
        f"{count(minutes, 'minute')}, with {count(outcome.rebalances, 'rebalance')}, are in "
        f"{out}.",
        wrap=True,
    )
