"""The columns of the tables that are made from summaries of commits: `offset_activity`, which says
who commits how much, and `rewinds`, the commits that went back."""

from __future__ import annotations

import pyarrow as pa

from kip848_spark.insight.commit_summary import COMMIT_SUMMARY_FIELDS, KEY
from kip848_spark.wire.tables import TIMESTAMP

_PLACE: dict[str, pa.DataType] = {name: COMMIT_SUMMARY_FIELDS[name] for name in ("partition", *KEY)}
OFFSET_ACTIVITY_FIELDS: dict[str, pa.DataType] = {
    **_PLACE,
    "day": pa.date32(),
    "commits": pa.int64(),
    "tombstones": pa.int64(),
    "bytes": pa.int64(),
    "first_offset": pa.int64(),
    "last_offset": pa.int64(),
    "rewinds": pa.int64(),
    "largest_rewind": pa.int64(),
}
"""The columns of `offset_activity` and their Arrow types: a row for each key and UTC day."""

REWIND_FIELDS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    **{name: _PLACE[name] for name in KEY},
    "from_committed": pa.int64(),
    "to_committed": pa.int64(),
    "at": TIMESTAMP,
    "owner": pa.string(),
}
"""The columns of `rewinds` and their Arrow types: a row for each commit that is lower than the one
before it of the same key, unless a tombstone was in between."""
