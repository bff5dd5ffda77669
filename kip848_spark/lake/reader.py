"""A lake's state, read without Spark: `groups` answers at once, where a JVM would take seconds.

Tables are read by delta-rs at the versions of one finished run, as Spark's views of them are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kip848_spark.config.storage import store_fault
from kip848_spark.errors import LakeError, NotFoundError, near
from kip848_spark.lake.folders import LocalFolder, is_lake
from kip848_spark.lake.location import Location, locate, scheme_of

Row = dict[str, Any]


class State:
    """The tables of the lake at ``place`` as the last finished run left them, or the last one done
    by ``as_of`` (UTC).

    ``storage`` are delta-rs' options of the store that has the lake. Raises UsageError or
    LakeError.
    """

    def __init__(
        self,
        place: Location | str,
        as_of: datetime | None = None,
        *,
        storage: Mapping[str, str] | None = None,
    ) -> None:
        self.place = locate(place) if isinstance(place, str) else place
        self.path = path = self.place.text
        self._storage = dict(storage or {})
        if self.place.folder is not None and not _is_lake(self.place.folder, path):
            raise LakeError(f"There is no lake at {path}.", "`kip848 run` makes it.")
        self.run: Row = dict(run_at(self.path, self._rows("runs", None), as_of))
        self.versions: dict[str, int] = dict(self.run["table_versions"])

    def rows(self, table: str, groups: Sequence[str] | None = None) -> list[Row]:
        """The rows of a state table, those of ``groups`` if any are named."""
        return self._rows(table, self.versions[table], groups)

    def group_ids(self, table: str) -> set[str]:
        """The groups that a table names, `records` as well: one column is read."""
        with self._faults(table):
            version = self.versions[table]
            found = DeltaTable(self._uri(table), version=version, storage_options=self._storage)
            batches = found.to_pyarrow_dataset().to_batches(columns=["group_id"])
            names: set[str | None] = set()
            for batch in batches:
                names.update(pc.unique(batch.column(0)).to_pylist())
        return {name for name in names if name is not None}

    def _rows(
        self, table: str, version: int | None, groups: Sequence[str] | None = None
    ) -> list[Row]:
        wanted = None if groups is None else pc.field("group_id").isin(list(groups))
        with self._faults(table):
            found = DeltaTable(self._uri(table), version=version, storage_options=self._storage)
            rows = _unpruned(found).to_table(filter=wanted, use_threads=False)
            return list(rows.to_pylist())

    @contextmanager
    def _faults(self, table: str) -> Iterator[None]:
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


def _unpruned(table: DeltaTable) -> ds.Dataset:
    """The rows of ``table``, of which no file is left out by Delta's statistics: those that earlier
    versions of this program wrote exclude rows that are there."""
    dataset = table.to_pyarrow_dataset()
    fragments = [
        dataset.format.make_fragment(fragment.path, fragment.filesystem)
        for fragment in dataset.get_fragments()
    ]
    return ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def run_at(
    path: str, runs: Iterable[Mapping[str, Any]], as_of: datetime | None = None
) -> Mapping[str, Any]:
    """The last finished one of ``runs``, rows of that table of the lake at ``path``, or the last
    one that had finished by ``as_of`` (UTC). Raises LakeError if there is none."""
    done = sorted((run for run in runs if run["outcome"] == "done"), key=lambda run: run["run_id"])
    if not done:
        raise LakeError(f"No run of the lake {path} has finished yet.", "`kip848 run` makes one.")
    ends = [run["finished_at"].astimezone(UTC) for run in done]  # Spark's are in local time
    early = [run for run, end in zip(done, ends, strict=True) if as_of is None or end <= as_of]
    if not early:
        first, last = (f"{end:%Y-%m-%d %H:%M:%S}" for end in (ends[0], ends[-1]))
        raise LakeError(
            f"No run of the lake {path} had finished by {as_of:%Y-%m-%d %H:%M:%S}.",
            f"The first run finished at {first}, the last at {last} (UTC).",
        )
    return early[-1]


def must_know(names: Iterable[str], group_ids: Callable[[str], set[str]]) -> None:
    """Raises NotFoundError if one of the groups ``names`` is neither in a lake's state nor, as one
    that was deleted, in its records. ``group_ids`` gives the groups that a table names."""
    unknown, known = set(names), set[str]()
    for table in ("groups", "group_records", "records"):
        known |= group_ids(table)
        unknown -= known
        if not unknown:
            return
    raise _unknown(min(unknown), known)


def described(state: State, names: Sequence[str] | None = None) -> list[Row]:
    """The groups ``names`` (all if None), sorted: the columns of `groups`, with ``members_now``
    (rows of `members`, each with its partitions by role) and ``offsets`` (rows of `offsets`).

    Raises NotFoundError, with names that are near, if there is no such group.
    """

    def rows(table: str, *order: str) -> list[Row]:
        found = state.rows(table, names)
        return sorted(found, key=lambda row: [(row[n] is not None, row[n]) for n in order])

    found = {
        row["group_id"]: row | {"members_now": [], "offsets": []}
        for row in rows("groups", "group_id")
    }
    missing = [name for name in names or () if name not in found]
    if missing:
        raise _unknown(missing[0], state.group_ids("groups"))
    members: dict[tuple[str, str], Row] = {}
    for row in rows("members", "group_id", "member_id"):
        roles: Row = {"assigned": [], "pending_revocation": [], "target": []}
        member = row | roles
        members[row["group_id"], row["member_id"]] = member
        found[row["group_id"]]["members_now"].append(member)
    for row in rows("assignments", "group_id", "member_id", "topic", "topic_id", "topic_partition"):
        owner = members.get((row["group_id"], row["member_id"]))
        if owner is not None:
            place = {name: row[name] for name in ("topic", "topic_id", "topic_partition")}
            owner[row["role"]].append(place)
    for row in rows("offsets", "group_id", "topic", "topic_partition"):
        if row["group_id"] in found:  # a deleted group's last commits may outlive it
            found[row["group_id"]]["offsets"].append(row)
    return list(found.values())


def _unknown(name: str, known: Iterable[str]) -> NotFoundError:
    hint = near(name, known, "`kip848 groups` lists them.")
    return NotFoundError(f"The lake has no group {name}.", hint)
