"""Options that several verbs share, and the settings, session, source and lake they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kip848_spark.cli.display import StepDisplay, note, show_steps
from kip848_spark.config.settings import Settings, load
from kip848_spark.config.times import parse_time
from kip848_spark.errors import UsageError
from kip848_spark.kafka.acls import KafkaClient
from kip848_spark.lake.location import Location, locate, schema_names
from kip848_spark.wire.dialects import check_dialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kip848_spark.lake.history import StateAt
    from kip848_spark.lake.snapshot import LakeSnapshot
    from kip848_spark.spark.sources import KafkaSource, RecordSource
    from kip848_spark.spark.storage.tables import LakeTables

S3 = "s3a://"
"""The scheme of paths on S3, for Spark and for delta-rs."""

SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source", help="Where to read: kafka:HOST:PORT, parquet:PATH or delta:PATH.", metavar="S"
    ),
]
LakeOption = Annotated[
    str | None, typer.Option("--lake", help="The lake: a folder or a URI.", metavar="PATH")
]
TopicOption = Annotated[
    str | None,
    typer.Option(
        "--topic", help="The topic to read, if it is not __consumer_offsets.", metavar="NAME"
    ),
]
KafkaOption = Annotated[
    list[str] | None,
    typer.Option("--kafka-option", help="A Kafka client setting. May be repeated.", metavar="K=V"),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="A settings file in TOML.", metavar="FILE")
]
DialectOption = Annotated[
    str | None,
    typer.Option(
        "--dialect",
        help="Record layouts: shipped (Kafka 4.0 and later), kip (3.7), kip-draft or auto.",
        metavar="D",
    ),
]
AssignorsOption = Annotated[
    str | None,
    typer.Option(
        "--assignors",
        help="The broker's assignors, the default first: uniform, range, or a Python class as "
        "module:Class.",
        metavar="NAMES",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of", help="Show the state at this time: ISO 8601 (UTC), 2h ago, ...", metavar="TIME"
    ),
]
RunAsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        help="Read the tables as the last run that had finished at this time left them.",
        metavar="TIME",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since", help="Begin at this time: ISO 8601 (UTC), 2h ago, yesterday.", metavar="TIME"
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", help="End at this time.", metavar="TIME")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print Spark's log.")]


def parse_time_option(option: str, text: str | None) -> datetime | None:
    """The time given to ``option``, in UTC; None if it was not given. Raises UsageError."""
    return None if text is None else parse_time(text, option)


def parse_window(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """The times given to ``--since`` and ``--until``, in UTC. Raises UsageError."""
    start, end = parse_time_option("--since", since), parse_time_option("--until", until)
    if start is not None and end is not None and start >= end:
        raise UsageError(
            f"--since ({start:%Y-%m-%d %H:%M:%S} UTC) is not before "
            f"--until ({end:%Y-%m-%d %H:%M:%S} UTC)."
        )
    return start, end


@dataclass(frozen=True)
class Invocation:
    """A call of a verb: its settings, and the objects made from them."""

    settings: Settings
    verbose: bool = False

    @classmethod
    def of(
        cls,
        config_file: Path | None = None,
        kafka_option: Sequence[str] | None = None,
        verbose: bool = False,
        **overrides: Any,
    ) -> Invocation:
        settings = load(config_file, overrides, kafka_option or ())
        check_dialect(settings.dialect)
        return cls(settings, verbose)

    @contextmanager
    def spark(
        self, *, keep_classes: bool = False, out: str = ""
    ) -> Iterator[tuple[SparkSession, StepDisplay]]:
        """As `session`, with the display of its steps."""
        with (
            show_steps() as display,
            self.session(display, keep_classes=keep_classes, out=out) as session,
        ):
            yield session, display

    @contextmanager
    def session(
        self, display: StepDisplay, *, keep_classes: bool = False, out: str = ""
    ) -> Iterator[SparkSession]:
        """The Spark session to work with; ``display`` shows that it starts.

        ``keep_classes`` is for verbs that use most of Spark: their session leaves an archive of
        its classes, so that later sessions start faster. ``out`` is a further path to write to.
        """
        from kip848_spark.spark.session import session

        display("starting Spark")
        s3 = any(S3 in (place or "") for place in (self.settings.lake, self.settings.source, out))
        with session(
            self.settings.session(),
            self.verbose,
            display.detail,
            storage=self.settings.stored(),
            client=self._client(),
            keep_classes=keep_classes,
            s3=s3,
        ) as spark:
            yield spark

    def _client(self) -> KafkaClient | None:
        """The Kafka client, if the source is a Kafka cluster."""
        kind, _, bootstrap = (self.settings.source or "").partition(":")
        if kind != "kafka":
            return None
        return KafkaClient.of(bootstrap, self.settings.client().librdkafka())

    def source(self) -> RecordSource:
        from kip848_spark.spark.sources import parse_source

        if self.settings.source is None:
            raise UsageError(
                "No source is given.", "Add --source kafka:HOST:PORT, or set source in kip848.toml."
            )
        return parse_source(self.settings.source, self.settings.topic, self.settings.client())

    def cluster(self, text: str | None) -> KafkaSource | None:
        """The cluster that ``text`` names; None without a text. Raises UsageError for a capture."""
        from kip848_spark.spark.sources import KafkaSource, parse_source

        if text is None:
            return None
        source = parse_source(text, self.settings.topic, self.settings.client())
        if not isinstance(source, KafkaSource):
            raise UsageError(
                f"{text} is a capture, and the live comparison needs a running cluster.",
                "Name kafka:HOST:PORT, or leave out --source.",
            )
        return source

    def lake_path(self) -> str:
        if self.settings.lake is None:
            raise UsageError("No lake is given.", "Add --lake PATH, or set lake in kip848.toml.")
        return self.settings.lake

    def place(self) -> Location:
        """The location of the lake, from the settings alone."""
        path, spark = self.lake_path(), self.settings.spark
        if schema_names(path, spark.__contains__):
            return Location(path, f"catalog:{path}")  # only Spark knows the folder
        return locate(path, spark.get("spark.hadoop.fs.defaultFS", "file:///"))

    def lake(self, session: SparkSession) -> LakeTables:
        from kip848_spark.spark.storage.opening import open_lake

        return open_lake(session, self.lake_path(), storage=self.settings.stored())

    def state_at(self, time: datetime | None) -> LakeSnapshot | StateAt:
        """The state tables at ``time`` (UTC; None: now), read without a JVM. If the lake is of an
        earlier version and only knows the ends of runs, a note says so."""
        from kip848_spark.lake.history import state_at, without_history

        newest = self.state()
        found = state_at(newest, time)
        if sentence := without_history(newest, found):
            note(sentence)
        return found

    def state(self, as_of: datetime | None = None) -> LakeSnapshot:
        """The lake as its last finished run left it, or the last one done by ``as_of`` (UTC), read
        without a JVM. If records were read but not replayed, a note says so."""
        from kip848_spark.lake.snapshot import NOT_REPLAYED, LakeSnapshot

        found = LakeSnapshot(self.place(), as_of, storage=self.settings.stored().delta())
        if not found.run.is_replayed:
            note(NOT_REPLAYED)
        return found
