"""The log of one partition while it is written: rows arrive out of time order and are written in
order.

A row is a record, or a transaction marker, which takes an offset but is not a record. Bulk commits
arrive late, so offsets are assigned only up to a time by which every client has written its
commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.coordinator.records import Record
from kip848_spark.simulation.commits import Commits, EncodedKeys, ReadPositions, encode_commits
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
"""The columns of Spark's Kafka source, as `kip848 capture` stores them."""
ROW_GROUP = 1 << 17

BY_TIMER, BY_TICK, BY_REQUEST = 0, 1, 2
"""The order of rows within one millisecond."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row that is not a bulk commit: its time (ms), its cause and its record.

    A row without a record is a transaction marker. A row that is not ``visible`` is a record of an
    aborted transaction.
    """

    at: int
    cause: int
    record: Record | None
    visible: bool = True


class Log:
    """One partition of the topic, written to one Parquet file."""

    def __init__(self, path: Path, partition: int, positions: ReadPositions, version: int) -> None:
        self.partition = partition
        self.positions = positions
        self.version = version
        self.next_offset = 0
        self.records = 0
        self._waiting = 0
        self._rows: list[LogRow] = []
        self._commits: list[Commits] = []
        self._keys = EncodedKeys()
        self._pending: list[pa.Table] = []
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd", compression_level=1)

    def add(self, row: LogRow) -> None:
        """Add a record of the coordinator."""
        self._rows.append(row)
        self._waiting += row.record is not None and row.visible

    def add_commits(self, commits: Commits) -> None:
        """Add bulk commits."""
        self._commits.append(commits)
        self._waiting += len(commits.time)

    @property
    def total_records(self) -> int:
        """The number of records, including those that have no offset yet."""
        return self.records + self._waiting

    def assign_offsets(self, least: int = 1) -> None:
        """Assign offsets, in order of time, to all rows added so far if there are at least
        ``least`` records.
        """
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

    def flush(self, most: int) -> None:
        """Keep at most about ``most`` records in memory."""
        self.assign_offsets(most)
        self._write(most)

    def close(self) -> None:
        """Complete the file."""
        self._write(1)
        self._writer.close()

    def _write(self, least: int) -> None:
        if sum(table.num_rows for table in self._pending) >= least:
            self._writer.write_table(pa.concat_tables(self._pending), ROW_GROUP)
            self._pending = []

    def _table(
        self, rows: list[LogRow], commits: list[Commits], order: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
    ) -> pa.Table:  # fmt: skip
        """The rows ``order``, where the numbers of ``commits`` follow those of ``rows``."""
        given = [row.record for row in rows if row.record is not None]
        keys, values = encode_records(given)
        record_number = (
            np.cumsum([row.record is not None for row in rows]) - 1 if rows else np.zeros(0)
        )
        index = np.where(
            order < len(rows),
            record_number.astype(np.int64)[np.minimum(order, max(len(rows) - 1, 0))]
            if len(rows)
            else 0,
            order - len(rows) + len(given),
        )
        times = np.concatenate([np.array([row.at for row in rows], np.int64), *_times(commits)])
        if commits:
            more_keys, more_values = encode_commits(
                commits, self.positions, self._keys, self.version
            )
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


def _order(rows: list[LogRow], commits: list[Commits]) -> npt.NDArray[np.int64]:
    """The numbers of rows, then of commits, in the order of the log."""
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
