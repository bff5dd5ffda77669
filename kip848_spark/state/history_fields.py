"""The columns of `group_history`, `member_history` and `assignment_history`.

A row is an interval: the columns of the state table, and the records between which they were true.
The columns of the interval are those of `INTERVAL_FIELDS`."""

from __future__ import annotations

import pyarrow as pa

from kip848_spark.state.assignments import ASSIGNMENT_FIELDS
from kip848_spark.state.groups import GROUP_FIELDS
from kip848_spark.state.members import MEMBER_FIELDS
from kip848_spark.wire.tables import TIMESTAMP

GROUP_HISTORY = "group_history"
MEMBER_HISTORY = "member_history"
ASSIGNMENT_HISTORY = "assignment_history"

INTERVAL_FIELDS: dict[str, pa.DataType] = {
    "valid_from": TIMESTAMP,
    "valid_to": TIMESTAMP,
    "from_offset": pa.int64(),
    "to_offset": pa.int64(),
    "known_from": TIMESTAMP,
    "known_to": TIMESTAMP,
}
"""The columns of an interval. ``from_offset`` is the offset of the record that made the row true,
``to_offset`` that of the record that ended it (null: still true). ``valid_from`` and ``valid_to``
are the times of these records; time never goes backwards within a partition of the topic.
``known_from`` is equal to ``valid_from`` if the true beginning was not seen, else null.
``known_to`` is equal to ``valid_to`` if the true end was not seen, else null."""

_OF_NEWEST_RECORD = ("last_offset", "updated_at")

GROUP_HISTORY_FIELDS: dict[str, pa.DataType] = {
    **{name: type_ for name, type_ in GROUP_FIELDS.items() if name not in _OF_NEWEST_RECORD},
    **INTERVAL_FIELDS,
}
"""The columns of `group_history`, and their Arrow types."""
MEMBER_HISTORY_FIELDS: dict[str, pa.DataType] = {**MEMBER_FIELDS, **INTERVAL_FIELDS}
"""The columns of `member_history`, and their Arrow types."""
ASSIGNMENT_HISTORY_FIELDS: dict[str, pa.DataType] = {**ASSIGNMENT_FIELDS, **INTERVAL_FIELDS}
"""The columns of `assignment_history`, and their Arrow types."""

HISTORY_FIELDS: dict[str, dict[str, pa.DataType]] = {
    GROUP_HISTORY: GROUP_HISTORY_FIELDS,
    MEMBER_HISTORY: MEMBER_HISTORY_FIELDS,
    ASSIGNMENT_HISTORY: ASSIGNMENT_HISTORY_FIELDS,
}
"""The columns of each history table, and their Arrow types."""
