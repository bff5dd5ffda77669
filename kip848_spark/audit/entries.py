"""A control record at its place in the topic, in the form the reference coordinator reads."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kip848_spark.coordinator import records
from kip848_spark.coordinator.records import Record
from kip848_spark.replay import kinds

KEY_TYPES = {
    kinds.COMMIT: records.OFFSET,
    kinds.CLASSIC: records.CLASSIC_GROUP,
    kinds.GROUP: records.GROUP,
    kinds.PARTITIONS: records.TOPICS,
    kinds.MEMBER: records.MEMBER,
    kinds.TARGET_EPOCH: records.TARGET_EPOCH,
    kinds.TARGET: records.TARGET_MEMBER,
    kinds.CURRENT: records.CURRENT,
    kinds.REGEX: records.REGEX,
}
"""Kinds that the audit replays, with the key types the reference knows them by."""

OTHER_TYPES = {
    kinds.SHARE_MEMBER: "10",
    kinds.SHARE_GROUP: "11",
    kinds.SHARE_TARGET_EPOCH: "12",
    kinds.SHARE_TARGET: "13",
    kinds.SHARE_CURRENT: "14",
    kinds.STREAMS_GROUP: "17",
    kinds.STREAMS_MEMBER: "19",
    kinds.STREAMS_TARGET_EPOCH: "20",
    kinds.STREAMS_TARGET: "21",
    kinds.STREAMS_CURRENT: "22",
}
"""Kinds of share and streams groups, which have an audit of their own."""

_TYPES = KEY_TYPES | OTHER_TYPES
KINDS = tuple(_TYPES)
"""Every kind that the audit reads."""
OTHERS = frozenset(OTHER_TYPES.values())
"""Key types of share and streams groups."""

_BY_GROUP = (records.OFFSET, records.CLASSIC_GROUP)
_DERIVED = ("consumer_subscription", "consumer_assignment", "metadata_kind")
"""Columns that `group_records` has beside the bytes they were decoded from."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One control record. ``member`` is the member id, or the pattern of a regular expression."""

    partition: int
    offset: int
    timestamp: int
    record: Record
    kind: str
    group: str
    member: str

    @property
    def value(self) -> dict[str, Any] | None:
        """The fields of the value; None for a tombstone."""
        value = self.record["value"]
        return None if value is None else value["data"]

    @property
    def key(self) -> tuple[str, str]:
        """What the log cleaner keeps one record of, within the group."""
        return self.kind, self.member


def entry(partition: int, offset: int, timestamp: int, record: Record) -> Entry:
    """An entry from a record in the form `kip848 dump` prints."""
    key = record["key"]["data"]
    return Entry(
        partition,
        offset,
        timestamp,
        record,
        str(record["key"]["type"]),
        key["groupId"] if "groupId" in key else key["group"],
        key.get("memberId", key.get("regularExpression", "")),
    )


def from_row(row: Mapping[str, Any], timestamp_ms: int) -> Entry | None:
    """An entry from a row of `group_records`; None for a kind that is not judged here."""
    kind = _TYPES.get(row["kind"])
    if kind is None or kind == records.OFFSET:
        return None
    key: dict[str, Any] = {"group" if kind in _BY_GROUP else "groupId": row["group_id"]}
    if row["member_id"] is not None:
        key["memberId"] = row["member_id"]
    if row["regular_expression"] is not None:
        key["regularExpression"] = row["regular_expression"]
    value = None if row["tombstone"] else _camel(row[row["kind"]])
    version = 3 if kind == records.CLASSIC_GROUP else 0
    record = records.record(kind, version, key, value)
    return entry(row["partition"], row["offset"], timestamp_ms, record)


def _camel(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_name(k): _camel(v) for k, v in value.items() if k not in _DERIVED}
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    return [_camel(item) for item in value]


@lru_cache(maxsize=512)
def _name(snake: str) -> str:
    return re.sub(r"_(.)", lambda found: found.group(1).upper(), snake)
