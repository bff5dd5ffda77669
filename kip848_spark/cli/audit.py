"""`audit`: every recorded decision made again, every disagreement shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import err, out, print_json, print_rows, printable
from kip848_spark.cli.options import (
    Call,
    ConfigOption,
    JsonOption,
    KafkaOption,
    LakeOption,
    VerboseOption,
    moment,
)

if TYPE_CHECKING:
    from kip848_spark.checks.live_comparison import Comparison

MOST_FINDINGS = 20
"""Findings a terminal shows; `--json` and the table `findings` have all of them."""
DISAGREED = 1
_COLOURS = {"critical": "bold red", "error": "red", "warning": "yellow", "info": "cyan"}


def register(app: typer.Typer) -> None:
    app.command()(audit)


def audit(
    lake: LakeOption = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            help="The lake's cluster, kafka:HOST:PORT: compare with what it says now, too.",
            metavar="SOURCE",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Count verdicts from then on only (UTC).", metavar="TIME"),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Only this group (repeatable).", metavar="GROUP"),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option("--release", help="The Kafka release that wrote it all.", metavar="R"),
    ] = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Judge every decision the coordinator recorded, and say where the lake or Kafka is wrong.

    Ends with exit code 1 if anything disagrees; what can't be judged is counted with its reason.
    """
    from kip848_spark.coordinator.releases import find_release
    from kip848_spark.lake.groups import check_groups
    from kip848_spark.spark.jobs.audit import Asked, agreement_rows, findings_rows
    from kip848_spark.spark.pipeline import run_audit
    from kip848_spark.spark.views import LakeViews

    if release is not None:
        find_release(release)  # a name that is wrong is told before Spark starts
    call = Call.of(config, kafka_option, verbose, lake=lake)
    call.lake_path()
    cluster = call.cluster(source)
    asked = Asked(list(group) if group else None, moment("--since", since), release)
    place = call.place()
    without_spark = place.folder is not None and place.suits_delta_rs
    if group and without_spark:  # at once, where Spark would take its time to start
        check_groups(group, call.state().group_ids)
    with call.spark() as (session, display):
        whole = call.lake(session)
        if group and not without_spark:
            display("looking for the groups")
            check_groups(group, LakeViews(whole).group_ids)
        outcome = run_audit(whole, asked, display, cluster)
        assert outcome.run is not None
        agreement = agreement_rows(whole, outcome.run.run_id)
        findings = findings_rows(whole, outcome.run.run_id, None if json else MOST_FINDINGS)
    if json:
        print_json({"agreement": agreement, "findings": findings})
    else:
        if outcome.recovered:
            err.print(f"[yellow]Run {outcome.recovered} had not finished; it was undone first.[/]")
        _show(agreement, findings)
    if wrong(agreement):
        raise typer.Exit(DISAGREED)


def wrong(agreement: list[dict[str, Any]]) -> int:
    """How much disagrees."""
    return sum(row["disagreed"] for row in agreement)


def _reasons(agreement: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Check, reason and number: why something could not be judged, or by what means it was."""
    return [(row["check"], why, n) for row in agreement for why, n in row["reasons"].items()]


def show_agreement(agreement: list[dict[str, Any]], findings: list[dict[str, Any]]) -> None:
    """A line of what an audit came to, why some of it could not be judged, and the findings."""
    from kip848_spark.checks.group_task import VERIFIED_BY

    if not agreement:
        return
    verified, unverifiable = (sum(r[n] for r in agreement) for n in ("verified", "unverifiable"))
    disagreed = wrong(agreement)
    colour = "red" if disagreed else "green"
    out.print(
        f"Audit: {verified:,} verified, {unverifiable:,} unverifiable, "
        f"[{colour}]{disagreed:,} disagreed[/]."
    )
    for check, why, number in _reasons(agreement):
        if why not in VERIFIED_BY:
            out.print(f"  unverifiable: {number:,} × {check}: {printable(why)}", soft_wrap=True)
    _show_findings(findings, disagreed)


def show_live(live: Comparison | None) -> None:
    """What comparing with the cluster came to, and the differences."""
    if live is None:
        return
    done = live.compared
    colour = "red" if live.differences else "green"
    out.print(
        f"Against the live broker: {done['groups']} groups, {done['members']} members, "
        f"{done['partitions']} assigned and target partitions, "
        f"{done['offsets']} committed offsets; "
        f"[{colour}]{len(live.differences)} differences[/]."
    )
    for why, number in sorted(live.unjudged.items()):
        out.print(f"  not judged: {number:,} × {printable(why)}")


def _show(agreement: list[dict[str, Any]], findings: list[dict[str, Any]]) -> None:
    if not agreement:
        out.print("There is nothing to judge: the lake has no such control records.")
        return
    print_rows(agreement, ["check", "verified", "unverifiable", "disagreed"])
    reasons = _reasons(agreement)
    if reasons:
        out.print()
    for check, why, number in reasons:
        out.print(f"  {check}: {number:,} × {printable(why)}")
    out.print()
    if not wrong(agreement):
        out.print("[green]Nothing disagrees.[/]")
    _show_findings(findings, wrong(agreement))


def _show_findings(findings: list[dict[str, Any]], disagreed: int) -> None:
    for row in findings:
        colour = _COLOURS[row["severity"]]
        place = "" if row["offset"] is None else f" at {row['partition']}/{row['offset']}"
        since = (
            "" if row["timestamp"] is None else f" since {row['timestamp']:%Y-%m-%d %H:%M:%S} UTC"
        )
        out.print(
            f"[{colour}]{row['severity']}[/] {printable(row['group_id'])}{place}{since} "
            f"({row['check']}): {printable(row['explanation'])}"
        )
        out.print(f"    expected {printable(row['expected'])}", soft_wrap=True)
        out.print(f"    recorded {printable(row['recorded'])}", soft_wrap=True)
    if disagreed > len(findings):
        out.print(f"… and {disagreed - len(findings):,} more, in the table findings.")
