"""Simulates a cluster and writes a capture of it, with the expected results beside it.

A capture is a folder: ``partition-NN.parquet`` for each partition that has a group, the file that
identifies the origin, and ``_truth/`` with the expected results. Readers of a folder of Parquet
files skip names that start with an underscore.
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
from kip848_spark.simulation.cluster import SimulatedCluster, run_to_end, start_cluster
from kip848_spark.simulation.log import TOPIC, Log
from kip848_spark.simulation.partition import SimulatedPartition, TraceEntry
from kip848_spark.simulation.partition_run import PartitionResult, PartitionRun
from kip848_spark.simulation.plan import DEFAULT_ASSIGNORS, START, ClusterPlan

TRUTH = "_truth"
GROUP_WORK = 4
"""The simulation work of a group's members, expressed in commits per second, beside its commits."""
RECORDS_PER_PROCESS = 50_000
"""Below this number of records, starting further processes takes longer than it saves."""


@dataclass(frozen=True)
class SimulationResult:
    """A written capture; ``span`` is its simulated time in ms."""

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
    progress: Callable[[int], None] = lambda records: None,
) -> SimulationResult:
    """Simulate a cluster and write its capture to a new folder.

    ``progress`` is called with the number of new records after each step. Raises UsageError if
    ``out`` already exists and is not an empty folder.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} already exists.", "Pass a new or empty folder with --out.")
    (out / TRUTH).mkdir(parents=True)
    factories = {
        number: partial(
            PartitionRun, plan, number, out / f"partition-{number:02d}.parquet", check=check
        )
        for number in plan.used_partitions
    }
    processes = min(workers or os.cpu_count() or 1, len(factories))
    if plan.records < RECORDS_PER_PROCESS:
        processes = 1
    work = {p: plan.rate_of(p) + GROUP_WORK * len(plan.groups_in(p)) for p in plan.used_partitions}
    with start_cluster(factories, work, processes) as cluster:
        end = run_to_end(cluster, plan.used_partitions, plan.groups, plan.records, progress)
        final_tasks = {
            number: partial(
                PartitionRun.end, at=end.at, commits=end.commits.get(number, 0), compact=compact
            )
            for number in plan.used_partitions
        }
        results: dict[int, PartitionResult] = dict(cluster.each(final_tasks))
    tables: dict[str, list[dict[str, Any]]] = {}
    for number in plan.used_partitions:
        for name, rows in results[number].truth.items():
            tables.setdefault(name, []).extend(rows)
    records = sum(result.records for result in results.values())
    tables["topics"] = _topics(plan, end.quiet_since)
    content = hashlib.blake2b(f"{plan.profile.name} {plan.release} {plan.partitions}".encode())
    if plan.assignors != DEFAULT_ASSIGNORS:
        content.update(plan.assignors.encode())
    for name, rows in tables.items():
        lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        (out / TRUTH / f"{name}.jsonl").write_bytes(lines)
        content.update(lines)
    (out / ORIGIN).write_bytes(_origin(content.digest(), end.at).to_json())
    about = {
        "profile": plan.profile.name,
        "release": plan.release,
        "assignors": plan.assignors,
        "seed": plan.seed,
        "partitions": plan.partitions,
        "groups": len(plan.groups),
        "records": records,
        "compacted": compact,
        "started_at": START,
        "ended_at": end.at,
    }
    (out / TRUTH / "about.json").write_bytes(orjson.dumps(about, option=orjson.OPT_INDENT_2))
    return SimulationResult(records, len(plan.groups), end.at - START, len(tables["rebalances"]))


def _origin(content: bytes, end: int) -> Origin:
    """Cluster and topic ids from a digest of the plan and the expected results. Compaction does not
    change them; a longer simulation of the same seed has other ids.
    """
    return Origin(
        topic=TOPIC,
        cluster_id=derived_id(b"cluster" + content),
        topic_id=derived_id(b"topic" + content),
        captured_at=datetime.fromtimestamp(end / 1_000, UTC),
    )


def run(
    plan: ClusterPlan,
    number: int,
    path: Path,
    *,
    check: bool = True,
    trace: list[TraceEntry] | None = None,
) -> tuple[SimulatedPartition, Log]:
    """Simulate one partition alone until it has all the records of the plan; returns its final
    state and its closed log.
    """
    partition_run = PartitionRun(plan, number, path, check=check, trace=trace)
    cluster = SimulatedCluster({number: lambda: partition_run})
    end = run_to_end(cluster, [number], plan.groups_in(number), plan.records)
    partition_run.end(end.at, end.commits.get(number, 0))
    return partition_run.partition, partition_run.log


def _topics(plan: ClusterPlan, end: int) -> list[dict[str, Any]]:
    """Every change of a topic up to a time (ms); there is none while the cluster winds down."""
    rows = []
    for event in plan.topics:
        rows.append(event)
    rows += [event for event in plan.own_topics if event.at <= end]
    for event in plan.topic_events():
        if event.at > end:
            break
        rows.append(event)
    return [
        {"topic": e.name, "topic_id": e.topic_id, "partitions": e.partitions, "since": e.at}
        for e in rows
    ]
