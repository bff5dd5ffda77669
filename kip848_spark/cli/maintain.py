"""`maintain`: keeps a lake small and fast."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from kip848_spark.cli.display import out, print_json, printable
from kip848_spark.cli.options import ConfigOption, Invocation, JsonOption, LakeOption, VerboseOption
from kip848_spark.config.times import parse_length


def register(app: typer.Typer) -> None:
    app.command()(maintain)


def maintain(
    lake: LakeOption = None,
    retain: Annotated[
        str,
        typer.Option(
            "--retain",
            help="How long to keep files that only older versions of a table need, such as 30d.",
            metavar="TIME",
        ),
    ] = "30d",
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            help="Remove history that is older than this, such as 400d. Default: remove nothing.",
            metavar="TIME",
        ),
    ] = None,
    erase: Annotated[
        list[str] | None,
        typer.Option(
            "--erase",
            help="Remove a group, or replace the name of a client or host, in all tables and in "
            "all older versions. May be repeated.",
            metavar="group:NAME|client:ID|host:ADDRESS",
        ),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Merge small files of a lake, and delete files that only old versions need.

    Run it once a week. Without --keep and --erase, no row changes. `sql --as-of` can no longer
    answer for runs whose files were deleted; `groups --as-of` can.
    """
    from kip848_spark.insight.phrases import listing
    from kip848_spark.spark.jobs.erasure import ErasedNames
    from kip848_spark.spark.jobs.saved_audits import AUDITED_GROUPS
    from kip848_spark.spark.maintenance import run_maintenance

    hours = int(parse_length(retain, "--retain").total_seconds() // 3600)
    since = None if keep is None else datetime.now(UTC) - parse_length(keep, "--keep")
    names = ErasedNames.parse(erase or ())
    invocation = Invocation.of(config, verbose=verbose, lake=lake)
    invocation.lake_path()
    with invocation.spark() as (session, display):
        done = run_maintenance(invocation.lake(session), hours, display, since, names)
    if json:
        print_json(asdict(done))
        return
    if since is not None:
        out.print(f"{sum(done.removed.values()):,} rows older than {keep} were removed.")
    if names:
        changed = sum(n for table, n in done.erased.items() if table != AUDITED_GROUPS)
        if changed:
            out.print(f"{changed:,} rows were removed or changed.")
        else:
            out.print(
                f"No row has {printable(listing(erase or (), 4))}. Check the spelling, unless an "
                "earlier command has erased it."
            )
        out.print(
            "All older versions of the tables were deleted, because they may have the erased names."
        )
        if changed or done.present:
            out.print(
                "If the topic still has the records, a new lake of it has the names again"
                + (
                    f". Groups and members with these names: {done.present:,}. Their later records "
                    "bring them back."
                    if done.present
                    else "."
                )
            )
    merged = sum(done.merged.values())
    out.print(f"{merged:,} small files were merged.")
    known = [number for number in done.deleted.values() if number is not None]
    if known:
        out.print(f"{sum(known):,} files that only versions older than {retain} need were deleted.")
