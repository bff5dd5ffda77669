"""Checks before a job: the jars in the session's JVM, and the package on its executors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from kip848_spark.errors import EnvironmentFault
from kip848_spark.version import __version__

_DELTA = "io/delta/tables/DeltaTable.class"
_KAFKA = "org/apache/spark/sql/kafka010/KafkaSourceProvider.class"
_JARS = 'Pass the jars that `kip848 jars` prints: spark-submit --jars "$(kip848 jars)".'
_REQUIRED_PACKAGES = ("kip848_spark", "numpy", "numba", "pyarrow", "pandas", "deltalake", "xxhash")
"""The packages that the workers' functions import."""
_MAX_TASKS = 64

_checked_applications: set[str] = set()
"""The ids of the applications whose executors have passed the check."""


def check_jars(spark: SparkSession, *, kafka: bool) -> None:
    """Raises EnvironmentFault if Delta's classes, or with ``kafka`` those of Spark's Kafka source,
    are missing in the session's JVM or were built for another release of Spark or Scala."""
    places = {"Delta Lake": _jar_of(spark, _DELTA)}
    if kafka:
        places["Spark's Kafka source"] = _jar_of(spark, _KAFKA)
    for what, jar in places.items():
        if jar is None:
            raise EnvironmentFault(f"The Spark session lacks the classes of {what}.", _JARS)
        if wrong := jar_mismatch(jar, spark.version, _scala(spark)):
            raise EnvironmentFault(
                f"The jar {jar} in the Spark session is built for {wrong}, "
                f"and the session is Spark {spark.version} with Scala {_scala(spark)}.",
                _JARS,
            )


def _jar_of(spark: SparkSession, resource: str) -> str | None:
    """The name of the jar, or else the location, that has ``resource``; None if it is missing."""
    jvm: Any = spark._jvm
    found = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().getResource(resource)
    if found is None:
        return None
    place = str(found.toString()).split("!/")[0]
    return place.rsplit("/", 1)[-1] if place.endswith(".jar") else place


def _scala(spark: SparkSession) -> str:
    jvm: Any = spark._jvm
    return ".".join(str(jvm.scala.util.Properties.versionNumberString()).split(".")[:2])


def jar_mismatch(jar: str, spark: str, scala: str) -> str | None:
    """The release of Spark or Scala that the jar is built for, if it is another one than ``spark``
    (compared by the first two numbers) or ``scala``. None if it is the same, or if the name of the
    jar does not show it."""
    name = re.fullmatch(
        r"(delta-spark|spark-sql-kafka-0-10)_(?:(\d+\.\d+)_)?(\d+\.\d+)-(\d+\.\d+)\S*\.jar", jar
    )
    if name is None:
        return None
    artifact, infix, scala_made, version = name.groups()
    made = infix or (version if artifact.startswith("spark") else None)
    if made is not None and spark.split(".")[:2] != made.split("."):
        return f"Spark {made}"
    return f"Scala {scala_made}" if scala_made != scala else None


def check_executors(spark: SparkSession) -> None:
    """Runs a small job on the executors, once for each application, unless the session is local.

    Raises EnvironmentFault if an executor lacks the package, has another version of it, or can't
    import one of the packages that it needs.
    """
    context = spark.sparkContext
    master = context.master or ""
    application = str(context.applicationId)
    if re.match(r"local(\[|$)", master) or application in _checked_applications:
        return
    tasks = min(max(context.defaultParallelism, 2), _MAX_TASKS)
    for host, python, versions in (
        context.parallelize(range(tasks), tasks).mapPartitions(_probe(_REQUIRED_PACKAGES)).collect()
    ):
        for name, answer in versions.items():
            wrong = None
            if not answer[0]:
                wrong = f"can't import {name} ({answer[1]})"
            elif name == "kip848_spark" and answer[1] != __version__:
                wrong = f"has kip848_spark {answer[1]}, and the driver {__version__}"
            if wrong:
                raise EnvironmentFault(
                    f"Python on the executor {host} ({python}) {wrong}.",
                    "Every executor needs the driver's environment: pass it as an archive "
                    "(--archives, PYSPARK_PYTHON) or use an image that has it; see the README.",
                )
    _checked_applications.add(application)


def _probe(names: Iterable[str]) -> Any:
    """A function for a task. It is pickled by value, since the executor may lack this package."""

    def probe(_: Iterator[int]) -> Iterator[tuple[str, str, dict[str, tuple[bool, str]]]]:
        import importlib
        import socket
        import sys

        found = {}
        for name in names:
            try:
                module = importlib.import_module(name)
                found[name] = (True, str(getattr(module, "__version__", "")))
            except Exception as error:
                found[name] = (False, f"{type(error).__name__}: {error}")
                if name == "kip848_spark":
                    break
        yield socket.gethostname(), sys.executable, found

    probe.__module__ = "__main__"
    return probe
