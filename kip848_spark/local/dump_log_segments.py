"""Runs Kafka's own log printer, ``DumpLogSegments --offsets-decoder``, and parses its output.

The tests compare our decoder with it. The tools of one release can read the logs of another, so
those of 4.3.1 are the reference for all.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kip848_spark.errors import SourceError
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java

OFFSETS_TOPIC = "__consumer_offsets"
_JVM = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_DELETED = "<DELETE>"


@dataclass(frozen=True, slots=True)
class DumpedRecord:
    """One record of the log. ``payload`` is None for a tombstone.

    Transaction markers have a ``marker`` (COMMIT or ABORT) and neither key nor payload.
    """

    partition: int
    offset: int
    timestamp: int
    transactional: bool
    producer_id: int
    key: Any = None
    payload: Any = None
    marker: str | None = None

    @property
    def kind(self) -> int:
        """The key type; -1 for a transaction marker."""
        return int(self.key["type"]) if self.key else -1

    @property
    def group(self) -> str | None:
        """The group that the key names."""
        data = self.key["data"] if self.key else {}
        return data.get("groupId", data.get("group"))

    @property
    def data(self) -> dict[str, Any]:
        """The fields of the value; empty for a tombstone."""
        return self.payload["data"] if self.payload else {}

    def short(self) -> str:
        """A short name of the record's kind: ``3``, or ``3t`` for a tombstone."""
        return self.marker or f"{self.kind}{'' if self.payload else 't'}"


def dump_all(
    log_dir: Path, topic: str = OFFSETS_TOPIC, tools: str = "4.3.1"
) -> Iterator[DumpedRecord]:
    """Every record of a topic in a broker's log folder, partition by partition."""
    folders = {
        int(folder.name.rpartition("-")[2]): folder
        for folder in log_dir.glob(f"{topic}-*")
        if folder.name.removeprefix(f"{topic}-").isdecimal()
    }
    segments = [
        segment
        for _, folder in sorted(folders.items())
        for segment in sorted(folder.glob("*.log"))
        if segment.stat().st_size
    ]
    yield from dump_segments(segments, tools)


def dump_log(
    log_dir: Path, partition: int, topic: str = OFFSETS_TOPIC, tools: str = "4.3.1"
) -> Iterator[DumpedRecord]:
    """The records of one partition, in offset order."""
    segments = sorted((log_dir / f"{topic}-{partition}").glob("*.log"))
    yield from dump_segments([one for one in segments if one.stat().st_size], tools)


def dump_segments(segments: list[Path], tools: str = "4.3.1") -> Iterator[DumpedRecord]:
    """The records of segment files, in the order given."""
    if not segments:
        return
    jars = broker_jars(tools)
    package = "kafka.tools" if tools.startswith("3.") else "org.apache.kafka.tools"
    command = [
        *(str(find_java()), *_JVM, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"),
        *("-cp", os.pathsep.join(str(jar) for jar in jars), f"{package}.DumpLogSegments"),
        *("--offsets-decoder", "--files", ",".join(str(segment) for segment in segments)),
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    assert process.stdout is not None
    try:
        yield from parse(process.stdout)
        if process.wait():
            raise SourceError(f"DumpLogSegments of Kafka {tools} failed on {segments[0].parent}.")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def parse(lines: Iterator[str]) -> Iterator[DumpedRecord]:
    """The records in the tool's output, which has a line for each batch and below it a line for
    each of its records."""
    partition = -1
    batch: dict[str, str] = {}
    for line in lines:
        if line.startswith("Dumping "):
            folder = Path(line.removeprefix("Dumping ").strip()).parent.name
            partition = int(folder.rpartition("-")[2])
        elif line.startswith("baseOffset: "):
            batch = dict(re.findall(r"(\w+): (\S+)", line))
        elif line.startswith("| offset: "):
            yield _record(partition, batch, line)


def _record(partition: int, batch: dict[str, str], line: str) -> DumpedRecord:
    head = re.match(r"\| offset: (\d+) \w+: (-?\d+) keySize: .*? headerKeys: \[.*?\] ?", line)
    if head is None:
        raise ValueError(f"not a line of DumpLogSegments: {line!r}")
    key = payload = marker = None
    rest = line[head.end() :].strip()
    if batch["isControl"] == "true":
        found = re.match(r"endTxnMarker: (\w+)", rest)
        marker = found.group(1) if found else rest
    else:
        decoder = json.JSONDecoder()
        key, end = decoder.raw_decode(rest, rest.index("key: ") + len("key: "))
        text = rest[end:].removeprefix(" payload: ")
        payload = None if text == _DELETED else json.loads(text)
    return DumpedRecord(
        partition=partition,
        offset=int(head.group(1)),
        timestamp=int(head.group(2)),
        transactional=batch["isTransactional"] == "true",
        producer_id=int(batch["producerId"]),
        key=key,
        payload=payload,
        marker=marker,
    )
