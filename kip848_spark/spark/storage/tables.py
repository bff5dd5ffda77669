"""The interface of a lake's tables, and the shared part of its implementations: lease, versions."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kip848_spark.config.storage import store_fault
from kip848_spark.errors import LakeError
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.folders import NO_LAKE_HINT, folder_fault, is_lake
from kip848_spark.lake.lease import Lease
from kip848_spark.lake.location import Location
from kip848_spark.lake.rows_with import RowsWith
from kip848_spark.lake.tables import TABLES, TableDefinition
from kip848_spark.spark.catalog import CatalogSchema
from kip848_spark.spark.error_messages import jvm_has_ended
from kip848_spark.spark.hadoop import folder_of
from kip848_spark.spark.schemas import spark_schema
from kip848_spark.spark.storage.table_job import TableJob, TableJobResult
from kip848_spark.spark.storage.upkeep import Upkeep

TableRow = Mapping[str, Any]
"""A row of a table: plain values by column."""
_READ_ERRORS = (DeltaError, OSError, pa.ArrowException)
_COMMIT_FILE = re.compile(r"\d{20}\.json")


class LakeTables(Upkeep):
    """The tables of the lake at ``place``. Nothing is read or written before a method is called.

    `open_lake` creates one.
    """

    def __init__(self, spark: SparkSession, place: Location) -> None:
        self.spark = spark
        self.place = place
        self.path = place.text
        self.files = folder_of(spark, place)
        self.schema: CatalogSchema | None = None  # in which the tables are registered
        self._lease: Lease | None = None
        self._expected: dict[str, int] = {}

    @property
    def pins_reads(self) -> bool:
        """Whether a DataFrame of `read` stays the same when the table changes."""
        return False

    def location(self, table: str) -> str:
        """The URI of the Delta folder of ``table``."""
        return self.place.child(table)

    # -- what each implementation does in its own way ------------------------------------------

    @abstractmethod
    def _create(self, table: TableDefinition) -> None:
        """Creates an empty table."""

    @abstractmethod
    def run_job(
        self, job: TableJob, rows: DataFrame, run_id: str, cluster_id: str | None
    ) -> TableJobResult:
        """Runs ``job`` on ``rows`` and commits each table once. Raises LakeError."""

    @abstractmethod
    def _restore(self, table: str, version: int) -> None:
        """Restores a table to ``version``, with its columns and properties."""

    @abstractmethod
    def append(self, table: str, rows: DataFrame) -> None:
        """Appends ``rows`` (all columns of the table). Raises LakeError."""

    @abstractmethod
    def overwrite(self, table: str, rows: DataFrame) -> None:
        """Replaces all rows by ``rows`` (all columns of the table). Raises LakeError."""

    @abstractmethod
    def append_rows(
        self, table: str, rows: Sequence[TableRow], run_id: str, cluster_id: str | None
    ) -> None:
        """Appends a few ``rows`` of a run. Raises LakeError."""

    @abstractmethod
    def append_columns(
        self, table: str, rows: pa.Table, run_id: str, cluster_id: str | None
    ) -> None:
        """Appends ``rows`` of a run, which the driver has as an Arrow table. Raises LakeError."""

    @abstractmethod
    def replace_rows(
        self, table: str, rows: Sequence[TableRow], column: str, values: Sequence[str]
    ) -> None:
        """Replaces the rows that have one of ``values`` in ``column`` by ``rows``, in one commit.
        For small tables: the whole table may be rewritten. Raises LakeError."""

    @abstractmethod
    def replace_values(
        self, table: str, rows: DataFrame, column: str, values: Sequence[Any]
    ) -> None:
        """Replaces all rows that have one of ``values`` (not null) in ``column`` by ``rows`` (all
        columns of the table), in one commit. Raises LakeError."""

    @abstractmethod
    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a small table. Raises LakeError."""

    @abstractmethod
    def columns(
        self, table: str, columns: Sequence[str], conditions: Sequence[Condition] = ()
    ) -> pa.Table:
        """These columns of the rows that fulfil all conditions, for what fits into the driver's
        memory. Raises LakeError."""

    @abstractmethod
    def distinct(
        self,
        table: str,
        columns: Sequence[str],
        conditions: Sequence[Condition] = (),
        inside: Sequence[Sequence[str]] = (),
    ) -> set[tuple[Any, ...]]:
        """The distinct values of ``columns``, of which there are few, in the rows that fulfil all
        conditions. ``inside``: the columns are fields of the structs in the lists with these
        paths. Raises LakeError."""

    @abstractmethod
    def count(self, table: str) -> int:
        """The number of rows of a table. Raises LakeError."""

    @abstractmethod
    def max_by_key(
        self, table: str, column: str, key: Sequence[str], unless: str, value: str
    ) -> dict[tuple[Any, ...], Any]:
        """The largest ``column`` for each ``key``, of the rows in which ``unless`` is not
        ``value``. Raises LakeError."""

    @abstractmethod
    def table_properties(self, table: str) -> dict[str, str]:
        """Delta's table properties of a table, as they were set. Raises LakeError."""

    @abstractmethod
    def _set_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Sets table properties, in one commit."""

    @abstractmethod
    def _field_paths(self, table: str) -> Sequence[str]:
        """The names of the columns that a table has, and the fields of its structs, as
        ``column.field``."""

    @abstractmethod
    def _add_columns(self, table: str, names: Sequence[str]) -> None:
        """Adds the columns ``names`` of the table's definition, in one commit. They are null in
        all rows. Of a struct that the table has, adds the fields that are missing."""

    @abstractmethod
    def correct_statistics(self) -> None:
        """Corrects the statistics of files that an earlier version of this program wrote, which
        make other Delta readers skip rows. Raises LakeError if a table is missing."""

    # -- creating ------------------------------------------------------------------------------

    def exists(self) -> bool:
        """True if there is a lake. Raises UsageError if its path holds something else, or LakeError
        if it can't be listed."""
        with self._translate_errors("read"):
            return is_lake(self.files, self.path, TABLES)

    def require(self) -> None:
        """Raises LakeError unless there is a lake."""
        if not self.exists():
            raise LakeError(
                f"There is no lake at {self.path}.",
                NO_LAKE_HINT,
            )

    def create(self) -> None:
        """Creates the tables that do not exist. `runs` comes last: a lake that has it has all other
        tables."""
        for table in sorted(TABLES.values(), key=lambda t: t.name == "runs"):
            if not self._commits(table.name):
                self._create_table(table)

    def _create_table(self, table: TableDefinition) -> None:
        with self._translate_errors("created"):
            self._create(table)
        self._expected[table.name] = self._version(table.name)

    def upgrade(self) -> None:
        """Brings a lake of an earlier version of this program up to date: tables and columns that
        it did not have, the statistics of files, and the properties of tables.

        `runs` gets the properties last: if it has them, all tables have those that tables share;
        `records` got one of its own later. Raises LakeError if a
        table is missing that a run has written.
        """
        self._create_new_tables()
        if self.schema is not None:
            self.schema.register(self.spark, TABLES, self.location)
        self.correct_statistics()
        with ThreadPoolExecutor(len(TABLES)) as pool:  # Spark takes a while to open a table
            for name, missing in zip(TABLES, pool.map(self._missing_columns, TABLES), strict=True):
                self._complete(name, missing)
        if any(map(self._missing_properties, ("records", "runs"))):
            for name in sorted(TABLES, key=lambda name: name == "runs"):
                self._complete_properties(name)

    def _create_new_tables(self) -> None:
        missing = [table for table in TABLES.values() if not self._commits(table.name)]
        if missing:
            written = {name for run in self.rows("runs") for name in run["table_versions"]}
            for table in missing:
                if table.name not in written:
                    self._create_table(table)

    def _missing_columns(self, table: str) -> list[str]:
        with self._translate_errors("read"):
            found = set(self._field_paths(table))
        return [
            name
            for name, type_ in TABLES[table].fields.items()
            if name not in found
            or (
                pa.types.is_struct(type_)
                and not {f"{name}.{field.name}" for field in type_} <= found
            )
        ]

    def _complete(self, table: str, missing: Sequence[str]) -> None:
        if missing:
            with self._commit(table):
                self._add_columns(table, missing)

    def _missing_properties(self, table: str) -> dict[str, str]:
        return TABLES[table].missing_properties(self.table_properties(table))

    def _complete_properties(self, table: str) -> None:
        if missing := self._missing_properties(table):
            with self._commit(table):
                self._set_properties(table, missing)

    # -- lease and versions --------------------------------------------------------------------

    @contextmanager
    def hold_lease(self) -> Iterator[None]:
        """Holds the lake's lease until the block ends: no other run writes to the lake, on any
        machine.

        In the block, every commit checks that no other program has committed to the table. Raises
        LakeError if another run has the lease, or if the path is no lake."""
        self.exists()  # so that no lease file is written to a folder of other files
        with ExitStack() as stack:
            with self._translate_errors("written"):
                self._lease = stack.enter_context(Lease.hold(self.files, self.path))
                self._expected = self._existing_versions()
            try:
                yield
            finally:
                self._lease = None

    @contextmanager
    def _commit(self, table: str) -> Iterator[int]:
        """Surrounds one commit to ``table`` and yields the version that it follows. Raises as
        `_require_own` does."""
        with self._translate_errors("written"):
            before = self._require_own(table)
            yield before
            after = self._version(table)
            if self._lease is not None and after != before:
                self._require_version(table, before + 1, after)
                self._expected[table] = after

    def _require_own(self, table: str) -> int:
        """The version of ``table``. Under a lease, raises LakeError if it was lost, or if the table
        is not at this process's last version: then nothing may be written or deleted."""
        found = self._version(table)
        if self._lease is not None:
            self._lease.check()
            self._require_version(table, self._expected.get(table, found), found)
        return found

    def _require_version(self, table: str, expected: int, found: int) -> None:
        if found != expected:
            raise LakeError(
                f"Another program wrote to the table {table} of the lake {self.path} during this "
                f"run: it is at version {found}, expected {expected}.",
                "This run has stopped writing. Start it again when nothing else writes to the "
                "lake; it restores the tables first.",
            )

    def versions(self) -> dict[str, int]:
        """The newest Delta version of each table, which is the number of its last commit file.
        Raises LakeError if a table is missing."""
        return {name: self._version(name) for name in TABLES}

    def _existing_versions(self) -> dict[str, int]:
        """As `versions`, for the tables that exist."""
        found = {name: self._commits(name) for name in TABLES}
        return {name: max(commits) for name, commits in found.items() if commits}

    def _version(self, table: str) -> int:
        commits = self._commits(table)
        if not commits:
            raise LakeError(
                f"The lake {self.path} has no table {table}.",
                "Restore its folder from a copy.",
            )
        return max(commits)

    def _commits(self, table: str) -> list[int]:
        """The versions of ``table`` that have a commit file; empty if there is no such table.
        Raises LakeError."""
        with self._translate_errors("read"):
            names = self.files.names(f"{table}/_delta_log")
        return [int(name[:20]) for name in names if _COMMIT_FILE.fullmatch(name)]

    def restore(self, versions: Mapping[str, int]) -> None:
        """Restores each table to its version in ``versions``. Raises LakeError."""
        now = self.versions()
        for name, version in versions.items():
            if now[name] != version:
                with self._commit(name):
                    self._restore(name, version)
                # This also restores the columns and the properties of that version.
                self._complete(name, self._missing_columns(name))
                self._complete_properties(name)

    # -- reading -------------------------------------------------------------------------------

    def read(self, table: str, version: int | None = None) -> DataFrame:
        """A table at its newest version, or at ``version``. Columns of its definition that it
        lacked then are null. Raises LakeError."""
        found = self._read_version(table, version)
        own = spark_schema(TABLES[table])
        if all(name in found.columns for name in own.names):
            return found
        return found.select(
            *(
                F.col(field.name)
                if field.name in found.columns
                else F.lit(None).cast(field.dataType).alias(field.name, metadata=field.metadata)
                for field in own
            ),
            *(name for name in found.columns if name not in own.names),
        )

    def read_later(
        self, table: str, after: str | None, without: RowsWith | None = None
    ) -> DataFrame:
        """The rows of runs later than ``after`` (of all runs if None), except ``without``. Raises
        LakeError."""
        rows = self._read_some(table, after, without)
        if after is not None:
            rows = rows.where(F.col("run_id") > after)
        return rows if without is None else rows.where(without.other_sql)

    def _read_some(self, table: str, after: str | None, without: RowsWith | None) -> DataFrame:
        """At least the rows that `read_later` needs."""
        return self.read(table)

    def rows_to_read(self, table: str, after: str | None, without: RowsWith | None = None) -> int:
        """The number of rows that `read_later` reads to find its own, or more. Raises LakeError."""
        return self.count(table)

    def _read_version(self, table: str, version: int | None = None) -> DataFrame:
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        with self._translate_errors("read"):
            return reader.load(self.location(table))

    @contextmanager
    def _translate_errors(self, verb: str) -> Iterator[None]:
        """Turns exceptions about a folder that can't be read or written into a LakeError."""
        try:
            yield
        except (PySparkException, Py4JJavaError, *_READ_ERRORS) as cause:
            if isinstance(cause, ConnectionError) and jvm_has_ended(cause):
                raise
            text = str(cause)
            if fault := folder_fault(text, f"The lake {self.path} can't be {verb}"):
                raise fault from None
            if fault := store_fault(text, f"the lake {self.path}"):
                raise fault from None
            if isinstance(cause, _READ_ERRORS):
                first = text.splitlines()[0] if text else type(cause).__name__
                raise LakeError(f"The lake {self.path} can't be {verb}: {first}") from None
            raise
