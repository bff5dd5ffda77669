"""`dump` and `capture`: the records themselves."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

import typer

from kip848_spark.cli.display import err, printable, show_steps
from kip848_spark.cli.options import (
    Call,
    ConfigOption,
    DialectOption,
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
        list[int] | None, typer.Option("--partition", help="This partition only (repeatable).")
    ] = None,
    dialect: DialectOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    verbose: VerboseOption = False,
) -> None:
    """One JSON line a record, as Kafka's own tool prints it, in offset order a partition."""
    from kip848_spark.spark.jobs.dump import dump_files

    call = Call.of(config, kafka_option, verbose, source=source, topic=topic, dialect=dialect)
    from_source = call.source()
    with ExitStack() as open_still:
        folder = Path(open_still.enter_context(tempfile.TemporaryDirectory(prefix="kip848-dump-")))
        with show_steps() as display:
            session = open_still.enter_context(call.session(display))
            display("decoding")
            files = dump_files(from_source, session, folder, partition, call.settings.dialect)
            first = list(islice(files, 1))
        for file in chain(first, files):  # the others are decoded as they are asked for
            with file.open("rb") as lines:
                shutil.copyfileobj(lines, sys.stdout.buffer)
    sys.stdout.flush()


def capture(
    out: Annotated[
        str, typer.Option("--out", help="A new folder for the files, or its URI.", metavar="PATH")
    ],
    source: SourceOption = None,
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Replace all names, to hand it to someone else.")
    ] = False,
    topic: TopicOption = None,
    kafka_option: KafkaOption = None,
    config: ConfigOption = None,
    verbose: VerboseOption = False,
) -> None:
    """The raw records as Parquet, to keep or to look at elsewhere."""
    from kip848_spark.spark.jobs.capture import write_capture

    call = Call.of(config, kafka_option, verbose, source=source, topic=topic)
    from_source = call.source()
    folder = locate(out).folder
    if folder is not None:  # another place is looked at once Spark runs
        require_empty(LocalFolder(folder), out)
    with call.spark(out=out) as (session, display):
        display("copying the records")
        read, written = write_capture(from_source, session, out, anonymize)
    err.print(f"{written:,} records are in {printable(out)}.")
    if written < read:
        err.print(
            f"[yellow]{read - written:,} records that do not decode were left out:[/] "
            "nobody knows what they name."
        )
