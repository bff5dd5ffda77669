"""Sets what a job needs in a Spark session, and restores the session's own settings at the end."""

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
from kip848_spark.spark.error_messages import translate_spark_errors
from kip848_spark.spark.offset_reader import bounded_offset_reader
from kip848_spark.spark.preflight import check_executors, check_jars

P = ParamSpec("P")
T = TypeVar("T")

BATCH_ROWS = 200_000
"""Rows of an Arrow batch: enough to amortize the cost of a NumPy call, few enough for the CPU's
cache."""
RECORDS_PER_TASK = 250_000
"""The approximate number of records for each task after a shuffle."""

CATALOG = "spark.sql.catalog.spark_catalog"
STATIC_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Required settings that a session must have from its start."""

RUNTIME_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # INT96, Spark's default, is unreadable for other Delta clients.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.binaryAsString": "false",
    # Without it, Spark's Kafka source does not list internal topics, and silently reads nothing
    # from __consumer_offsets.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    # By default Delta refuses to read or restore a version that is older than a week, since VACUUM
    # may have deleted its files. Readers need the version that a finished run left, however old.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}
"""Required settings that can be set at any time."""

REQUIRED_SETTINGS = {**STATIC_SETTINGS, **RUNTIME_SETTINGS}
"""All settings that a session needs."""

DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery.threshold"
OPTIONAL_SETTINGS = {
    DISCOVERY: "100000",  # listing files is cheaper than a job that lists them
    # Delta's VACUUM starts that many tasks for each table, 10,000 by default. The folder of a table
    # of a lake has no folders below it to list at once.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}
"""Settings that make every job faster, unless the session sets them itself."""

_SHUFFLE = "spark.sql.shuffle.partitions"
_SNAPSHOT = "spark.databricks.delta.snapshotPartitions"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_TASK_SETTINGS = (_SHUFFLE, _SNAPSHOT, _ADAPTIVE)
_ADJUSTABLE = "spark.kip848.sized"
"""A setting of ours that lists those of `_TASK_SETTINGS` which the session's owner has not set."""
_SET_BY_DELTA = (
    "spark.databricks.delta.lastCommitVersionInSession",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.fieldId.write.enabled",
)
"""Settings that Delta changes in a session when it writes."""
_MIN_PARTITION_LIMIT, _PARTITIONS_PER_CORE, _MAX_SNAPSHOT_PARTITIONS = 200, 3, 50


@contextmanager
def prepared_session(
    spark: SparkSession, records: int | None = None, extra: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Gives ``spark`` the required settings and ``extra``, and restores its own at the end.

    ``records`` is the number of records that the job processes, if it is known (see `size_tasks`).
    Calls may be nested. Raises UsageError if the session lacks a static setting or is of Spark
    Connect, and EnvironmentFault if an executor lacks a package.
    """
    extra = extra or {}
    check_session(spark)
    names = (
        *RUNTIME_SETTINGS,
        *OPTIONAL_SETTINGS,
        *_TASK_SETTINGS,
        *_SET_BY_DELTA,
        *extra,
        _ADJUSTABLE,
    )
    before = {name: spark.conf.get(name, None) for name in names}
    wanted = {**RUNTIME_SETTINGS, **extra}
    wanted |= {name: value for name, value in OPTIONAL_SETTINGS.items() if before[name] is None}
    if before[_ADJUSTABLE] is None:
        wanted[_ADJUSTABLE] = ",".join(name for name in _TASK_SETTINGS if before[name] is None)
    try:
        for name, value in wanted.items():
            if before[name] != value:
                spark.conf.set(name, value)
        check_executors(spark)
        if records is not None:
            size_tasks(spark, records)
        yield
    finally:
        with suppress(Py4JError, OSError):  # the session may have ended
            _restore(spark, before)


def _restore(spark: SparkSession, before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        elif spark.conf.get(name, None) != value:
            spark.conf.set(name, value)


def size_tasks(spark: SparkSession, records: int) -> None:
    """Within `prepared_session`: sets the number of tasks, and whether Spark adapts it, for a job
    on so many ``records``. Settings of the session's owner stay."""
    free = (spark.conf.get(_ADJUSTABLE, None) or "").split(",")
    cores = spark.sparkContext.defaultParallelism
    for name, value in task_settings(records, cores).items():
        if name in free:
            spark.conf.set(name, value)


def task_settings(records: int, cores: int) -> dict[str, str]:
    """Spark's settings for a job on so many ``records``, if ``cores`` tasks run at once."""
    most = max(_MIN_PARTITION_LIMIT, _PARTITIONS_PER_CORE * cores)
    partitions = min(max(1, math.ceil(records / RECORDS_PER_TASK)), most)
    return {
        _SHUFFLE: str(partitions),
        _SNAPSHOT: str(min(partitions, _MAX_SNAPSHOT_PARTITIONS)),
        # With few partitions there is little to adapt, and each stage becomes a job of its own.
        _ADAPTIVE: str(partitions > cores).lower(),
    }


def in_prepared_session(function: Callable[P, T]) -> Callable[P, T]:
    """Runs ``function`` with its session, or the session of its lake, prepared for a small job
    until the function calls `size_tasks`."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        given: tuple[Any, ...] = (*args, *kwargs.values())
        spark = next(found for one in given if (found := _session_of(one)) is not None)
        others = (one for one in given if one is not spark)
        client: KafkaClient | None = next(
            (one.client for one in others if hasattr(one, "client")), None
        )
        with (
            translate_spark_errors(client),
            prepared_session(spark, 0),
            bounded_offset_reader(spark, client),
        ):
            check_jars(spark, kafka=client is not None)
            return function(*args, **kwargs)

    return run


def _session_of(argument: Any) -> Any:
    is_one = (
        type(argument).__name__ == SparkSession.__name__
    )  # the class of Spark Connect has the same name
    return argument if is_one else getattr(argument, "spark", None)


def check_session(spark: SparkSession) -> None:
    """Raises UsageError if ``spark`` is a Spark Connect session, or lacks a setting that can't be
    changed once it runs; EnvironmentFault if it lacks Delta's classes."""
    if not isinstance(spark, SparkSession):
        raise spark_connect_error()
    check_jars(spark, kafka=False)
    for name, value in STATIC_SETTINGS.items():
        there = [part.strip() for part in (spark.conf.get(name, None) or "").split(",")]
        # A catalog of another name (Unity Catalog's) may serve Delta tables as well.
        if value not in there and (name != CATALOG or there[0] in ("", "builtin")):
            raise UsageError(
                f"The Spark session lacks {name}={value}, which can't be set once it runs.",
                f"Create the session with it: spark-submit --conf {name}={value}, or "
                f'SparkSession.builder.config("{name}", "{value}").',
            )


def spark_connect_error() -> UsageError:
    """The error for a Spark Connect session."""
    return UsageError(
        "This is a Spark Connect session. kip848 uses Spark's JVM and needs a classic session.",
        "Unset SPARK_REMOTE and spark.remote, or use spark-submit.",
    )
