"""The log of one partition while it is written: rows come out of order of time and leave in it.

A row is a record, or a transaction's marker, which takes an offset and is no record. Commits in
bulk come late: only what is older than a time by which everyone has told is put in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.coordinator.records import Record
from kip848_spark.simulation.commits import Commits, KeyTable, Places, encode_commits
from kip848_spark.simulation.encoding import encode_records

TOPIC = "__consumer_offsets"
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""The columns that Spark's Kafka source gives, as `capture` keeps them."""
ROW_GROUP = 1 << 17

BY_TIMER, BY_TICK, BY_REQUEST = 0, 1, 2
"""What comes first of rows of one millisecond."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row that is not a bulk commit: its time, what wrote it, and the record.

    No record: a marker. Not ``visible``: a record of a transaction that is aborted.
    """

    at: int
    cause: int
    record: Record | None
    visible: bool = True


class Log:
    """One partition of the topic, written to one Parquet file."""

    def __init__(self, path: Path, partition: int, places: Places, version: int) -> None:
        self.partition = partition
        self.places = places
        self.version = version
        self.next_offset = 0
        self.records = 0
        self._waiting = 0
        self._rows: list[Row] = []
        self._commits: list[Commits] = []
        self._keys = KeyTable()
        self._pending: list[pa.Table] = []
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd", compression_level=1)

    def add(self, row: Row) -> None:
        """A record of the coordinator's."""
        self._rows.append(row)
        self._waiting += row.record is not None and row.visible

    def add_commits(self, commits: Commits) -> None:
        """Commits in bulk."""
        self._commits.append(commits)
        self._waiting += len(commits.time)

    @property
    def told(self) -> int:
        """How many records there are, with those that have no offset yet."""
        return self.records + self._waiting

    def settle(self, least: int = 1) -> None:
        """Give everything added so far its offset, in order of time, if it is so many records."""
        if self._waiting < least:
            return
        self._waiting = 0
        rows, self._rows = self._rows, []
        commits, self._commits = self._commits, []
        order = _order(rows, commits)
        visible = np.ones(len(order), bool)
        visible[: len(rows)] = [row.record is not None and row.visible for row in rows]
        visible = visible[order]
        offsets = self.next_offset + np.flatnonzero(visible)
        self.next_offset += len(order)
        order = order[visible]
        self.records += len(order)
        if len(order):
            self._pending.append(self._table(rows, commits, order, offsets))
            self._write(ROW_GROUP)

    def rest(self, most: int) -> None:
        """Keep no more than about so many records in memory."""
        self.settle(most)
        self._write(most)

    def close(self) -> None:
        """The file is complete."""
        self._write(1)
        self._writer.close()

    def _write(self, least: int) -> None:
        if sum(table.num_rows for table in self._pending) >= least:
            self._writer.write_table(pa.concat_tables(self._pending), ROW_GROUP)
            self._pending = []

    def _table(
        self, rows: list[Row], commits: list[Commits], order: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
    ) -> pa.Table:  # fmt: skip
        """The rows ``order`` of both, which are numbered one after the other."""
        given = [row.record for row in rows if row.record is not None]
        keys, values = encode_records(given)
        place = np.cumsum([row.record is not None for row in rows]) - 1 if rows else np.zeros(0)
        index = np.where(
            order < len(rows),
            place.astype(np.int64)[np.minimum(order, max(len(rows) - 1, 0))] if len(rows) else 0,
            order - len(rows) + len(given),
        )
        times = np.concatenate([np.array([row.at for row in rows], np.int64), *_times(commits)])
        if commits:
            more_keys, more_values = encode_commits(commits, self.places, self._keys, self.version)
            keys = pa.concat_arrays([keys, more_keys])
            values = pa.concat_arrays([values, more_values])
        taken = pa.array(index)
        return pa.table(
            [
                pa.repeat(TOPIC, len(order)),
                pa.repeat(pa.scalar(self.partition, pa.int32()), len(order)),
                pa.array(offsets),
                pa.array(times[order] * 1_000).view(pa.timestamp("us", "UTC")),
                keys.take(taken),
                values.take(taken),
            ],
            schema=SCHEMA,
        )


def _times(commits: list[Commits]) -> list[npt.NDArray[np.int64]]:
    return [each.time for each in commits]


def _order(rows: list[Row], commits: list[Commits]) -> npt.NDArray[np.int64]:
    """The numbers of rows and of commits behind them, in the order of the log."""
    count = sum(len(each.time) for each in commits)
    time = np.concatenate([np.array([row.at for row in rows], np.int64), *_times(commits)])
    cause = np.full(len(time), BY_TICK, np.int64)
    cause[: len(rows)] = [row.cause for row in rows]
    first = np.arange(len(time))
    second = np.zeros(len(time), np.int64)
    if count:
        first[len(rows) :] = np.concatenate([each.client for each in commits])
        second[len(rows) :] = np.concatenate([each.row for each in commits])
    return np.lexsort((second, first, cause, time))
