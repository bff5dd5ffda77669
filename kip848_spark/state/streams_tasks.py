"""The tasks and the topology of streams groups, from their control records.

The state tables have the members of these groups, but no tasks: a task is no partition of a topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kip848_spark.state import kinds
from kip848_spark.wire.control import control_columns
from kip848_spark.wire.control_plans import CONTROL_FIELDS, control_plan

STREAMS_KINDS = (kinds.STREAMS_CURRENT, kinds.STREAMS_TARGET, kinds.STREAMS_TOPOLOGY)
"""The kinds of records that are read."""
STREAMS_COLUMNS = ("kind", "dialect", "raw_key", "raw_value")
"""The columns of `control_state` that are read."""
_ROLES = ("active", "standby", "warmup")
_WANTED = {name: CONTROL_FIELDS[name] for name in ("group_id", "member_id", *STREAMS_KINDS)}


@dataclass
class StreamsState:
    """``tasks`` has a row for each task of a member: group_id, member_id, role (active, standby or
    warmup; with "target " before it if the member is to get the task) and task, by Kafka's name:
    ``0_3`` is the task of partition 3 in the subtopology 0. Tasks pending revocation are left out.
    ``topologies`` are the topology epochs by group."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    topologies: dict[str, int] = field(default_factory=dict)


def streams_state(control_state: pa.Table) -> StreamsState:
    """From rows of `control_state` of `STREAMS_KINDS`, with the columns `STREAMS_COLUMNS`. Makes a
    Python row for each task, so the rows are those of the few groups that a cluster is asked about.
    """
    found = StreamsState()
    for dialect in pc.unique(control_state["dialect"]).to_pylist():
        rows = control_state.filter(pc.equal(control_state["dialect"], dialect)).combine_chunks()
        keys, values = (pa.concat_arrays(rows[name].chunks) for name in ("raw_key", "raw_value"))
        columns = control_columns(control_plan(dialect), _WANTED, keys, values)
        names, members = columns["group_id"].to_pylist(), columns["member_id"].to_pylist()
        for kind in STREAMS_KINDS:
            for name, member, value in zip(names, members, columns[kind].to_pylist(), strict=True):
                if value is not None and kind == kinds.STREAMS_TOPOLOGY:
                    found.topologies[name] = value["epoch"]
                elif value is not None:
                    place = {"group_id": name, "member_id": member}
                    target = "target " if kind == kinds.STREAMS_TARGET else ""
                    found.tasks += [place | row for row in _tasks(value, target)]
    return found


def _tasks(value: dict[str, Any], target: str) -> Iterator[dict[str, Any]]:
    for role in _ROLES:
        for row in value[f"{role}_tasks"] or ():
            for number in row["partitions"]:
                yield {"role": f"{target}{role}", "task": f"{row['subtopology_id']}_{number}"}
