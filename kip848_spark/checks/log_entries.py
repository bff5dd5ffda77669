"""A control record at its place in the topic, in the form the reference coordinator reads."""

from __future__ import annotations

from typing import Any, NamedTuple

from kip848_spark.coordinator import records
from kip848_spark.coordinator.records import Record
from kip848_spark.state import kinds

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


class Entry(NamedTuple):
    """One control record. ``member`` is the member id, or the pattern of a regular expression;
    ``value`` has the fields of the record's value, and is None for a tombstone."""

    partition: int
    offset: int
    timestamp: int
    record: Record
    kind: str
    group: str
    member: str
    value: dict[str, Any] | None

    @property
    def key(self) -> tuple[str, str]:
        """What the log cleaner keeps one record of, within the group."""
        return self.kind, self.member


def entry(partition: int, offset: int, timestamp: int, record: Record) -> Entry:
    """An entry from a record in the form `kip848 dump` prints."""
    key, value = record["key"]["data"], record["value"]
    return Entry(
        partition,
        offset,
        timestamp,
        record,
        str(record["key"]["type"]),
        key["groupId"] if "groupId" in key else key["group"],
        key.get("memberId", key.get("regularExpression", "")),
        None if value is None else value["data"],
    )


def control_entry(
    place: tuple[int, int, int],
    kind: str,
    group: str,
    member: str | None,
    regex: str | None,
    value: dict[str, Any] | None,
) -> Entry | None:
    """An entry from the columns of `group_records` and its value in the form `kip848 dump` prints,
    which may have null for what is left out there; None for a kind that is not judged here.
    ``place``: partition, offset and time in ms."""
    type_ = _TYPES.get(kind)
    if type_ is None or type_ == records.OFFSET:
        return None
    key: dict[str, Any] = {"group" if type_ in _BY_GROUP else "groupId": group}
    if member is not None:
        key["memberId"] = member
    if regex is not None:
        key["regularExpression"] = regex
    record = records.record(type_, 3 if type_ == records.CLASSIC_GROUP else 0, key, value)
    return Entry(*place, record, type_, group, member or regex or "", value)
