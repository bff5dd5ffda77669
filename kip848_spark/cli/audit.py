"""`audit`: checks every recorded decision of the coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import note, out, print_json, print_rows, printable, say
from kip848_spark.cli.finding_list import roots_of, show_roots
from kip848_spark.cli.options import (
    ConfigOption,
    Invocation,
    JsonOption,
    KafkaOption,
    LakeOption,
    TopicOption,
    VerboseOption,
    parse_time_option,
)
from kip848_spark.errors import FINDINGS

if TYPE_CHECKING:
    from kip848_spark.checks.live_comparison import LiveComparison

MOST_FINDINGS = 20
"""The number of findings that a terminal shows, without those that follow from them. `--json` and
the table `findings` have all."""
MOST_COLLECTED = 10_000
"""The number of findings that are read for a terminal."""


def register(app: typer.Typer) -> None:
    app.command()(audit)


def audit(
    lake: LakeOption = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            help="The lake's cluster, kafka:HOST:PORT, to compare the lake with it.",
            metavar="SOURCE",
        ),
    ] = None,
    topic: TopicOption = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Count only decisions since this time (UTC).", metavar="TIME"),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Audit only this group. May be repeated.", metavar="GROUP"),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(
            "--release",
            help="The Kafka release that wrote the records, such as 4.3 or 4.3.1.",
            metavar="R",
        ),
    ] = None,
    assignors: Annotated[
        str | None,
        typer.Option(
            "--assignors",
            help="The brokers' group.consumer.assignors, the default first; a Python class "
            "as module:Class.",
            metavar="NAMES",
        ),
    ] = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Check every decision that the coordinator recorded, and the lake's state tables.

    The exit code is 1 if there is a finding. Records that can't be verified are counted by reason.
    """
    from kip848_spark.coordinator.assignors import find_assignors
    from kip848_spark.coordinator.releases import release_note
    from kip848_spark.lake.groups import check_groups
    from kip848_spark.spark.jobs.audit import AuditRequest, agreement_rows, findings_rows
    from kip848_spark.spark.pipeline import run_audit
    from kip848_spark.spark.views import LakeViews

    if release is not None and (remark := release_note(release)):  # raises before Spark starts
        say(remark, wrap=True)
    invocation = Invocation.of(config, kafka_option, verbose, lake=lake, topic=topic)
    invocation.lake_path()
    cluster = invocation.cluster(source)
    request = AuditRequest(
        list(group) if group else None,
        parse_time_option("--since", since),
        release,
        assignors=None if assignors is None else find_assignors(assignors.split(",")),
    )
    place = invocation.place()
    without_spark = place.folder is not None and place.suits_delta_rs
    if group and without_spark:  # reported at once, without waiting for Spark
        check_groups(group, invocation.state().group_ids)
    with invocation.spark() as (session, display):
        whole = invocation.lake(session)
        if group and not without_spark:
            display("finding the groups")
            check_groups(group, LakeViews(whole).group_ids)
        outcome = run_audit(whole, request, display, cluster)
        assert outcome.run is not None
        agreement = agreement_rows(whole, outcome.run.run_id)
        findings = findings_rows(whole, outcome.run.run_id, None if json else MOST_COLLECTED)
    if json:
        print_json({"agreement": agreement, "findings": findings})
    else:
        if outcome.recovered:
            undone = f"Run {outcome.recovered} had not finished and was undone first."
            say(undone, level="warning", style="yellow", wrap=True)
        _show(agreement, findings)
        if release is not None and wrong(agreement):
            note(
                f"All records were judged by the rules of release {release}. If brokers of another "
                "release wrote them, leave --release out."
            )
    if findings:
        raise typer.Exit(FINDINGS)


def wrong(agreement: list[dict[str, Any]]) -> int:
    """The number of decisions and rows that disagree."""
    return sum(row["disagreed"] for row in agreement)


def _reasons(agreement: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Check, reason and number: why something could not be checked, or how it was checked."""
    return [(row["check"], why, n) for row in agreement for why, n in row["reasons"].items()]


def show_agreement(agreement: list[dict[str, Any]], findings: list[dict[str, Any]]) -> None:
    """Prints the result of an audit in one line, why some of it could not be checked, and the
    findings."""
    from kip848_spark.checks.group import BY_ANSWER
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
        if why == BY_ANSWER:
            out.print(f"  {number:,} {printable(why)}", soft_wrap=True)
        elif why not in VERIFIED_BY:
            out.print(f"  unverifiable: {number:,} × {check}: {printable(why)}", soft_wrap=True)
    _show_findings(findings, disagreed)


def show_live(live: LiveComparison | None) -> None:
    """Prints the result of the comparison with the cluster."""
    if live is None:
        return
    done = live.compared
    colour = "red" if live.differences else "green"
    out.print(
        f"Against the live broker: {done['groups']} groups, {done['members']} members, "
        f"{done['partitions']} assigned and target partitions, "
        f"{tasks_in_words(done['tasks'])}"
        f"{done['offsets']} committed offsets; "
        f"[{colour}]{len(live.differences)} differences[/]."
    )
    for why, number in sorted(live.not_compared.items()):
        out.print(f"  not compared: {number:,} × {printable(why)}")


def tasks_in_words(number: int) -> str:
    """The tasks of streams groups that were compared, if any were, before what follows."""
    return f"{number} assigned and target tasks, " if number else ""


def _show(agreement: list[dict[str, Any]], findings: list[dict[str, Any]]) -> None:
    if not agreement:
        out.print("There is nothing to check: the lake has no such control records.")
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
    roots = roots_of(findings)
    show_roots(roots[:MOST_FINDINGS])
    shown = sum(1 + len(root.followers) for root in roots[:MOST_FINDINGS])
    if disagreed > shown:
        out.print(
            f"… and {disagreed - shown:,} more: `kip848 findings --follow` lists all of them."
        )
