"""The options of the JVM of a local session."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

JVM_OPTIONS = (
    # Optimizing code that runs for only seconds takes CPU time from the Python workers: a tenth
    # of an audit.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
    # With a smaller size, loading classes triggers several full garbage collections.
    "-XX:MetaspaceSize=256m",
)
"""Options of every local session. The thresholds are ten times the JVM's defaults."""
COLLECTOR = "-XX:+UseParallelGC"
"""The garbage collector. Java's default, G1, collects beside the work and slows down every write of
a reference. That takes CPU time from the Python workers, about a sixth of an ingest. Its short
pauses are of no use to a batch job."""

_ANY_COLLECTOR = re.compile(r"-XX:[+-]Use\w*GC\b")
_SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_FILES = ("spark-defaults.conf", "java-opts", "spark-env.sh")


def collector_options(settings: Mapping[str, str], spark_home: Path) -> tuple[str, ...]:
    """`COLLECTOR`; nothing if the user has chosen a collector, because a JVM with two of them does
    not start. ``settings`` are the user's Spark settings."""
    if any(_ANY_COLLECTOR.search(text) for text in _written_options(settings, spark_home)):
        return ()
    return (COLLECTOR,)


def _written_options(settings: Mapping[str, str], spark_home: Path) -> Iterator[str]:
    """The texts in which a user can name options of Spark's JVM."""
    yield from (settings.get(name, "") for name in _SETTINGS)
    yield from (os.environ.get(name, "") for name in _VARIABLES)
    folder = Path(os.environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    for name in _FILES:
        with suppress(OSError):
            yield (folder / name).read_text(errors="replace")
