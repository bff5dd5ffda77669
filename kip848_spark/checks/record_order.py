"""Checks that records come in an order that a coordinator writes, that none is duplicated, and that
none is about a member or group that does not exist."""

from __future__ import annotations

from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.expressions import check_resolved
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import DELETE, REJOIN, OperationPart
from kip848_spark.checks.order_rules import (
    repeats_partition,
    report_disorder,
    report_mixed_tombstones,
    report_no_change,
    report_orphan_tombstone,
    report_repeated_partition,
    report_unknown_member,
)
from kip848_spark.checks.results import CRITICAL, ORDER
from kip848_spark.coordinator import records

_OF_MEMBER = (records.CURRENT, records.TARGET_MEMBER, records.MEMBER)


def check_order(audited: AuditedGroup, part: OperationPart) -> None:
    """Checks the order of the records in a part."""
    if report_disorder(audited.tally, part, _OF_MEMBER):
        return
    if part.name == DELETE and not _deletes_whole_members(part):
        report_mixed_tombstones(audited.tally, part)
    elif part.name == REJOIN and _is_other_instance(audited, part):
        audited.tally.add_disagreement(
            ORDER,
            "other_instance",
            part.entries[3],
            {"instanceId": _instance_of(audited, part.entries[0].member)},
            {"instanceId": (part.entries[3].value or {}).get("instanceId")},
        )
    else:
        audited.tally.add_verified(ORDER)


def _instance_of(audited: AuditedGroup, member_id: str) -> str | None:
    member = audited.member(member_id)
    return None if member is None else member.instance_id


def _is_other_instance(audited: AuditedGroup, part: OperationPart) -> bool:
    left, joined = part.entries[0].member, part.entries[3]
    member = audited.member(left)
    if member is None or joined.value is None or not audited.knows(records.MEMBER, left):
        return False
    instance = joined.value["instanceId"]
    if instance in (None, ""):
        return True
    # Until 4.3, the former instance id of a member still leads to it.
    assert audited.consumer is not None
    stale = audited.consumer.static_ids.get(instance) == left
    return bool(instance != member.instance_id) and not stale


def _deletes_whole_members(part: OperationPart) -> bool:
    gone = [entry for entry in part.entries if entry.value is None]
    first, *others = (sorted(e.member for e in gone if e.kind == kind) for kind in _OF_MEMBER)
    return all(members == first for members in others)


def check_record(audited: AuditedGroup, part: OperationPart, entry: LogEntry) -> None:
    """Checks one record against the state before it: it changes something, and what it is about
    exists."""
    if entry.value is None:
        _check_tombstone(audited, part, entry)
    elif entry.kind not in _OF_ONE:
        return
    elif _changes_nothing(audited, entry):
        report_no_change(audited.tally, entry)
    elif _has_no_member(audited, entry):
        report_unknown_member(audited.tally, entry)
    elif repeats_partition(entry, _PARTITIONS.get(entry.kind, ())):
        report_repeated_partition(audited.tally, entry)
    elif (other := _same_instance(audited, entry)) is not None:
        audited.tally.add_disagreement(
            ORDER,
            "same_instance",
            entry,
            {"instanceId": entry.value["instanceId"], "members": [other]},
            {"instanceId": entry.value["instanceId"], "members": [other, entry.member]},
        )
    elif entry.kind == records.REGEX:
        check_resolved(audited, entry)


def _same_instance(audited: AuditedGroup, entry: LogEntry) -> str | None:
    """The other member with the instance id of this member's record, if there is one."""
    if entry.kind != records.MEMBER or entry.value is None or audited.consumer is None:
        return None
    instance = entry.value["instanceId"] or ""
    other = audited.consumer.static_ids.get(instance)
    member = audited.consumer.members.get(other or "")
    same = member is not None and other != entry.member and member.instance_id == instance
    return other if same else None


_PARTITIONS = {
    records.TARGET_MEMBER: ("topicPartitions",),
    records.CURRENT: ("assignedPartitions", "partitionsPendingRevocation"),
}
"""The fields of a kind of record that list partitions."""


def _has_no_member(audited: AuditedGroup, entry: LogEntry) -> bool:
    has_assignment = entry.kind in (records.TARGET_MEMBER, records.CURRENT)
    return has_assignment and audited.complete and audited.member(entry.member) is None


def _has_members(audited: AuditedGroup) -> bool:
    """Whether the group is a consumer group with members. An empty one may be forgotten without a
    record; its offsets then belong to a new, classic group."""
    return audited.consumer is not None and bool(audited.consumer.members)


def _check_tombstone(audited: AuditedGroup, part: OperationPart, entry: LogEntry) -> None:
    if not audited.complete:
        return
    there: bool
    if entry.kind in _OF_MEMBER:
        there = audited.member(entry.member) is not None
    elif entry.kind == records.GROUP:
        there = audited.consumer is not None
    elif entry.kind == records.CLASSIC_GROUP and _has_members(audited):
        audited.tally.add_disagreement(
            ORDER,
            "classic_tombstone",
            entry,
            "the tombstones of a consumer group",
            entry.record,
            severity=CRITICAL,
        )
        return
    else:
        # The end of a group deletes keys 4, 6 and 16 whether or not they exist, and key 2 even of
        # a group that exists only because of its commits.
        return
    if not there:
        report_orphan_tombstone(audited.tally, entry)


_OF_ONE = frozenset({records.MEMBER, records.TARGET_MEMBER, records.CURRENT, records.REGEX})
"""Key types of records that are about one member or expression, not the whole group."""
_WRITTEN_ON_CHANGE = frozenset({records.MEMBER, records.TARGET_MEMBER, records.REGEX})
"""Key types whose values are written only if they differ from the state."""


def _changes_nothing(audited: AuditedGroup, entry: LogEntry) -> bool:
    if entry.kind not in _WRITTEN_ON_CHANGE:
        return False
    group, value = audited.consumer, entry.value
    if group is None or value is None or not audited.knows(*entry.key):
        return False
    if entry.kind == records.MEMBER:
        member = group.members.get(entry.member)
        if member is None or (entry.kind, entry.member) not in audited.seen:
            return False
        return bool(group.member_record(member)["value"]["data"] == _normalize(value))
    if entry.kind == records.TARGET_MEMBER:
        if entry.member in audited.rejoined:  # the coordinator does not compare with its new target
            return False
        stored = group.targets.get(entry.member)
        rows = {row["topicId"]: row["partitions"] for row in value["topicPartitions"]}
        return (
            stored is not None
            and stored.keys() == rows.keys()
            and all(stored[topic].keys() == set(numbers) for topic, numbers in rows.items())
        )
    found = group.resolved.get(entry.member)
    return found is not None and (found.topics, found.version, found.timestamp) == (
        frozenset(value["topics"]),
        value["version"],
        value["timestamp"],
    )


def _normalize(value: dict[str, object]) -> dict[str, object]:
    """A value of key 5 as the reference writes it."""
    names = value["subscribedTopicNames"]
    assert isinstance(names, list)
    return value | {
        "subscribedTopicNames": sorted(names),
        "subscribedTopicRegex": value["subscribedTopicRegex"] or "",
    }
