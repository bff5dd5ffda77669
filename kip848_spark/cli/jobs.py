"""`run`, `ingest`, `replay`: the nightly job and its steps."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import typer

from kip848_spark.cli.audit import (
    DISAGREED,
    MOST_FINDINGS,
    show_agreement,
    show_live,
    wrong,
)
from kip848_spark.cli.display import err, out, print_json, printable
from kip848_spark.cli.options import (
    Call,
    ConfigOption,
    DialectOption,
    JsonOption,
    KafkaOption,
    LakeOption,
    SourceOption,
    TopicOption,
    VerboseOption,
)

if TYPE_CHECKING:
    from kip848_spark.lake.ledger import RecordCounts
    from kip848_spark.spark.pipeline import RunOutcome

KeepOption = typer.Option(None, "--keep-commits-raw", help="Keep the bytes of commits as well.")


def register(app: typer.Typer) -> None:
    app.command()(run)
    app.command()(ingest)
    app.command()(replay)


def run(
    source: SourceOption = None,
    lake: LakeOption = None,
    topic: TopicOption = None,
    dialect: DialectOption = None,
    keep_commits_raw: bool | None = KeepOption,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """The nightly job: read what is new, bring the state tables up to it, and judge it.

    Ends with exit code 1 if the audit of what is new finds anything (`kip848 audit` judges it all).
    """
    call = Call.of(
        config, kafka_option, verbose,
        source=source, lake=lake, topic=topic, dialect=dialect,
        keep_commits_raw=keep_commits_raw,
    )  # fmt: skip
    _ingest(call, nightly=True, json=json)


def ingest(
    source: SourceOption = None,
    lake: LakeOption = None,
    topic: TopicOption = None,
    dialect: DialectOption = None,
    keep_commits_raw: bool | None = KeepOption,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Read what is new in the topic into the lake; the state tables stay as they are."""
    call = Call.of(
        config, kafka_option, verbose,
        source=source, lake=lake, topic=topic, dialect=dialect,
        keep_commits_raw=keep_commits_raw,
    )  # fmt: skip
    _ingest(call, nightly=False, json=json)


def replay(
    lake: LakeOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Bring the state tables up to what has been ingested."""
    from kip848_spark.spark.pipeline import run_replay

    call = Call.of(config, verbose=verbose, lake=lake)
    call.lake_path()
    with call.spark() as (session, display):
        outcome = run_replay(call.lake(session), display)
    show_outcome(outcome, call.lake_path(), json)


def _ingest(call: Call, nightly: bool, json: bool) -> None:
    from kip848_spark.spark.jobs.audit import agreement_rows, findings_rows
    from kip848_spark.spark.pipeline import run_ingest

    source = call.source()
    call.lake_path()
    with call.spark(keep_classes=nightly) as (session, display):
        whole = call.lake(session)
        outcome = run_ingest(
            source,
            whole,
            display,
            call.settings.keep_commits_raw,
            then_replay=nightly,
            dialect=call.settings.dialect,
            then_audit=nightly,
        )
        agreement, findings = [], []
        if nightly and outcome.run is not None and outcome.changed:
            agreement = agreement_rows(whole, outcome.run.run_id)
            findings = findings_rows(whole, outcome.run.run_id, MOST_FINDINGS)
    show_outcome(outcome, call.lake_path(), json)
    if nightly and not json:
        show_agreement(agreement, findings)
        show_live(outcome.live)
    if wrong(agreement):
        raise typer.Exit(DISAGREED)


def show_outcome(outcome: RunOutcome, lake: str, json: bool = False) -> None:
    """What a run came to, with the ledger that adds up."""
    run = outcome.run
    if outcome.changed and run is not None and run.counts is not None:
        _warn_of_quarantined(run.counts, lake)
    if json:
        print_json({"changed": outcome.changed, **(run.row() if run else {})})
        return
    if outcome.recovered:
        err.print(f"[yellow]Run {outcome.recovered} had not finished; it was undone first.[/]")
    if run is None:
        out.print("The lake is empty, and there is nothing to do.")
        return
    if not outcome.changed:
        out.print(f"Nothing new since run {run.run_id}: nothing was changed.")
        return
    counts = run.counts
    if counts is not None:
        out.print(
            f"Run [bold]{run.run_id}[/]: {counts.records_read:,} records = "
            f"{counts.decoded:,} decoded + {counts.tombstones:,} tombstones + "
            f"{counts.unknown:,} unknown + {counts.quarantined:,} quarantined; "
            f"{counts.missing:,} offsets of the range were not there."
        )
        for kind, number in sorted(counts.unknown_tags.items()):
            out.print(f"  {number:,} unknown tagged fields in records of {printable(kind)}")
    if outcome.open_offsets:
        out.print(
            f"[yellow]{outcome.open_offsets:,} newer offsets wait behind open transactions[/] "
            "and will be read when they are decided."
        )
    out.print(f"The lake is at {printable(lake)}.")


def _warn_of_quarantined(counts: RecordCounts, lake: str) -> None:
    """A warning, if there were records that could not be read: how many, why, how to list them."""
    if not counts.quarantined:
        return
    reasons = (f"{n:,} × {reason}" for reason, n in sorted(counts.errors.items()))
    err.print(
        f"[bold black on yellow] warning [/] [yellow]{counts.quarantined:,} of "
        f"{counts.records_read:,} records can't be read:[/] {printable('; '.join(reasons))}. "
        "Their bytes are kept; list them:",
        soft_wrap=True,
    )
    query = "SELECT partition, offset, error FROM records WHERE error IS NOT NULL"
    command = f'kip848 sql --lake {shlex.quote(lake)} "{query}"'
    err.print(f"    {printable(command)}", soft_wrap=True)
