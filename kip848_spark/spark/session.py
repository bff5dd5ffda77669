"""Finds or starts the Spark session of a job, with its jars and settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession, is_remote

from kip848_spark.config.references import is_secret
from kip848_spark.config.storage import StorageSettings
from kip848_spark.kafka.acls import KafkaClient
from kip848_spark.runtime import jars
from kip848_spark.runtime.appcds import ClassArchive
from kip848_spark.runtime.cache import cache_folder
from kip848_spark.runtime.java import find_java
from kip848_spark.runtime.kernel_cache import compile_in_background
from kip848_spark.runtime.resources import resource_path
from kip848_spark.spark.error_messages import spark_log, translate_spark_errors
from kip848_spark.spark.jvm_options import JVM_OPTIONS, collector_options
from kip848_spark.spark.session_settings import (
    OPTIONAL_SETTINGS,
    REQUIRED_SETTINGS,
    prepared_session,
    spark_connect_error,
)
from kip848_spark.spark.startup import require_user_name, spark_startup

LOCAL_SETTINGS = {
    # A laptop's or a container's host name often does not resolve.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.stats.skipping": "true",
    # Metrics of running tasks come with heartbeats, and a progress bar needs them more often than
    # every ten seconds.
    "spark.executor.heartbeatInterval": "1s",
    # On a machine of few cores it has little to adapt, and makes a job of each stage.
    "spark.sql.adaptive.enabled": "false",
    # Through TCP a task waits 40 ms for its Python worker, by delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "kip848_spark.spark.daemon",
    # A store that always answers 503 is asked again 20 times by default, each time after twice as
    # long. This is as often as after other errors.
    "spark.hadoop.fs.s3a.retry.throttle.limit": "7",
}
"""Further settings of a local session."""

_OF_HADOOP = "spark.hadoop."
_ADDED = {"spark.jars": ",", "spark.sql.extensions": ",", "spark.driver.extraJavaOptions": " "}
"""Settings that are lists, with their separators. A user's values are appended to ours."""


def merge_settings(ours: Mapping[str, str], users: Mapping[str, str]) -> dict[str, str]:
    """``ours`` and the ``users``' settings. Lists are joined; otherwise the user's setting wins."""
    both = {
        name: between.join((ours[name], users[name]))
        for name, between in _ADDED.items()
        if ours.get(name) and users.get(name)
    }
    return {**ours, **users, **both}


def local_session(
    settings: Mapping[str, str] | None = None,
    progress: jars.ReportProgress | None = None,
    verbose: bool = False,
    *,
    storage: StorageSettings | None = None,
    keep_classes: bool = False,
    s3: bool = False,
) -> SparkSession:
    """Starts a local session with the jars that it needs, which are downloaded once; with ``s3``
    also those for ``s3a://`` paths.

    ``settings`` are Spark settings and override ours (see `merge_settings`). ``keep_classes``: see
    `ClassArchive.options`. Raises EnvironmentFault if Java, a jar or the user's name is
    missing.
    """
    require_user_name()
    java = find_java()
    paths = [str(jar) for jar in jars.spark_jars(progress)]
    paths += [str(jar) for jar in jars.s3_jars(progress)] if s3 else []
    os.environ.setdefault("JAVA_HOME", str(java.resolve().parent.parent))
    # Without these, Spark starts the `python3` on PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    level = "info" if verbose else "error"
    logging = f"-Dlog4j2.configurationFile=file:{resource_path('conf/log4j2.properties')}"
    archive = _class_archive(java)
    options = [
        *JVM_OPTIONS,
        *collector_options(settings or {}, Path(_find_spark_home())),
        *(archive.options(create=keep_classes) if archive else ()),
        logging,
        f"-Dkip848.log.level={level}",
    ]
    stored = {} if storage is None else storage.hadoop()
    ours = {
        **LOCAL_SETTINGS,
        **OPTIONAL_SETTINGS,
        **REQUIRED_SETTINGS,
        **{_OF_HADOOP + name: value for name, value in stored.items()},
        # By default Spark creates a folder in the working folder, which stays empty.
        "spark.sql.warehouse.dir": (cache_folder() / "warehouse").as_uri(),
        "spark.jars": ",".join(paths),
        "spark.driver.extraJavaOptions": " ".join(options),
    }
    builder = SparkSession.builder.appName("kip848-spark").master("local[*]")
    for name, value in _hide_secrets(merge_settings(ours, settings or {})).items():
        builder = builder.config(name, value)
    compile_in_background()
    with spark_startup(None if verbose else spark_log()):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("INFO" if verbose else "ERROR")
    return session


def _hide_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """``settings`` with a reference to an environment variable for each secret of Hadoop.

    PySpark starts a JVM with all settings on its command line, which every user of the machine can
    read. Its environment is its owner's only, and Hadoop resolves ``${env.NAME}``. A JVM that
    already runs does not see new variables, and needs none."""
    hidden = dict(settings)
    if SparkContext._gateway is None:
        secrets = [name for name in settings if name.startswith(_OF_HADOOP) and is_secret(name)]
        for number, name in enumerate(secrets):
            variable = f"KIP848_SECRET_{number}"
            os.environ[variable] = settings[name]
            hidden[name] = f"${{env.{variable}}}"
    return hidden


def _class_archive(java: Path) -> ClassArchive | None:
    return ClassArchive.of(java, Path(_find_spark_home()))


@contextmanager
def session(
    settings: Mapping[str, str] | None = None,
    verbose: bool = False,
    progress: jars.ReportProgress = lambda _: None,
    *,
    storage: StorageSettings | None = None,
    client: KafkaClient | None = None,
    keep_classes: bool = False,
    s3: bool = False,
    given: SparkSession | None = None,
) -> Iterator[SparkSession]:
    """The session to work with: ``given``, else the active session, else the session of a
    spark-submit, else a new local session.

    A session that is created here is stopped at the end. Spark's exceptions become errors of this
    program; ``client`` is the Kafka client that they may be about. ``progress`` receives the names
    of jars that are downloaded. ``keep_classes`` has a new local session write an AppCDS archive of
    Spark's classes when it ends, so that later sessions start faster. ``s3``: a new local session
    needs the jars for ``s3a://`` paths. In a session that exists, only the settings that are
    written in ``storage`` are set, and they are restored at the end.
    """
    stored = {} if storage is None else storage.hadoop({})
    there = given or SparkSession.getActiveSession()
    if there is not None:
        with translate_spark_errors(client), prepared_session(there, extra=stored):
            yield there
        return
    if is_remote() or "SPARK_REMOTE" in os.environ or "spark.remote" in (settings or {}):
        raise spark_connect_error()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    made = (
        _submitted_session()
        if submitted
        else local_session(
            settings, progress, verbose, storage=storage, keep_classes=keep_classes, s3=s3
        )
    )
    # Its thread would print a traceback when the JVM ends.
    made.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    try:
        with (
            translate_spark_errors(client),
            prepared_session(made, extra=stored if submitted else {}),
        ):
            yield made
        if keep_classes and not submitted and (archive := _class_archive(find_java())):
            archive.mark_complete()
    finally:
        with suppress(ConnectionError, Py4JError):  # its JVM may have ended
            made.stop()


def _submitted_session() -> SparkSession:
    builder = SparkSession.builder.appName("kip848-spark")
    for name, value in REQUIRED_SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
