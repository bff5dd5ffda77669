"""A lake: a folder of Delta tables, made, written, restored and read at one point in time."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kip848_spark.errors import LakeError
from kip848_spark.spark import direct
from kip848_spark.spark.files import FILES, DataFile, Target, codec_of, table_writer
from kip848_spark.spark.tables import TABLES, Table
from kip848_spark.spark.workers import Function, in_workers
from kip848_spark.state import LOCK, is_lake

Row = Mapping[str, Any]


class Lake:
    """The tables below ``path`` (a folder or a URI). Nothing is touched before it is asked for."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.path = path.rstrip("/") or "/"

    @property
    def is_local(self) -> bool:
        return "://" not in self.path

    @property
    def is_direct(self) -> bool:
        """True if small things can be done without Spark. delta-rs reads ``%20`` in a path as a
        blank, so such a lake is left to Spark."""
        return self.is_local and not _ESCAPE.search(str(Path(self.path).absolute()))

    def location(self, table: str) -> str:
        """Where the Delta folder of ``table`` is."""
        return f"{self.path}/{table}"

    # -- making ------------------------------------------------------------------------------

    def exists(self) -> bool:
        """True if there is a lake here. Raises LakeError if there is something else."""
        if not self.is_local:
            return self._is_table("runs")
        return is_lake(self.path, TABLES)

    def must_exist(self) -> None:
        """Raises LakeError unless there is a lake here."""
        if not self.exists():
            raise LakeError(
                f"There is no lake at {self.path}.", "`kip848 run` makes it, or name another."
            )

    def make(self) -> None:
        """Makes the tables that are not there yet, empty; `runs` last, so that it vouches for
        the others."""
        for table in sorted(TABLES.values(), key=lambda t: t.name == "runs"):
            if not self._is_table(table.name):
                with self.faults("made"):
                    self._create(table)

    def _create(self, table: Table) -> None:
        if self.is_direct:
            direct.make(self.location(table.name), table)
            return
        columns = ", ".join(
            f"`{f.name}` {f.dataType.simpleString()} COMMENT '{_sql(f.metadata['comment'])}'"
            for f in table.schema.fields
        )
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in table.properties.items())
        properties = f" TBLPROPERTIES ({pairs})" if pairs else ""
        place = f"delta.`{self.location(table.name)}`"
        self.spark.sql(f"CREATE TABLE {place} ({columns}) USING delta{properties}")

    def _is_table(self, name: str) -> bool:
        if self.is_local:
            return (Path(self.location(name)) / "_delta_log").is_dir()
        jvm = self.spark._jvm
        assert jvm is not None
        delta = jvm.io.delta.tables.DeltaTable
        return bool(delta.isDeltaTable(self.spark._jsparkSession, self.location(name)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other writers of this machine out; the lock goes with the process that holds it.

        For a lake behind a URI the scheduler has to see to that (one run at a time). Raises
        LakeError if it is held, or if the path is no place for a lake.
        """
        self.exists()  # never put a lock into a folder that is something else
        if not self.is_local:
            yield
            return
        folder = Path(self.path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = (folder / LOCK).open("w")
        except OSError as cause:
            raise LakeError(
                f"The lake {self.path} can't be written: {cause.strerror}.",
                "Check the path and its permissions.",
            ) from None
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(
                    f"Another run is writing to the lake {self.path}.", "Wait until it is done."
                ) from None
            yield

    # -- writing -----------------------------------------------------------------------------

    def writes_directly(self, tables: Sequence[str]) -> bool:
        """True if the files of ``tables`` can be written without Spark: they are on this machine,
        Spark's workers are as well, and nobody has altered the tables."""
        return (
            self.is_direct
            and (self.spark.sparkContext.master or "").startswith("local")
            and all(direct.is_plain(self.location(name), TABLES[name]) for name in tables)
        )

    def target(
        self, table: str, run_id: str | None = None, cluster_id: str | None = None
    ) -> Target:
        """Where files of ``table`` go. ``run_id`` and ``cluster_id`` are those of all rows, in
        tables that have such columns; without a run the rows bring them along."""
        codec = self.spark.conf.get("spark.sql.parquet.compression.codec")
        constants = {"run_id": run_id, "cluster_id": cluster_id} if run_id else {}
        return Target(
            table=table,
            folder=str(Path(self.location(table)).absolute()),
            fields=TABLES[table].fields,
            constants=constants,
            stats=TABLES[table].stats_columns,
            codec=codec_of(codec or ""),
        )

    def add(self, tables: Sequence[str], files: Sequence[DataFile]) -> None:
        """Commits ``files`` to their tables, a commit a table."""
        for name in tables:
            if own := [file for file in files if file.table == name]:
                with self.faults("written"):
                    direct.commit(self.location(name), own)

    def append_rows(
        self, table: str, rows: Sequence[Row], run_id: str, cluster_id: str | None
    ) -> None:
        """Adds a few ``rows`` of a run."""
        if not rows:
            return
        if self.writes_directly([table]):
            with self.faults("written"):
                direct.write_rows(self.target(table, run_id, cluster_id), rows)
            return
        names = [n for n in TABLES[table].fields if n not in ("run_id", "cluster_id")]
        self.append(table, with_run(self._frame(table, rows, names), run_id, cluster_id))

    def replace_rows(self, table: str, rows: Sequence[Row], column: str, value: str) -> None:
        """Puts ``rows`` in the place of those that have ``value`` in ``column``. Of a small table:
        it may be written anew as a whole."""
        if self.writes_directly([table]):
            others = [row for row in self.rows(table) if row[column] != value]
            with self.faults("written"):
                direct.write_rows(self.target(table), [*others, *rows], "overwrite")
            return
        frame = self._frame(table, rows, list(TABLES[table].fields))
        self.overwrite(table, frame, f"{column} = '{value}'")

    def _frame(self, table: str, rows: Sequence[Row], names: Sequence[str]) -> DataFrame:
        schema = T.StructType([f for f in TABLES[table].schema.fields if f.name in names])
        values = [[row[name] for name in names] for row in rows]
        return self.spark.createDataFrame(values, schema).coalesce(1)

    def append(self, table: str, rows: DataFrame) -> None:
        """Adds ``rows`` (the columns of the table, in its order)."""
        self._write(table, rows, "append", {})

    def overwrite(self, table: str, rows: DataFrame, where: str | None = None) -> None:
        """Puts ``rows`` in the place of all there are, or of those for which ``where`` holds."""
        self._write(table, rows, "overwrite", {"replaceWhere": where} if where else {})

    def write_files(
        self, tables: Sequence[str], rows: DataFrame, writer: Function, mode: str
    ) -> None:
        """Has the workers write ``rows`` to files of ``tables`` and commits these: added, or
        (``overwrite``) as all there is. ``writer`` reports in rows of `FILES`."""
        with self.faults("written"):
            told = in_workers(rows, writer, FILES).collect()
            files = [DataFile(**row["file"].asDict()) for row in told]
            for name in tables:
                own = [file for file in files if file.table == name]
                direct.commit(self.location(name), own, mode)

    def _write(self, table: str, rows: DataFrame, mode: str, options: Mapping[str, str]) -> None:
        columns = list(TABLES[table].fields)
        if not options and self.writes_directly([table]):
            writer = table_writer(self.target(table))
            self.write_files([table], rows.select(columns), writer, mode)
            return
        with self.faults("written"):
            rows.select(columns).write.format("delta").mode(mode).options(**options).save(
                self.location(table)
            )

    def versions(self) -> dict[str, int]:
        """The newest Delta version of each table: its last commit file's number.

        `DESCRIBE HISTORY` says the same, a second a table.
        """
        return {name: self._version(name) for name in TABLES}

    def _version(self, table: str) -> int:
        if self.is_local and not self._is_table(table):
            raise LakeError(
                f"The lake {self.path} has no table {table}.",
                "Put its folder back; what an earlier version did not have `kip848 audit` makes.",
            )
        names = self._listed(f"{self.location(table)}/_delta_log")
        return max(int(name[:20]) for name in names if _COMMIT_FILE.fullmatch(name))

    def _listed(self, folder: str) -> list[str]:
        """The names in a folder; Spark takes three calls for each."""
        if self.is_local:
            return [path.name for path in Path(folder).iterdir()]
        jvm, context = self.spark._jvm, self.spark.sparkContext
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(folder)
        system = path.getFileSystem(context._jsc.hadoopConfiguration())
        return [status.getPath().getName() for status in system.listStatus(path)]

    def restore(self, versions: Mapping[str, int]) -> None:
        """Brings each table back to what it was at its version."""
        now = self.versions()
        for name, version in versions.items():
            if now[name] != version:
                with self.faults("restored"):
                    self.spark.sql(
                        f"RESTORE TABLE delta.`{self.location(name)}` TO VERSION AS OF {version}"
                    ).count()

    # -- reading -----------------------------------------------------------------------------

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a small table."""
        with self.faults("read"):
            if self.is_direct:
                return direct.rows(self.location(table))
            return [row.asDict() for row in self.read(table).collect()]

    def count(self, table: str) -> int:
        """How many rows a table has."""
        with self.faults("read"):
            if self.is_direct:
                return direct.count(self.location(table))
            return self.read(table).count()

    def newest_of(
        self, table: str, column: str, key: Sequence[str], unless: str, value: str
    ) -> dict[tuple[Any, ...], Any]:
        """The largest ``column`` of each ``key``, of the rows in which ``unless`` is not
        ``value``."""
        with self.faults("read"):
            if self.is_direct:
                return direct.newest_of(self.location(table), column, key, unless, value)
            rows = self.read(table).where(F.col(unless) != value).groupBy(*key)
            found = rows.agg(F.max(column).alias("newest")).collect()
            return {tuple(row[name] for name in key): row["newest"] for row in found}

    def read(self, table: str, version: int | None = None) -> DataFrame:
        """A table, as it is now or as it was at ``version``.

        Of a plain table on this machine Spark is given the files: to find them by itself, Delta
        runs some jobs a table.
        """
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        with self.faults("read"):
            if version is None and self.is_direct and not _GLOB.search(self.path):
                files = direct.plain_files(self.location(table), TABLES[table])
                if files is not None:
                    return self._of_files(files, TABLES[table])
            return reader.load(self.location(table))

    def _of_files(self, files: Sequence[str], table: Table) -> DataFrame:
        if not files:
            nothing = pa.schema(list(table.fields.items())).empty_table()
            return self.spark.createDataFrame(nothing).to(table.schema)
        return self.spark.read.schema(table.schema).parquet(*files)

    @contextmanager
    def faults(self, verb: str) -> Iterator[None]:
        """Turns what Spark says of an unreachable or foreign folder into one sentence."""
        try:
            yield
        except (PySparkException, Py4JJavaError, DeltaError, OSError) as cause:
            text = str(cause)
            for sign in ("Permission denied", "Read-only file system", "No space left", "Mkdirs"):
                if sign in text:
                    raise LakeError(
                        f"The lake {self.path} can't be {verb}: {sign.lower()}.",
                        "Check the path and its permissions.",
                    ) from None
            if isinstance(cause, DeltaError | OSError):
                first = text.splitlines()[0] if text else type(cause).__name__
                raise LakeError(f"The lake {self.path} can't be {verb}: {first}") from None
            raise


_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_GLOB = re.compile(r"[][*?{}\\]")
"""What Spark takes for a pattern in the name of a file."""
_COMMIT_FILE = re.compile(r"\d{20}\.json")


def _sql(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def with_run(rows: DataFrame, run_id: str, cluster_id: str | None) -> DataFrame:
    """``rows`` with the columns ``run_id`` and ``cluster_id``."""
    return rows.withColumns(
        {"run_id": F.lit(run_id), "cluster_id": F.lit(cluster_id).cast("string")}
    )
