"""Files that Python workers write for tables on a file system that only Spark can reach.

A job makes rows for several tables at once, but Spark writes one table at a time and one row at a
time. So the workers write the rows as Parquet files on their own disks, as they do for a lake in a
folder. Spark carries each file as one value to a folder of the lake's file system, from where a
table takes it over, or from where Spark reads it again.

Spark has no writer for files as they are. Its writer of text files comes close: it writes the bytes
of each row and then a separator. Every Parquet file ends with the same four bytes, so these are the
separator, and each row is a file of its own.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kip848_spark.errors import LakeError
from kip848_spark.lake.arrow_files import DataFile, WriteTarget, open_writers
from kip848_spark.spark.hadoop import HadoopFolder
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.table_job import TableJob
from kip848_spark.wire.batches import Batches, BatchFunction

FILE_BYTES = 32 << 20
"""About the largest size of a file: Spark holds a few copies of it in memory."""
_MAGIC = "PAR1"
"""The last bytes of every Parquet file (Parquet's file format specification)."""
_CONTENT = pa.schema({"content": pa.binary()})
_PART = re.compile(r"part-(\d+)-.*-c(\d+)\.txt")
"""The names that Spark gives to files: the number of the task, and of the file within the task."""

_TaskReport = tuple[int, list[dict[str, Any]], list[dict[str, Any]]]
"""The number of a task, its files in the order in which they were sent, and its job's report."""


class _Reports(AccumulatorParam[list[_TaskReport]]):
    def zero(self, value: list[_TaskReport]) -> list[_TaskReport]:
        return []

    def addInPlace(  # noqa: N802 (PySpark's name)
        self, value1: list[_TaskReport], value2: list[_TaskReport]
    ) -> list[_TaskReport]:
        return [*value1, *value2]


@dataclass(frozen=True)
class StagedFiles:
    """The files of a job. ``names`` are their names in the staging ``folder``, by the names that
    they get in their tables."""

    folder: HadoopFolder
    files: Sequence[DataFile]
    names: Mapping[str, str]
    reports: Sequence[Mapping[str, Any]]

    def of(self, table: str) -> list[DataFile]:
        """The files of ``table``."""
        return [file for file in self.files if file.table == table]

    def path(self, file: DataFile) -> str:
        """The URI of a file."""
        return f"{self.folder.uri}/{self.names[file.name]}"

    def move(self, file: DataFile, folder: str) -> None:
        """Moves a file to the folder of its table. Raises OSError."""
        self.folder.move(self.names[file.name], f"{folder}/{file.name}")


@contextmanager
def stage_files(
    job: TableJob, rows: DataFrame, targets: Sequence[WriteTarget], folder: HadoopFolder
) -> Iterator[StagedFiles]:
    """Runs ``job`` on ``rows`` once, with its files in ``folder`` until the block ends.

    The ``targets`` have no folder. Raises LakeError if a file did not arrive as it was written.
    """
    spark: SparkSession = rows.sparkSession
    sent = spark.sparkContext.accumulator([], _Reports())
    content = map_in_arrow(rows, _write_function(job, targets, sent), _CONTENT)
    text = content.select(F.col("content").cast("string"))
    folder.remove_all()
    try:
        writer = text.write.options(lineSep=_MAGIC, maxRecordsPerFile="1", compression="none")
        writer.text(folder.uri)
        yield _arrived(folder, sent.value)
    finally:
        folder.remove_all()


def _write_function(
    job: TableJob, targets: Sequence[WriteTarget], sent: Accumulator[list[_TaskReport]]
) -> BatchFunction:
    def run(batches: Batches) -> Batches:
        with tempfile.TemporaryDirectory(prefix="kip848-") as folder:
            local = [replace(t, folder=folder, file_bytes=FILE_BYTES) for t in targets]
            with open_writers(local) as writers:
                reports = job.write_tables(batches, writers)
                files = [file for writer in writers.values() for file in writer.close()]
            for file in files:
                path = Path(folder, file.name)
                content = pa.py_buffer(path.read_bytes())[: -len(_MAGIC)]
                path.unlink()
                yield _one_value(content)
        task = TaskContext.get()
        assert task is not None
        sent.add([(task.partitionId(), [asdict(file) for file in files], reports)])

    return run


def _one_value(content: pa.Buffer) -> pa.RecordBatch:
    ends = pa.array([0, content.size], pa.int32()).buffers()[1]
    value = pa.Array.from_buffers(pa.binary(), 1, [None, ends, content])
    return pa.RecordBatch.from_arrays([value], schema=_CONTENT)


def _arrived(folder: HadoopFolder, reports: Sequence[_TaskReport]) -> StagedFiles:
    found: dict[tuple[int, int], tuple[str, int]] = {}
    for name, size in folder.sizes().items():
        if match := _PART.fullmatch(name):
            found[int(match[1]), int(match[2])] = name, size
    files: list[DataFile] = []
    names: dict[str, str] = {}
    for task, sent, _ in reports:
        for number, values in enumerate(sent):
            file = DataFile(**values)
            name, size = found.get((task, number), ("", 0))
            if size != file.size:
                raise LakeError(
                    f"A file of {file.size} bytes for the table {file.table} arrived in "
                    f"{folder.uri} with {size} bytes.",
                    "Run the command again.",
                )
            files.append(file)
            names[file.name] = name
    return StagedFiles(folder, files, names, [row for _, _, rows in reports for row in rows])
