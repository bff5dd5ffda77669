"""Tables that Python workers write as Parquet files and the driver commits through delta-rs.

Spark's own Parquet writer takes one row at a time, and a small Delta commit through Spark takes
several jobs. Both are slower than this implementation.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from kip848_spark.errors import LakeError
from kip848_spark.lake import delta_rs
from kip848_spark.lake.arrow_files import (
    DATA_FILE_TYPE,
    DataFile,
    WriteTarget,
    open_writers,
    parquet_codec,
)
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.delta_folder import DeltaFolder
from kip848_spark.lake.location import Location
from kip848_spark.lake.rows_with import OPEN_ROWS, RowsWith
from kip848_spark.lake.tables import KEEP_VERSIONS, TABLES, TableDefinition
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.schemas import spark_schema
from kip848_spark.spark.storage.table_job import TableJob, TableJobResult, WriteMode
from kip848_spark.spark.storage.tables import LakeTables, TableRow
from kip848_spark.spark.storage.upkeep import FILE, Rewrite
from kip848_spark.wire.batches import Batches, BatchFunction

_REPORT = pa.schema({"file": DATA_FILE_TYPE, "report": pa.string()})
"""The rows that a worker sends to the driver: one for each file, and the job's report as JSON."""
_TABLES_AT_ONCE = 8
_GLOB = re.compile(r"[][*?{}\\]")
"""Characters that Spark treats as a pattern in a path."""


class WorkerWrittenTables(LakeTables):
    """See `LakeTables`. Needs a lake in a folder that the driver and all workers have mounted, or
    on an object store, and tables as this program creates them.

    ``options`` are the storage options of delta-rs, for files and commits.
    """

    def __init__(
        self, spark: SparkSession, place: Location, options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(spark, place)
        self._options = dict(options or {})
        self._read_rows: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    def _create(self, table: TableDefinition) -> None:
        delta_rs.create_table(self._folder(table.name), table)

    def _restore(self, table: str, version: int) -> None:
        delta_rs.restore(self._folder(table), version)

    def _folder(self, table: str) -> DeltaFolder:
        return DeltaFolder.of(self.place, table, self._options)

    # -- writing -------------------------------------------------------------------------------

    def run_job(
        self, job: TableJob, rows: DataFrame, run_id: str, cluster_id: str | None
    ) -> TableJobResult:
        targets = [self._target(name, run_id, cluster_id) for name in job.modes]
        with self._translate_errors("written"):
            sent = map_in_arrow(rows, _run_job_function(job, targets), _REPORT).collect()
            files = self._written(sent)
        self._commit_files(job.modes, files)
        counts = dict.fromkeys(job.modes, 0)
        for file in files:
            counts[file.table] += file.rows
        reports = [orjson.loads(row["report"]) for row in sent if row["report"]]
        return TableJobResult(reports, counts)

    def append(self, table: str, rows: DataFrame) -> None:
        self._write(table, rows, "append")

    def overwrite(self, table: str, rows: DataFrame) -> None:
        self._write(table, rows, "overwrite")

    def _write(self, table: str, rows: DataFrame, mode: WriteMode) -> None:
        writer = _table_writer(self._target(table))
        with self._translate_errors("written"):
            sent = map_in_arrow(rows.select(*TABLES[table].fields), writer, _REPORT).collect()
            files = self._written(sent)
        self._commit_files({table: mode}, files)

    def replace_values(
        self, table: str, rows: DataFrame, column: str, values: Sequence[Any]
    ) -> None:
        target = self._target(table)
        writer = _table_writer(target, column)
        # A file has a single value, so that a later replacement removes whole files.
        rows = rows.select(*TABLES[table].fields).repartition(column)
        with self._translate_errors("written"):
            sent = map_in_arrow(rows.sortWithinPartitions(column), writer, _REPORT).collect()
            files = self._written(sent)
        with self._commit(table) as version:
            replaced = RowsWith(column, tuple(values))
            delta_rs.commit_replacement(target, version, files, replaced)

    def append_rows(
        self, table: str, rows: Sequence[TableRow], run_id: str, cluster_id: str | None
    ) -> None:
        if rows:
            target = self._target(table, run_id, cluster_id)
            with self._commit(table) as version:
                delta_rs.commit(target.folder, version, delta_rs.write_rows(target, rows))

    def append_columns(
        self, table: str, rows: pa.Table, run_id: str, cluster_id: str | None
    ) -> None:
        if rows.num_rows:
            target = self._target(table, run_id, cluster_id)
            with self._commit(table) as version:
                delta_rs.commit(target.folder, version, delta_rs.write_columns(target, rows))

    def replace_rows(
        self, table: str, rows: Sequence[TableRow], column: str, values: Sequence[str]
    ) -> None:
        with self._commit(table) as version:
            others = [row for row in self.rows(table) if row[column] not in values]
            files = delta_rs.write_rows(self._target(table), [*others, *rows])
            delta_rs.commit(self._folder(table), version, files, "overwrite")

    def table_properties(self, table: str) -> dict[str, str]:
        with self._translate_errors("read"):
            return delta_rs.table_properties(self._folder(table))

    def _set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        delta_rs.set_properties(self._folder(table), properties)

    def _field_paths(self, table: str) -> Sequence[str]:
        return delta_rs.field_paths(self._folder(table))

    def _add_columns(self, table: str, names: Sequence[str]) -> None:
        delta_rs.add_columns(self._folder(table), TABLES[table], names)

    def correct_statistics(self) -> None:
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
            found = pool.map(self._statistics_corrections, names := list(self.versions()))
        for name, actions in zip(names, found, strict=True):
            if actions:
                with self._commit(name) as version:
                    delta_rs.commit_actions(self._folder(name), version, actions)

    def _statistics_corrections(self, table: str) -> list[AddAction]:
        with self._translate_errors("read"):
            return delta_rs.statistics_corrections(self._folder(table), TABLES[table])

    def _target(
        self, table: str, run_id: str | None = None, cluster_id: str | None = None
    ) -> WriteTarget:
        """The target of files of ``table``. With a ``run_id``, all rows get it and ``cluster_id``;
        without one, the rows have these columns already."""
        codec = self.spark.conf.get("spark.sql.parquet.compression.codec")
        constants = {"run_id": run_id, "cluster_id": cluster_id} if run_id else {}
        return WriteTarget(
            table=table,
            folder=self._folder(table),
            fields=TABLES[table].fields,
            constants=constants,
            stats=TABLES[table].stats_columns,
            codec=parquet_codec(codec or ""),
            apart=TABLES[table].apart,
        )

    def _written(self, sent: Sequence[Row]) -> list[DataFile]:
        """The files that the workers report. Workers of a cluster may see another folder than the
        driver under the same path. Then nothing may be committed: raises LakeError."""
        files = [DataFile(**row["file"].asDict()) for row in sent if row["file"]]
        if self.place.folder is not None and not runs_here(self.spark):
            for file in files:
                path = self.place.folder / file.table / file.name
                if not path.is_file() or path.stat().st_size != file.size:
                    raise LakeError(
                        f"The executors do not write to the same folder {self.path} as the driver: "
                        f"a file that one of them wrote to {file.table} is not there.",
                        "Mount one shared folder under this path on all machines, or use a lake on "
                        "an object store or HDFS.",
                    )
        return files

    def _commit_files(self, modes: Mapping[str, WriteMode], files: Sequence[DataFile]) -> None:
        for name, mode in modes.items():
            own = [file for file in files if file.table == name]
            if not own and mode == "append":
                continue
            with self._commit(name) as version:
                if mode == "replace_open":
                    delta_rs.commit_replacement(self._target(name), version, own, OPEN_ROWS)
                else:
                    delta_rs.commit(self._folder(name), version, own, mode)

    def compact(self, table: str) -> int:
        with self._commit(table) as version:
            if (apart := TABLES[table].apart) is not None:
                return delta_rs.compact_apart(self._target(table), version, apart)
            return delta_rs.compact(self._folder(table))

    def vacuum(self, table: str, hours: int, keep: Sequence[int]) -> int | None:
        with self._translate_errors("written"):
            self._require_own(table)  # else it deletes what another run has not committed yet
            deleted = delta_rs.vacuum(self._folder(table), hours, keep)
        self._expected[table] = self._version(table)  # it commits twice
        return deleted

    # -- reading -------------------------------------------------------------------------------

    def rows(self, table: str) -> list[dict[str, Any]]:
        """As in `LakeTables`. The rows of a version are read once: a run looks many times into its
        ledger."""
        version = self._version(table)
        known = self._read_rows.get(table)
        if known is None or known[0] != version:
            with self._translate_errors("read"):
                found = delta_rs.read_rows(self._folder(table), TABLES[table], version)
            self._read_rows[table] = known = version, found
        return [dict(row) for row in known[1]]

    def columns(
        self, table: str, columns: Sequence[str], conditions: Sequence[Condition] = ()
    ) -> pa.Table:
        with self._translate_errors("read"):
            return delta_rs.read_columns(self._folder(table), TABLES[table], columns, conditions)

    def distinct(
        self,
        table: str,
        columns: Sequence[str],
        conditions: Sequence[Condition] = (),
        inside: Sequence[Sequence[str]] = (),
    ) -> set[tuple[Any, ...]]:
        with self._translate_errors("read"):
            folder = self._folder(table)
            return delta_rs.distinct(folder, TABLES[table], columns, conditions, inside)

    def count(self, table: str) -> int:
        with self._translate_errors("read"):
            return delta_rs.count_rows(self._folder(table))

    def rewrite(self, table: str, rewrite: Rewrite) -> dict[str, int]:
        """As in `Upkeep`. Only files that have affected rows are written again."""
        folder = self._folder(table)
        with self._translate_errors("read"):
            if not delta_rs.file_paths(folder):
                return {}
            rows = self.read(table).withColumn(FILE, F.col("_metadata.file_path"))
            found = rewrite.count(table, rows, FILE)
        if not found:
            return {}
        names = sorted({str(file).rsplit("/", 1)[1] for file, *_ in found})
        paths = [folder.spark_path(name) for name in names]
        writer = _table_writer(self._target(table), rewrite.split_by)
        with self._translate_errors("written"):
            touched = self.spark.read.schema(spark_schema(TABLES[table])).parquet(*paths)
            changed = rewrite.apply(table, touched)
            files = self._written(map_in_arrow(changed, writer, _REPORT).collect())
        with self._commit(table) as version:
            delta_rs.commit_rewrite(folder, version, names, files)
        done: dict[str, int] = {}
        for _, run_id, number in found:
            done[run_id] = done.get(run_id, 0) + int(number)
        return done

    def forget_versions(self, table: str) -> None:
        self.vacuum(table, 0, [])
        with self._commit(table):  # so that the last entry of the log names no removed file
            self._set_properties(table, KEEP_VERSIONS)
        with self._translate_errors("written"):
            self._folder(table).open().create_checkpoint()

    def max_by_key(
        self, table: str, column: str, key: Sequence[str], unless: str, value: str
    ) -> dict[tuple[Any, ...], Any]:
        with self._translate_errors("read"):
            return delta_rs.max_by_key(self._folder(table), column, key, unless, value)

    @property
    def pins_reads(self) -> bool:
        return not _GLOB.search(self.place.uri)  # a DataFrame names files

    def read(self, table: str, version: int | None = None) -> DataFrame:
        """As in `LakeTables`. For the newest version, Spark reads the Parquet files that delta-rs
        lists: Delta's own reader takes several jobs to find them."""
        if version is not None or _GLOB.search(self.place.uri):
            with self._translate_errors("read"):
                self._folder(table).open(version)  # which checks where the files are
            return super().read(table, version)
        return self._read_files(table)

    def _read_some(self, table: str, after: str | None, without: RowsWith | None) -> DataFrame:
        """As in `LakeTables`. Spark sees only the files that may have such rows: it would open each
        file of each night to find that out."""
        if _GLOB.search(self.place.uri):
            return super()._read_some(table, after, without)
        return self._read_files(table, after, without)

    def rows_to_read(self, table: str, after: str | None, without: RowsWith | None = None) -> int:
        with self._translate_errors("read"):
            return delta_rs.rows_in_files(self._folder(table), after, without)

    def _read_files(
        self, table: str, later_than: str | None = None, without: RowsWith | None = None
    ) -> DataFrame:
        with self._translate_errors("read"):
            files = delta_rs.file_paths(self._folder(table), later_than, without)
            schema = spark_schema(TABLES[table])
            if not files:
                nothing = pa.schema(list(TABLES[table].fields.items())).empty_table()
                return self.spark.createDataFrame(nothing).to(schema)
            return self.spark.read.schema(schema).parquet(*files)


def _run_job_function(job: TableJob, targets: Sequence[WriteTarget]) -> BatchFunction:
    def run(batches: Batches) -> Batches:
        with open_writers(targets) as writers:
            reports = job.write_tables(batches, writers)
            files = [file for writer in writers.values() for file in writer.close()]
        yield from _report_batches(files, reports)

    return run


def _table_writer(target: WriteTarget, split_by: str | None = None) -> BatchFunction:
    """A function for workers that writes rows of one table to its files. With ``split_by``, each
    file has one value in that column, by which the rows are sorted."""

    def run(batches: Batches) -> Batches:
        last: Any = None
        with open_writers([target]) as writers:
            writer = writers[target.table]
            for batch in batches:
                for part in [batch] if split_by is None else _split_at_changes(batch, split_by):
                    if split_by is not None and part.column(split_by)[0] != last:
                        writer.start_file()
                        last = part.column(split_by)[0]
                    writer.write(dict(zip(part.schema.names, part.columns, strict=True)))
            files = writer.close()
        yield from _report_batches(files, [])

    return run


def _split_at_changes(batch: pa.RecordBatch, column: str) -> Batches:
    """The parts of a batch that have one value each in ``column``."""
    ends = pc.run_end_encode(batch.column(column)).run_ends.to_pylist()
    for first, end in itertools.pairwise([0, *ends]):
        yield batch.slice(first, end - first)


def _report_batches(files: Iterable[DataFile], reports: Iterable[Mapping[str, Any]]) -> Batches:
    rows: list[dict[str, Any]] = [{"file": asdict(file)} for file in files]
    rows += [{"report": orjson.dumps(report).decode()} for report in reports]
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=_REPORT)


def runs_here(spark: SparkSession) -> bool:
    """True if the workers run on the driver's machine."""
    return (spark.sparkContext.master or "").startswith("local")
