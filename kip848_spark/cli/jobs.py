"""`run`, `ingest`, `replay`: the nightly job and its steps."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kip848_spark.cli.audit import (
    MOST_COLLECTED,
    show_agreement,
    show_live,
)
from kip848_spark.cli.display import out, print_json, printable, say, warn
from kip848_spark.cli.lineage import LineageOption, send_result, sent_events
from kip848_spark.cli.metrics import MetricsOption, noted_failure, write_result
from kip848_spark.cli.options import (
    ConfigOption,
    DialectOption,
    Invocation,
    JsonOption,
    KafkaOption,
    LakeOption,
    SourceOption,
    TopicOption,
    VerboseOption,
)
from kip848_spark.cli.report import ReportOption, show_written, write_after_run
from kip848_spark.cli.standard_output import ClosedOutput
from kip848_spark.errors import FINDINGS, Kip848Error, OutputError
from kip848_spark.insight.phrases import count, moment, offsets_without_record

if TYPE_CHECKING:
    from kip848_spark.lake.ledger import RecordCounts
    from kip848_spark.lake.lineage import LineageEvents
    from kip848_spark.spark.pipeline import RunOutcome

KeepOption = typer.Option(
    None, "--keep-commits-raw", help="Also keep the raw bytes of offset commits."
)


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
    report: ReportOption = None,
    metrics: MetricsOption = None,
    openlineage: LineageOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """The nightly job: read new records, update the state tables, and audit the new records.

    The exit code is 1 if there is a finding. `kip848 audit` audits all records. --report also
    writes the page that `kip848 report` writes, and its data beside it. --metrics writes a file for
    the node exporter, --openlineage sends events (docs/operations.md).
    """
    with noted_failure(metrics):
        invocation = Invocation.of(
            config, kafka_option, verbose,
            source=source, lake=lake, topic=topic, dialect=dialect,
            keep_commits_raw=keep_commits_raw,
        )  # fmt: skip
        if report is not None:
            from kip848_spark.report.files import check_path

            check_path(report)  # at once, and not after the work
        with sent_events(openlineage, invocation) as events:
            failure = _ingest(
                invocation, nightly=True, json=json, report=report, metrics=metrics, events=events
            )
    if failure is not None:
        raise failure


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
    """Read new records of the topic into the lake, without updating the state tables."""
    invocation = Invocation.of(
        config, kafka_option, verbose,
        source=source, lake=lake, topic=topic, dialect=dialect,
        keep_commits_raw=keep_commits_raw,
    )  # fmt: skip
    failure = _ingest(invocation, nightly=False, json=json)
    if failure is not None:
        raise failure


def replay(
    lake: LakeOption = None,
    from_scratch: Annotated[
        bool,
        typer.Option(
            "--from-scratch", help="Rebuild the state and the history from all ingested records."
        ),
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Update the state tables from the ingested records."""
    from kip848_spark.spark.pipeline import run_replay

    invocation = Invocation.of(config, verbose=verbose, lake=lake)
    invocation.lake_path()
    with invocation.spark() as (session, display):
        outcome = run_replay(invocation.lake(session), display, from_scratch=from_scratch)
    show_outcome(outcome, invocation.lake_path(), json)


def _ingest(
    invocation: Invocation,
    nightly: bool,
    json: bool,
    report: Path | None = None,
    metrics: Path | None = None,
    events: LineageEvents | None = None,
) -> Kip848Error | typer.Exit | None:
    """Runs the job. Once the run has finished, nothing may hide its result or call it a failure:
    what the command has to end with is returned, not raised."""
    from kip848_spark.spark.jobs.audit import agreement_rows, findings_rows
    from kip848_spark.spark.pipeline import run_ingest

    source = invocation.source()
    invocation.lake_path()
    with invocation.spark(keep_classes=nightly) as (session, display):
        whole = invocation.lake(session)
        outcome = run_ingest(
            source,
            whole,
            display,
            invocation.settings.keep_commits_raw,
            then_replay=nightly,
            dialect=invocation.settings.dialect,
            then_audit=nightly,
        )
        agreement, findings = [], []
        if nightly and outcome.run is not None and outcome.changed:
            agreement = agreement_rows(whole, outcome.run.run_id)
            findings = findings_rows(whole, outcome.run.run_id, MOST_COLLECTED)
        if events is not None:
            send_result(events, whole, outcome)
        written, failure = None, None
        if report is not None and outcome.run is not None:
            display("writing the report")
            try:
                written = write_after_run(invocation, report, readiness=outcome.readiness)
            except Kip848Error as error:
                failure = error
        if metrics is not None:
            code = FINDINGS if findings else 0 if failure is None else failure.exit_code
            write_result(metrics, whole, outcome.run, code)
    page = None if written is None else str(written.page)
    try:
        show_outcome(outcome, invocation.lake_path(), json, report=page)
        if nightly and not json:
            show_agreement(agreement, findings)
            show_live(outcome.live)
            if written is not None:
                show_written(written)
        sys.stdout.flush()
    except ClosedOutput:
        pass
    except OutputError as error:
        failure = failure or error
    if findings and failure is not None:
        warn(failure.message)
    return typer.Exit(FINDINGS) if findings else failure


_GROUPS_MOVED = (
    "With another number of partitions, brokers look for a group in another partition and do not "
    "find its offsets; Kafka does not move them. Check the committed offsets of your consumers. "
    "The lake may show such a group as it is in its old partition."
)

_TOMBSTONES_GONE = (
    "Kafka keeps tombstones for about a day (delete.retention.ms), and the log cleaner has removed "
    "records since. The lake may still show groups, members and offsets that were deleted in "
    "between, since they could not be inferred; the check live finds them. A new lake shows what "
    "is there now."
)


def show_outcome(
    outcome: RunOutcome, lake: str, json: bool = False, report: str | None = None
) -> None:
    """Prints the result of a run: its ledger line, and what was not read. ``report`` is the page of
    the report that was written."""
    run = outcome.run
    if outcome.changed and run is not None and run.counts is not None:
        _warn_of_quarantined(run.counts, lake)
    if outcome.new_partitions and run is not None:
        warn(f"The topic has {outcome.new_partitions:,} new partitions. {_GROUPS_MOVED}")
    if outcome.missed_since is not None:
        since = moment(outcome.missed_since)
        warn(f"The last run that read records began at {since} UTC. {_TOMBSTONES_GONE}")
    if json:
        page = {} if report is None else {"report": report}
        print_json({"changed": outcome.changed, **(run.row() if run else {}), **page})
        return
    if outcome.recovered:
        undone = f"Run {outcome.recovered} had not finished and was undone first."
        say(undone, level="warning", style="yellow", wrap=True)
    if run is None:
        out.print("The lake is empty and the source has no records.")
        return
    if not outcome.changed:
        out.print("There are no new records. Nothing was changed.")
        return
    counts = run.counts
    if counts is not None:
        out.print(
            f"Run [bold]{run.run_id}[/]: {counts.records_read:,} records = "
            f"{counts.decoded:,} decoded + {counts.tombstones:,} tombstones + "
            f"{counts.unknown:,} unknown + {counts.quarantined:,} quarantined; "
            f"{offsets_without_record(counts.missing)}."
        )
        if counts.inferred:
            out.print(
                f"  {count(counts.inferred, 'deletion')} inferred: the log cleaner had removed "
                "the tombstones (column inferred of the table records)."
            )
        for kind, number in sorted(counts.unknown_tags.items()):
            out.print(f"  {number:,} unknown tagged fields in records of {printable(kind)}")
    if outcome.open_offsets:
        out.print(
            f"[yellow]{outcome.open_offsets:,} newer offsets are behind open transactions.[/] "
            "A later run reads them."
        )
    out.print(f"The lake is at {printable(lake)}.")


def _warn_of_quarantined(counts: RecordCounts, lake: str) -> None:
    """Warns of records that could not be decoded: how many, why, and how to list them."""
    if not counts.quarantined:
        return
    reasons = (f"{n:,} × {reason}" for reason, n in sorted(counts.errors.items()))
    query = "SELECT partition, offset, error FROM records WHERE error IS NOT NULL"
    warn(
        f"{'; '.join(reasons)}. Their bytes are kept. To list them:",
        lead=f"{counts.quarantined:,} of {counts.records_read:,} records can't be decoded:",
        hint=f'kip848 sql --lake {shlex.quote(lake)} "{query}"',
    )
