"""`repair`: restores a lake that two programs have written to at the same time."""

from __future__ import annotations

import typer

from kip848_spark.cli.display import out, print_json, printable
from kip848_spark.cli.options import ConfigOption, Invocation, JsonOption, LakeOption, VerboseOption


def register(app: typer.Typer) -> None:
    app.command()(repair)


def repair(
    lake: LakeOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Repair a lake whose tables disagree with its ledger.

    Duplicate records and records of unfinished runs are removed, and the state tables are rebuilt.
    A lake that is not damaged is not changed.
    """
    from kip848_spark.spark.pipeline import run_repair

    invocation = Invocation.of(config, verbose=verbose, lake=lake)
    invocation.lake_path()
    with invocation.spark() as (session, display):
        repaired = run_repair(invocation.lake(session), display)
    if json:
        print_json(
            {
                "damage": repaired.damage,
                "removed": repaired.removed,
                "dropped_runs": repaired.dropped_runs,
            }
        )
        return
    if not repaired.damage:
        out.print("The lake is not damaged. Nothing was changed.")
        return
    for words in repaired.damage:
        out.print(f"[yellow]Found:[/] {printable(words)}.")
    out.print(
        f"{repaired.removed:,} rows of records were removed, and the state tables were rebuilt."
    )
    if repaired.dropped_runs:
        out.print(
            "The next run reads the records of these runs again: "
            f"{printable(', '.join(repaired.dropped_runs))}."
        )
