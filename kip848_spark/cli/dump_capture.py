"""`dump` and `capture`: write the records of a source as JSON or Parquet."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import typer

from kip848_spark.cli.display import say, show_steps
from kip848_spark.cli.options import (
    ConfigOption,
    DialectOption,
    Invocation,
    KafkaOption,
    SourceOption,
    TopicOption,
    VerboseOption,
)
from kip848_spark.lake.folders import LocalFolder, require_empty
from kip848_spark.lake.location import locate


def register(app: typer.Typer) -> None:
    app.command()(dump)
    app.command()(capture)


def dump(
    source: SourceOption = None,
    topic: TopicOption = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", help="Print only this partition. May be repeated.", metavar="N"
        ),
    ] = None,
    dialect: DialectOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Print the records as JSON lines, in the form of Kafka's DumpLogSegments tool.

    The records of each partition are in the order of their offsets.
    """
    from kip848_spark.spark.jobs.dump import dump_files

    invocation = Invocation.of(
        config, kafka_option, verbose, source=source, topic=topic, dialect=dialect
    )
    from_source = invocation.source()
    with ExitStack() as open_still:
        folder = Path(open_still.enter_context(tempfile.TemporaryDirectory(prefix="kip848-dump-")))
        with show_steps() as display:
            session = open_still.enter_context(invocation.session(display))
            display("decoding")
            files = dump_files(from_source, session, folder, partition, invocation.settings.dialect)
            first = list(islice(files, 1))
        for file in chain(first, files):  # later ones are decoded while earlier ones are printed
            with file.open("rb") as lines:
                shutil.copyfileobj(lines, sys.stdout.buffer)
    sys.stdout.flush()


def capture(
    out: Annotated[
        str, typer.Option("--out", help="A new folder for the files, or its URI.", metavar="PATH")
    ],
    source: SourceOption = None,
    anonymize: Annotated[
        bool,
        typer.Option(
            "--anonymize",
            help="Replace all names of users and hosts, so that the capture can be shared.",
        ),
    ] = False,
    topic: TopicOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Copy the raw records to Parquet files, to keep them or to analyse them elsewhere."""
    from kip848_spark.spark.jobs.capture import write_capture

    invocation = Invocation.of(config, kafka_option, verbose, source=source, topic=topic)
    from_source = invocation.source()
    folder = locate(out).folder
    if folder is not None:  # a remote one is checked once Spark runs
        require_empty(LocalFolder(folder), out)
    with invocation.spark(out=out) as (session, display):
        display("copying the records")
        read, written = write_capture(from_source, session, out, anonymize)
    say(f"{written:,} records are in {out}.", wrap=True)
    if written < read:
        say(
            "their keys can't be decoded, so the names in them can't be replaced.",
            level="warning",
            lead=f"{read - written:,} records were left out:",
            style="yellow",
            wrap=True,
        )
