"""`simulate`: a capture of a cluster that never was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from kip848_spark.cli.display import err, printable


def register(app: typer.Typer) -> None:
    app.command()(simulate)


def simulate(
    profile: Annotated[
        str, typer.Option("--profile", help="steady, churn, migration or chaos.", metavar="P")
    ],
    out: Annotated[Path, typer.Option("--out", help="A new folder for the capture.")],
    records: Annotated[
        int, typer.Option("--records", help="How many records are written.", metavar="N", min=1)
    ] = 100_000,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal bytes.")] = 0,
    release: Annotated[
        str, typer.Option("--release", help="4.0, 4.1, 4.2 or 4.3.", metavar="R")
    ] = "4.3",
    partitions: Annotated[
        int, typer.Option("--partitions", help="Of __consumer_offsets.", metavar="N")
    ] = 50,
    groups: Annotated[
        int | None,
        typer.Option("--groups", help="How many groups; one in 25,000 records.", metavar="G"),
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="As the log cleaner leaves it, not as written.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Check the invariants after every event.")
    ] = True,
    workers: Annotated[
        int | None, typer.Option("--workers", help="Processes; one a core.", metavar="N", min=1)
    ] = None,
) -> None:
    """A capture written by a simulated cluster, and the truth about it in OUT/_truth.

    Clients of both protocols are driven against the reference coordinator: they crash, leave,
    migrate, lose messages. Use it as a source: --source parquet:OUT.
    """
    from kip848_spark import simulation

    plan = simulation.plan_cluster(
        profile, records, seed, release=release, partitions=partitions, groups=groups
    )
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        task = progress.add_task("", total=records)
        outcome = simulation.simulate(
            plan,
            out,
            compact=compact,
            check=check,
            workers=workers,
            progress=lambda some: progress.advance(task, some),
        )
    minutes = outcome.span / 60_000
    err.print(
        f"{outcome.records:,} records of {outcome.groups} groups over {minutes:,.0f} minutes, "
        f"with {outcome.rebalances:,} rebalances, are in {printable(str(out))}."
    )
