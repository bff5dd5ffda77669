"""The section `hygiene` of the report: who makes the topic grow, and which offsets nobody needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kip848_spark.lake.hygiene import ASSUMPTIONS, Hygiene, owner_names
from kip848_spark.lake.snapshot import LakeSnapshot
from kip848_spark.report.columns import (
    GroupNumbers,
    LeftOut,
    ReportTable,
    milliseconds,
    report_table,
)
from kip848_spark.wire.tables import TIMESTAMP

MOST_GROWTH = 500
MOST_ROWS = 2_000

_GROUP = {"group_id": pa.string()}
_TOPIC = {**_GROUP, "topic": pa.string()}
_INT = pa.int64()
_FIELDS: dict[str, dict[str, pa.DataType]] = {
    "growth": {
        **_TOPIC, "partitions": _INT, "commits": _INT, "tombstones": _INT, "bytes": _INT,
        "share": pa.float64(), "interval_s": pa.float64(), "saved": _INT, "saved_bytes": _INT,
    },
    "growth_by_day": {
        "day": pa.date32(), "commits": _INT, "tombstones": _INT, "bytes": _INT, "rewinds": _INT,
    },
    "dead_groups": {
        **_GROUP, "last_activity": TIMESTAMP, "last_commit": TIMESTAMP, "offsets": _INT,
        "topics": _INT,
    },
    "deleted_topics": {
        **_TOPIC, "recreated": pa.bool_(), "offsets": _INT, "last_commit": TIMESTAMP,
    },
    "no_longer_read": {**_TOPIC, "offsets": _INT, "last_commit": TIMESTAMP},
    "expiring": {**_GROUP, "expires_at": TIMESTAMP, "offsets": _INT, "topics": _INT},
    "open_transactions": {
        "partition": pa.int32(), "offset": _INT, "open_offsets": _INT, "since": TIMESTAMP,
        "runs": _INT,
    },
    "rewinds": {
        "at": TIMESTAMP, **_TOPIC, "topic_partition": pa.int32(), "from_committed": _INT,
        "to_committed": _INT, "distance": _INT, "owner": pa.string(), "partition": pa.int32(),
        "offset": _INT,
    },
}  # fmt: skip
_WORDS = {
    "growth": "Who makes the topic grow",
    "dead_groups": "Dead groups",
    "deleted_topics": "Offsets of deleted topics",
    "no_longer_read": "Offsets that are no longer read",
    "expiring": "Groups whose offsets expire",
    "rewinds": "Commits that went back",
}


def hygiene_section(
    snapshot: LakeSnapshot, found: Hygiene, numbers: GroupNumbers, left_out: LeftOut
) -> dict[str, Any]:
    """The section `hygiene` (docs/report.md)."""
    section: dict[str, Any] = {
        "as_of": None if found.as_of is None else _moment(found.as_of),
        "days": found.days,
        "assumptions": ASSUMPTIONS,
    }
    for name in _FIELDS:
        rows = getattr(found, name)
        section[name] = None if rows is None else _table(snapshot, name, rows, numbers, left_out)
    return {**section, "size": found.size}


def _moment(time: Any) -> int:
    found: int = milliseconds(pa.array([time], TIMESTAMP))[0].as_py()
    return found


def _table(
    snapshot: LakeSnapshot,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    numbers: GroupNumbers,
    left_out: LeftOut,
) -> ReportTable:
    title = _WORDS.get(name, name)
    shown = left_out.cut_rows(
        rows, _most(name), lambda n, all_: f"{title}: {n:,} of {all_:,} rows are listed."
    )
    if name == "rewinds":
        shown = _with_owners(snapshot, shown)
    fields = _FIELDS[name]
    table = pa.table(
        {
            field: pa.array([row.get(field) for row in shown], type_)
            for field, type_ in fields.items()
        }
    )
    if "group_id" in fields:
        table = numbers.replace(table)
    return report_table(table, ["topic"] if "topic" in fields else ())


def _with_owners(
    snapshot: LakeSnapshot, rewinds: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The rows with the name of the owner in place of its member id."""
    names = owner_names(snapshot, [dict(row) for row in rewinds if row["owner"] is not None])
    found = []
    for row in rewinds:
        known = names.get(row["group_id"])
        owner = row["owner"] and (known.name(row["owner"]) if known else row["owner"])
        found.append({**row, "owner": owner})
    return found


def groups_of(found: Hygiene) -> Iterable[str]:
    """The groups of the rows that the section lists."""
    for name, fields in _FIELDS.items():
        if "group_id" in fields:
            for row in (getattr(found, name) or ())[: _most(name)]:
                yield row["group_id"]


def _most(name: str) -> int:
    return MOST_GROWTH if name == "growth" else MOST_ROWS
