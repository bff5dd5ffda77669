"""Groups of real clients that use the classic protocol: Java's, librdkafka's and kafka-python's."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from kip848_spark.kafka.admin import Cluster
from kip848_spark.local.consumer_process import ConsumerProcess
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java

_PROGRAM = Path(__file__).parent.parent / "java" / "ClassicConsumers.java"
_JVM = ["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_PATIENCE = 120.0

MEMBERS = 2
"""The members of each group."""
_ASSIGNORS = "org.apache.kafka.clients.consumer."
JAVA: Mapping[str, str] = {
    "java-default": "",
    "java-cooperative": f",partition.assignment.strategy={_ASSIGNORS}CooperativeStickyAssignor",
    "java-sticky": f",partition.assignment.strategy={_ASSIGNORS}StickyAssignor",
    "java-round-robin": f",partition.assignment.strategy={_ASSIGNORS}RoundRobinAssignor",
}
"""Groups of the Java client of the broker's release, and the settings that differ."""
LIBRDKAFKA: Mapping[str, str] = {
    "librdkafka-default": "range,roundrobin",
    "librdkafka-sticky": "cooperative-sticky",
}
"""Groups of librdkafka, and their assignors."""
KAFKA_PYTHON = "kafka-python-default"


def start_groups(bootstrap: str, release: str, topic: str, stack: ExitStack) -> list[str]:
    """Starts all groups, which end with ``stack``, and returns their names. `wait_for_groups` waits
    for their members."""
    _start_java(bootstrap, release, topic, stack)
    for group, assignor in LIBRDKAFKA.items():
        for _ in range(MEMBERS):
            consumer = ConsumerProcess(
                bootstrap, group, [topic], protocol="classic", assignor=assignor
            )
            stack.callback(consumer.close)
    _start_kafka_python(bootstrap, topic, stack)
    return [*JAVA, *LIBRDKAFKA, KAFKA_PYTHON]


def _start_java(bootstrap: str, release: str, topic: str, stack: ExitStack) -> None:
    path = os.pathsep.join(str(jar) for jar in broker_jars(release))
    specs = [f"{group}{settings}" for group, settings in JAVA.items() for _ in range(MEMBERS)]
    process = subprocess.Popen(
        [str(find_java()), *_JVM, "-cp", path, str(_PROGRAM), bootstrap, topic, *specs],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def stop() -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(stop)


def _start_kafka_python(bootstrap: str, topic: str, stack: ExitStack) -> None:
    ended = threading.Event()

    def consume() -> None:
        while not ended.is_set():
            # As a supervised application: the client raises what it does not retry by itself.
            with contextlib.suppress(KafkaError):
                consume_once()

    def consume_once() -> None:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=KAFKA_PYTHON,
            session_timeout_ms=45_000,
            heartbeat_interval_ms=500,
            enable_auto_commit=False,
        )
        try:
            while not ended.is_set():
                consumer.poll(timeout_ms=100)
        finally:
            consumer.close()

    threads = [threading.Thread(target=consume, daemon=True) for _ in range(MEMBERS)]
    for thread in threads:
        thread.start()

    def stop() -> None:
        ended.set()
        for thread in threads:
            thread.join(20)

    stack.callback(stop)


def wait_for_groups(cluster: Cluster, groups: Sequence[str], shares: Sequence[int]) -> None:
    """Until the members of each group own that many partitions, in any order. Raises TimeoutError,
    with what the groups are instead."""
    waiting = list(groups)
    found: dict[str, list[int]] = {}
    deadline = time.monotonic() + _PATIENCE
    while waiting and time.monotonic() < deadline:
        described, _ = cluster.describe(waiting)
        found = {name: sorted(len(m.assigned) for m in g.members) for name, g in described.items()}
        waiting = [name for name in waiting if found.get(name) != sorted(shares)]
        if waiting:
            time.sleep(0.3)
    if waiting:
        raise TimeoutError(f"these groups did not settle: {[(n, found.get(n)) for n in waiting]}")


def join_for_real(
    cluster: Cluster, groups: Sequence[str], topic: str, shares: Sequence[int]
) -> dict[str, list[int]]:
    """A consumer of the new protocol (librdkafka) joins each group and stays until its members own
    ``shares`` partitions. Returns the partitions that it got, by group."""
    with ExitStack() as stack:
        consumers = {}
        for group in groups:
            consumers[group] = ConsumerProcess(cluster.bootstrap, group, [topic])
            stack.callback(consumers[group].close)
        wait_for_groups(cluster, groups, shares)
        return {
            group: sorted(number for _, number in consumer.wait_for_partitions())
            for group, consumer in consumers.items()
        }
