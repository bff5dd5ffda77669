"""The rows that a fold reads and makes: raw records in, rows of tables out.

The records pass through Spark as raw bytes and are decoded where they are folded: a row of bytes is
cheaper to shuffle and sort than a row with a struct column for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state.assignments import ASSIGNMENT_FIELDS, assignments
from kip848_spark.state.groups import GROUP_FIELDS, groups
from kip848_spark.state.members import MEMBER_FIELDS, members
from kip848_spark.state.partition_fold import RowsByTable
from kip848_spark.wire.control import control_columns
from kip848_spark.wire.control_plans import CONTROL_FIELDS, control_plan
from kip848_spark.wire.record_stream import POSITION_FIELDS

CONTROL_STATE_FIELDS: dict[str, pa.DataType] = {
    **POSITION_FIELDS,
    "kind": pa.string(),
    "group_id": pa.string(),
    "dialect": pa.string(),
    "raw_key": pa.binary(),
    "raw_value": pa.binary(),
}
"""The columns of the table `control_state`, and their Arrow types."""
CONTROL_STATE = "control_state"
STATE_FIELDS: dict[str, dict[str, pa.DataType]] = {
    CONTROL_STATE: CONTROL_STATE_FIELDS,
    "groups": GROUP_FIELDS,
    "members": MEMBER_FIELDS,
    "assignments": ASSIGNMENT_FIELDS,
}
"""The columns of each table made from control records, and their Arrow types."""
FOLDED_TABLES = tuple(STATE_FIELDS)
"""The tables made from control records."""

DECODED = pa.schema(
    [
        *POSITION_FIELDS.items(),
        ("raw_key", pa.binary()),
        ("raw_value", pa.binary()),
        *CONTROL_FIELDS.items(),
    ]
)
"""The columns of decoded rows."""
_SORT = {
    CONTROL_STATE: ("partition", "offset"),
    "groups": ("group_id",),
    "members": ("group_id", "member_id"),
    "assignments": ("group_id", "member_id", "role", "topic_id", "topic", "topic_partition"),
}
_DERIVED: dict[str, Callable[[pa.Table], pa.Table]] = {
    "groups": groups,
    "members": members,
    "assignments": assignments,
}


@dataclass(frozen=True)
class ClosedRows:
    """Rows that no later record can change, by table."""

    tables: RowsByTable


@dataclass(frozen=True)
class FoldedPartitions:
    """The state of one or several partitions after their last record.

    ``carried`` is the control state, decoded (see `derive_rows`). ``open_rows`` are the rows of
    further tables that later records may still change. ``carry`` are rows of `control_state` that
    are no records: what the folds of the next run need."""

    partitions: Sequence[int]
    carried: pa.Table
    open_rows: RowsByTable = field(default_factory=dict)
    carry: pa.Table | None = None

    def rows(self, table: str, names: Mapping[str, str]) -> pa.Table:
        """The rows of ``table``: one of `FOLDED_TABLES`, or a table with open rows. ``names`` maps
        topic ids to names."""
        if table in self.open_rows:
            return name_topics(self.open_rows[table], names)
        rows = derive_rows(table, self.carried, names)
        if table == CONTROL_STATE and self.carry is not None:
            return pa.concat_tables([self.carry, rows])
        return rows


def decode(batch: pa.RecordBatch) -> pa.Table:
    """``batch`` with the columns `CONTROL_FIELDS`, decoded from the raw bytes. A row without a
    dialect stands for the newest commit of a group: it has only its kind and group."""
    dialects = batch.column("dialect")
    parts, order = [], []
    for dialect in pc.unique(dialects).to_pylist():
        same = pc.is_null(dialects) if dialect is None else pc.equal(dialects, dialect)
        rows = np.flatnonzero(same.fill_null(False).to_numpy(zero_copy_only=False))
        part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        columns = {name: part.column(name) for name in ("partition", "offset", "timestamp")}
        columns |= {name: part.column(name) for name in ("raw_key", "raw_value")}
        if dialect is None:
            columns |= {n: pa.nulls(len(rows), type_) for n, type_ in CONTROL_FIELDS.items()}
            columns |= {name: part.column(name) for name in ("kind", "group_id")}
            columns["tombstone"] = pa.repeat(pa.scalar(False), len(rows))
        else:
            keys, values = part.column("raw_key"), part.column("raw_value")
            columns |= control_columns(control_plan(dialect), CONTROL_FIELDS, keys, values)
        parts.append(pa.table(columns))
        order.append(rows)
    if len(parts) == 1:
        return parts[0]
    return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(order))))


def derive_rows(table: str, carried: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The rows of ``table`` for partitions whose control state is ``carried``. ``names`` maps topic
    ids to names."""
    rows = _DERIVED[table](carried) if table in _DERIVED else carried
    rows = name_topics(rows, names).select(list(STATE_FIELDS[table]))
    return rows.sort_by([(column, "ascending") for column in _SORT[table]])


def name_topics(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """``rows`` with the names of topics that they only have the ids of, if the table has such
    columns. ``names`` maps topic ids to names."""
    if not {"topic", "topic_id"} <= set(rows.column_names):
        return rows
    known = pa.array(list(names), pa.string()), pa.array(list(names.values()), pa.string())
    name = known[1].take(pc.index_in(rows["topic_id"], known[0]))
    named = pc.coalesce(rows["topic"], name)
    return rows.set_column(rows.column_names.index("topic"), "topic", named)
