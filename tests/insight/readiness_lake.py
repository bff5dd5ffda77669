"""State tables of captures and of encoded records, as the replay makes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kip848_spark.insight.readiness_facts import Sources, count_assigned, group_facts
from kip848_spark.insight.readiness_rules import load_rules
from kip848_spark.simulation.encoding import encode_records
from kip848_spark.state import kinds
from kip848_spark.state.folded_rows import CONTROL_STATE_FIELDS, FoldedPartitions, derive_rows
from kip848_spark.state.partition_stream import fold_partitions
from kip848_spark.wire.control import control_columns
from kip848_spark.wire.control_plans import CONTROL_FIELDS, CONTROL_PLAN
from kip848_spark.wire.decode import decode
from kip848_spark.wire.tables import record_columns
from tests.captures import COMMITTED, RECORDS

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
_COMMIT = 1


@dataclass(frozen=True)
class State:
    """The state tables that readiness reads."""

    groups: pa.Table
    members: pa.Table
    assignments: pa.Table
    control_state: pa.Table
    offsets: pa.Table

    @property
    def commits(self) -> pa.Table:
        """group_id, partitions, newest."""
        counted: list[Any] = [([], "count_all"), ("commit_timestamp", "max")]
        rows = self.offsets.group_by("group_id").aggregate(counted)
        return rows.rename_columns(["group_id", "partitions", "newest"])

    def sources(self, now: datetime = START, **extra: Any) -> Sources:
        owned = self.assignments.filter(pc.equal(self.assignments["role"], "assigned"))
        return Sources(
            groups=self.groups,
            members=self.members,
            control_state=self.control_state,
            assigned=count_assigned(owned),
            commits=self.commits,
            now=now,
            guesses=load_rules().guesses,
            **extra,
        )

    def facts(self, now: datetime = START, **extra: Any) -> pa.Table:
        return group_facts(self.sources(now, **extra))


def state_of_capture(folder: Path) -> State:
    """The state at the end of a capture."""
    path = folder / COMMITTED
    return state_of_table(pq.read_table(path if path.exists() else folder / RECORDS))


def state_of_records(records: Sequence[Mapping[str, Any]], start: datetime = START) -> State:
    """The state after records in the form that `kip848 dump` prints, encoded as a broker would."""
    keys, values = encode_records(list(records))
    count = len(records)
    return state_of_table(
        pa.table(
            {
                "partition": pa.array([0] * count, pa.int32()),
                "offset": pa.array(range(count), pa.int64()),
                "timestamp": pa.array([start] * count, pa.timestamp("us", "UTC")),
                "key": keys,
                "value": values,
            }
        )
    )


def state_of_table(capture: pa.Table) -> State:
    """The state after the records of a capture."""
    capture = capture.sort_by([("partition", "ascending"), ("offset", "ascending")])
    kind_of = [int.from_bytes((key or b"")[:2], "big") for key in capture["key"].to_pylist()]
    control = pa.array([kind > _COMMIT for kind in kind_of])
    rows = capture.filter(control)
    decoded = control_columns(
        CONTROL_PLAN, CONTROL_FIELDS, *(rows[n].combine_chunks() for n in ("key", "value"))
    )
    state = pa.table(
        {
            **{name: rows[name] for name in ("partition", "offset", "timestamp")},
            **{name: decoded[name] for name in ("kind", "group_id", "dialect")},
            "raw_key": rows["key"],
            "raw_value": rows["value"],
        }
    )
    offsets = _commit_rows(capture.filter(pc.invert(control)))
    newest = offsets.group_by(["partition", "group_id"]).aggregate(
        [("offset", "max"), ("timestamp", "max")]
    )
    marks = pa.table(
        {
            "partition": newest["partition"],
            "offset": newest["offset_max"],
            "timestamp": newest["timestamp_max"],
            "kind": pa.array([kinds.COMMIT] * newest.num_rows, pa.string()),
            "group_id": newest["group_id"],
        }
    )
    marks = marks.append_column("dialect", pa.nulls(newest.num_rows, pa.string()))
    for name in ("raw_key", "raw_value"):
        marks = marks.append_column(name, pa.nulls(newest.num_rows, pa.binary()))
    schema = pa.schema(list(CONTROL_STATE_FIELDS.items()))
    both = pa.concat_tables([state.select(schema.names).cast(schema), marks.cast(schema)])
    both = both.sort_by([("partition", "ascending"), ("offset", "ascending")])
    folded = fold_partitions(iter(both.combine_chunks().to_batches()))
    carried = [one.carried for one in folded if isinstance(one, FoldedPartitions)]
    derived = {
        table: pa.concat_tables([derive_rows(table, one, {}) for one in carried])
        for table in ("groups", "members", "assignments", "control_state")
    }
    return State(**derived, offsets=_newest_commits(offsets))


def _newest_commits(commits: pa.Table) -> pa.Table:
    """The rows of `offsets`: the last commit of each group, topic and partition."""
    key = ["group_id", "topic", "topic_partition", "partition"]
    rows = commits.group_by(key).aggregate([("offset", "max"), ("timestamp", "max")])
    return rows.rename_columns([*key, "offset", "commit_timestamp"])


def _commit_rows(commits: pa.Table) -> pa.Table:
    """partition, offset, timestamp, group_id, topic, topic_partition of commits with a value."""
    keys, values = (commits[name].combine_chunks() for name in ("key", "value"))
    decoded = decode(CONTROL_PLAN.plan, keys, values)
    columns = record_columns(CONTROL_PLAN.plan, decoded, keys, values)
    table = pa.table(
        {
            **{name: commits[name] for name in ("partition", "offset")},
            "timestamp": commits["timestamp"].cast(pa.timestamp("us", "UTC")),
            **{name: columns[name] for name in ("group_id", "topic", "topic_partition")},
        }
    )
    return table.filter(pc.invert(columns["tombstone"]))
