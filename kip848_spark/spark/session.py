"""A Spark session that works at once: jars, worker Python, loopback, Delta, UTC, quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from kip848_spark import jars
from kip848_spark.java import find_java
from kip848_spark.resources import resource

BATCH_ROWS = 200_000
"""Rows of an Arrow batch: enough to spread NumPy's cost a call, few enough for the CPU's cache."""

REQUIRED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # INT96, Spark's default, is unreadable for other Delta clients.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Without it Spark's Kafka source lists topics as a plain consumer does, internal ones left
    # out, and reads nothing from __consumer_offsets without a word.
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
}
"""Settings the program does not work without, wherever the session comes from."""

LOCAL = {
    # A laptop's or a container's host name often does not resolve.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.stats.skipping": "true",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
"""Further settings of a session on this machine alone."""


def local_session(
    settings: Mapping[str, str] | None = None,
    progress: jars.Progress | None = None,
    verbose: bool = False,
) -> SparkSession:
    """A session on this machine's cores, with the jars it needs (fetched once).

    ``settings`` are Spark's own and win over ours. Raises EnvironmentFault if Java or a jar is
    missing.
    """
    java = find_java()
    paths = [str(jar) for jar in jars.spark_jars(progress)]
    os.environ.setdefault("JAVA_HOME", str(java.resolve().parent.parent))
    # Spark would start whatever `python3` is on PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    level = "info" if verbose else "error"
    logging = f"-Dlog4j2.configurationFile=file:{resource('conf/log4j2.properties')}"
    options = {
        **LOCAL,
        **REQUIRED,
        "spark.jars": ",".join(paths),
        "spark.driver.extraJavaOptions": f"{logging} -Dkip848.log.level={level}",
        **(settings or {}),
    }
    builder = SparkSession.builder.appName("kip848-spark").master("local[*]")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("INFO" if verbose else "ERROR")
    return session


def submitted_session() -> SparkSession:
    """The session of a spark-submit: the cluster's settings, and ours that must hold."""
    builder = SparkSession.builder.appName("kip848-spark")
    for name, value in REQUIRED.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
