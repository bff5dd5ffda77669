"""Functions over the control records of whole partitions: raw records in, state tables out.

The records pass through Spark as raw bytes and are decoded where they are folded: a row of bytes is
cheaper to shuffle and sort than a row with a struct column for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state.assignments import ASSIGNMENT_FIELDS, assignments
from kip848_spark.state.fold import Fold
from kip848_spark.state.groups import GROUP_FIELDS, groups
from kip848_spark.state.members import MEMBER_FIELDS, members
from kip848_spark.wire.batches import Batches
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

_SORT = {
    CONTROL_STATE: ("offset",),
    "groups": ("group_id",),
    "members": ("group_id", "member_id"),
    "assignments": ("group_id", "member_id", "role", "topic_id", "topic", "topic_partition"),
}
_DERIVED: dict[str, Callable[[pa.Table], pa.Table]] = {
    "groups": groups,
    "members": members,
    "assignments": assignments,
}


def fold_partitions(batches: Batches) -> Iterator[pa.Table]:
    """The control state of each partition, one table for each. The batches are sorted by partition
    and offset; they have the columns of `CONTROL_STATE_FIELDS`."""
    fold, partition = Fold(), -1
    for batch in batches:
        partitions = batch.column("partition").to_numpy()
        for part in np.split(np.arange(batch.num_rows), np.flatnonzero(np.diff(partitions)) + 1):
            if not len(part):
                continue
            if partition != partitions[part[0]]:
                if (done := fold.carried()) is not None:
                    yield done
                fold, partition = Fold(), int(partitions[part[0]])
            fold.add(_decode(batch.slice(part[0], len(part))))
    if (done := fold.carried()) is not None:
        yield done


def _decode(batch: pa.RecordBatch) -> pa.Table:
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
    """The rows of ``table`` for one partition, whose control state is ``carried``. ``names`` maps
    topic ids to names."""
    rows = _DERIVED[table](carried) if table in _DERIVED else carried
    if table == "assignments":
        known = pa.array(list(names), pa.string()), pa.array(list(names.values()), pa.string())
        name = known[1].take(pc.index_in(rows["topic_id"], known[0]))
        named = pc.coalesce(rows["topic"], name)
        rows = rows.set_column(rows.column_names.index("topic"), "topic", named)
    rows = rows.select(list(STATE_FIELDS[table]))
    return rows.sort_by([(column, "ascending") for column in _SORT[table]])
