"""Tables that Spark writes: on HDFS and other file systems of Hadoop, and tables that another
program has altered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kip848_spark.lake.arrow_files import WriteTarget, parquet_codec
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.location import Location
from kip848_spark.lake.rows_with import OPEN_ROWS, RowsWith
from kip848_spark.lake.tables import KEEP_VERSIONS, TABLES, TableDefinition
from kip848_spark.spark.collect import collect_rows
from kip848_spark.spark.hadoop import HadoopFolder
from kip848_spark.spark.own_files import require_own_spark_files
from kip848_spark.spark.schemas import spark_schema, with_constants
from kip848_spark.spark.storage.delta_transactions import DeltaTransactions
from kip848_spark.spark.storage.staged_files import StagedFiles, stage_files
from kip848_spark.spark.storage.table_job import TableJob, TableJobResult, WriteMode
from kip848_spark.spark.storage.tables import LakeTables, TableRow
from kip848_spark.spark.storage.upkeep import Rewrite

_STAGED = "_kip848_staged"
"""The folder of the lake that has the files of a job until the tables have them."""
_MOVES_AT_ONCE = 8
_GLOB = re.compile(r"[][*?{}\\]")
"""Characters that Spark treats as a pattern in a path."""


class SparkWrittenTables(LakeTables):
    """See `LakeTables`. Works wherever Spark can write Delta tables."""

    def __init__(self, spark: SparkSession, place: Location) -> None:
        super().__init__(spark, place)
        self._own: set[str] = set()

    def _create(self, table: TableDefinition) -> None:
        builder = DeltaTable.create(self.spark).location(self.location(table.name))
        builder = builder.addColumns(spark_schema(table))  # with their comments
        for name, value in table.properties.items():
            builder = builder.property(name, value)
        builder.execute()

    # -- writing -------------------------------------------------------------------------------

    def run_job(
        self, job: TableJob, rows: DataFrame, run_id: str, cluster_id: str | None
    ) -> TableJobResult:
        targets = [self._target(name, run_id, cluster_id) for name in job.modes]
        with (
            self._translate_errors("written"),
            stage_files(job, rows, targets, self._staging()) as staged,
        ):
            for table, mode in job.modes.items():
                self._take_over(table, staged, mode)
        counts = {name: sum(file.rows for file in staged.of(name)) for name in job.modes}
        return TableJobResult([dict(row) for row in staged.reports], counts)

    def _staging(self) -> HadoopFolder:
        return HadoopFolder(self.spark, self.location(_STAGED))

    def restore(self, versions: Mapping[str, int]) -> None:
        """As in `LakeTables`. Also removes the staged files of a run that was killed."""
        with self._translate_errors("written"):
            self._staging().remove_all()
        super().restore(versions)

    def _target(self, table: str, run_id: str, cluster_id: str | None) -> WriteTarget:
        codec = self.spark.conf.get("spark.sql.parquet.compression.codec")
        return WriteTarget(
            table=table,
            folder="",
            fields=TABLES[table].fields,
            constants={"run_id": run_id, "cluster_id": cluster_id},
            stats=TABLES[table].stats_columns,
            codec=parquet_codec(codec or ""),
            apart=TABLES[table].apart,
        )

    def _take_over(self, table: str, staged: StagedFiles, mode: WriteMode) -> None:
        """Adds the staged files of a table to it as they are, or, if another program has altered
        the table, their rows."""
        files = staged.of(table)
        if not files and mode == "append":
            return
        transactions = DeltaTransactions(self.spark, self.location(table))
        if not transactions.is_plain(TABLES[table]):
            self._write(table, self._staged_rows(table, staged), mode)
            return
        if mode == "replace_open":
            self._delete_open_rows(table)
        with self._commit(table), ThreadPoolExecutor(_MOVES_AT_ONCE) as pool:
            folder = self.location(table)
            for _ in pool.map(lambda file: staged.move(file, folder), files):
                pass
            transactions.commit(files, overwrite=mode == "overwrite")

    def _staged_rows(self, table: str, staged: StagedFiles) -> DataFrame:
        schema = spark_schema(TABLES[table])
        if paths := [_GLOB.sub(r"\\\g<0>", staged.path(file)) for file in staged.of(table)]:
            return self.spark.read.schema(schema).parquet(*paths)
        return self.spark.createDataFrame([], schema)

    def _restore(self, table: str, version: int) -> None:
        DeltaTable.forPath(self.spark, self.location(table)).restoreToVersion(version)

    def append(self, table: str, rows: DataFrame) -> None:
        self._write(table, rows, "append")

    def overwrite(self, table: str, rows: DataFrame) -> None:
        self._write(table, rows, "overwrite")

    def append_rows(
        self, table: str, rows: Sequence[TableRow], run_id: str, cluster_id: str | None
    ) -> None:
        if rows:
            names = [n for n in TABLES[table].fields if n not in ("run_id", "cluster_id")]
            frame = self._frame(table, rows, names)
            self._write(table, with_constants(table, frame, run_id, cluster_id), "append")

    def append_columns(
        self, table: str, rows: pa.Table, run_id: str, cluster_id: str | None
    ) -> None:
        if rows.num_rows:
            frame = self.spark.createDataFrame(rows).coalesce(1)
            self._write(table, with_constants(table, frame, run_id, cluster_id), "append")

    def replace_rows(
        self, table: str, rows: Sequence[TableRow], column: str, values: Sequence[str]
    ) -> None:
        frame = self._frame(table, rows, list(TABLES[table].fields))
        self.replace_values(table, frame, column, values)

    def replace_values(
        self, table: str, rows: DataFrame, column: str, values: Sequence[Any]
    ) -> None:
        condition = RowsWith(column, tuple(values)).sql
        self._write(table, rows, "overwrite", {"replaceWhere": condition})

    def table_properties(self, table: str) -> dict[str, str]:
        with self._translate_errors("read"):
            detail = DeltaTable.forPath(self.spark, self.location(table)).detail().head()
        return {} if detail is None else dict(detail["properties"])

    def _set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self._alter(table, f"SET TBLPROPERTIES ({pairs})")

    def _field_paths(self, table: str) -> Sequence[str]:
        paths = []
        for field in self._read_version(table).schema.fields:
            paths.append(field.name)
            if isinstance(field.dataType, T.StructType):
                paths += [f"{field.name}.{name}" for name in field.dataType.names]
        return paths

    def _add_columns(self, table: str, names: Sequence[str]) -> None:
        found = set(self._field_paths(table))
        added = []
        for field in spark_schema(TABLES[table]):
            if field.name in names and field.name not in found:
                comment = _quoted(field.metadata["comment"])
                added.append(f"`{field.name}` {field.dataType.simpleString()} COMMENT '{comment}'")
            elif field.name in names and isinstance(field.dataType, T.StructType):
                added += [
                    f"`{field.name}`.`{inner.name}` {inner.dataType.simpleString()}"
                    for inner in field.dataType
                    if f"{field.name}.{inner.name}" not in found
                ]
        self._alter(table, f"ADD COLUMNS ({', '.join(added)})")

    def _alter(self, table: str, clause: str) -> None:
        path = self.location(table).replace("`", "``")
        self.spark.sql(f"ALTER TABLE delta.`{path}` {clause}")

    def correct_statistics(self) -> None:
        """Spark's statistics need no correction: only checks that all tables exist."""
        self.versions()

    def _frame(self, table: str, rows: Sequence[TableRow], names: Sequence[str]) -> DataFrame:
        fields = spark_schema(TABLES[table]).fields
        schema = T.StructType([field for field in fields if field.name in names])
        values = [[row[name] for name in names] for row in rows]
        return self.spark.createDataFrame(values, schema).coalesce(1)

    def _write(
        self, table: str, rows: DataFrame, mode: WriteMode, options: Mapping[str, str] | None = None
    ) -> None:
        if mode == "replace_open":
            self._delete_open_rows(table)
            mode = "append"
        writer = rows.select(*TABLES[table].fields).write.format("delta").mode(mode)
        with self._commit(table):
            writer.options(**(options or {})).save(self.location(table))

    def _delete_open_rows(self, table: str) -> None:
        with self._commit(table):
            DeltaTable.forPath(self.spark, self.location(table)).delete(OPEN_ROWS.sql)

    def compact(self, table: str) -> int:
        """As in `Upkeep`, but tables with open rows stay as they are: `OPTIMIZE` would put open and
        closed rows into one file, which each run would then write again."""
        if TABLES[table].apart == OPEN_ROWS:
            return 0
        with self._commit(table):
            found = DeltaTable.forPath(self.spark, self.location(table)).optimize()
            metrics = found.executeCompaction().select("metrics.numFilesRemoved").head()
        return 0 if metrics is None else int(metrics[0])

    def vacuum(self, table: str, hours: int, keep: Sequence[int]) -> int | None:
        """As in `Upkeep`. Spark's VACUUM can't keep single versions, and shorter than the time of a
        week it refuses."""
        with self._translate_errors("written"):
            self._require_own(table)
            DeltaTable.forPath(self.spark, self.location(table)).vacuum(max(hours, 7 * 24))
        self._expected[table] = self._version(table)
        return None

    def forget_versions(self, table: str) -> None:
        check = "spark.databricks.delta.retentionDurationCheck.enabled"
        before = self.spark.conf.get(check, "true") or "true"
        self.spark.conf.set(check, "false")
        try:
            with self._translate_errors("written"):
                self._require_own(table)  # else it deletes what another run has not committed yet
                DeltaTable.forPath(self.spark, self.location(table)).vacuum(0)
        finally:
            self.spark.conf.set(check, before)
        self._expected[table] = self._version(table)
        with self._commit(table):  # so that the last entry of the log names no removed file
            self._set_properties(table, KEEP_VERSIONS)
        with self._translate_errors("written"):
            jvm: Any = self.spark._jvm
            log = jvm.org.apache.spark.sql.delta.DeltaLog
            log.forTable(self.spark._jsparkSession, self.location(table)).checkpoint()

    def rewrite(self, table: str, rewrite: Rewrite) -> dict[str, int]:
        """As in `Upkeep`. All rows of the table are written again."""
        with self._translate_errors("read"):
            found = rewrite.count(table, self.read(table))
        if found:
            self._write(table, rewrite.apply(table, self.read(table)), "overwrite")
        return {run_id: int(number) for run_id, number in found}

    # -- reading -------------------------------------------------------------------------------

    def _read_version(self, table: str, version: int | None = None) -> DataFrame:
        """As in `LakeTables`. The files of the first version that is read are checked; later ones
        are of this program."""
        found = super()._read_version(table, version)
        if table not in self._own:
            with self._translate_errors("read"):
                require_own_spark_files(found, f"{self.path}/{table}", self.location(table))
            self._own.add(table)
        return found

    def rows(self, table: str) -> list[dict[str, Any]]:
        with self._translate_errors("read"):
            return collect_rows(self.read(table))

    def columns(
        self, table: str, columns: Sequence[str], conditions: Sequence[Condition] = ()
    ) -> pa.Table:
        with self._translate_errors("read"):
            found = self._where(table, conditions).select(*columns).toArrow()
        fields = TABLES[table].fields
        return found.cast(pa.schema([(name, fields[name]) for name in columns]))

    def distinct(
        self,
        table: str,
        columns: Sequence[str],
        conditions: Sequence[Condition] = (),
        inside: Sequence[Sequence[str]] = (),
    ) -> set[tuple[Any, ...]]:
        with self._translate_errors("read"):
            rows = self._where(table, conditions)
            parts = [rows.select(F.inline(".".join(path))) for path in inside] or [rows]
            found = reduce(DataFrame.union, (part.select(*columns) for part in parts))
            return {tuple(row) for row in found.distinct().collect()}

    def _where(self, table: str, conditions: Sequence[Condition]) -> DataFrame:
        rows = self.read(table)
        for condition in conditions:
            rows = rows.where(_column(condition))
        return rows

    def count(self, table: str) -> int:
        with self._translate_errors("read"):
            return self.read(table).count()

    def max_by_key(
        self, table: str, column: str, key: Sequence[str], unless: str, value: str
    ) -> dict[tuple[Any, ...], Any]:
        with self._translate_errors("read"):
            rows = self.read(table).where(F.col(unless) != value).groupBy(*key)
            found = rows.agg(F.max(column).alias("newest")).collect()
            return {tuple(row[name] for name in key): row["newest"] for row in found}


def _column(condition: Condition) -> Column:
    column = F.col(condition.column)
    found: Column
    if condition.operator == "known":
        found = column.isNotNull()
    elif condition.operator == "among":
        found = column.isin(*condition.value)
    elif condition.operator == "equals":
        found = column == condition.value
    else:
        found = column > condition.value
    return found


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
