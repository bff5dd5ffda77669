"""A cluster simulated partition by partition, and written: the capture, and the truth beside it.

A capture is a folder: ``partition-NN.parquet`` for each partition that has a group, the origin, and
in ``_truth/`` (a name that readers of a folder of Parquet skip) what the log should be read as.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kip848_spark.errors import UsageError
from kip848_spark.origin import ORIGIN, Origin, derived_id
from kip848_spark.simulation.cleaner import clean
from kip848_spark.simulation.commits import Places
from kip848_spark.simulation.course import begin
from kip848_spark.simulation.log import TOPIC, Log
from kip848_spark.simulation.partition import Entry, PartitionLife
from kip848_spark.simulation.plan import START, ClusterPlan
from kip848_spark.simulation.truth import Rows, truth_of

TRUTH = "_truth"
MINUTE = 60_000
LONGEST_TALLY = 2 * MINUTE
BURST = 150
"""What one deed may write within a second or so: the end is quiet, to come out even."""
BATCH = 1 << 15
"""Records that are encoded together."""
SHORT = 5_000
WORTH_A_PROCESS = 50_000
"""Fewer records are simulated faster than a process starts."""


@dataclass(frozen=True)
class Lived:
    """One partition, done: its records, the end of its log in ms, and its rows of the truth."""

    partition: int
    records: int
    ended_at: int
    truth: dict[str, Rows]


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
    tables: dict[str, list[dict[str, Any]]] = {}
    records, end = 0, START
    for lived in _lives(plan, out, compact, check, workers):
        records, end = records + lived.records, max(end, lived.ended_at)
        done(plan.quotas[lived.partition])
        for name, rows in lived.truth.items():
            tables.setdefault(name, []).extend(rows)
    tables["topics"] = _topics(plan, end)
    content = hashlib.blake2b(f"{plan.profile.name} {plan.release} {plan.partitions}".encode())
    for name, rows in tables.items():
        lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        (out / TRUTH / f"{name}.jsonl").write_bytes(lines)
        content.update(lines)
    (out / ORIGIN).write_bytes(_origin(content.digest(), end).to_json())
    about = {
        "profile": plan.profile.name,
        "release": plan.release,
        "seed": plan.seed,
        "partitions": plan.partitions,
        "groups": len(plan.groups),
        "records": records,
        "compacted": compact,
        "started_at": START,
        "ended_at": end,
    }
    (out / TRUTH / "about.json").write_bytes(orjson.dumps(about, option=orjson.OPT_INDENT_2))
    return Outcome(records, len(plan.groups), end - START, len(tables["rebalances"]))


def _origin(content: bytes, end: int) -> Origin:
    """Ids out of a digest of the plan and the truth. Compaction does not change them; a longer
    simulation of the same seed, whose last records differ, has other ones."""
    return Origin(
        topic=TOPIC,
        cluster_id=derived_id(b"cluster" + content),
        topic_id=derived_id(b"topic" + content),
        captured_at=datetime.fromtimestamp(end / 1_000, UTC),
    )


def _lives(
    plan: ClusterPlan, out: Path, compact: bool, check: bool, workers: int | None
) -> Iterator[Lived]:
    """Every partition, in order."""
    one = partial(live, plan, out, compact=compact, check=check)
    largest_first = sorted(plan.quotas, key=lambda place: -plan.quotas[place])
    count = min(workers or os.cpu_count() or 1, len(plan.quotas))
    if count == 1 or plan.records < WORTH_A_PROCESS:
        yield from map(one, sorted(plan.quotas))
        return
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        found = list(_told(pool.imap_unordered(one, largest_first)))
    yield from sorted(found, key=lambda lived: lived.partition)


def _told(lives: Iterator[Lived]) -> Iterator[Lived]:
    yield from lives


def live(
    plan: ClusterPlan, out: Path, partition: int, *, compact: bool = False, check: bool = True
) -> Lived:
    """Simulate one partition to its quota and write its file."""
    path = out / f"partition-{partition:02d}.parquet"
    life, log = run(plan, partition, path, check=check)
    records = clean(path) if compact else log.records
    return Lived(partition, records, life.now, truth_of(life))


def run(
    plan: ClusterPlan,
    partition: int,
    path: Path,
    *,
    check: bool = True,
    trace: list[Entry] | None = None,
) -> tuple[PartitionLife, Log]:
    """Simulate one partition to its quota; what is left of it, and the log, closed."""
    places = Places(START)
    version = 3 if plan.release == "4.0" else 4
    log = Log(path, partition, places, version)
    life = PartitionLife(plan, partition, log, places, check=check, trace=trace)
    quota = plan.quotas[partition]
    rate = sum(group.weight for group in plan.groups_in(partition))
    begin(life)
    left, growth = quota, [0]
    while left > 0:
        tally = min(LONGEST_TALLY, max(1_000, int(1_000 * left / rate / 30)))
        life.run_until(life.now + tally)
        life.sync()
        log.settle(BATCH)
        before, left = left, quota - log.told
        growth = [*growth[-9:], before - left]
        if left <= 2 * max(growth) + BURST and not life.calm:
            life.calm = True
            for producer in sorted(life.open_transactions):
                life.end_transaction(producer)
        elif life.calm and left > 0 and not life.open_transactions and _fill(life, left):
            break
    for producer in sorted(life.open_transactions):
        life.end_transaction(producer)
    life.sync()
    log.settle()
    log.close()
    return life, log


def _fill(life: PartitionLife, left: int) -> bool:
    """The last records: commits of members that are at rest, if nothing can come between."""
    clients = [client for group in life.groups for client in group.clients if client.at_rest]
    due = life.coordinator.shard.timers.next_due()
    until = life.now + SHORT if due is None else min(life.now + SHORT, due - 1)
    parts = [(client, some) for client in clients if (some := client.upcoming(until)) is not None]
    if sum(len(commits.time) for _, commits in parts) < left:
        return False
    time = np.concatenate([commits.time for _, commits in parts])
    number = np.concatenate([commits.client for _, commits in parts])
    row = np.concatenate([commits.row for _, commits in parts])
    order = np.lexsort((row, number, time))[:left]
    last_time, last_client, last_row = (int(a[order[-1]]) for a in (time, number, row))
    for client, commits in parts:
        key = (commits.time, commits.client, commits.row)
        kept = _up_to(key, (last_time, last_client, last_row))
        if kept.any():
            life.add_commits(client, commits.where(kept))
    life.now = last_time
    for client in clients:
        client.at_rest = False
    return True


def _up_to(key: tuple[Any, Any, Any], last: tuple[int, int, int]) -> Any:
    """bool[n]: the rows that come before ``last`` in the order of the log, or are it."""
    time, client, row = key
    same = time == last[0]
    return (time < last[0]) | (
        same & ((client < last[1]) | ((client == last[1]) & (row <= last[2])))
    )


def _topics(plan: ClusterPlan, end: int) -> list[dict[str, Any]]:
    """Every change of a topic up to the end."""
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
