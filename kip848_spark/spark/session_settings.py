"""What a job needs of a Spark session, whoever made it: set for the job, then put back."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kip848_spark.errors import UsageError
from kip848_spark.kafka.acls import KafkaClient
from kip848_spark.spark.error_messages import one_sentence
from kip848_spark.spark.preflight import check_executors, check_jars

P = ParamSpec("P")
T = TypeVar("T")

BATCH_ROWS = 200_000
"""Rows of an Arrow batch: enough to spread NumPy's cost a call, few enough for the CPU's cache."""
RECORDS_A_TASK = 250_000
"""Records that a task after a shuffle gets, about."""

CATALOG = "spark.sql.catalog.spark_catalog"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Required settings that a session must have from its start."""

AT_RUNTIME = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # INT96, Spark's default, is unreadable for other Delta clients.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.binaryAsString": "false",
    # Without it Spark's Kafka source lists topics as a plain consumer does, internal ones left
    # out, and reads nothing from __consumer_offsets without a word.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
"""Required settings that can be set at any time."""

REQUIRED = {**DELTA, **AT_RUNTIME}
"""Settings the program does not work without, wherever the session comes from."""

DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery.threshold"
HELPFUL = {DISCOVERY: "100000"}  # to look at a file is cheaper than to run a job for it
"""Settings that make a job faster, whatever its size, unless the session has its own."""

_SHUFFLE = "spark.sql.shuffle.partitions"
_SNAPSHOT = "spark.databricks.delta.snapshotPartitions"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_SIZED = (_SHUFFLE, _SNAPSHOT, _ADAPTIVE)
_FREE = "spark.kip848.sized"
"""The session's note of a job: which of `_SIZED` its owner has not set."""
_SET_BY_DELTA = (
    "spark.databricks.delta.lastCommitVersionInSession",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.fieldId.write.enabled",
)
"""What Delta leaves in a session that it has written in."""
_LEAST_MOST, _MOST_A_CORE, _SNAPSHOT_MOST = 200, 3, 50


@contextmanager
def prepared(
    spark: SparkSession, records: int | None = None, extra: Mapping[str, str] | None = None
) -> Iterator[None]:
    """``spark`` has the required settings meanwhile, and ``extra``; then it has its own again.

    ``records``: how many the job is about, if that is known (see `fit`). May be nested. Raises
    UsageError if the session can't do the work at all.
    """
    extra = extra or {}
    check(spark)
    names = (*AT_RUNTIME, *HELPFUL, *_SIZED, *_SET_BY_DELTA, *extra, _FREE)
    before = {name: spark.conf.get(name, None) for name in names}
    wanted = {**AT_RUNTIME, **extra}
    wanted |= {name: value for name, value in HELPFUL.items() if before[name] is None}
    if before[_FREE] is None:
        wanted[_FREE] = ",".join(name for name in _SIZED if before[name] is None)
    try:
        for name, value in wanted.items():
            if before[name] != value:
                spark.conf.set(name, value)
        check_executors(spark)
        if records is not None:
            fit(spark, records)
        yield
    finally:
        with suppress(Py4JError, OSError):  # the session may have ended
            _put_back(spark, before)


def _put_back(spark: SparkSession, before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        elif spark.conf.get(name, None) != value:
            spark.conf.set(name, value)


def fit(spark: SparkSession, records: int) -> None:
    """Within `prepared`: the number of tasks, and whether Spark is to adapt it, follow the number
    of ``records``. What the session's owner has set stays."""
    free = (spark.conf.get(_FREE, None) or "").split(",")
    cores = spark.sparkContext.defaultParallelism
    for name, value in sized(records, cores).items():
        if name in free:
            spark.conf.set(name, value)


def sized(records: int, cores: int) -> dict[str, str]:
    """The settings for a job on so many ``records`` where so many tasks run at once."""
    most = max(_LEAST_MOST, _MOST_A_CORE * cores)
    partitions = min(max(1, math.ceil(records / RECORDS_A_TASK)), most)
    return {
        _SHUFFLE: str(partitions),
        _SNAPSHOT: str(min(partitions, _SNAPSHOT_MOST)),
        # With few partitions there is little to adapt, and each stage would be a job.
        _ADAPTIVE: str(partitions > cores).lower(),
    }


def in_prepared_session(function: Callable[P, T]) -> Callable[P, T]:
    """``function`` in its session, or that of its lake, prepared for a small job until it calls
    `fit`."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        given: tuple[Any, ...] = (*args, *kwargs.values())
        spark = next(found for one in given if (found := _session_of(one)) is not None)
        others = (one for one in given if one is not spark)
        client: KafkaClient | None = next(
            (one.client for one in others if hasattr(one, "client")), None
        )
        with one_sentence(client), prepared(spark, 0):
            check_jars(spark, kafka=client is not None)
            return function(*args, **kwargs)

    return run


def _session_of(argument: Any) -> Any:
    is_one = type(argument).__name__ == SparkSession.__name__  # Spark Connect's is named so, too
    return argument if is_one else getattr(argument, "spark", None)


def check(spark: SparkSession) -> None:
    """Raises UsageError if ``spark`` is of another kind than this program works with, or lacks a
    setting that can't be set any more."""
    if not isinstance(spark, SparkSession):
        raise connect_fault()
    check_jars(spark, kafka=False)
    for name, value in DELTA.items():
        there = [part.strip() for part in (spark.conf.get(name, None) or "").split(",")]
        # A catalog of another name (Unity Catalog's) may serve Delta tables as well.
        if value not in there and (name != CATALOG or there[0] in ("", "builtin")):
            raise UsageError(
                f"The Spark session lacks {name}={value}, and it can't be set any more.",
                f"Make the session with it: spark-submit --conf {name}={value}, or "
                f'SparkSession.builder.config("{name}", "{value}").',
            )


def connect_fault() -> UsageError:
    """What is said of a session of Spark Connect."""
    return UsageError(
        "This is a Spark Connect session, and kip848 needs a classic one: it works in Spark's JVM.",
        "Unset SPARK_REMOTE, or use spark-submit.",
    )
