"""Erases groups, clients and hosts from all tables of a lake (`lake.erasure`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip848_spark.checks.erased_names import new_name
from kip848_spark.errors import LakeError, UsageError
from kip848_spark.lake.conditions import Condition
from kip848_spark.lake.erasure import Erasure, erase_rows, of_groups
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.jobs.retention import SORTED, SPLIT_BY
from kip848_spark.spark.jobs.saved_audits import AUDITED_GROUPS
from kip848_spark.spark.map_in_arrow import map_in_arrow
from kip848_spark.spark.storage.tables import LakeTables
from kip848_spark.spark.storage.upkeep import AFFECTED, FILE, Rewrite
from kip848_spark.wire.batches import Batches

KINDS = ("group", "client", "host")


@dataclass(frozen=True)
class ErasedNames:
    """Names of groups, client ids and hosts, as a user gives them."""

    groups: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> ErasedNames:
        """The names in ``group:NAME``, ``client:ID`` or ``host:ADDRESS``. Raises UsageError."""
        found: dict[str, set[str]] = {kind: set() for kind in KINDS}
        for text in texts:
            kind, _, name = text.partition(":")
            name = name.removeprefix("/") if kind == "host" else name
            if kind not in found or not name:
                raise UsageError(
                    f"--erase {text!r} does not say what to erase.",
                    "Write it as group:NAME, client:ID or host:ADDRESS.",
                )
            found[kind].add(name)
        return cls(*(frozenset(found[kind]) for kind in KINDS))

    def __bool__(self) -> bool:
        return bool(self.groups or self.clients or self.hosts)

    def erasure(self, dialect: str) -> Erasure:
        """What to do."""
        names = {name: new_name() for name in self.clients | self.hosts}
        return Erasure(self.groups, names, dialect)


@dataclass(frozen=True)
class Erased:
    """The number of rows that were removed or changed, by table; and how many members and groups
    of the state now have the names: later records of the topic bring these names back."""

    rows: dict[str, int] = field(default_factory=dict)
    removed_records: dict[str, int] = field(default_factory=dict)
    present: int = 0


def require_replaceable(lake: LakeTables, names: ErasedNames) -> None:
    """Raises LakeError if the id of a member of the new protocol has one of the client ids in it:
    the member's later records would not find it under its new id."""
    for client in sorted(names.clients):
        members = lake.columns(
            "members",
            ["group_id", "member_id", "is_classic"],
            [Condition("client_id", "equals", client)],
        ).to_pylist()
        types = {
            row["group_id"]: row["type"]
            for row in lake.columns("groups", ["group_id", "type"]).to_pylist()
        }
        for row in members:
            if client in row["member_id"] and types.get(row["group_id"]) != "classic":
                raise LakeError(
                    f"The client {client} is a member of the group {row['group_id']}, and the id "
                    "of this member begins with its name.",
                    "Stop the client, run `kip848 run`, and erase it then.",
                )


def erase(lake: LakeTables, names: ErasedNames, dialect: str) -> Erased:
    """Erases ``names`` from the newest version of all tables. Raises LakeError."""
    erasure = names.erasure(dialect)
    present = _count_present(lake, names)
    of_group = F.col("group_id").isin(sorted(names.groups))
    gone = lake.read("records").where(of_group).groupBy("run_id").count().collect()
    rows: dict[str, int] = {}
    for table in TABLES:
        if table == AUDITED_GROUPS:  # any name may be in any of them
            rows[table] = lake.count(table)
            if rows[table]:
                lake.overwrite(table, lake.read(table).limit(0))
        elif table != "runs":
            done = lake.rewrite(table, _rewrite(table, erasure))
            rows[table] = sum(done.values())
    return Erased(rows, {row["run_id"]: row["count"] for row in gone}, present)


def _count_present(lake: LakeTables, names: ErasedNames) -> int:
    hosts = [text for name in names.hosts for text in (name, f"/{name}")]
    columns = {"group_id": names.groups, "client_id": names.clients, "client_host": hosts}
    number = lake.read("groups").where(F.col("group_id").isin(sorted(names.groups))).count()
    members = lake.read("members")
    for column, some in columns.items():
        if some and column != "group_id":
            number += members.where(F.col(column).isin(sorted(some))).count()
    return number


def _rewrite(table: str, erasure: Erasure) -> Rewrite:
    own = pa.schema(list(TABLES[table].fields.items()))

    def change(rows: DataFrame) -> DataFrame:
        return map_in_arrow(_only(rows, own.names), changes, own)

    def changes(batches: Batches) -> Batches:
        for batch in batches:
            kept = pa.array(~of_groups(batch, erasure))
            found = erase_rows(batch, erasure)[0]
            columns = [found.column(name).cast(own.field(name).type) for name in own.names]
            yield pa.RecordBatch.from_arrays(columns, schema=own).filter(kept)

    return Rewrite(
        lambda rows: _mark(rows, own, erasure),
        change,
        sort=SORTED.get(table, ()),
        split_by=SPLIT_BY.get(table),
    )


def _mark(rows: DataFrame, own: pa.Schema, erasure: Erasure) -> DataFrame:
    """Marks the affected ``rows`` of a table with the columns ``own``. The workers return no other
    columns than `Rewrite` needs: to send all of them back would take Spark as long as to read
    them."""
    marked = pa.schema(
        [
            *(pa.field(name, pa.string()) for name in (FILE, "run_id") if name in rows.columns),
            pa.field(AFFECTED, pa.bool_()),
        ]
    )

    def marks(batches: Batches) -> Batches:
        for batch in batches:
            of_table = batch.select([name for name in batch.schema.names if name in own.names])
            affected = pa.array(erase_rows(of_table, erasure)[1])
            columns = [batch.column(name) for name in marked.names[:-1]]
            yield pa.RecordBatch.from_arrays([*columns, affected], schema=marked)

    return map_in_arrow(_only(rows, [*own.names, FILE]), marks, marked)


def _only(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """``rows`` with those of ``columns`` that they have."""
    return rows.select(*(name for name in rows.columns if name in columns))
