"""Groups of real clients that use the classic protocol: Java's, librdkafka's and kafka-python's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from kip848_spark.kafka.admin import Cluster
from kip848_spark.local.consumer_process import ConsumerProcess
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java
from tests.insight import kafka_python_process

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
            # One after the other: its sticky assignor sends user data from the second rebalance on.
            consumer.wait_for_partitions()
    _start_kafka_python(bootstrap, topic, stack)
    return [*JAVA, *LIBRDKAFKA, KAFKA_PYTHON]


def _start_java(bootstrap: str, release: str, topic: str, stack: ExitStack) -> None:
    path = os.pathsep.join(str(jar) for jar in broker_jars(release))
    specs = [f"{group}{settings}" for group, settings in JAVA.items() for _ in range(MEMBERS)]
    java = [str(find_java()), *_JVM, "-cp", path, str(_PROGRAM)]
    _start([*java, bootstrap, topic, *specs], stack)


def _start_kafka_python(bootstrap: str, topic: str, stack: ExitStack) -> None:
    for _ in range(MEMBERS):
        command = [sys.executable, "-W", "ignore", "-m", kafka_python_process.__name__]
        _start([*command, bootstrap, KAFKA_PYTHON, topic], stack)


def _start(command: Sequence[str], stack: ExitStack) -> None:
    """A process that ends when its standard input does: with ``stack``."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
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
    ``shares`` partitions. Returns the partitions that it got, by group.

    In kafka-python's group it stays until it has a share: in every third attempt or so one of the
    two consumers of kafka-python 3.0.12 did not come back after the conversion, on 4.2.2 and 4.4.0.
    """
    with ExitStack() as stack:
        consumers = {}
        for group in groups:
            consumers[group] = ConsumerProcess(cluster.bootstrap, group, [topic])
            stack.callback(consumers[group].close)
        wait_for_groups(cluster, [one for one in groups if one != KAFKA_PYTHON], shares)
        deadline = time.monotonic() + _PATIENCE
        while len(consumers[KAFKA_PYTHON].assignment()) < min(shares):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the newcomer of {KAFKA_PYTHON} got no share")
            time.sleep(0.3)
        return {
            group: sorted(number for _, number in consumer.wait_for_partitions())
            for group, consumer in consumers.items()
        }
