"""One partition from the start of its simulation to the end of its log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kip848_spark.coordinator.releases import find_release
from kip848_spark.simulation.cleaner import clean
from kip848_spark.simulation.commits import Commits, Integers, ReadPositions
from kip848_spark.simulation.log import Log
from kip848_spark.simulation.partition import SimulatedPartition, TraceEntry
from kip848_spark.simulation.plan import START, ClusterPlan
from kip848_spark.simulation.schedule import start_schedule
from kip848_spark.simulation.truth import TruthRows, collect_truth

BATCH = 1 << 15
"""Number of records that are encoded together."""
MOST_PENDING = 1 << 13
"""At most this many records wait in memory while other partitions are simulated."""
LONGEST_INTERVAL, SHORTEST_INTERVAL = 120_000, 1_000
"""How often clients write their bulk commits, in ms of simulated time."""
LOOKAHEAD = 5_000
"""How far ahead (ms) the commits of members at rest are computed."""


@dataclass(frozen=True)
class PartitionResult:
    """A finished partition: its number of records, and its rows of the expected tables."""

    partition: int
    records: int
    truth: dict[str, TruthRows]


class PartitionRun:
    """Runs one partition: call `run_until` any number of times, then `wind_down`, then `end`."""

    def __init__(
        self,
        plan: ClusterPlan,
        number: int,
        path: Path,
        *,
        check: bool = True,
        trace: list[TraceEntry] | None = None,
    ) -> None:
        self.path = path
        positions = ReadPositions(START)
        self.log = Log(
            path, number, positions, 4 if find_release(plan.release).offset_topic_ids else 3
        )
        self.partition = SimulatedPartition(
            plan, number, self.log, positions, check=check, trace=trace
        )
        self._interval = int(1_000 * BATCH / plan.rate_of(number))
        self._interval = min(LONGEST_INTERVAL, max(SHORTEST_INTERVAL, self._interval))
        start_schedule(self.partition)

    def run_until(self, until: int) -> int:
        """Simulate up to a time (ms); returns the number of records so far."""
        while self.partition.now < until:
            self.partition.run_until(min(until, self.partition.now + self._interval))
            self.partition.sync()
            self.log.assign_offsets(BATCH)
        self.log.flush(MOST_PENDING)
        return self.log.total_records

    def wind_down(self) -> None:
        """Start no more events, lose no more messages, and end all open transactions."""
        self.partition.winding_down = True
        self._end_transactions()

    def _end_transactions(self) -> None:
        for producer in sorted(self.partition.open_transactions):
            self.partition.end_transaction(producer)

    def upcoming(self) -> tuple[int, Integers]:
        """The commits of members at rest that are already certain: up to when, and the sorted times
        of their records. All times are in ms and lie before the next timer.
        """
        until = self._known_until()
        parts = [commits.time for _, commits in self._upcoming_commits(until)]
        return until, np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def _known_until(self) -> int:
        due = self.partition.coordinator.shard.timers.next_due()
        ahead = self.partition.now + LOOKAHEAD
        return ahead if due is None else min(ahead, due - 1)

    def _upcoming_commits(self, until: int) -> list[tuple[Any, Commits]]:
        clients = [c for group in self.partition.groups for c in group.clients if c.at_rest]
        found = ((client, client.upcoming(until)) for client in clients)
        return [(client, commits) for client, commits in found if commits is not None]

    def end(self, at: int, commits: int, *, compact: bool = False) -> PartitionResult:
        """End the log at a time (ms), after the first ``commits`` of the `upcoming` commits."""
        partition = self.partition
        if commits:
            self._write_upcoming(commits)
        partition.now = at
        for group in partition.groups:
            for client in group.clients:
                client.at_rest = False
        self._end_transactions()
        partition.sync()
        self.log.assign_offsets()
        self.log.close()
        records = clean(self.path) if compact else self.log.records
        return PartitionResult(partition.number, records, collect_truth(partition))

    def _write_upcoming(self, count: int) -> None:
        """Write the first upcoming commits, in the order of the log."""
        parts = self._upcoming_commits(self._known_until())
        time, number, row = (
            np.concatenate([getattr(commits, name) for _, commits in parts])
            for name in ("time", "client", "row")
        )
        taken = np.zeros(len(time), bool)
        taken[np.lexsort((row, number, time))[:count]] = True
        ends = np.cumsum([len(commits.time) for _, commits in parts])
        for (client, commits), mask in zip(parts, np.split(taken, ends[:-1]), strict=True):
            if mask.any():
                self.partition.add_commits(client, commits.where(mask))
