"""A consumer of kafka-python in a process of its own, until its standard input ends.

python -m tests.insight.kafka_python_process BOOTSTRAP GROUP TOPIC
"""

from __future__ import annotations

import contextlib
import sys
import threading

from kafka import KafkaConsumer
from kafka.errors import KafkaError


def main(bootstrap: str, group: str, topic: str) -> None:
    """Consumes, and starts again after an error that the client raises, as a supervised application
    does."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    while not ended.is_set():
        with contextlib.suppress(KafkaError):
            consume(bootstrap, group, topic, ended)


def consume(bootstrap: str, group: str, topic: str, ended: threading.Event) -> None:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=45_000,
        heartbeat_interval_ms=500,
        enable_auto_commit=False,
    )
    try:
        while not ended.is_set():
            consumer.poll(timeout_ms=100)
    finally:
        consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
