"""`demo`: runs a local broker with consumers, and the nightly job on its topic."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.panel import Panel
from rich.table import Table

from kip848_spark.cli.audit import tasks_in_words, wrong
from kip848_spark.cli.display import StepDisplay, out, printable, show_steps
from kip848_spark.cli.options import ConfigOption, Invocation, LakeOption, VerboseOption
from kip848_spark.cli.report import show_written, write_after_run
from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.errors import UsageError
from kip848_spark.lake.folders import LocalFolder, require_empty
from kip848_spark.lake.location import locate

if TYPE_CHECKING:
    from kip848_spark.checks.live_comparison import LiveComparison
    from kip848_spark.lake.ledger import Run
    from kip848_spark.local.broker import Broker
    from kip848_spark.report.files import WrittenReport
    from kip848_spark.wire.tables import Row

PARTITIONS = 8
"""Partitions of the demo's __consumer_offsets: few, so that the demo is quick."""
ATTEMPTS = 3
"""The largest number of comparisons while groups are still rebalancing."""


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    lake: LakeOption = None,
    kafka: Annotated[
        str, typer.Option("--kafka", help="The Kafka release of the broker.", metavar="VERSION")
    ] = "4.3.1",
    config: ConfigOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Start a local Kafka broker with consumers of every kind, and run the nightly job on it."""
    from kip848_spark.local.broker import Broker
    from kip848_spark.local.scenarios import SETTINGS, drive

    made = None if lake else Path(tempfile.mkdtemp(prefix="kip848-demo-"))
    folder = made / "lake" if made else locate(lake or "").folder
    if folder is None:
        raise UsageError(
            f"The demo can't write to {lake}: its lake is on this machine.",
            "Name a local folder with --lake.",
        )
    require_empty(LocalFolder(folder), str(folder))
    page = made / "report.html" if made else folder.with_name(f"{folder.name}-report.html")
    invocation = _of_the_demo(Invocation.of(config, verbose=verbose, lake=str(folder)))
    try:
        with show_steps() as display:
            display(f"starting a Kafka {kafka} broker")
            with Broker(
                kafka, settings=SETTINGS, offsets_partitions=PARTITIONS, progress=display.detail
            ) as broker:
                display("running consumers of every kind")
                with drive(broker, lambda title, step: _show_scenario(display, title, step)):
                    result = _analyse(invocation, broker, display)
                    display("writing the report")
                    report = _write_report(config, folder, page, broker, kafka)
                    display("stopping the consumers")
                display("stopping the broker")
    except BaseException:
        if made:
            shutil.rmtree(made, ignore_errors=True)
        raise
    run, comparison, groups, agreement = result
    _summary(run, comparison, groups, agreement)
    _explain_one(invocation)
    _next_steps(str(folder))
    show_written(report)
    raise typer.Exit(1 if comparison.differences or wrong(agreement) else 0)


def _show_scenario(display: StepDisplay, title: str, step: str) -> None:
    if step == "started":
        display.detail(title)
    else:
        display.done(title)


def _analyse(
    invocation: Invocation, broker: Broker, display: StepDisplay
) -> tuple[Run, LiveComparison, list[Row], list[Row]]:
    """Runs the nightly job on the broker's topic. Returns the last run, its comparison with the
    broker, the groups, and the rows of `agreement`."""
    from kip848_spark.checks.live_comparison import MOVING
    from kip848_spark.kafka.admin import OFFSETS_TOPIC
    from kip848_spark.spark.jobs.audit import agreement_rows
    from kip848_spark.spark.pipeline import run_ingest
    from kip848_spark.spark.sources import KafkaSource
    from kip848_spark.spark.storage.opening import open_lake

    source = KafkaSource(broker.bootstrap, OFFSETS_TOPIC, ClientSettings())
    with invocation.session(display, keep_classes=True) as session:
        lake = open_lake(session, invocation.lake_path())
        agreement: list[Row] = []
        for _ in range(ATTEMPTS):
            outcome = run_ingest(source, lake, display, then_replay=True, then_audit=True)
            if outcome.run is None or outcome.live is None:  # there are no new records
                break
            run, comparison = outcome.run, outcome.live
            agreement += agreement_rows(lake, run.run_id)
            if MOVING not in comparison.not_compared:
                break
        return run, comparison, invocation.state().rows("groups"), agreement


def _write_report(
    config: Path | None, lake: Path, page: Path, broker: Broker, release: str
) -> WrittenReport:
    """Writes the report, with the settings of the broker while it is running."""
    asking = _of_the_demo(Invocation.of(config, lake=str(lake)), f"kafka:{broker.bootstrap}")
    return write_after_run(asking, page, release)


def _of_the_demo(invocation: Invocation, source: str | None = None) -> Invocation:
    """Without what a settings file says of the user's own cluster."""
    from kip848_spark.kafka.admin import OFFSETS_TOPIC

    own: dict[str, Any] = {"kafka": {}, "source": source, "topic": OFFSETS_TOPIC}
    return replace(invocation, settings=invocation.settings.model_copy(update=own))


def _summary(run: Run, comparison: LiveComparison, groups: list[Row], agreement: list[Row]) -> None:
    from kip848_spark.checks.results import LIVE
    from kip848_spark.insight.phrases import offsets_without_record

    counts = run.counts
    assert counts is not None
    table = Table(title="Groups", title_justify="left", box=None, pad_edge=False)
    table.add_column("type")
    table.add_column("state")
    table.add_column("groups", justify="right")
    for (type_, state), number in sorted(Counter((g["type"], g["state"]) for g in groups).items()):
        table.add_row(type_, state, str(number))
    out.print()
    out.print(table)
    out.print(
        f"\n[bold]Ledger[/]  {counts.records_read:,} records = {counts.decoded:,} decoded "
        f"+ {counts.tombstones:,} tombstones + {counts.unknown:,} unknown "
        f"+ {counts.quarantined:,} quarantined"
        f"\n        {offsets_without_record(counts.missing)} (markers and aborted transactions)"
    )
    judged = [row for row in agreement if row["check"] != LIVE]
    verified, unverifiable = (sum(r[n] for r in judged) for n in ("verified", "unverifiable"))
    colour = "red" if wrong(judged) else "green"
    out.print(
        f"\n[bold]Audit[/]   {verified:,} decisions and rows verified, {unverifiable:,} "
        f"unverifiable, [{colour}]{wrong(judged):,} disagreed[/]"
    )
    compared = comparison.compared
    out.print(
        f"\n[bold]Against the live broker[/]  {compared['groups']} groups, "
        f"{compared['members']} members, {compared['partitions']} assigned and target partitions, "
        f"{tasks_in_words(compared['tasks'])}{compared['offsets']} committed offsets"
    )
    for difference in comparison.differences:
        out.print(f"  [red]{printable(str(difference))}[/]")
    for why, number in sorted(comparison.not_compared.items()):
        out.print(f"  [yellow]not compared: {number:,} × {printable(why)}[/]")
    colour = "red" if comparison.differences else "green"
    out.print(f"[bold {colour}]{len(comparison.differences)} differences[/]")


def _explain_one(invocation: Invocation) -> None:
    """Explains the rebalance with the longest wait, or with the most partitions without owner."""
    from kip848_spark.cli.explain import show_explanation
    from kip848_spark.lake.explanation import explain, most_eventful

    state = invocation.state()
    found = most_eventful(state)
    if found is None:
        return
    group, epoch = found
    out.print(
        f"\n[bold]One of the rebalances[/]  kip848 explain {printable(group)} --epoch {epoch}"
    )
    show_explanation(explain(state, group, epoch=epoch))


def _next_steps(lake: str) -> None:
    tries = "\n".join(
        (
            f"kip848 groups --lake {lake}",
            f"kip848 audit --lake {lake}",
            f"kip848 rebalances --lake {lake} --top 3",
            f"kip848 groups --lake {lake} --describe demo.three",
            f'kip848 sql --lake {lake} "SELECT kind, count(*) FROM records GROUP BY 1"',
        )
    )
    out.print()
    where = "" if shutil.which("kip848") else f" (in {Path(sys.argv[0]).parent})"
    out.print(f"The lake is at [bold]{printable(lake)}[/]. Try{printable(where)}:")
    out.print(Panel(printable(tries, lines=True), expand=False))
