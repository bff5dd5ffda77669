"""When the share coordinator of a broker has answered: it does so after a heartbeat, in its own
time, and the next heartbeat depends on it.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kip848_spark.coordinator.share_group import SHARE_STATE

_KEY = struct.pack(">h", int(SHARE_STATE))
_PATIENCE = 10


class ShareStates:
    """Reads the broker's log of groups for records of key 15. The topic has one partition."""

    def __init__(self, bootstrap: str) -> None:
        self.patience = _PATIENCE
        """Seconds to wait; a reference that is not compared may write records of its own."""
        self._bootstrap = bootstrap
        self._consumer: Consumer | None = None
        self._seen: Counter[str] = Counter()

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def wait(self, group: str, records: list[Any]) -> None:
        """Wait until the broker has written as many values of key 15 as are in ``records``, which
        are those of the reference.
        """
        wanted = sum(r["key"]["type"] == SHARE_STATE and r["value"] is not None for r in records)
        deadline = time.time() + self.patience
        while self._seen[group] < wanted and time.time() < deadline:
            message = self._log().poll(0.05)
            if message is None or message.error() is not None:
                continue
            key = message.key()
            if message.value() is not None and key.startswith(_KEY):
                self._seen[key[4:].decode()] += 1

    def _log(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "group.id": "not-used",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "fetch.wait.max.ms": 10,
                }
            )
            self._consumer.assign([TopicPartition("__consumer_offsets", 0, 0)])
        return self._consumer
