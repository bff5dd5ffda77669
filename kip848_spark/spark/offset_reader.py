"""Bounds Spark's wait for brokers that do not answer.

Before a job, Spark's Kafka source asks for the partitions and offsets of the topic. Its consumer
waits without a limit, and no setting of Kafka's ends the wait. (Spark's other offset reader, which
has a limit, leaves internal topics out; see `session_settings`.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kip848_spark.errors import SourceError
from kip848_spark.kafka.acls import KafkaClient

LIMIT_S = 120.0
"""How long the offset reader may wait; Spark's tasks wait as long for a record."""
_INTERVAL_S = 10.0
_READER = "org.apache.spark.sql.kafka010.KafkaOffsetReaderConsumer"
_AWAITS = "UninterruptibleThreadRunner.runUninterruptibly"
"""A thread with this in its stack waits for the thread that asks the brokers."""


@contextmanager
def bounded_offset_reader(spark: SparkSession, client: KafkaClient | None) -> Iterator[None]:
    """Jobs that the calling thread starts in the block wait for the offset reader for about
    `LIMIT_S` at most. Then this raises SourceError. ``client`` is the Kafka client of the jobs; if
    it is None, nothing is done."""
    if client is None:
        yield
        return
    ended, interrupted = threading.Event(), threading.Event()
    jvm: Any = spark._jvm
    caller = jvm.java.lang.Thread.currentThread()  # the Java thread of the calling thread

    def watch() -> None:
        since: float | None = None
        with suppress(Py4JError, OSError):  # the JVM has ended, which the calling thread reports
            while not ended.wait(_INTERVAL_S):
                if not _is_in_reader(jvm, caller):
                    since = None
                elif since is None:
                    since = time.monotonic()
                elif time.monotonic() - since >= LIMIT_S:
                    interrupted.set()
                    caller.interrupt()  # once for the question, and once for closing the reader

    # Unlike a plain thread it gives the JVM's thread back when it ends.
    thread = InheritableThread(watch, name="kip848-offset-reader", daemon=True)
    thread.start()
    try:
        yield
    except (PySparkException, Py4JError) as cause:
        if not interrupted.is_set():
            raise
        raise SourceError(
            f"The Kafka cluster at {client.bootstrap} did not answer for {LIMIT_S:.0f} s when "
            "Spark asked for the offsets of the topic.",
            "Check that its brokers run and that each partition of the topic has a leader. Then "
            "start the command again.",
        ) from cause
    finally:
        ended.set()
        thread.join()


def _is_in_reader(jvm: Any, thread: Any) -> bool:
    """Whether the Java ``thread`` waits for the offset reader."""
    trace = jvm.java.lang.Throwable()
    trace.setStackTrace(thread.getStackTrace())
    stack = jvm.py4j.Protocol.getThrowableAsString(trace)  # one answer, not one a frame
    return _READER in stack and _AWAITS in stack
