"""All partitions of a cluster, up to the moment at which all their logs end.

A cluster is captured at one moment, so no partition knows by itself when it ends: that follows from
how many records there are in all. The partitions are simulated in rounds, each up to a common time;
between two rounds their records are counted. Near the end the cluster calms down, and the last
records are commits of members at rest, which are known in advance: the logs end with as many of
them as are missing. Equal counts give equal rounds, so the bytes do not depend on the processes.
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

from kip848_spark.simulation.partition_run import Recording
from kip848_spark.simulation.plan import START, GroupPlan

LONGEST_ROUND, SHORTEST_ROUND = 120_000, 1_000
"""In ms of simulated time; a round may also take half of the time that is over."""
MOST_ASKED = 3 * 24
"""Partitions that a group may ask for all at once: three of the largest topics."""
BURST = 150
"""What one deed may write within a second or so, beside what is written all the time."""

Make = Callable[[], Recording]
Step = Callable[[Recording], Any]
_OBJECTS = 50_000
"""New objects after which a process looks for cycles: it holds many partitions, with few cycles."""
_recordings: dict[int, Recording] = {}
"""In a process of a `Cluster`: those that were dealt to it."""


class End(NamedTuple):
    """When the logs end, when the cluster had calmed down (both in ms), and how many commits of
    members at rest each partition still takes."""

    at: int
    calm: int
    commits: Mapping[int, int]


class Cluster:
    """The partitions in this process."""

    def __init__(self, makes: Mapping[int, Make]) -> None:
        self._recordings = {partition: make() for partition, make in makes.items()}

    def each(self, steps: Mapping[int, Step]) -> Iterator[tuple[int, Any]]:
        """Take a step with each partition; what they give, in any order."""
        for partition, step in steps.items():
            yield partition, step(self._recordings[partition])


class SpreadCluster(Cluster):
    """The partitions in processes of their own, each of which has the same ones all the time."""

    def __init__(
        self, dealt: Mapping[ProcessPoolExecutor, list[int]], makes: Mapping[int, Make]
    ) -> None:
        self._dealt = dealt
        for made in [
            process.submit(_make, {partition: makes[partition] for partition in own})
            for process, own in dealt.items()
        ]:
            made.result()

    def each(self, steps: Mapping[int, Step]) -> Iterator[tuple[int, Any]]:
        futures: list[Future[dict[int, Any]]] = [
            process.submit(_take, {partition: steps[partition] for partition in own})
            for process, own in self._dealt.items()
        ]
        for future in as_completed(futures):
            yield from future.result().items()


def _make(makes: Mapping[int, Make]) -> None:
    gc.set_threshold(_OBJECTS)
    for partition, make in makes.items():
        _recordings[partition] = make()


def _take(steps: Mapping[int, Step]) -> dict[int, Any]:
    return {partition: step(_recordings[partition]) for partition, step in steps.items()}


@contextmanager
def spread(
    makes: Mapping[int, Make], work: Mapping[int, float], processes: int
) -> Iterator[Cluster]:
    """A cluster in so many processes, each with about the same share of all ``work``."""
    if processes == 1:
        yield Cluster(makes)
        return
    context = multiprocessing.get_context("spawn")
    executors = [ProcessPoolExecutor(1, mp_context=context) for _ in range(processes)]
    dealt: dict[ProcessPoolExecutor, list[int]] = {executor: [] for executor in executors}
    load = dict.fromkeys(executors, 0.0)
    for partition in sorted(makes, key=lambda place: -work[place]):
        least = min(executors, key=load.__getitem__)
        load[least] += work[partition]
        dealt[least].append(partition)
    try:
        yield SpreadCluster(dealt, makes)
    finally:
        for executor in executors:
            executor.shutdown(cancel_futures=True)


def run_to_end(
    cluster: Cluster,
    partitions: list[int],
    groups: Sequence[GroupPlan],
    records: int,
    done: Callable[[int], None] = lambda records: None,
) -> End:
    """Simulate until there are so many ``records`` in all; ``done`` is told of new ones. Where
    members at rest commit too little, as where only transactions do, there may be a few more."""
    planned = rate = sum(group.weight for group in groups)
    swing = math.sqrt(sum((MOST_ASKED * 1_000 / group.commit_interval) ** 2 for group in groups))
    now, calm = START, None
    counts = dict.fromkeys(partitions, 0)
    while (left := records - sum(counts.values())) > 0:
        until = now + _round(left, rate + swing, now - START)
        if calm is not None or left <= 2 * rate + BURST:
            if calm is None:
                calm = now
                _all(cluster, partitions, Recording.calm_down)
            upcoming = _all(cluster, partitions, Recording.upcoming)
            end = _last(upcoming, left)
            if end is not None:
                done(left)
                return End(end[0], calm, end[1])
            known = min(known for known, _ in upcoming.values())
            until = now + max(1, (known - now) // 2)
        before = left
        for partition, count in cluster.each(
            dict.fromkeys(partitions, partial(Recording.run_until, until=until))
        ):
            done(count - counts[partition])
            counts[partition] = count
        new = sum(counts.values()) - records + before
        rate = max(planned, 1_000 * new / max(until - now, SHORTEST_ROUND))
        now = until
    return End(now, now if calm is None else calm, {})


def _round(left: int, fastest: float, over: int) -> int:
    """How long the next round takes, in ms: half of what is left at so many records a second, and
    not so long that the rate may become another one meanwhile."""
    half = int(1_000 * (left - BURST) / fastest / 2)
    return max(SHORTEST_ROUND, min(half, max(LONGEST_ROUND, over // 2)))


def _all(cluster: Cluster, partitions: list[int], step: Step) -> dict[int, Any]:
    return dict(cluster.each(dict.fromkeys(partitions, step)))


def _last(upcoming: Mapping[int, tuple[int, Any]], left: int) -> tuple[int, dict[int, int]] | None:
    """When the last of so many commits is made, and how many of them each partition has; None if
    they are not all known. Of one millisecond, the first partition's come first."""
    known = min(until for until, _ in upcoming.values())
    partitions = sorted(upcoming)
    time = np.concatenate([upcoming[partition][1] for partition in partitions])
    place = np.repeat(partitions, [len(upcoming[partition][1]) for partition in partitions])
    last = np.lexsort((place, time))[:left]
    if len(last) < left or time[last[-1]] > known:
        return None
    taken = place[last]
    return int(time[last[-1]]), {p: int((taken == p).sum()) for p in partitions}
