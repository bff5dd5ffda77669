"""The tables of a lake: names, columns and comments. Names are a contract, for users' SQL.

Columns of decoded records are defined in `wire`, those of state tables in `state`, the rest here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from kip848_spark.insight.commit_activity import OFFSET_ACTIVITY_FIELDS, REWIND_FIELDS
from kip848_spark.insight.commit_summary import COMMIT_SUMMARY_FIELDS
from kip848_spark.insight.readiness import READINESS_FIELDS
from kip848_spark.insight.rebalance_fields import REBALANCE_FIELDS
from kip848_spark.lake.comments import COMMENTS
from kip848_spark.lake.rows_with import COMMITS, OPEN_ROWS, RowsWith
from kip848_spark.state.assignments import ASSIGNMENT_FIELDS
from kip848_spark.state.folded_rows import CONTROL_STATE_FIELDS
from kip848_spark.state.groups import GROUP_FIELDS
from kip848_spark.state.history_fields import HISTORY_FIELDS
from kip848_spark.state.members import MEMBER_FIELDS
from kip848_spark.wire.control_plans import CONTROL_FIELDS
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.record_stream import POSITION_FIELDS, STREAM_FIELDS
from kip848_spark.wire.tables import TIMESTAMP

_RUN: dict[str, pa.DataType] = {"run_id": pa.string()}
_CLUSTER: dict[str, pa.DataType] = {"cluster_id": pa.string()}
_INTERVAL_STATS = ("partition", "group_id", "valid_from", "valid_to", "from_offset", "to_offset")
_COUNTS = pa.map_(pa.string(), pa.int64())
_OFFSETS = pa.map_(pa.int32(), pa.int64())


KEEP_VERSIONS = {"delta.enableExpiredLogCleanup": "false"}
"""The table property by which every writer keeps all versions of a table. By default Spark's writer
deletes log entries that are older than 30 days; a reader with `--as-of`, and a run that restores
the versions of an unfinished one, need them."""
COMMON_PROPERTIES = {**KEEP_VERSIONS, "delta.checkpointInterval": "10"}
"""The properties of every table. delta-rs would add a checkpoint to Delta's log after 100 commits.
Whoever opens a table reads all commits after the last checkpoint."""
STATS = "delta.dataSkippingStatsColumns"
"""The property that names the columns with statistics."""


@dataclass(frozen=True)
class TableDefinition:
    """A table's name and columns (Arrow types by name).

    ``stats`` names the columns for which Delta keeps the minimum and maximum of each file, so that
    readers skip files. If it is empty, Delta's default applies: the first 32 columns. The rows
    ``apart`` go to files of their own.
    """

    name: str
    fields: Mapping[str, pa.DataType]
    stats: tuple[str, ...] = ()
    apart: RowsWith | None = None

    @property
    def stats_columns(self) -> tuple[str, ...]:
        """The columns that have statistics."""
        flat = [name for name, type_ in self.fields.items() if not pa.types.is_nested(type_)]
        return self.stats or tuple(flat[:32])

    @property
    def properties(self) -> dict[str, str]:
        """Delta's table properties."""
        return {**COMMON_PROPERTIES, **({STATS: ",".join(self.stats)} if self.stats else {})}

    def missing_properties(self, found: Mapping[str, str]) -> dict[str, str]:
        """The properties that a table with the properties ``found`` lacks. A user's own interval of
        checkpoints stays, and so do further columns with statistics. Readers ignore the statistics
        of other columns than those that the property names."""
        wanted = {**COMMON_PROPERTIES, **found, **KEEP_VERSIONS}
        if STATS in found:
            there = [name.strip(" `") for name in found[STATS].split(",")]
            if lacking := [name for name in self.stats if name not in there]:
                wanted[STATS] = ",".join([found[STATS], *lacking])
        return {name: value for name, value in wanted.items() if found.get(name) != value}

    @property
    def comments(self) -> dict[str, str]:
        """A comment for each column."""
        own, shared = COMMENTS[self.name], COMMENTS["*"]
        return {
            name: own.get(name) or shared.get(name) or _KINDS[name].value.about
            for name in self.fields
        }

    def complete(self, found: pa.Schema) -> pa.Schema:
        """The schema of a version of this table, ``found``, with the columns that a later version
        of this program added. The table's columns come first, in its order."""
        own = {name: self.schema.field(name).remove_metadata() for name in self.fields}
        own |= {
            field.name: field
            for field in found
            if field.name not in own or not lacks_fields(own[field.name].type, field.type)
        }
        return pa.schema(list(own.values()), found.metadata)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of a row, with each column's comment as ``comment`` in its metadata."""
        comments = self.comments
        fields = (
            pa.field(name, type_, metadata={"comment": comments[name]})
            for name, type_ in self.fields.items()
        )
        return pa.schema(fields)


def lacks_fields(type_: pa.DataType, found: pa.DataType) -> bool:
    """Whether the struct ``found`` is the struct ``type_`` without some of its fields."""
    if not (pa.types.is_struct(type_) and pa.types.is_struct(found)):
        return False
    return {field.name for field in found} < {field.name for field in type_}


_KINDS = load_shipped().kinds()

TABLES: dict[str, TableDefinition] = {
    table.name: table
    for table in (
        TableDefinition(
            "records",
            {**STREAM_FIELDS, "inferred": pa.bool_(), **_RUN, **_CLUSTER},
            # Every file has records of all groups and topics: their bounds would skip no file.
            stats=("partition", "offset", "timestamp", "kind", "run_id"),
            apart=COMMITS,
        ),
        TableDefinition("group_records", {**POSITION_FIELDS, **CONTROL_FIELDS, **_RUN, **_CLUSTER}),
        TableDefinition("control_state", CONTROL_STATE_FIELDS),
        TableDefinition(
            "gaps",
            {
                "partition": pa.int32(),
                "first_offset": pa.int64(),
                "last_offset": pa.int64(),
                "cause": pa.string(),
                **_RUN,
                **_CLUSTER,
            },
        ),
        TableDefinition("commit_summaries", {**COMMIT_SUMMARY_FIELDS, **_RUN, **_CLUSTER}),
        TableDefinition("offset_activity", {**OFFSET_ACTIVITY_FIELDS, **_CLUSTER}),
        TableDefinition("rewinds", {**REWIND_FIELDS, **_RUN, **_CLUSTER}),
        *(
            TableDefinition(name, {**fields, **_CLUSTER}, stats=_INTERVAL_STATS, apart=OPEN_ROWS)
            for name, fields in HISTORY_FIELDS.items()
        ),
        TableDefinition(
            "rebalances",
            {**REBALANCE_FIELDS, **_CLUSTER},
            stats=("partition", "group_id", "started_at", "from_offset", "to_offset"),
            apart=OPEN_ROWS,
        ),
        TableDefinition("readiness", {**_RUN, **READINESS_FIELDS, **_CLUSTER}),
        TableDefinition("groups", {**GROUP_FIELDS, **_CLUSTER}),
        TableDefinition("members", {**MEMBER_FIELDS, **_CLUSTER}),
        TableDefinition("assignments", {**ASSIGNMENT_FIELDS, **_CLUSTER}),
        TableDefinition(
            "offsets",
            {
                "group_id": pa.string(),
                "topic": pa.string(),
                "topic_partition": pa.int32(),
                "committed_offset": pa.int64(),
                "leader_epoch": pa.int32(),
                "metadata": pa.string(),
                "commit_timestamp": TIMESTAMP,
                "expire_timestamp": TIMESTAMP,
                "topic_id": pa.string(),
                "partition": pa.int32(),
                "offset": pa.int64(),
                **_CLUSTER,
            },
        ),
        TableDefinition(
            "topics",
            {
                "topic": pa.string(),
                "topic_id": pa.string(),
                "partitions": pa.int32(),
                "racks": pa.list_(pa.list_(pa.string())),
                **_RUN,
                **_CLUSTER,
            },
        ),
        TableDefinition(
            "agreement",
            {
                **_RUN,
                "check": pa.string(),
                "verified": pa.int64(),
                "unverifiable": pa.int64(),
                "disagreed": pa.int64(),
                "reasons": _COUNTS,
                **_CLUSTER,
            },
        ),
        TableDefinition(
            "findings",
            {
                **_RUN,
                "finding_id": pa.string(),
                "caused_by": pa.string(),
                "check": pa.string(),
                "reason": pa.string(),
                "severity": pa.string(),
                "group_id": pa.string(),
                "member_id": pa.string(),
                **POSITION_FIELDS,
                "expected": pa.string(),
                "recorded": pa.string(),
                "explanation": pa.string(),
                **_CLUSTER,
            },
        ),
        TableDefinition(
            "audited_groups",
            {
                **_RUN,
                "group_id": pa.string(),
                **POSITION_FIELDS,
                "rules": pa.string(),
                "saved": pa.string(),
                **_CLUSTER,
            },
            stats=("run_id", "partition", "offset", "timestamp"),
        ),
        TableDefinition(
            "runs",
            {
                "run_id": pa.string(),
                "outcome": pa.string(),
                "source": pa.string(),
                "cluster_id": pa.string(),
                "topic": pa.string(),
                "topic_id": pa.string(),
                "dialect": pa.string(),
                "from_offsets": _OFFSETS,
                "to_offsets": _OFFSETS,
                "replayed_through": pa.string(),
                "records_read": pa.int64(),
                "decoded": pa.int64(),
                "tombstones": pa.int64(),
                "unknown": pa.int64(),
                "quarantined": pa.int64(),
                "missing": pa.int64(),
                "errors": _COUNTS,
                "unknown_tags": _COUNTS,
                "table_versions": _COUNTS,
                "started_at": TIMESTAMP,
                "finished_at": TIMESTAMP,
                "durations_ms": _COUNTS,
                "open_offsets": _OFFSETS,
                "kept_since": TIMESTAMP,
                "kept_from": _OFFSETS,
                "removed": _COUNTS,
                "broker_line": pa.string(),
                "formats": pa.string(),
                "inferred": pa.int64(),
            },
        ),
    )
}
"""All tables of a lake by name."""
