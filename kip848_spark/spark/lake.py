"""A lake: a folder of Delta tables, made, written, restored and read at one point in time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kip848_spark.errors import LakeError
from kip848_spark.lake.folders import is_lake
from kip848_spark.lake.lease import Lease
from kip848_spark.spark import direct
from kip848_spark.spark.collecting import collected
from kip848_spark.spark.files import FILES, DataFile, Target, codec_of, table_writer
from kip848_spark.spark.hadoop import folder_of, location_of
from kip848_spark.spark.tables import TABLES, Table
from kip848_spark.spark.workers import Function, in_workers
from kip848_spark.storage import store_fault

Row = Mapping[str, Any]


class Lake:
    """The tables below ``path`` (a folder or a URI). Nothing is touched before it is asked for.

    ``by_spark``: have Spark write, as it does wherever its workers can't write files by themselves.
    Raises UsageError or LakeError if ``path`` is no place that Spark can reach.
    """

    def __init__(self, spark: SparkSession, path: str, *, by_spark: bool = False) -> None:
        self.spark = spark
        self.place = location_of(spark, path)
        self.path = self.place.text
        self.files = folder_of(spark, self.place)
        self.by_spark = by_spark
        self._lease: Lease | None = None
        self._expected: dict[str, int] = {}

    @property
    def is_direct(self) -> bool:
        """True if small things can be done without Spark."""
        return not self.by_spark and bool(self._folder) and self.place.suits_delta_rs

    @property
    def _folder(self) -> str:
        """The lake's folder on this machine; empty if it is elsewhere."""
        return "" if self.place.folder is None else str(self.place.folder)

    def location(self, table: str) -> str:
        """The URI of the Delta folder of ``table``."""
        return self.place.child(table)

    def _local(self, table: str) -> str:
        """The Delta folder of ``table``, on this machine."""
        return f"{self._folder}/{table}"

    # -- making ------------------------------------------------------------------------------

    def exists(self) -> bool:
        """True if there is a lake here. Raises LakeError if there is something else."""
        with self.faults("read"):
            return is_lake(self.files, self.path, TABLES)

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
            if not self._commits(table.name):
                with self.faults("made"):
                    self._create(table)
                self._expected[table.name] = self._version(table.name)

    def _create(self, table: Table) -> None:
        if self.is_direct:
            direct.make(self._local(table.name), table)
            return
        columns = ", ".join(
            f"`{f.name}` {f.dataType.simpleString()} COMMENT '{_sql(f.metadata['comment'])}'"
            for f in table.schema.fields
        )
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in table.properties.items())
        properties = f" TBLPROPERTIES ({pairs})" if pairs else ""
        place = f"delta.`{self.location(table.name)}`"
        self.spark.sql(f"CREATE TABLE {place} ({columns}) USING delta{properties}")

    def _commits(self, table: str) -> list[int]:
        """The versions of ``table`` that have a commit file; none if there is no such table."""
        names = self.files.names(f"{table}/_delta_log")
        return [int(name[:20]) for name in names if _COMMIT_FILE.fullmatch(name)]

    @contextmanager
    def leased(self) -> Iterator[None]:
        """Holds the lake's lease: no other run writes to it meanwhile, on any machine.

        From here on each table must have the versions that this process gives it. Raises LakeError
        if another run has the lease, or if the path is no place for a lake.
        """
        self.exists()  # no lease file goes into a folder that is something else
        with ExitStack() as stack:
            with self.faults("written"):
                self._lease = stack.enter_context(Lease.held(self.files, self.path))
                self._expected = self._versions_there()
            try:
                yield
            finally:
                self._lease = None

    @contextmanager
    def _commit(self, table: str) -> Iterator[int]:
        """One commit to ``table``: gives the version that it follows.

        Under a lease it is refused if the lease was lost or if the table is not at the version
        that this process last gave it. Raises LakeError.
        """
        with self.faults("written"):
            before = self._version(table)
            if self._lease is not None:
                self._lease.check()
                self._must_be(table, self._expected.get(table, before), before)
            yield before
            after = self._version(table)
            if self._lease is not None and after != before:
                self._must_be(table, before + 1, after)
                self._expected[table] = after

    def _must_be(self, table: str, expected: int, found: int) -> None:
        if found != expected:
            raise LakeError(
                f"Another program wrote to the table {table} of the lake {self.path} during this "
                f"run: it is at version {found}, expected {expected}.",
                "Nothing more was written. Run it again when nothing else writes to the lake: it "
                "restores the tables first.",
            )

    # -- writing -----------------------------------------------------------------------------

    def writes_directly(self, tables: Sequence[str]) -> bool:
        """True if the files of ``tables`` can be written without Spark: they are on this machine,
        Spark's workers are as well, and nobody has altered the tables."""
        return (
            self.is_direct
            and (self.spark.sparkContext.master or "").startswith("local")
            and all(direct.is_plain(self._local(name), TABLES[name]) for name in tables)
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
            folder=self._local(table),
            fields=TABLES[table].fields,
            constants=constants,
            stats=TABLES[table].stats_columns,
            codec=codec_of(codec or ""),
        )

    def add(self, tables: Sequence[str], files: Sequence[DataFile]) -> None:
        """Commits ``files`` to their tables, a commit a table."""
        for name in tables:
            if own := [file for file in files if file.table == name]:
                with self._commit(name) as version:
                    direct.commit(self._local(name), version, own)

    def append_rows(
        self, table: str, rows: Sequence[Row], run_id: str, cluster_id: str | None
    ) -> None:
        """Adds a few ``rows`` of a run."""
        if not rows:
            return
        if self.writes_directly([table]):
            target = self.target(table, run_id, cluster_id)
            with self._commit(table) as version:
                direct.commit(target.folder, version, direct.row_files(target, rows))
            return
        names = [n for n in TABLES[table].fields if n not in ("run_id", "cluster_id")]
        self.append(table, with_run(self._frame(table, rows, names), run_id, cluster_id))

    def replace_rows(self, table: str, rows: Sequence[Row], column: str, value: str) -> None:
        """Puts ``rows`` in the place of those that have ``value`` in ``column``. Of a small table:
        it may be written anew as a whole."""
        if self.writes_directly([table]):
            with self._commit(table) as version:
                others = [row for row in self.rows(table) if row[column] != value]
                files = direct.row_files(self.target(table), [*others, *rows])
                direct.commit(self._local(table), version, files, "overwrite")
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
            reported = in_workers(rows, writer, FILES).collect()
        files = [DataFile(**row["file"].asDict()) for row in reported]
        for name in tables:
            own = [file for file in files if file.table == name]
            with self._commit(name) as version:
                direct.commit(self._local(name), version, own, mode)

    def _write(self, table: str, rows: DataFrame, mode: str, options: Mapping[str, str]) -> None:
        columns = list(TABLES[table].fields)
        if not options and self.writes_directly([table]):
            writer = table_writer(self.target(table))
            self.write_files([table], rows.select(columns), writer, mode)
            return
        with self._commit(table):
            rows.select(columns).write.format("delta").mode(mode).options(**options).save(
                self.location(table)
            )

    def correct_statistics(self) -> None:
        """Corrects the statistics of files that an earlier version of this program wrote: they
        made other Delta readers skip rows. Raises LakeError if a table is missing."""
        for name in self.versions():
            if self.writes_directly([name]):
                actions = direct.corrections(self._local(name), TABLES[name])
                if actions:
                    with self._commit(name) as version:
                        direct.commit_actions(self._local(name), version, actions)

    def versions(self) -> dict[str, int]:
        """The newest Delta version of each table: its last commit file's number.

        `DESCRIBE HISTORY` says the same, a second a table.
        """
        return {name: self._version(name) for name in TABLES}

    def _versions_there(self) -> dict[str, int]:
        """As `versions`, of the tables that exist."""
        found = {name: self._commits(name) for name in TABLES}
        return {name: max(commits) for name, commits in found.items() if commits}

    def _version(self, table: str) -> int:
        commits = self._commits(table)
        if not commits:
            raise LakeError(
                f"The lake {self.path} has no table {table}.",
                "Put its folder back; what an earlier version did not have `kip848 audit` makes.",
            )
        return max(commits)

    def restore(self, versions: Mapping[str, int]) -> None:
        """Brings each table back to what it was at its version."""
        now = self.versions()
        for name, version in versions.items():
            if now[name] != version:
                with self._commit(name):
                    self.spark.sql(
                        f"RESTORE TABLE delta.`{self.location(name)}` TO VERSION AS OF {version}"
                    ).count()

    # -- reading -----------------------------------------------------------------------------

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a small table."""
        with self.faults("read"):
            if self.is_direct:
                return direct.rows(self._local(table))
            return collected(self.read(table))

    def count(self, table: str) -> int:
        """How many rows a table has."""
        with self.faults("read"):
            if self.is_direct:
                return direct.count(self._local(table))
            return self.read(table).count()

    def newest_of(
        self, table: str, column: str, key: Sequence[str], unless: str, value: str
    ) -> dict[tuple[Any, ...], Any]:
        """The largest ``column`` of each ``key``, of the rows in which ``unless`` is not
        ``value``."""
        with self.faults("read"):
            if self.is_direct:
                return direct.newest_of(self._local(table), column, key, unless, value)
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
            if version is None and self.is_direct and not _GLOB.search(self._folder):
                files = direct.plain_files(self._local(table), TABLES[table])
                if files is not None:
                    return self._of_files(files, TABLES[table])
            return reader.load(self.location(table))

    def _of_files(self, files: Sequence[str], table: Table) -> DataFrame:
        if not files:
            nothing = pa.schema(list(table.fields.items())).empty_table()
            return self.spark.createDataFrame(nothing).to(table.schema)
        uris = [f"file:{file}" for file in files]
        return self.spark.read.schema(table.schema).parquet(*uris)

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
            if fault := store_fault(text, f"the lake {self.path}"):
                raise fault from None
            if isinstance(cause, DeltaError | OSError):
                first = text.splitlines()[0] if text else type(cause).__name__
                raise LakeError(f"The lake {self.path} can't be {verb}: {first}") from None
            raise


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
