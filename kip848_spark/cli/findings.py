"""`findings`: what the audits of a lake found."""

from __future__ import annotations

from typing import Annotated

import typer

from kip848_spark.cli.display import note, out, print_json, printable
from kip848_spark.cli.finding_list import roots_of, show_roots
from kip848_spark.cli.options import ConfigOption, Invocation, JsonOption, LakeOption
from kip848_spark.errors import FINDINGS, NotFoundError, UsageError, near
from kip848_spark.insight.severities import SEVERITIES


def register(app: typer.Typer) -> None:
    app.command()(findings)


def findings(
    lake: LakeOption = None,
    run: Annotated[
        str,
        typer.Option(
            "--run",
            help="The findings of the run with this id, of the last run that audited, or of all.",
            metavar="RUN_ID|last|all",
        ),
    ] = "last",
    severity: Annotated[
        str | None,
        typer.Option(
            "--severity",
            help="Only findings of this severity or worse: info, warning, error, critical.",
            metavar="S",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Only findings of this group. May be repeated.", metavar="G"),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            "--check",
            help="Only findings of this check, such as transitions. May be repeated.",
            metavar="C",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Also show the findings that follow from others.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List what the audits of a lake found. Starts no JVM.

    The exit code is 1 if a finding is listed and 0 if none is, so that a scheduler can use
    it as a gate. Findings that follow from another one are only counted, unless --follow is given.

    Example: kip848 findings --lake LAKE --severity error || mail -s "Kafka groups" oncall
    """
    from kip848_spark.checks.results import CHECKS
    from kip848_spark.lake.findings import LAST, find_findings, partial_audit
    from kip848_spark.lake.groups import check_groups

    if severity is not None and severity not in SEVERITIES:
        raise UsageError(
            f"No finding has a severity {severity}.", f"Choose from {', '.join(SEVERITIES)}."
        )
    for name in check or ():
        if name not in CHECKS:
            hint = near(name, CHECKS, f"Choose from {', '.join(CHECKS)}.")
            raise UsageError(f"There is no check {name}.", hint)
    snapshot = Invocation.of(config, lake=lake).state()
    if group:
        try:
            check_groups(group, snapshot.group_ids)
        except NotFoundError as error:  # its exit code would say that there are findings
            raise UsageError(error.message, error.hint) from None
    least = SEVERITIES.index(severity) if severity is not None else 0
    rows = [
        row
        for row in find_findings(snapshot, run, group)
        if SEVERITIES.index(row["severity"]) >= least and (not check or row["check"] in check)
    ]
    roots = roots_of(rows)
    if run == LAST and (partial := partial_audit(snapshot)):
        _note_partial(*partial)
    if json:
        listed = rows if follow else [root.row for root in roots]
        followers = {id(root.row): len(root.followers) for root in roots}
        print_json([{**row, "followers": followers.get(id(row), 0)} for row in listed])
    elif roots:
        show_roots(roots, follow=follow)
    else:
        out.print(f"[green]No findings[/] ({printable(_selection(run, severity, group, check))}).")
    if roots:
        raise typer.Exit(FINDINGS)


def _note_partial(last: str, complete: str | None) -> None:
    sentence = f"The last audit (run {last}) was only of a part of the lake"
    if complete is None:
        note(f"{sentence}, and none was complete. `kip848 audit` audits everything.")
    else:
        note(f"{sentence}. For the last complete audit, add --run {complete}.")


def _selection(
    run: str, severity: str | None, group: list[str] | None, check: list[str] | None
) -> str:
    parts = ["all runs" if run == "all" else "last audit" if run == "last" else f"run {run}"]
    parts += [f"{severity} or worse"] if severity else []
    parts += [f"group {name}" for name in group or ()]
    parts += [f"check {name}" for name in check or ()]
    return ", ".join(parts)
