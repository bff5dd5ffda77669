"""`report`: the page that shows a lake to people, and its data as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.cluster_settings import ClusterOption, ReleaseOption, cluster_facts
from kip848_spark.cli.display import out, print_json, printable, show_steps
from kip848_spark.cli.options import (
    ConfigOption,
    Invocation,
    JsonOption,
    KafkaOption,
    LakeOption,
    SinceOption,
    parse_time_option,
)
from kip848_spark.errors import UsageError

if TYPE_CHECKING:
    from kip848_spark.lake.readiness import LakeReadiness
    from kip848_spark.report.files import WrittenReport

ReportOption = Annotated[
    Path | None,
    typer.Option("--report", help="Also write a report to this page (.html).", metavar="FILE"),
]


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="The page to write, such as report.html.", metavar="FILE"),
    ] = None,
    lake: LakeOption = None,
    since: SinceOption = None,
    source: ClusterOption = None,
    release: ReleaseOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write a page that shows the lake: groups, rebalances, readiness, hygiene, findings.

    The page is one file that needs no network. The same data are in a JSON file beside it. Without
    --since, rebalances are those of the 30 days before the newest record. Starts no JVM.
    """
    from kip848_spark.report.data import ReportOptions
    from kip848_spark.report.files import check_path, valid_texts, write_report

    if out_file is None:
        raise UsageError("No page is named.", "Add --out report.html.")
    check_path(out_file)
    invocation = Invocation.of(config, kafka_option, lake=lake, source=source)
    start = parse_time_option("--since", since)
    snapshot = invocation.state()
    options = ReportOptions(start, cluster_facts(invocation, release))
    with show_steps() as display:
        display("writing the report")
        written = write_report(snapshot, out_file, options)
    if json:
        print_json(valid_texts(_described(written)))
    else:
        show_written(written)


def write_after_run(
    invocation: Invocation,
    page: Path,
    release: str | None = None,
    readiness: LakeReadiness | None = None,
) -> WrittenReport:
    """Writes the report of the lake that a run has finished. ``readiness`` are the verdicts of the
    run; without them the groups are judged here, and the cluster, if it is the source, is asked for
    its settings. ``release`` is its Kafka release. Raises as `write_report` does."""
    from kip848_spark.report.data import ReportOptions
    from kip848_spark.report.files import write_report

    facts = cluster_facts(invocation, release) if readiness is None else None
    options = ReportOptions(cluster=facts, readiness=readiness)
    return write_report(invocation.state(), page, options)


def show_written(written: WrittenReport) -> None:
    """Says where a report is, and what it leaves out."""
    out.print(
        f"The report is at {printable(str(written.page))} ({_size(written.page_bytes)}), its data "
        f"at {printable(str(written.data))} ({_size(written.data_bytes)}).",
        soft_wrap=True,
    )
    for sentence in (*written.report["missing"], *written.report["left_out"]):
        out.print(f"  [dim]{printable(sentence)}[/]", soft_wrap=True)


def _described(written: WrittenReport) -> dict[str, Any]:
    return {
        "page": str(written.page),
        "data": str(written.data),
        "page_bytes": written.page_bytes,
        "data_bytes": written.data_bytes,
        "missing": written.report["missing"],
        "left_out": written.report["left_out"],
        "summary": written.report["summary"],
    }


def _size(octets: int) -> str:
    return f"{octets / 1e6:,.1f} MB" if octets >= 100_000 else f"{octets / 1e3:,.1f} kB"
