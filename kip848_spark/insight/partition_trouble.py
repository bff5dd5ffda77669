"""Trouble of one partition of __consumer_offsets: many of its groups rebalance at once.

The coordinator of a group is the leader of its partition. If it moves or cannot be reached, no
record says so, but all groups of the partition are affected."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.wire.tables import TIMESTAMP, Row

OFFSETS_PARTITION = "offsets_partition_trouble"
TROUBLED_GROUPS = 5
TROUBLE_WINDOW = timedelta(minutes=1)
"""At least so many groups rebalance in this time, and more than all groups of other partitions."""


def minutes(time: timedelta) -> str:
    """A time in words."""
    seconds = time.total_seconds()
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def find_partition_trouble(rebalances: pa.Table) -> Iterator[Row]:
    """Rows of the table of patterns (see `patterns`): minutes in which many groups of one partition
    of the topic rebalanced, and few others."""
    if not rebalances.num_rows:
        return
    time = rebalances["started_at"].cast(pa.int64()).to_numpy()
    window = int(TROUBLE_WINDOW / timedelta(microseconds=1))
    partition = rebalances["partition"].to_numpy()
    group = pc.dictionary_encode(rebalances["group_id"].combine_chunks()).indices.to_numpy()
    episodes = rebalances["episode_id"]
    reported: set[tuple[int, int]] = set()  # a partition and a whole minute
    for shift in (0, window // 2):
        bucket = (time + shift) // window
        buckets, index = np.unique(bucket, return_inverse=True)
        width = int(group.max()) + 1
        pairs = np.unique(index * width + group)
        total = np.bincount(pairs // width, minlength=len(buckets))
        busy = total >= TROUBLED_GROUPS
        for at in np.flatnonzero(busy):
            rows = np.flatnonzero(index == at)
            for number in np.unique(partition[rows]):
                mine = rows[partition[rows] == number]
                groups = len(np.unique(group[mine]))
                minute = int(buckets[at])
                same = {(int(number), minute)}
                if shift:  # it overlaps two whole minutes
                    same.add((int(number), minute - 1))
                if groups < TROUBLED_GROUPS or 2 * groups <= total[at] or same & reported:
                    continue
                reported |= same
                yield {
                    "pattern": OFFSETS_PARTITION,
                    "group_id": None,
                    "partition": int(number),
                    "since": _moment(time[mine].min()),
                    "until": _moment(time[mine].max()),
                    "count": groups,
                    "members": [],
                    "episode_ids": pc.unique(episodes.take(pa.array(mine))).to_pylist(),
                    "explanation": f"{groups} groups of partition {number} of __consumer_offsets "
                    f"rebalanced within {minutes(TROUBLE_WINDOW)}, and "
                    f"{total[at] - groups} groups of other partitions: its coordinator may have "
                    "moved or been unreachable",
                }


def _moment(microseconds: int) -> datetime:
    moment: datetime = pa.scalar(int(microseconds), TIMESTAMP).as_py()
    return moment
