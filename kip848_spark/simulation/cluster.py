"""Simulates all partitions of a cluster up to the moment at which all their logs end.

A cluster is captured at one moment, which follows from the total number of records, so no partition
can determine it alone. The partitions are simulated in rounds, each up to a common time; between
two rounds their records are counted. Near the end the cluster winds down, and the last records are
commits of members at rest, which are known in advance: the logs end with exactly as many of them as
are missing. Equal counts give equal rounds, so the bytes do not depend on the number of processes.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kip848_spark.simulation.partition_run import PartitionRun
from kip848_spark.simulation.plan import START, GroupPlan

LONGEST_ROUND, SHORTEST_ROUND = 120_000, 1_000
"""In ms of simulated time; a round may also take half of the time simulated so far."""
MOST_PARTITIONS = 3 * 24
"""Partitions that a group may subscribe to at once: three of the largest topics."""
BURST = 150
"""Records that one event may cause within about a second, beside the usual ones."""

RunFactory = Callable[[], PartitionRun]
PartitionTask = Callable[[PartitionRun], Any]
_OBJECTS = 50_000
"""New objects after which a worker process runs Python's garbage collector: it holds many
partitions with few reference cycles.
"""
_runs: dict[int, PartitionRun] = {}
"""In a worker process of a `MultiprocessCluster`: the partitions assigned to it."""


class ClusterEnd(NamedTuple):
    """When the logs end, when the cluster began to wind down (both in ms), and how many commits of
    members at rest each partition still writes.
    """

    at: int
    quiet_since: int
    commits: Mapping[int, int]


class SimulatedCluster:
    """All partitions in this process."""

    def __init__(self, factories: Mapping[int, RunFactory]) -> None:
        self._runs = {partition: create() for partition, create in factories.items()}

    def each(self, tasks: Mapping[int, PartitionTask]) -> Iterator[tuple[int, Any]]:
        """Run a task with each partition; yields partition and result in any order."""
        for partition, task in tasks.items():
            yield partition, task(self._runs[partition])


class MultiprocessCluster(SimulatedCluster):
    """The partitions in several worker processes; each partition stays in the same one."""

    def __init__(
        self, owners: Mapping[ProcessPoolExecutor, list[int]], factories: Mapping[int, RunFactory]
    ) -> None:
        self._dealt = owners
        for created in [
            process.submit(_create, {partition: factories[partition] for partition in own})
            for process, own in owners.items()
        ]:
            created.result()

    def each(self, tasks: Mapping[int, PartitionTask]) -> Iterator[tuple[int, Any]]:
        futures: list[Future[dict[int, Any]]] = [
            process.submit(_run_tasks, {partition: tasks[partition] for partition in own})
            for process, own in self._dealt.items()
        ]
        for future in as_completed(futures):
            yield from future.result().items()


def _create(factories: Mapping[int, RunFactory]) -> None:
    gc.set_threshold(_OBJECTS)
    for partition, create in factories.items():
        _runs[partition] = create()


def _run_tasks(tasks: Mapping[int, PartitionTask]) -> dict[int, Any]:
    return {partition: task(_runs[partition]) for partition, task in tasks.items()}


@contextmanager
def start_cluster(
    factories: Mapping[int, RunFactory], work: Mapping[int, float], processes: int
) -> Iterator[SimulatedCluster]:
    """A cluster in ``processes`` processes, with about the same share of ``work`` in each."""
    if processes == 1:
        yield SimulatedCluster(factories)
        return
    context = multiprocessing.get_context("spawn")
    executors = [ProcessPoolExecutor(1, mp_context=context) for _ in range(processes)]
    owners: dict[ProcessPoolExecutor, list[int]] = {executor: [] for executor in executors}
    load = dict.fromkeys(executors, 0.0)
    for partition in sorted(factories, key=lambda place: -work[place]):
        least = min(executors, key=load.__getitem__)
        load[least] += work[partition]
        owners[least].append(partition)
    try:
        yield MultiprocessCluster(owners, factories)
    finally:
        for executor in executors:
            executor.shutdown(cancel_futures=True)


def run_to_end(
    cluster: SimulatedCluster,
    partitions: list[int],
    groups: Sequence[GroupPlan],
    records: int,
    progress: Callable[[int], None] = lambda records: None,
) -> ClusterEnd:
    """Simulate until there are ``records`` records in total; ``progress`` receives the number of
    new ones.

    If members at rest commit too little, as where all commits are transactional, there may be a few
    more records.
    """
    planned = rate = sum(group.weight for group in groups)
    swing = math.sqrt(
        sum((MOST_PARTITIONS * 1_000 / group.commit_interval) ** 2 for group in groups)
    )
    now, quiet_since = START, None
    counts = dict.fromkeys(partitions, 0)
    while (left := records - sum(counts.values())) > 0:
        until = now + _round_length(left, rate + swing, now - START)
        if quiet_since is not None or left <= 2 * rate + BURST:
            if quiet_since is None:
                quiet_since = now
                _on_all(cluster, partitions, PartitionRun.wind_down)
            upcoming = _on_all(cluster, partitions, PartitionRun.upcoming)
            end = _find_end(upcoming, left)
            if end is not None:
                progress(left)
                return ClusterEnd(end[0], quiet_since, end[1])
            known = min(known for known, _ in upcoming.values())
            until = now + max(1, (known - now) // 2)
        before = left
        for partition, count in cluster.each(
            dict.fromkeys(partitions, partial(PartitionRun.run_until, until=until))
        ):
            progress(count - counts[partition])
            counts[partition] = count
        new = sum(counts.values()) - records + before
        rate = max(planned, 1_000 * new / max(until - now, SHORTEST_ROUND))
        now = until
    return ClusterEnd(now, now if quiet_since is None else quiet_since, {})


def _round_length(left: int, fastest: float, elapsed: int) -> int:
    """The length of the next round in ms: half of the missing records at the highest rate, and
    short enough that the rate stays about the same.
    """
    half = int(1_000 * (left - BURST) / fastest / 2)
    return max(SHORTEST_ROUND, min(half, max(LONGEST_ROUND, elapsed // 2)))


def _on_all(
    cluster: SimulatedCluster, partitions: list[int], task: PartitionTask
) -> dict[int, Any]:
    return dict(cluster.each(dict.fromkeys(partitions, task)))


def _find_end(
    upcoming: Mapping[int, tuple[int, Any]], left: int
) -> tuple[int, dict[int, int]] | None:
    """The time (ms) of the last missing commit and how many commits each partition still writes;
    None if not all of them are known yet. Within one millisecond, commits of lower partitions come
    first.
    """
    known = min(until for until, _ in upcoming.values())
    partitions = sorted(upcoming)
    time = np.concatenate([upcoming[partition][1] for partition in partitions])
    place = np.repeat(partitions, [len(upcoming[partition][1]) for partition in partitions])
    last = np.lexsort((place, time))[:left]
    if len(last) < left or time[last[-1]] > known:
        return None
    taken = place[last]
    return int(time[last[-1]]), {p: int((taken == p).sum()) for p in partitions}
