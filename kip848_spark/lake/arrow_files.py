"""Writes Parquet files of a lake without Spark, and describes them for a Delta commit.

Spark's Parquet writer takes one row at a time, which costs more than the rest of an ingest. A
Python worker already has its rows in Arrow columns and writes them as they are. A file belongs to a
table only when a Delta commit names it (`delta_rs.commit`), so files that a failed or repeated task
left belong to no table, as with Spark's own writer.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from kip848_spark.lake.delta_folder import DeltaFolder, TableFolder
from kip848_spark.lake.encodings import pyarrow_options
from kip848_spark.lake.rows_with import RowsWith
from kip848_spark.lake.statistics import file_statistics

FILE_ROWS = 5_000_000
"""The largest number of rows in a file, about 100 MB; further rows go to another file."""
_CODECS = {"snappy": "snappy", "gzip": "gzip", "zstd": "zstd", "none": "none"}


@dataclass(frozen=True)
class DataFile:
    """A data file of ``table``: its ``name`` in the table's folder, its ``size`` in bytes, and its
    Delta statistics ``stats`` as JSON text."""

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
"""The Arrow type of a `DataFile`."""


@dataclass(frozen=True)
class WriteTarget:
    """Where rows are written: the ``folder`` of a table, its ``fields`` (Arrow types by column),
    and the text columns that have the same value in all rows (``constants``).

    ``stats`` names the columns with statistics, ``codec`` is Parquet's compression codec. The rows
    ``apart`` go to files of their own. With ``file_bytes``, a file of a folder of this machine ends
    when it has that size.
    """

    table: str
    folder: TableFolder
    fields: Mapping[str, pa.DataType]
    constants: Mapping[str, str | None]
    stats: Sequence[str]
    codec: str = "snappy"
    apart: RowsWith | None = None
    file_bytes: int | None = None


def parquet_codec(spark_codec: str) -> str:
    """The Parquet codec of PyArrow for Spark's setting ``spark_codec``; snappy if it has none."""
    return _CODECS.get(spark_codec.lower().replace("uncompressed", "none"), "snappy")


class RowWriter(Protocol):
    """Takes the rows of one table."""

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Appends rows, given as Arrow arrays of equal length by column. A text column may be
        dictionary-encoded if it is so in every call."""


class TableWriter:
    """Writes columns to files of one table, one row group for each call."""

    def __init__(self, target: WriteTarget) -> None:
        self.target = target
        self._files: list[DataFile] = []
        self._open: pq.ParquetWriter | None = None
        self._name = ""
        self._filesystem: fs.FileSystem | None = None
        self._rows = 0
        self._footer: list[pq.FileMetaData] = []

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        """Appends rows, given as Arrow arrays of equal length by column.

        A text column may be dictionary-encoded if it is so in every call. Raises TypeError if an
        array does not have the type of its column.
        """
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
            self._name = f"part-{uuid.uuid4()}.parquet"
            self._footer = []
            self._open = pq.ParquetWriter(
                self._name,
                batch.schema,
                filesystem=self._files_of_table(),
                compression=self.target.codec,
                store_schema=False,
                metadata_collector=self._footer,
                **pyarrow_options(batch.schema),
            )
        self._open.write_batch(batch)
        self._rows += count
        if self._rows >= FILE_ROWS or self._is_large():
            self._finish()

    def _is_large(self) -> bool:
        limit = self.target.file_bytes
        return limit is not None and self._files_of_table().get_file_info(self._name).size >= limit

    def start_file(self) -> None:
        """Finishes the open file: further rows go to another one."""
        self._finish()

    def close(self) -> list[DataFile]:
        """Finishes the open file and returns all files."""
        self._finish()
        return self._files

    def discard(self) -> None:
        """Deletes everything that was written."""
        if self._open is not None:
            # It may be what failed: to close it again is a RuntimeError then.
            with suppress(OSError, pa.ArrowException, RuntimeError):
                self._open.close()
        for name in [*(file.name for file in self._files), *([self._name] if self._open else [])]:
            with suppress(OSError):
                self._files_of_table().delete_file(name)

    def _files_of_table(self) -> fs.FileSystem:
        if self._filesystem is None:
            self._filesystem = DeltaFolder.at(self.target.folder).files()
        return self._filesystem

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
        status = self._files_of_table().get_file_info(self._name)
        footer = self._footer[0]
        self._files.append(
            DataFile(
                table=self.target.table,
                name=self._name,
                size=status.size,
                modified_ms=(status.mtime_ns or time.time_ns()) // 1_000_000,
                rows=footer.num_rows,
                stats=file_statistics(footer, self.target.stats),
            )
        )


class SeparatingWriter(TableWriter):
    """As `TableWriter`, but the rows ``apart`` of the target go to files of their own."""

    def __init__(self, target: WriteTarget, apart: RowsWith) -> None:
        super().__init__(target)
        self._rows_apart = apart
        self._apart = TableWriter(target)

    def write(self, columns: Mapping[str, pa.Array]) -> None:
        rows = pa.RecordBatch.from_pydict(dict(columns))
        mask = self._rows_apart.mask(columns[self._rows_apart.column])
        super().write(_some_rows(rows, pc.invert(mask)))
        self._apart.write(_some_rows(rows, mask))

    def start_file(self) -> None:
        super().start_file()
        self._apart.start_file()

    def close(self) -> list[DataFile]:
        return [*super().close(), *self._apart.close()]

    def discard(self) -> None:
        super().discard()
        self._apart.discard()


def _some_rows(rows: pa.RecordBatch, mask: pa.Array) -> dict[str, pa.Array]:
    found = rows.filter(mask)
    return dict(zip(found.schema.names, found.columns, strict=True))


def _new_writer(target: WriteTarget) -> TableWriter:
    return TableWriter(target) if target.apart is None else SeparatingWriter(target, target.apart)


@contextmanager
def open_writers(targets: Sequence[WriteTarget]) -> Iterator[dict[str, TableWriter]]:
    """Opens a writer for each target, by table name. After an exception, deletes all their
    files."""
    made = {target.table: _new_writer(target) for target in targets}
    try:
        yield made
    except BaseException:
        for writer in made.values():
            writer.discard()
        raise
