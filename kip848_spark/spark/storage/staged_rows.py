"""The rows that a job makes of a DataFrame for several tables, computed once and kept on disk.

Spark writes one table at a time, and would run the job again for each of them. So the workers run
it once and give Spark the rows of all tables as Arrow IPC messages, which Spark keeps on the disks
of the executors until the tables are written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

import orjson
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.tables import TableJob
from kip848_spark.wire.batches import Batches, BatchFunction

_STAGED = pa.schema(
    {"table": pa.string(), "count": pa.int64(), "rows": pa.binary(), "report": pa.string()}
)
"""A message of rows for a table, or a row of the job's report as JSON."""
_MESSAGE_ROWS = 50_000
"""The largest number of rows in a message."""
_CONSTANTS = ("run_id", "cluster_id")


class StagedRows:
    """The rows of a job by table. `stage_rows` makes one."""

    def __init__(self, staged: DataFrame, tables: Sequence[str]) -> None:
        self._staged = staged
        found = staged.groupBy("table").agg(F.sum("count").alias("rows")).collect()
        counts = {row["table"]: int(row["rows"]) for row in found if row["table"]}
        self.counts: Mapping[str, int] = {name: counts.get(name, 0) for name in tables}
        """The number of rows by table."""
        sent = staged.where(F.col("report").isNotNull()).select("report").collect()
        self.reports: list[dict[str, Any]] = [orjson.loads(row["report"]) for row in sent]

    def of(self, table: str) -> DataFrame:
        """The rows of ``table``, without ``run_id`` and ``cluster_id``."""
        own = self._staged.where(F.col("table") == table).select("rows")
        return map_in_arrow(own, _messages_to_rows, _schema(table))


@contextmanager
def stage_rows(job: TableJob, rows: DataFrame) -> Iterator[StagedRows]:
    """Runs ``job`` on ``rows`` and keeps its rows on the executors' disks until the block ends."""
    staged = map_in_arrow(rows, _stage_function(job), _STAGED)
    staged = staged.persist(StorageLevel.DISK_ONLY)
    try:
        yield StagedRows(staged, list(job.modes))
    finally:
        staged.unpersist()


def _schema(table: str) -> pa.Schema:
    fields = TABLES[table].fields
    return pa.schema([(name, fields[name]) for name in fields if name not in _CONSTANTS])


class _MessageWriter:
    """A `RowWriter` that appends messages to a file. ``ends`` gets the table, the number of rows
    and the end of each message."""

    def __init__(self, table: str, file: IO[bytes], ends: list[tuple[str, int, int]]) -> None:
        self._table = table
        self._schema = _schema(table)
        self._file = file
        self._ends = ends

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        count = len(next(iter(columns.values())))
        batch = pa.RecordBatch.from_pydict(
            {
                name: columns.get(name, pa.nulls(0)).cast(self._schema.field(name).type)
                if name in columns
                else pa.nulls(count, self._schema.field(name).type)
                for name in self._schema.names
            }
        )
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        for start in range(0, count, _MESSAGE_ROWS):
            part = batch.slice(start, _MESSAGE_ROWS)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema, options=options) as stream:
                stream.write_batch(part)
            self._file.write(sink.getvalue())
            self._ends.append((self._table, part.num_rows, self._file.tell()))


def _stage_function(job: TableJob) -> BatchFunction:
    def run(batches: Batches) -> Batches:
        ends: list[tuple[str, int, int]] = []
        with tempfile.TemporaryFile() as file:
            writers = {name: _MessageWriter(name, file, ends) for name in job.modes}
            reports = job.write_tables(batches, writers)
            file.seek(0)
            start = 0
            for table, count, end in ends:
                message = file.read(end - start)
                start = end
                yield _row(table=table, count=count, rows=message)
        for report in reports:
            yield _row(report=orjson.dumps(report).decode())

    return run


def _row(**values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values], schema=_STAGED)


def _messages_to_rows(batches: Batches) -> Batches:
    for batch in batches:
        for message in batch.column(0):
            with pa.ipc.open_stream(message.as_buffer()) as stream:
                yield from stream
