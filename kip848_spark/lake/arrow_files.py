"""Parquet files of a lake that are written without Spark, and what Delta has to be told of them.

Spark's Parquet writer takes rows, one at a time and every column of each, and that costs more than
all the rest of an ingest. A Python worker has its rows in Arrow columns already and writes them as
they are. A file counts only when a Delta commit names it (`direct`): what a failed or repeated task
leaves behind belongs to no table, as with Spark's own writer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kip848_spark.lake.statistics import file_statistics

FILE_ROWS = 5_000_000
"""Rows of a file at most, about a hundred megabytes; the next ones go to another file."""
_CODECS = {"snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "none": "none"}


@dataclass(frozen=True)
class DataFile:
    """A file of ``table``; ``stats`` are Delta's statistics of it, JSON."""

    table: str
    name: str
    size: int
    modified_ms: int
    rows: int
    stats: str


DATA_FILE_TYPE = pa.struct(
    {
        "table": pa.string(),
        "name": pa.string(),
        "size": pa.int64(),
        "modified_ms": pa.int64(),
        "rows": pa.int64(),
        "stats": pa.string(),
    }
)
"""A `DataFile`."""


@dataclass(frozen=True)
class WriteTarget:
    """Where rows go: the folder of a table, its columns, and those that are the same in all rows.

    Statistics are kept of the columns ``stats``.
    """

    table: str
    folder: str
    fields: Mapping[str, pa.DataType]
    constants: Mapping[str, str | None]
    stats: Sequence[str]
    codec: str = "snappy"


def parquet_codec(spark_codec: str) -> str:
    """The compression to use where Spark would use ``spark_codec``."""
    return _CODECS.get(spark_codec.lower().replace("uncompressed", "none"), "snappy")


class TableWriter:
    """Writes columns to files of one table, a row group a call."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self._files: list[DataFile] = []
        self._open: pq.ParquetWriter | None = None
        self._path = Path()
        self._rows = 0
        self._footer: list[pq.FileMetaData] = []

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Adds rows. A column of text may come as a dictionary, if it does so in every call."""
        count = len(next(iter(columns.values())))
        if not count:
            return
        batch = pa.RecordBatch.from_pydict(
            {
                name: self._column(name, columns[name])
                if name in columns
                else self._constant(name, count)
                for name in self.target.fields
            }
        )
        if self._open is None:
            self._path = Path(self.target.folder) / f"part-{uuid.uuid4()}.parquet"
            self._footer = []
            self._open = pq.ParquetWriter(
                self._path,
                batch.schema,
                compression=self.target.codec,
                store_schema=False,
                metadata_collector=self._footer,
            )
        self._open.write_batch(batch)
        self._rows += count
        if self._rows >= FILE_ROWS:
            self._finish()

    def close(self) -> list[DataFile]:
        """All files, complete."""
        self._finish()
        return self._files

    def discard(self) -> None:
        """Takes back what has been written."""
        if self._open is not None:
            self._open.close()
            self._path.unlink(missing_ok=True)
        for file in self._files:
            (Path(self.target.folder) / file.name).unlink(missing_ok=True)

    def _column(self, name: str, array: pa.Array) -> pa.Array:
        type_ = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
        if type_ != self.target.fields[name]:
            wanted = self.target.fields[name]
            raise TypeError(f"{self.target.table}.{name} is {type_}, not {wanted}")
        return array

    def _constant(self, name: str, count: int) -> pa.Array:
        value = self.target.constants[name]
        if value is None:
            return pa.nulls(count, self.target.fields[name])
        zeros = pa.repeat(pa.scalar(0, pa.int8()), count)
        return pa.DictionaryArray.from_arrays(zeros, pa.array([value]))

    def _finish(self) -> None:
        if self._open is None:
            return
        self._open.close()
        self._open, self._rows = None, 0
        status = self._path.stat()
        footer = self._footer[0]
        self._files.append(
            DataFile(
                table=self.target.table,
                name=self._path.name,
                size=status.st_size,
                modified_ms=status.st_mtime_ns // 1_000_000,
                rows=footer.num_rows,
                stats=file_statistics(footer, self.target.stats),
            )
        )


@contextmanager
def open_writers(targets: Sequence[WriteTarget]) -> Iterator[dict[str, TableWriter]]:
    """A writer a target, by the table's name. After an exception nothing of theirs is left."""
    made = {target.table: TableWriter(target) for target in targets}
    try:
        yield made
    except BaseException:
        for writer in made.values():
            writer.discard()
        raise
