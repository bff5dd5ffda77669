"""A snapshot of a lake: every table at the version that one finished run left.

`LakeSnapshot` reads through delta-rs, without a JVM, and `spark.views.LakeViews` reads through
Spark. Both choose the run by `finished_run`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError

from kip848_spark.config.storage import store_fault
from kip848_spark.errors import LakeError, NotFoundError, near, no_such_group
from kip848_spark.lake.conditions import Condition, all_of
from kip848_spark.lake.delta_folder import STORES, require_own_files
from kip848_spark.lake.folders import (
    DAMAGED_HINT,
    NO_LAKE_HINT,
    LocalFolder,
    check_commits,
    is_lake,
)
from kip848_spark.lake.ledger import DONE, FORGET, VACUUM, Run
from kip848_spark.lake.location import Location, scheme_of
from kip848_spark.lake.tables import TABLES, TableDefinition

_TABLES_AT_ONCE = 8
NOT_REPLAYED = "The last records of the lake were not replayed. Run `kip848 replay` first."
"""The note for a lake whose state tables lag behind its records (`Run.is_replayed`)."""


class OnlySparkReads(LakeError):
    """Only Spark can read the lake, or one of its tables."""


_LATER_HINT = (
    "Ask for a later time. `groups --as-of`, `history` and `explain` need no old versions."
)
_AGAIN_HINT = "The lake is not damaged: start the command again."
_MISSING = re.compile(
    "no such file|object at location .* not found|does not exist|no files in log segment", re.I
)
"""Messages about a file or a version of a table that is not there."""
_NO_TABLE = re.compile(
    "No files in log segment|Unable to recognise URL|Could not parse .* as a URL"
)
_EMPTY_PART = "contained empty path segment"
"""What delta-rs says about a place on a store that has no table, or can't have one."""


class LakeSnapshot:
    """The tables of the lake at ``place`` as the last finished run left them, or the last run that
    had finished by ``as_of`` (UTC).

    ``storage`` has the object store options of delta-rs. Raises LakeError if there is no such run,
    or if delta-rs can't read the lake.
    """

    def __init__(
        self,
        place: Location,
        as_of: datetime | None = None,
        *,
        storage: Mapping[str, str] | None = None,
    ) -> None:
        self.place = place
        self.path = place.text
        self._storage = dict(storage or {})
        self._datasets: dict[str, ds.Dataset] = {}
        if place.folder is not None and not _is_lake(place.folder, self.path):
            raise LakeError(f"There is no lake at {self.path}.", NO_LAKE_HINT)
        self._cleaned: list[Run] = []
        """Later runs that have deleted files or versions of tables."""
        with self._translate_errors("runs"), self._no_lake():
            runs = self._dataset("runs", None).to_table(use_threads=False)
        rows = plain(runs)
        self.run = Run.from_row(finished_run(self.path, rows, as_of))
        self._cleaned = _cleaning(rows, self.run.run_id)

    def earlier(self, as_of: datetime) -> LakeSnapshot:
        """The same lake as the last run that had finished by ``as_of`` (UTC) left it. Raises
        LakeError if there is none."""
        return LakeSnapshot(self.place, as_of, storage=self._storage)

    def has(self, table: str) -> bool:
        """Whether the lake had this table at the end of the run. Lakes of earlier versions lack
        some."""
        return table == "runs" or (table in TABLES and table in self.run.table_versions)

    def dataset(self, table: str) -> ds.Dataset:
        """A table as an Arrow dataset, which is read batch by batch; for `runs`, the runs that had
        finished by then. Columns that the table lacked at that run are null.

        Raises NotFoundError if there is no such table, LakeError if the table can't be read.
        """
        if table not in TABLES:
            raise NotFoundError(
                f"A lake has no table {table}.", near(table, TABLES, f"It has {', '.join(TABLES)}.")
            )
        if table == "runs":
            with self._translate_errors(table):
                found = self._dataset("runs", None)
            done = (pc.field("outcome") == DONE) & (pc.field("run_id") <= self.run.run_id)
            return found.filter(done)
        if not self.has(table):
            raise LakeError(
                f"The lake {self.path} had no table {table} at run {self.run.run_id}.",
                "An earlier version of this program wrote it; a new run adds the table.",
            )
        with self._translate_errors(table):
            return self._dataset(table, self.run.table_versions[table])

    def open_tables(self) -> None:
        """Opens all tables at the same time, for a reader of most of them: opening one takes some
        milliseconds, or several requests to an object store. Raises nothing: the error of a table
        that can't be opened comes when it is read."""
        names = [name for name in TABLES if self.has(name)]
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
            for opened in [pool.submit(self.dataset, name) for name in names]:
                with suppress(LakeError):
                    opened.result()

    def table(self, table: str, groups: Sequence[str] | None = None) -> pa.Table:
        """A table as an Arrow table: the rows of ``groups``, all if None. Raises as `dataset`
        does."""
        return self.select(table, None if groups is None else one_of("group_id", groups))

    def select(
        self,
        table: str,
        wanted: pc.Expression | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The rows for which ``wanted`` is true (all if None), with ``columns`` (all if None).
        Raises as `dataset` does."""
        found = self.dataset(table)
        with self._translate_errors(table):
            return found.to_table(
                None if columns is None else list(columns), filter=wanted, use_threads=False
            )

    def read(self, table: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        """As `select`: this makes the snapshot a `TableReader`."""
        return self.select(table, all_of(conditions), columns)

    def rows(self, table: str, groups: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """As `table`, as plain values."""
        return plain(self.table(table, groups))

    def group_ids(self, table: str) -> set[str]:
        """The ids of all groups in a table. Only the column ``group_id`` is read."""
        found = self.dataset(table)
        names: set[str | None] = set()
        with self._translate_errors(table):
            for batch in found.to_batches(columns=["group_id"]):
                names.update(pc.unique(batch.column(0)).to_pylist())
        return {name for name in names if name is not None}

    def count_rows(self, table: str) -> int:
        """The number of rows of a table. Raises as `dataset` does."""
        found = self.dataset(table)
        with self._translate_errors(table):
            return int(found.count_rows())

    def _dataset(self, table: str, version: int | None) -> ds.Dataset:
        if table not in self._datasets:
            if self.place.folder is not None:
                check_commits(self.place.folder, [table])
            found = DeltaTable(self._uri(table), version=version, storage_options=self._storage)
            require_own_files(found, self._uri(table))
            self._datasets[table] = _dataset_without_statistics(found, TABLES[table])
        return self._datasets[table]

    def missing_group(self, name: str) -> NotFoundError:
        """The error that says that there is no group ``name``, with similar names."""
        return no_such_group(name, self.group_ids("groups"))

    @contextmanager
    def _translate_errors(self, table: str) -> Iterator[None]:
        try:
            yield
        except DeltaProtocolError as cause:
            first = str(cause).splitlines()[0]
            raise OnlySparkReads(
                f"The table {table} of the lake {self.path} can only be read through Spark: {first}"
            ) from None
        except (DeltaError, OSError, pa.ArrowException) as cause:
            what = f"the table {table} of the lake {self.path}"
            raise self.unreadable(what, str(cause), table) from None

    def unreadable(self, what: str, cause: str, table: str | None = None) -> LakeError:
        """The error that says why ``what`` (the lake, or its ``table``) can't be read. ``cause`` is
        what a library says."""
        if fault := store_fault(cause, f"the lake {self.path}"):
            return fault
        first = cause.splitlines()[0]
        if _MISSING.search(cause) and table != "runs":
            if self._cleaned:
                return self._deleted(what, first, self._cleaned, _LATER_HINT)
            if cleaned := self._cleaned_meanwhile():
                return self._deleted(what, first, cleaned, _AGAIN_HINT)
        return LakeError(f"{what[0].upper()}{what[1:]} can't be read: {first}", DAMAGED_HINT)

    def _cleaned_meanwhile(self) -> list[Run]:
        """As `_cleaned`, by the table `runs` as it is now."""
        try:
            found = DeltaTable(self._uri("runs"), storage_options=self._storage)
            rows = plain(found.to_pyarrow_dataset().to_table(use_threads=False))
        except (DeltaError, OSError, pa.ArrowException):
            return []
        return _cleaning(rows, self.run.run_id)

    @contextmanager
    def _no_lake(self) -> Iterator[None]:
        """Raises LakeError if the block finds that there is no lake on the store."""
        try:
            yield
        except DeltaError as cause:
            if _EMPTY_PART in str(cause):
                hint = "Write one slash between the parts of the path, not two."
            elif self.place.folder is None and _NO_TABLE.search(str(cause)):
                hint = NO_LAKE_HINT
            else:
                raise
            raise LakeError(f"There is no lake at {self.path}.", hint) from None

    def _deleted(self, what: str, first: str, cleaned: Sequence[Run], hint: str) -> LakeError:
        """The error for ``what`` of which the runs ``cleaned`` have deleted a file or version."""
        last = max(cleaned, key=lambda run: run.run_id)
        return LakeError(
            f"{what[0].upper()}{what[1:]} can't be read as run {self.run.run_id} left it, since "
            f"`kip848 maintain` (run {last.run_id}) has deleted old versions of the tables: "
            f"{first}",
            hint,
        )

    def _uri(self, table: str) -> str:
        readable = self.place.folder is not None or scheme_of(self.place.uri) in (*STORES, "hdfs")
        if (escape := self.place.escape) is not None:
            raise OnlySparkReads(
                f"The lake {self.path} can only be read through Spark: its path has a percent sign "
                f"({escape}), which delta-rs reads as another character.",
                "`kip848 sql` reads it. The other commands need a path without one.",
            )
        if not readable:
            raise OnlySparkReads(
                f"The lake {self.path} can only be read through Spark.",
                "`kip848 sql` reads every lake that Spark can reach. If this is a schema of a "
                "catalog, name its folder instead.",
            )
        return str(self.place.folder / table) if self.place.folder else self.place.child(table)


def _is_lake(folder: Path, path: str) -> bool:
    try:
        return is_lake(LocalFolder(folder), path, ())
    except OSError as cause:
        raise LakeError(f"The lake {path} can't be read: {cause.strerror}.") from None


def _cleaning(rows: Iterable[Mapping[str, Any]], after: str) -> list[Run]:
    """The finished runs later than the run ``after`` that have deleted files or versions of tables,
    of these ``rows`` of `runs`."""
    later = (row for row in rows if row["outcome"] == DONE and row["run_id"] > after)
    found = (Run.from_row(row) for row in later)
    return [run for run in found if not {VACUUM, FORGET}.isdisjoint(run.durations_ms)]


def one_of(column: str, values: Iterable[str]) -> pc.Expression:
    """True for the rows that have one of the texts ``values``, of which there may be none, in
    ``column``."""
    return pc.field(column).isin(pa.array(sorted(values), pa.string()))


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of ``table`` as plain values."""
    return list(table.to_pylist(maps_as_pydicts="strict"))


def _dataset_without_statistics(table: DeltaTable, definition: TableDefinition) -> ds.Dataset:
    """A dataset of ``table`` with all columns of its ``definition``.

    It ignores Delta's statistics of the files: those that earlier versions of this program wrote
    make readers skip rows that exist. Without a schema, delta-rs does not even read them.
    """
    found = table.to_pyarrow_dataset(schema=pa.schema([]))
    schema = definition.complete(pa.schema(table.schema().to_arrow()))
    fragments = list(found.get_fragments())
    return ds.FileSystemDataset(fragments, schema, found.format, found.filesystem)


def finished_run(
    path: str, runs: Iterable[Mapping[str, Any]], as_of: datetime | None = None
) -> Mapping[str, Any]:
    """The last finished run of ``runs`` (rows of that table of the lake at ``path``), or the last
    one that had finished by ``as_of`` (UTC). Raises LakeError if there is none."""
    found = [run for run in runs if run["outcome"] == DONE]
    if not all(run["run_id"] and run["finished_at"] for run in found):
        raise LakeError(
            f"The table runs of the lake {path} is damaged: a finished run has no id or no end.",
            "Restore the lake's folder from a copy.",
        )
    done = sorted(found, key=lambda run: str(run["run_id"]))
    if not done:
        raise LakeError(
            f"No run of the lake {path} has finished yet.", "Start one with `kip848 run`."
        )
    ends = [run["finished_at"].astimezone(UTC) for run in done]  # Spark's are in local time
    early = [run for run, end in zip(done, ends, strict=True) if as_of is None or end <= as_of]
    if not early:
        first, last = (f"{end:%Y-%m-%d %H:%M:%S}" for end in (ends[0], ends[-1]))
        raise LakeError(
            f"No run of the lake {path} had finished by {as_of:%Y-%m-%d %H:%M:%S}.",
            f"The first run finished at {first}, the last at {last} (UTC).",
        )
    return early[-1]
