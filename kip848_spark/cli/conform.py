"""`conform`: whether the records of groups are behaviours of the formal model."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kip848_spark.cli.display import out, print_json, printable
from kip848_spark.cli.options import (
    ConfigOption,
    Invocation,
    JsonOption,
    KafkaOption,
    SourceOption,
    TopicOption,
    VerboseOption,
)
from kip848_spark.errors import FINDINGS, UsageError, near, quoted_if_blank

_MOST_SHOWN = 20
"""The number of groups that do not conform that a terminal shows; `--json` has all."""
_MOST_ALLOWED = 6


def register(app: typer.Typer) -> None:
    app.command()(conform)


def conform(
    source: SourceOption = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Judge only this group. May be repeated.", metavar="G"),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(
            "--release",
            help="The Kafka release that wrote the records: 4.0 to 4.4, or a patch "
            "release. Without it, every supported release is tried.",
            metavar="R",
        ),
    ] = None,
    topic: TopicOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Check whether the formal model of the protocol allows the records of each consumer group.

    The exit code is 1 if a group does not conform. Groups whose first records are missing, and
    classic, share and streams groups are not judged. docs/model.md describes the model.

    Example: kip848 conform --source parquet:capture --group payments
    """
    from kip848_spark.conformance.task import CONFORMS, DOES_NOT_CONFORM
    from kip848_spark.spark.jobs.conform import conform as judge_groups

    name = None if release is None else _release(release)
    invocation = Invocation.of(config, kafka_option, verbose, source=source, topic=topic)
    from_source = invocation.source()
    with invocation.spark() as (session, display):
        display("judging the groups")
        rows = judge_groups(from_source, session, group or None, name)
    for wanted in group or ():
        if not any(row["group_id"] == wanted for row in rows):
            raise UsageError(
                f"The source has no control record of a group {quoted_if_blank(wanted)}.",
                "A group that only commits offsets has none.",
            )
    wrong = [row for row in rows if row["verdict"] == DOES_NOT_CONFORM]
    if json:
        print_json(rows)
    else:
        counts = Counter(row["verdict"] for row in rows)
        _show(wrong, rows, counts[CONFORMS])
    if wrong:
        raise typer.Exit(FINDINGS)


def _release(text: str) -> str:
    """The release of the model for a release of Kafka. Raises UsageError."""
    from kip848_spark.conformance.records import RELEASES

    first = {"4.0.1": "4.0.0", "4.1.1": "4.1.0"}
    short = first.get(text, text)
    if short not in RELEASES:
        short = ".".join(text.split(".")[:2])
    if short not in RELEASES:
        hint = near(text, RELEASES, f"Choose from {', '.join(sorted(RELEASES))}.")
        raise UsageError(f"There is no model of release {text}.", hint)
    return short


def _show(wrong: list[dict[str, Any]], rows: list[dict[str, Any]], conforming: int) -> None:
    for row in wrong[:_MOST_SHOWN]:
        at = datetime.fromtimestamp(row["timestamp"] / 1000, UTC)
        out.print(
            f"[bold]{printable(row['group_id'])}[/] does not conform at offset {row['offset']} of "
            f"partition {row['partition']} ({at:%Y-%m-%d %H:%M:%S} UTC, model of {row['release']})",
            soft_wrap=True,
        )
        out.print(f"  recorded  {printable(row['recorded'])}", soft_wrap=True)
        for number, text in enumerate(row["allowed"][:_MOST_ALLOWED]):
            out.print(f"  {'' if number else 'allowed':9} {printable(text)}", soft_wrap=True)
        if not row["allowed"]:
            out.print("  allowed   no operation of the model goes on from here", soft_wrap=True)
        if len(row["allowed"]) > _MOST_ALLOWED:
            out.print(f"            … and {len(row['allowed']) - _MOST_ALLOWED} more")
    if len(wrong) > _MOST_SHOWN:
        out.print(f"… and {len(wrong) - _MOST_SHOWN:,} more groups: --json lists all of them.")
    colour = "red" if wrong else "green"
    out.print(
        f"{len(rows):,} groups: [green]{conforming:,} conform[/], "
        f"[{colour}]{len(wrong):,} do not[/], {len(rows) - conforming - len(wrong):,} not judged."
    )
    reasons = Counter(row["reason"] for row in rows if row["reason"])
    for why, number in sorted(reasons.items()):
        out.print(f"  not judged: {number:,} × {printable(why)}", soft_wrap=True)
