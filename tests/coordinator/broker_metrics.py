"""The group coordinator's metrics of a running broker, read through JMX."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from kip848_spark.local.broker import Broker
from kip848_spark.runtime.java import find_java

_SOURCE = Path(__file__).parents[1] / "java" / "Metrics.java"


class BrokerMetrics:
    """For a ``with`` statement: a process that reads the metrics of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._process = subprocess.Popen(
            [find_java(), str(_SOURCE), str(broker.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)

    def read(self) -> dict[str, float]:
        """Every number, by the name of the metric; its tag is in brackets if it has one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found = {}
        while line := self._process.stdout.readline().rstrip("\n"):
            bean, attribute, value = line.split("\t")
            _, *tags = bean.partition(":")[2].split(",")
            name = attribute
            for tag in tags:
                kind, _, text = tag.partition("=")
                name = text if kind == "name" else f"{attribute}[{tag}]"
            found[name] = float(value)
        if not found:
            raise AssertionError(f"no metrics; the reader's exit code is {self._process.poll()}")
        return found
