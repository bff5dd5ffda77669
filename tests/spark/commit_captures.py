"""Captures of commits that are made up: several days, rewinds, tombstones, all value versions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.insight.commit_summary import NEWEST
from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.simulation.encoding import encode_records
from kip848_spark.wire.tables import TIMESTAMP
from tests.insight.commit_oracle import Record, at_day

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def random_commits(seed: int, count: int) -> list[Record]:
    """Commits of two partitions, in offset order: the columns of `records`, and ``raw``, what is
    encoded."""
    chance = random.Random(seed)
    records = []
    for partition in (0, 1):
        offset = 0
        for number in range(count):
            offset += chance.choice((1, 1, 1, 2))
            place = {
                "group_id": f"group-{partition}-{chance.randrange(3)}",
                "topic": chance.choice(("orders", "käse")),
                "topic_partition": chance.randrange(2),
            }
            # Days follow one another, except that a broker's clock may be behind for a while.
            day = number * 3 // count + chance.choice((0, 0, 0, 1))
            time = at_day(day, chance.randrange(86_400))
            tombstone = chance.random() < 0.15
            raw = _commit(chance, place, time.timestamp(), tombstone)
            records.append(
                {"partition": partition, "offset": offset, "timestamp": time, "raw": raw}
                | place
                | _columns(raw["value"])
            )
    keys, values = encode_records([record["raw"] for record in records])
    for record, key, value in zip(records, keys.to_pylist(), values.to_pylist(), strict=True):
        record |= {"key": key, "value": value, "size": len(key) + len(value or b"")}
    return records


def _commit(
    chance: random.Random, place: Record, seconds: float, tombstone: bool
) -> dict[str, Any]:
    data = {
        "group": place["group_id"],
        "topic": place["topic"],
        "partition": place["topic_partition"],
    }
    value = {
        "offset": chance.randrange(50),
        "leaderEpoch": chance.randrange(-1, 3),
        "metadata": chance.choice(("", "ü", "x" * 200)),
        "commitTimestamp": round(seconds * 1000),
        "expireTimestamp": -1,
        "topicId": chance.choice((TOPIC_ID, "AAAAAAAAAAAAAAAAAAAAAA")),
    }
    version = chance.randrange(5)
    wanted = {
        "leaderEpoch": version >= 3,
        "expireTimestamp": version == 1,
        "topicId": version >= 4,
    }
    value = {name: held for name, held in value.items() if wanted.get(name, True)}
    return {
        "key": {"type": chance.choice((0, 1)) if version == 0 else 1, "data": data},
        "value": None if tombstone else {"version": version, "data": value},
    }


def _columns(value: dict[str, Any] | None) -> Record:
    columns: Record = dict.fromkeys(NEWEST) | {"tombstone": value is None}
    if value is not None:
        data = value["data"]
        topic_id = data.get("topicId")
        columns |= {
            "committed_offset": data["offset"],
            "metadata": data["metadata"],
            "topic_id": topic_id if topic_id == TOPIC_ID else None,
        }
    return columns


def write_capture(records: Sequence[Record], path: Path) -> Path:
    """The records as a capture."""
    columns = {
        "topic": pa.array([OFFSETS_TOPIC] * len(records)),
        "partition": pa.array([record["partition"] for record in records], pa.int32()),
        "offset": pa.array([record["offset"] for record in records], pa.int64()),
        "timestamp": pa.array([record["timestamp"] for record in records], TIMESTAMP),
        "key": pa.array([record["key"] for record in records], pa.binary()),
        "value": pa.array([record["value"] for record in records], pa.binary()),
    }
    pq.write_table(pa.table(columns), path)
    return path
