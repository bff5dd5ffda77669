"""One partition while it is simulated: its life, its log, and the end of both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kip848_spark.simulation.cleaner import clean
from kip848_spark.simulation.commits import Commits, Integers, Places
from kip848_spark.simulation.log import Log
from kip848_spark.simulation.partition import Entry, PartitionLife
from kip848_spark.simulation.plan import START, ClusterPlan
from kip848_spark.simulation.schedule import begin
from kip848_spark.simulation.truth import Rows, truth_of

BATCH = 1 << 15
"""Records that are encoded together."""
REST = 1 << 13
"""More records than these do not wait in memory while other partitions are simulated."""
LONGEST_TALLY, SHORTEST_TALLY = 120_000, 1_000
"""How often clients tell of their commits in bulk, in ms of simulated time."""
AHEAD = 5_000
"""How far ahead the commits of members at rest are known, in ms."""


@dataclass(frozen=True)
class Lived:
    """One partition, done: its records, and its rows of the truth."""

    partition: int
    records: int
    truth: dict[str, Rows]


class Recording:
    """A partition from its first record on: `run_until` some times, `calm_down`, then `end`."""

    def __init__(
        self,
        plan: ClusterPlan,
        partition: int,
        path: Path,
        *,
        check: bool = True,
        trace: list[Entry] | None = None,
    ) -> None:
        self.path = path
        places = Places(START)
        self.log = Log(path, partition, places, 3 if plan.release == "4.0" else 4)
        self.life = PartitionLife(plan, partition, self.log, places, check=check, trace=trace)
        self._tally = int(1_000 * BATCH / plan.rate_of(partition))
        self._tally = min(LONGEST_TALLY, max(SHORTEST_TALLY, self._tally))
        begin(self.life)

    def run_until(self, until: int) -> int:
        """Let everything happen that is due by then; how many records there are."""
        while self.life.now < until:
            self.life.run_until(min(until, self.life.now + self._tally))
            self.life.sync()
            self.log.settle(BATCH)
        self.log.rest(REST)
        return self.log.told

    def calm_down(self) -> None:
        """No more deeds, no lost messages, no open transactions."""
        self.life.calm = True
        self._end_transactions()

    def _end_transactions(self) -> None:
        for producer in sorted(self.life.open_transactions):
            self.life.end_transaction(producer)

    def upcoming(self) -> tuple[int, Integers]:
        """Up to when the commits of members at rest are known, which is before the next timer,
        and the time of each one's records, in order. Times are in ms."""
        until = self._known_until()
        parts = [commits.time for _, commits in self._commits(until)]
        return until, np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def _known_until(self) -> int:
        due = self.life.coordinator.shard.timers.next_due()
        ahead = self.life.now + AHEAD
        return ahead if due is None else min(ahead, due - 1)

    def _commits(self, until: int) -> list[tuple[Any, Commits]]:
        clients = [c for group in self.life.groups for c in group.clients if c.at_rest]
        found = ((client, client.upcoming(until)) for client in clients)
        return [(client, commits) for client, commits in found if commits is not None]

    def end(self, at: int, commits: int, *, compact: bool = False) -> Lived:
        """The log ends at a time, with so many of the commits that are `upcoming`."""
        life = self.life
        if commits:
            self._take(commits)
        life.now = at
        for group in life.groups:
            for client in group.clients:
                client.at_rest = False
        self._end_transactions()
        life.sync()
        self.log.settle()
        self.log.close()
        records = clean(self.path) if compact else self.log.records
        return Lived(life.partition, records, truth_of(life))

    def _take(self, count: int) -> None:
        """The first of the upcoming commits, in the order of the log."""
        parts = self._commits(self._known_until())
        time, number, row = (
            np.concatenate([getattr(commits, name) for _, commits in parts])
            for name in ("time", "client", "row")
        )
        taken = np.zeros(len(time), bool)
        taken[np.lexsort((row, number, time))[:count]] = True
        ends = np.cumsum([len(commits.time) for _, commits in parts])
        for (client, commits), mask in zip(parts, np.split(taken, ends[:-1]), strict=True):
            if mask.any():
                self.life.add_commits(client, commits.where(mask))
