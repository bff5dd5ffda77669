"""A cluster simulated partition by partition, and written: the capture, and the truth beside it.

A capture is a folder: ``partition-NN.parquet`` for each partition that has a group, the origin, and
in ``_truth/`` (a name that readers of a folder of Parquet skip) what the log should be read as.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from kip848_spark.errors import UsageError
from kip848_spark.kafka.capture_origin import ORIGIN, Origin, derived_id
from kip848_spark.simulation.cluster import Cluster, run_to_end, spread
from kip848_spark.simulation.log import TOPIC, Log
from kip848_spark.simulation.partition import Entry, PartitionLife
from kip848_spark.simulation.partition_run import Lived, Recording
from kip848_spark.simulation.plan import START, ClusterPlan

TRUTH = "_truth"
GROUPS_WORK = 4
"""A group's members take as much time as so many commits a second, beside those it makes."""
WORTH_A_PROCESS = 50_000
"""Fewer records are simulated faster than a process starts."""


@dataclass(frozen=True)
class Outcome:
    """A capture: how many records of how many groups, how much time they span in ms."""

    records: int
    groups: int
    span: int
    rebalances: int


def simulate(
    plan: ClusterPlan,
    out: Path,
    *,
    compact: bool = False,
    check: bool = True,
    workers: int | None = None,
    done: Callable[[int], None] = lambda records: None,
) -> Outcome:
    """Simulate a cluster and write its capture to a new folder; ``done`` is told of records.

    Raises UsageError if there is something at ``out`` already.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already.", "Name a new or empty folder with --out.")
    (out / TRUTH).mkdir(parents=True)
    makes = {
        place: partial(Recording, plan, place, out / f"partition-{place:02d}.parquet", check=check)
        for place in plan.places
    }
    processes = min(workers or os.cpu_count() or 1, len(makes))
    if plan.records < WORTH_A_PROCESS:
        processes = 1
    work = {p: plan.rate_of(p) + GROUPS_WORK * len(plan.groups_in(p)) for p in plan.places}
    with spread(makes, work, processes) as cluster:
        end = run_to_end(cluster, plan.places, plan.groups, plan.records, done)
        ends = {
            place: partial(
                Recording.end, at=end.at, commits=end.commits.get(place, 0), compact=compact
            )
            for place in plan.places
        }
        lives: dict[int, Lived] = dict(cluster.each(ends))
    tables: dict[str, list[dict[str, Any]]] = {}
    for place in plan.places:
        for name, rows in lives[place].truth.items():
            tables.setdefault(name, []).extend(rows)
    records = sum(lived.records for lived in lives.values())
    tables["topics"] = _topics(plan, end.calm)
    content = hashlib.blake2b(f"{plan.profile.name} {plan.release} {plan.partitions}".encode())
    for name, rows in tables.items():
        lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        (out / TRUTH / f"{name}.jsonl").write_bytes(lines)
        content.update(lines)
    (out / ORIGIN).write_bytes(_origin(content.digest(), end.at).to_json())
    about = {
        "profile": plan.profile.name,
        "release": plan.release,
        "seed": plan.seed,
        "partitions": plan.partitions,
        "groups": len(plan.groups),
        "records": records,
        "compacted": compact,
        "started_at": START,
        "ended_at": end.at,
    }
    (out / TRUTH / "about.json").write_bytes(orjson.dumps(about, option=orjson.OPT_INDENT_2))
    return Outcome(records, len(plan.groups), end.at - START, len(tables["rebalances"]))


def _origin(content: bytes, end: int) -> Origin:
    """Ids out of a digest of the plan and the truth. Compaction does not change them; a longer
    simulation of the same seed, whose last records differ, has other ones."""
    return Origin(
        topic=TOPIC,
        cluster_id=derived_id(b"cluster" + content),
        topic_id=derived_id(b"topic" + content),
        captured_at=datetime.fromtimestamp(end / 1_000, UTC),
    )


def run(
    plan: ClusterPlan,
    partition: int,
    path: Path,
    *,
    check: bool = True,
    trace: list[Entry] | None = None,
) -> tuple[PartitionLife, Log]:
    """Simulate one partition alone, until it has all the records of the plan; what is left of it,
    and the log, closed."""
    recording = Recording(plan, partition, path, check=check, trace=trace)
    cluster = Cluster({partition: lambda: recording})
    end = run_to_end(cluster, [partition], plan.groups_in(partition), plan.records)
    recording.end(end.at, end.commits.get(partition, 0))
    return recording.life, recording.log


def _topics(plan: ClusterPlan, end: int) -> list[dict[str, Any]]:
    """Every change of a topic up to a time: there is none once the cluster has calmed down."""
    rows = []
    for event in plan.topics:
        rows.append(event)
    for event in plan.topic_events():
        if event.at > end:
            break
        rows.append(event)
    return [
        {"topic": e.name, "topic_id": e.topic_id, "partitions": e.partitions, "since": e.at}
        for e in rows
    ]
