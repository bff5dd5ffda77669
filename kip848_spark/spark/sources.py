"""Sources of raw records: a topic, through Spark's Kafka source, or a capture of a topic.

Both return the same columns (`COLUMNS`), the identity of the topic, and the extent of each
partition. Within a task, the records of a partition are in offset order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import zip_longest
from typing import Protocol

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.errors import CaptureError, SourceError, UsageError
from kip848_spark.kafka.acls import KafkaClient
from kip848_spark.kafka.admin import OFFSETS_TOPIC, Cluster
from kip848_spark.kafka.capture_origin import Origin
from kip848_spark.kafka.topic import OffsetRange, PartitionExtent, TopicIdentity
from kip848_spark.spark.balanced_tasks import assign_tasks, shuffle_to_tasks
from kip848_spark.spark.capture_errors import translate_capture_errors
from kip848_spark.spark.capture_origin import read_origin
from kip848_spark.spark.hadoop import location_of
from kip848_spark.spark.own_files import require_own_spark_files

COLUMNS = ("partition", "offset", "timestamp", "key", "value")

_CAPTURE_TYPES: dict[str, tuple[type[T.DataType], ...]] = {
    "topic": (T.StringType,),
    "partition": (T.IntegerType, T.LongType, T.ShortType),
    "offset": (T.LongType, T.IntegerType),
    "timestamp": (T.TimestampType, T.TimestampNTZType),
    "key": (T.BinaryType,),
    "value": (T.BinaryType,),
}


_LAST_PORT = 65535
_LAST_PARTITION, _LAST_OFFSET = 2**31 - 1, 2**63 - 2
"""The largest numbers that Kafka can have: the end of a partition is a 64-bit number, too."""
_PYTHONS_TIMES = (
    "timestamp BETWEEN TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
)
"""The times that Python, and so every reader of the lake, can show."""
_MOST_PARTITIONS = 100_000
"""A cluster has at most about a million partitions in all, and a topic of offsets 50 by default."""
_MOST_TOPICS, _LONGEST_NAME = 5, 249
"""How many other topics an error names, and the length of the longest name that Kafka accepts."""
_GLOB = "__globPaths__"
"""Spark's option that makes it treat ``*``, ``?``, ``[`` and ``{`` in a path as a pattern."""


class RecordSource(Protocol):
    """A source of raw records, which are read by ranges of offsets."""

    name: str

    def identity(self) -> TopicIdentity:
        """The topic and its cluster. Raises SourceError or CaptureError."""

    def extents(self, spark: SparkSession) -> dict[int, PartitionExtent]:
        """The extent of each partition, by number. Raises SourceError or CaptureError if the source
        can't be read; an empty topic is no error, but a topic without partitions is."""

    def read(self, spark: SparkSession, ranges: Sequence[OffsetRange]) -> DataFrame:
        """The records of ``ranges`` with `COLUMNS`: partition int, offset long, timestamp
        timestamp, key and value binary."""


def parse_source(text: str, topic: str | None, settings: ClientSettings) -> RecordSource:
    """The source that ``text`` names: ``kafka:HOST:PORT``, ``parquet:PATH`` or ``delta:PATH``.

    Raises UsageError.
    """
    scheme, _, rest = text.partition(":")
    if rest and scheme == "kafka":
        return KafkaSource(rest, topic or OFFSETS_TOPIC, settings)
    if rest and scheme in ("parquet", "delta"):
        return CaptureSource(rest, scheme, topic or OFFSETS_TOPIC)
    raise UsageError(
        f"{text!r} is not a source.", "Write kafka:HOST:PORT, parquet:PATH or delta:PATH."
    )


def client_of(source: RecordSource) -> KafkaClient | None:
    """The Kafka client of a source that is a cluster."""
    return source.client if isinstance(source, KafkaSource) else None


_CONSUMER = {"fetch.max.wait.ms": "10", "max.poll.records": "5000"}
"""Consumer settings of Spark's source unless the user sets them.

At the end of its range a task waits for the answer to one more fetch, for half a second by default
(`benchmarks.fetch_wait`). Where there are records, the broker answers at once.

After each poll Spark asks for the first and the last offset of the partition, in two requests. A
poll takes 500 records by default (`benchmarks.poll_records`). More records than 5000 make no
difference, but the JVM keeps the last poll of each partition for minutes."""


class KafkaSource:
    """The topic of a running cluster, read up to its last stable offsets (read_committed).

    ``bootstrap`` is ``HOST:PORT``, or several with commas. ``settings`` are Kafka client settings
    by librdkafka's names; ``${NAME}`` in a value refers to an environment variable.

    Raises UsageError if there is no valid port, or if a setting contains a secret as text.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str = OFFSETS_TOPIC,
        settings: ClientSettings | Mapping[str, str] | None = None,
    ) -> None:
        for address in [one for one in bootstrap.split(",") if one] or [""]:
            port = address.rpartition(":")[2] if ":" in address else ""
            if not port:
                raise UsageError(f"The source kafka:{bootstrap} has no port.", "Write HOST:PORT.")
            if not (port.isascii() and port.strip().isdecimal() and 0 < int(port) <= _LAST_PORT):
                raise UsageError(
                    f"The source kafka:{bootstrap} has no valid port: {port!r}.",
                    f"A port is a number up to {_LAST_PORT}.",
                )
        self.bootstrap = bootstrap
        self.topic = topic
        written = settings or {}
        self.settings = (
            written if isinstance(written, ClientSettings) else ClientSettings(dict(written))
        )
        self.name = f"kafka:{bootstrap}"
        self._cluster: Cluster | None = None
        self._first: dict[int, int] = {}

    @property
    def client(self) -> KafkaClient:
        """The Kafka client, for error messages about missing permissions."""
        return KafkaClient.of(self.bootstrap, self.settings.librdkafka())

    @property
    def cluster(self) -> Cluster:
        """The cluster's admin client, which is created on first use."""
        if self._cluster is None:
            self._cluster = Cluster(self.bootstrap, self.settings.librdkafka())
        return self._cluster

    def identity(self) -> TopicIdentity:
        topics = self.cluster.topics([self.topic])
        return TopicIdentity(self.topic, self.cluster.cluster_id, topics[self.topic].topic_id)

    def extents(self, spark: SparkSession) -> dict[int, PartitionExtent]:
        ends = self.cluster.ends(self.topic)
        if not ends:
            raise SourceError(
                f"The topic {self.topic} of {self.bootstrap} has no visible partition.",
                "Check the ACLs of the client, and that a consumer group has ever committed.",
            )
        self._first = {partition: found.first for partition, found in ends.items()}
        return {p: PartitionExtent(e.first, e.stable, e.end - e.stable) for p, e in ends.items()}

    def read(
        self, spark: SparkSession, ranges: Sequence[OffsetRange], *, committed: bool = True
    ) -> DataFrame:
        """As `RecordSource.read`; if not ``committed``, also records of open transactions. A
        partition may have several ranges, which do not overlap: each is read by a task of its own.
        Deleted records are not asked for, since Spark would fail."""
        isolation = "read_committed" if committed else "read_uncommitted"
        of_partition: dict[int, list[OffsetRange]] = {}
        for r in self.not_deleted(ranges):
            of_partition.setdefault(r.partition, []).append(r)
        if not of_partition:
            types = "partition int, offset long, timestamp timestamp, key binary, value binary"
            return spark.createDataFrame([], types)
        # A DataFrame of Spark's source has one range of each partition. Its tasks start in the
        # order of the union, so the further ranges of large partitions come first.
        layers = reversed(list(zip_longest(*of_partition.values())))
        frames = [self._read(spark, [r for r in layer if r], isolation) for layer in layers]
        return reduce(DataFrame.union, frames)

    def not_deleted(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """What is left of ``ranges`` after the start of each partition, as `extents` has seen
        it."""
        there = (replace(r, start=max(r.start, self._first.get(r.partition, 0))) for r in ranges)
        return [r for r in there if r.end > r.start]

    def _read(
        self, spark: SparkSession, ranges: Sequence[OffsetRange], isolation: str
    ) -> DataFrame:
        starts = {str(r.partition): r.start for r in ranges}
        ends = {str(r.partition): r.end for r in ranges}
        reader = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("assign", json.dumps({self.topic: [r.partition for r in ranges]}))
            .option("startingOffsets", json.dumps({self.topic: starts}))
            .option("endingOffsets", json.dumps({self.topic: ends}))
            .option("failOnDataLoss", "true")
            .option("kafka.isolation.level", isolation)
        )
        for name, value in (_CONSUMER | self.settings.java()).items():
            reader = reader.option(f"kafka.{name}", value)
        return reader.load().select(*COLUMNS)


class CaptureSource:
    """A capture: files with the columns of Spark's Kafka source.

    ``path`` is a folder or a URI, ``format`` is ``parquet`` or ``delta``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str = "parquet",
        topic: str = OFFSETS_TOPIC,
    ) -> None:
        if format not in ("parquet", "delta"):
            raise UsageError(f"{format!r} is not a format of captures.", "Use parquet or delta.")
        self.path = os.fspath(path)
        self.format = format
        self.topic = topic
        self.name = f"{format}:{self.path}"

    def identity(self) -> TopicIdentity:
        """The identity in the capture's origin file; without one, only the topic is known."""
        origin = self._origin(SparkSession.active())
        if origin is None:
            return TopicIdentity(self.topic)
        topic_id = origin.topic_id if origin.topic == self.topic else None
        return TopicIdentity(self.topic, origin.cluster_id, topic_id)

    def _origin(self, spark: SparkSession) -> Origin | None:
        with translate_capture_errors(self.path):
            return read_origin(spark, self.path)

    def extents(self, spark: SparkSession) -> dict[int, PartitionExtent]:
        frame = self._load(spark)
        # Spark reads a column that one of several files lacks as null.
        own = self._of_topic() | F.col("topic").isNull()
        with translate_capture_errors(self.path):
            bounds = (
                frame.where(own)
                .groupBy("partition")
                .agg(
                    F.min("offset").alias("first"),
                    F.max("offset").alias("last"),
                    F.count(F.lit(1)).alias("records"),
                    F.count("topic").alias("topics"),
                    F.count("offset").alias("offsets"),
                    F.count("timestamp").alias("timestamps"),
                    F.count_if(F.expr(_PYTHONS_TIMES)).alias("times"),
                )
                .limit(_MOST_PARTITIONS + 1)
                .collect()
            )
            if not bounds:
                self._require_topic(frame)
        if len(bounds) > _MOST_PARTITIONS:
            raise CaptureError(
                f"The capture {self.path} has more than {_MOST_PARTITIONS:,} partitions.",
                "This is no capture of an offsets topic, or it is damaged.",
            )
        for row in bounds:
            self._check_bounds(row)
        origin = self._origin(spark)
        ends = origin.ends if origin is not None and origin.topic == self.topic else {}
        # Parts of a capture may have the origin of the whole, so the records decide what to read.
        return {
            row["partition"]: PartitionExtent(
                row["first"], row["last"] + 1, captured_to=ends.get(row["partition"], 0)
            )
            for row in bounds
        }

    def _of_topic(self) -> Column:
        """True for the records of the topic. Spark does not hand such a condition to the Parquet
        reader, which would skip row groups whose statistics are wrong."""
        return F.concat(F.col("topic"), F.lit("")) == self.topic

    def _require_topic(self, frame: DataFrame) -> None:
        """Raises CaptureError if the capture holds records, but only of other topics."""
        shown = F.coalesce(F.substring("topic", 1, _LONGEST_NAME), F.lit("null"))
        topics = [
            row[0] for row in frame.select(shown).distinct().limit(_MOST_TOPICS + 1).collect()
        ]
        if topics:
            more = " and others" if len(topics) > _MOST_TOPICS else ""
            raise CaptureError(
                f"The capture {self.path} holds no record of {self.topic}, only of "
                f"{', '.join(sorted(topics)[:_MOST_TOPICS])}{more}.",
                "Pass the topic to --topic.",
            )

    def _check_bounds(self, row: Row) -> None:
        """Raises CaptureError if a partition or its offsets are none that Kafka has."""
        partition, first, last = row["partition"], row["first"], row["last"]
        wrong = None
        if row["topics"] != row["records"]:
            wrong = "records without a topic"
        elif partition is None:
            wrong = "records without a partition"
        elif not 0 <= partition <= _LAST_PARTITION:
            wrong = f"a partition {partition}"
        elif row["offsets"] != row["records"]:
            wrong = f"records without an offset in partition {partition}"
        elif first < 0 or last > _LAST_OFFSET:
            wrong = f"an offset {first if first < 0 else last} in partition {partition}"
        elif row["timestamps"] != row["records"]:
            wrong = f"records without a timestamp in partition {partition}"
        elif row["times"] != row["records"]:
            wrong = f"a timestamp outside of the years 1 to 9999 in partition {partition}"
        if wrong is not None:
            raise CaptureError(
                f"The capture {self.path} has {wrong}, which no topic of Kafka has.",
                "The file is damaged, or its columns are not those of Spark's Kafka source.",
            )

    def read(self, spark: SparkSession, ranges: Sequence[OffsetRange]) -> DataFrame:
        frame = self._load(spark).where(self._of_topic())
        most = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        tasks = assign_tasks({r.partition: r.end - r.start for r in ranges}, most)
        bounds = spark.createDataFrame(
            [(r.partition, r.start, r.end, tasks[r.partition]) for r in ranges],
            "_partition int, _start long, _end long, _task int",
        )
        inside = (
            (F.col("partition") == F.col("_partition"))
            & (F.col("offset") >= F.col("_start"))
            & (F.col("offset") < F.col("_end"))
        )
        rows = frame.join(F.broadcast(bounds), inside, "inner").select(
            F.col("partition").cast("int").alias("partition"),
            F.col("offset").cast("long").alias("offset"),
            F.col("timestamp").cast("timestamp").alias("timestamp"),
            "key",
            "value",
            "_task",
        )
        number = len(set(tasks.values())) or 1
        # The workers find records that repeat, or differ at one offset, next to each other.
        return shuffle_to_tasks(rows, "_task", number).sortWithinPartitions(*COLUMNS)

    def _load(self, spark: SparkSession) -> DataFrame:
        place = location_of(spark, self.path)
        if place.folder is not None and not place.folder.exists():
            raise SourceError(
                f"There is no capture at {self.path}.",
                "Check the path. `kip848 capture` writes a capture.",
            )
        with translate_capture_errors(self.path):
            reader = spark.read.format(self.format).option(_GLOB, "false")
            frame = reader.load(place.uri)
            if self.format == "delta":  # its log may name any file
                require_own_spark_files(frame, self.path, place.uri)
        types = {field.name: field.dataType for field in frame.schema.fields}
        missing = [name for name in _CAPTURE_TYPES if name not in types]
        if missing:
            raise CaptureError(
                f"The capture {self.path} lacks the column{'s' * (len(missing) > 1)} "
                f"{_join_names(missing)}.",
                f"It needs {', '.join(_CAPTURE_TYPES)}; `kip848 capture` writes such files.",
            )
        for name, accepted in _CAPTURE_TYPES.items():
            if not isinstance(types[name], accepted):
                raise CaptureError(
                    f"In the capture {self.path} the column {name} is of type "
                    f"{types[name].simpleString()}, not {accepted[0]().simpleString()}.",
                    "A capture has the same columns as Spark's Kafka source.",
                )
        return frame.select(*_CAPTURE_TYPES)


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
