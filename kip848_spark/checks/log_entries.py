"""A record with its place in the topic, in the form that the reference coordinator reads."""

from __future__ import annotations

from typing import Any, NamedTuple

from kip848_spark.coordinator import records
from kip848_spark.coordinator.records import Record
from kip848_spark.state import kinds

JsonValue = Any
"""A value that was read from JSON."""

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
"""The kinds of record that the reference replays, with their key types."""

SHARE_STREAMS_KINDS = {
    kinds.SHARE_MEMBER: "10",
    kinds.SHARE_GROUP: "11",
    kinds.SHARE_TARGET_EPOCH: "12",
    kinds.SHARE_TARGET: "13",
    kinds.SHARE_CURRENT: "14",
    kinds.SHARE_STATE: "15",
    kinds.STREAMS_GROUP: "17",
    kinds.STREAMS_MEMBER: "19",
    kinds.STREAMS_TARGET_EPOCH: "20",
    kinds.STREAMS_TARGET: "21",
    kinds.STREAMS_CURRENT: "22",
    kinds.STREAMS_TOPOLOGY: "23",
}
"""The kinds of record of share and streams groups (`ShareAudit`, `StreamsAudit`), with their key
types."""

_TYPES = KEY_TYPES | SHARE_STREAMS_KINDS
KINDS = tuple(_TYPES)
"""Every kind of record that the audit reads."""
SHARE_STREAMS_KEY_TYPES = frozenset(SHARE_STREAMS_KINDS.values())
"""Key types of share and streams groups."""
SHARE_KEY_TYPES = frozenset({"10", "11", "12", "13", "14", "15"})
"""Key types of share groups."""

_BY_GROUP = (records.OFFSET, records.CLASSIC_GROUP)


class LogEntry(NamedTuple):
    """A control record or an offset commit, with its place. ``timestamp`` is in ms since the epoch.

    ``kind`` is the key type as text, such as "8". ``member`` is the member id, the regular
    expression for key 16, else "". ``value`` has the fields of the record's value under Kafka's
    names; it is None for a tombstone.
    """

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
        """The record's key within the group: the log cleaner keeps one record of each."""
        return self.kind, self.member


def log_entry(partition: int, offset: int, timestamp: int, record: Record) -> LogEntry:
    """An entry from a record in the form that `kip848 dump` prints."""
    key, value = record["key"]["data"], record["value"]
    return LogEntry(
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
) -> LogEntry | None:
    """An entry from the columns of `group_records`; None for a kind that the audit does not read.

    ``place``: partition, offset and time (ms since the epoch). ``value``: the record's value in the
    form that `kip848 dump` prints; a field that is left out there may be null here.
    """
    type_ = _TYPES.get(kind)
    if type_ is None or type_ == records.OFFSET:
        return None
    key: dict[str, Any] = {"group" if type_ in _BY_GROUP else "groupId": group}
    if member is not None:
        key["memberId"] = member
    if regex is not None:
        key["regularExpression"] = regex
    record = records.record(type_, 3 if type_ == records.CLASSIC_GROUP else 0, key, value)
    return LogEntry(*place, record, type_, group, member or regex or "", value)
