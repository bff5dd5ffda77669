"""A snapshot of a lake: every table at the version that one finished run left.

`LakeSnapshot` reads through delta-rs, without a JVM, and `spark.views.LakeViews` reads through
Spark. Both choose the run by `finished_run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kip848_spark.config.storage import store_fault
from kip848_spark.errors import LakeError, NotFoundError, near
from kip848_spark.lake.folders import LocalFolder, is_lake
from kip848_spark.lake.ledger import DONE, Run
from kip848_spark.lake.location import Location, scheme_of
from kip848_spark.lake.tables import TABLES


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
        if place.folder is not None and not _is_lake(place.folder, self.path):
            raise LakeError(f"There is no lake at {self.path}.", "Create one with `kip848 run`.")
        with self._translate_errors("runs"):
            runs = _dataset_without_statistics(self._delta_table("runs", None)).to_table(
                use_threads=False
            )
        self.run = Run.from_row(finished_run(self.path, _plain(runs), as_of))

    def dataset(self, table: str) -> ds.Dataset:
        """A table as an Arrow dataset, which is read batch by batch; for `runs`, the runs that had
        finished by then. Raises NotFoundError if there is no such table, LakeError if the table
        can't be read."""
        if table not in TABLES:
            raise NotFoundError(
                f"A lake has no table {table}.", near(table, TABLES, f"It has {', '.join(TABLES)}.")
            )
        if table == "runs":
            with self._translate_errors(table):
                found = _dataset_without_statistics(self._delta_table("runs", None))
            done = (pc.field("outcome") == DONE) & (pc.field("run_id") <= self.run.run_id)
            return found.filter(done)
        if table not in self.run.table_versions:
            raise LakeError(
                f"The lake {self.path} had no table {table} at run {self.run.run_id}.",
                "An earlier version of this program wrote it; a new run adds the table.",
            )
        with self._translate_errors(table):
            return _dataset_without_statistics(
                self._delta_table(table, self.run.table_versions[table])
            )

    def table(self, table: str, groups: Sequence[str] | None = None) -> pa.Table:
        """A table as an Arrow table, or its rows of ``groups``. Raises as `dataset` does."""
        wanted = None if groups is None else pc.field("group_id").isin(list(groups))
        found = self.dataset(table)
        with self._translate_errors(table):
            return found.to_table(filter=wanted, use_threads=False)

    def rows(self, table: str, groups: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """As `table`, as plain values."""
        return _plain(self.table(table, groups))

    def group_ids(self, table: str) -> set[str]:
        """The ids of all groups in a table. Only the column ``group_id`` is read."""
        found = self.dataset(table)
        names: set[str | None] = set()
        with self._translate_errors(table):
            for batch in found.to_batches(columns=["group_id"]):
                names.update(pc.unique(batch.column(0)).to_pylist())
        return {name for name in names if name is not None}

    def _delta_table(self, table: str, version: int | None) -> DeltaTable:
        return DeltaTable(self._uri(table), version=version, storage_options=self._storage)

    @contextmanager
    def _translate_errors(self, table: str) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as cause:
            if fault := store_fault(str(cause), f"the lake {self.path}"):
                raise fault from None
            first = str(cause).splitlines()[0]
            raise LakeError(
                f"The table {table} of the lake {self.path} can't be read: {first}"
            ) from None

    def _uri(self, table: str) -> str:
        local = self.place.folder is not None
        if not self.place.suits_delta_rs or not (local or scheme_of(self.place.uri) in _STORES):
            raise LakeError(
                f"The lake {self.path} can only be read through Spark.",
                "`kip848 sql` reads every lake that Spark can reach.",
            )
        return str(self.place.folder / table) if self.place.folder else self.place.child(table)


_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hdfs")
"""Schemes of the stores that delta-rs reads."""


def _is_lake(folder: Path, path: str) -> bool:
    try:
        return is_lake(LocalFolder(folder), path, ())
    except OSError as cause:
        raise LakeError(f"The lake {path} can't be read: {cause.strerror}.") from None


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    return list(table.to_pylist(maps_as_pydicts="strict"))


def _dataset_without_statistics(table: DeltaTable) -> ds.Dataset:
    """A dataset of ``table`` that ignores Delta's statistics of its files: statistics that earlier
    versions of this program wrote make readers skip rows that exist."""
    dataset = table.to_pyarrow_dataset()
    fragments = [
        dataset.format.make_fragment(fragment.path, fragment.filesystem)
        for fragment in dataset.get_fragments()
    ]
    return ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def finished_run(
    path: str, runs: Iterable[Mapping[str, Any]], as_of: datetime | None = None
) -> Mapping[str, Any]:
    """The last finished run of ``runs`` (rows of that table of the lake at ``path``), or the last
    one that had finished by ``as_of`` (UTC). Raises LakeError if there is none."""
    done = sorted((run for run in runs if run["outcome"] == DONE), key=lambda run: run["run_id"])
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
