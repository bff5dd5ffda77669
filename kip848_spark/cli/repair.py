"""`repair`: a lake that two programs wrote to at once."""

from __future__ import annotations

import typer

from kip848_spark.cli.display import out, print_json, printable
from kip848_spark.cli.options import Call, ConfigOption, JsonOption, LakeOption, VerboseOption


def register(app: typer.Typer) -> None:
    app.command()(repair)


def repair(
    lake: LakeOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Repair a lake whose tables do not hold what its ledger says.

    Records that are there twice are left once, those of no finished run are removed, and the state
    tables are rebuilt. A lake that is not damaged stays as it is.
    """
    from kip848_spark.spark.pipeline import run_repair

    call = Call.of(config, verbose=verbose, lake=lake)
    call.lake_path()
    with call.spark() as (session, display):
        repaired = run_repair(call.lake(session), display)
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
        out.print("The lake is not damaged: nothing was changed.")
        return
    for words in repaired.damage:
        out.print(f"[yellow]Found:[/] {printable(words)}.")
    out.print(f"{repaired.removed:,} rows of records were removed, and the state was rebuilt.")
    if repaired.dropped_runs:
        out.print(
            "The next run reads again what these runs had read: "
            f"{printable(', '.join(repaired.dropped_runs))}."
        )
