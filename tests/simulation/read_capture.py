"""Reads a simulated capture with the decoder and replays it, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kip848_spark.simulation.simulate import TRUTH
from kip848_spark.state.assignments import assignments
from kip848_spark.state.fold import Fold
from kip848_spark.state.groups import groups
from kip848_spark.state.members import members
from kip848_spark.wire.control import ControlPlan, control_columns
from kip848_spark.wire.decode import Decoded, DecodePlan, decode
from kip848_spark.wire.definitions import load_shipped
from kip848_spark.wire.tables import record_columns

PLAN = ControlPlan.of(DecodePlan.of(load_shipped()))
FIELDS = PLAN.fields()
Rows = list[dict[str, Any]]


def partitions(capture: Path) -> dict[int, pa.Table]:
    """The records of each partition."""
    files = sorted(capture.glob("partition-*.parquet"))
    return {int(f.stem.removeprefix("partition-")): pq.read_table(f) for f in files}


def truth(capture: Path, table: str) -> Rows:
    """A table of the expected results."""
    lines = (capture / TRUTH / f"{table}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def decoded(table: pa.Table) -> Decoded:
    """The decoded records."""
    table = table.combine_chunks()
    return decode(PLAN.plan, table["key"].chunk(0), table["value"].chunk(0))


def state(capture: Path) -> dict[str, Rows]:
    """Groups, members, assignments and offsets, replayed from a capture's log."""
    out: dict[str, Rows] = {"groups": [], "members": [], "assignments": [], "offsets": []}
    for table in partitions(capture).values():
        keys, values = (table.combine_chunks()[name].chunk(0) for name in ("key", "value"))
        plain = pa.table(record_columns(PLAN.plan, decoded(table), keys, values))
        is_commit = pc.equal(plain["kind"], "offset_commit").to_numpy()
        offsets: dict[tuple[str, str, int], dict[str, Any]] = {}
        names = [
            *("group_id", "topic", "topic_partition", "committed_offset", "leader_epoch"),
            *("metadata", "commit_timestamp", "topic_id", "tombstone"),
        ]
        for row in plain.select(names).filter(pa.array(is_commit)).to_pylist():
            offsets[row["group_id"], row["topic"], row["topic_partition"]] = row
        kept = [row for row in offsets.values() if not row["tombstone"]]
        for row in kept:
            row["commit_timestamp"] = round(row["commit_timestamp"].timestamp() * 1_000)
        out["offsets"] += kept
        carried = _fold(table, plain, is_commit, keys, values)
        for name, derive in (
            ("groups", groups),
            ("members", members),
            ("assignments", assignments),
        ):
            out[name] += derive(carried).to_pylist()
    return out


def _fold(
    table: pa.Table, plain: pa.Table, is_commit: Any, keys: pa.Array, values: pa.Array
) -> pa.Table:
    """Replay the control records and each group's last commit."""
    control = pa.array(~is_commit)
    columns = control_columns(PLAN, FIELDS, keys.filter(control), values.filter(control))
    place = {name: table[name].filter(control) for name in ("partition", "offset", "timestamp")}
    rows = pa.table({**place, **columns})
    commits = is_commit & ~plain["tombstone"].to_numpy()
    last: dict[str, int] = {}
    for row, group in zip(
        np.flatnonzero(commits),
        plain["group_id"].filter(pa.array(commits)).to_pylist(),
        strict=True,
    ):
        last[group] = int(row)
    some = table.take(pa.array(sorted(last.values()), pa.int64()))
    known = plain["group_id"].take(pa.array(sorted(last.values()), pa.int64()))
    extra = {
        "partition": some["partition"],
        "offset": some["offset"],
        "timestamp": some["timestamp"],
        "kind": pa.repeat("offset_commit", some.num_rows),
        "group_id": known,
        "tombstone": pa.repeat(False, some.num_rows),
    }
    combined = pa.concat_tables([rows, pa.table(extra)], promote_options="default")
    fold = Fold()
    fold.add(combined.sort_by("offset").combine_chunks())
    carried = fold.carried()
    assert carried is not None
    return carried
