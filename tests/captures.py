"""Captures of real brokers' ``__consumer_offsets``, with Kafka's own reading of them beside.

    python -m tests.captures 4.3.1 tests/data/kafka-4.3.1

`records.parquet`             every record that a consumer may read, aborted ones included
`records-committed.parquet`   the same read as `read_committed` reads it
`dump.jsonl.gz`               what DumpLogSegments of 4.3.1 prints of the same log, markers too
`live.json`                   what the broker said of its groups while nothing moved
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, TopicPartition

from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.kafka.cluster import snapshot
from kip848_spark.kafka.snapshot import (
    ClusterSnapshot,
    LiveEnds,
    LiveGroup,
    LiveMember,
    LiveOffset,
    LiveTopic,
)
from kip848_spark.local.broker import Broker
from kip848_spark.local.scenarios import SETTINGS, drive
from kip848_spark.simulation.log import SCHEMA

RECORDS, COMMITTED, DUMP, LIVE = (
    "records.parquet",
    "records-committed.parquet",
    "dump.jsonl.gz",
    "live.json",
)


def make_capture(version: str, out_dir: Path) -> ClusterSnapshot:
    """Run all scenarios against a broker of that release, and keep what came of it."""
    out_dir.mkdir(parents=True, exist_ok=True)
    with Broker(version, settings=SETTINGS) as broker, drive(broker):
        output = snapshot(broker.bootstrap)
        write_records(broker.bootstrap, output, out_dir / RECORDS, "read_uncommitted")
        write_records(broker.bootstrap, output, out_dir / COMMITTED, "read_committed")
        write_dump(broker, out_dir / DUMP)
        again = snapshot(broker.bootstrap)
        if again != output:
            raise RuntimeError("the groups moved while they were captured")
    (out_dir / LIVE).write_text(
        json.dumps({"kafka": version, **output.to_json()}, indent=1, ensure_ascii=False) + "\n"
    )
    return output


def write_records(bootstrap: str, output: ClusterSnapshot, path: Path, isolation: str) -> None:
    """The whole topic as one Parquet file, partition by partition in offset order."""
    rows = read_topic(bootstrap, {p: ends.end for p, ends in output.ends.items()}, isolation)
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    pq.write_table(table, path, compression="zstd")


def read_topic(bootstrap: str, ends: dict[int, int], isolation: str) -> list[dict[str, Any]]:
    """All records of ``__consumer_offsets`` below the given ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    rows: list[dict[str, Any]] = []
    reading = {partition for partition, end in ends.items() if end}
    consumer.assign([TopicPartition(OFFSETS_TOPIC, partition, 0) for partition in reading])
    deadline = time.monotonic() + 60
    try:
        while reading:
            message = consumer.poll(1)
            if time.monotonic() > deadline:
                raise TimeoutError(f"partitions {sorted(reading)} did not end")
            if message is None:
                continue
            error = message.error()
            if error is None:
                rows.append(
                    {
                        "topic": message.topic(),
                        "partition": message.partition(),
                        "offset": message.offset(),
                        "timestamp": message.timestamp()[1] * 1000,
                        "key": message.key(),
                        "value": message.value(),
                    }
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                reading.discard(message.partition())
            else:
                raise RuntimeError(error.str())
    finally:
        consumer.close()
    return rows


def write_dump(broker: Broker, path: Path) -> None:
    """DumpLogSegments' reading, one line a record; a marker has ``marker`` and no key."""
    lines = []
    for record in broker.dump_all():
        line: dict[str, Any] = {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "transactional": record.transactional,
            "producerId": record.producer_id,
        }
        if record.marker:
            line["marker"] = record.marker
        else:
            line |= {"key": record.key, "payload": record.payload}
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write("".join(lines).encode())


def read_dump(path: Path) -> list[dict[str, Any]]:
    """The lines of a dump."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_live(path: Path) -> ClusterSnapshot:
    """What the broker said, as `snapshot` gave it."""
    output = json.loads(path.read_text(encoding="utf-8"))

    def member(raw: dict[str, Any]) -> LiveMember:
        target = raw["target"]
        places = {
            "assigned": tuple(map(tuple, raw["assigned"])),
            "target": None if target is None else tuple(map(tuple, target)),
        }
        return LiveMember(**raw | places)

    def topic(raw: dict[str, Any]) -> LiveTopic:
        return LiveTopic(**raw | {"racks": tuple(map(tuple, raw.get("racks", ())))})

    return ClusterSnapshot(
        cluster_id=output["cluster_id"],
        groups={
            name: LiveGroup(**raw | {"members": tuple(map(member, raw["members"]))})
            for name, raw in output["groups"].items()
        },
        offsets={
            name: tuple(LiveOffset(**raw) for raw in rows)
            for name, rows in output["offsets"].items()
        },
        topics={name: topic(raw) for name, raw in output["topics"].items()},
        ends={int(partition): LiveEnds(**raw) for partition, raw in output["ends"].items()},
        refused=output["refused"],
    )


if __name__ == "__main__":
    make_capture(sys.argv[1], Path(sys.argv[2]))
