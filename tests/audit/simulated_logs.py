"""Logs of simulated clusters, as an audit of a lake would be given them."""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.topics import KnownTopics
from kip848_spark.coordinator.topics import Topic
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.simulation.profiles import PROFILES
from tests.audit.raw_records import entries_in, holes_of

RELEASES = ("4.3", "4.2", "4.1", "4.0")
KINDS = [(p, r, c) for c in (False, True) for r in RELEASES for p in PROFILES]
KINDS += [(p, r, c) for c in (False, True) for r in ("4.4", "4.0.0", "4.1.0") for p in PROFILES]


@dataclass(frozen=True)
class SimulatedLog:
    """The control records of a cluster; ``holes``: (partition, last offset) of each gap in which
    such records may be missing; ``topics``: all there are at the end."""

    name: str
    log: list[LogEntry]
    holes: list[tuple[int, int]]
    ends: dict[int, int]
    topics: KnownTopics

    @property
    def coverage(self) -> Coverage:
        return Coverage.of(self.holes, self.ends)


def simulated_log(seed: int, assignors: str | None = None) -> SimulatedLog:
    """The cluster of that seed: of another profile, release, size and state of cleaning than its
    neighbours'. ``assignors``: the brokers' setting, if it is not Kafka's default."""
    rng = random.Random(f"simulated {seed}")
    profile, release, compact = KINDS[seed % len(KINDS)]
    groups = rng.randint(1, 5)
    records = groups * rng.randint(1_000, 4_000)
    plan = plan_cluster(
        profile,
        records,
        seed,
        release=release,
        partitions=rng.randint(1, 3),
        groups=groups,
        assignors=assignors,
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "capture"
        simulate(plan, out, compact=compact, workers=1)
        topics = _topics(out / "_truth" / "topics.jsonl")
        table = pa.concat_tables(pq.read_table(path) for path in sorted(out.glob("*.parquet")))
    holes, ends = holes_of(table)
    cleaned = "compacted" if compact else "whole"
    name = f"{seed}: {profile} {release} {cleaned}, {records} records"
    return SimulatedLog(name, entries_in(table), holes, ends, topics)


def _topics(path: Path) -> KnownTopics:
    now: dict[str, Topic] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        now.pop(row["topic"], None)
        if row["partitions"]:
            now[row["topic"]] = Topic(row["topic"], row["topic_id"], row["partitions"])
    return KnownTopics.of(now.values())
