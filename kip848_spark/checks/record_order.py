"""Records in an order that a coordinator writes, none of them twice, none for what is not there."""

from __future__ import annotations

from kip848_spark.checks.expressions import judge_resolved
from kip848_spark.checks.group_case import Case
from kip848_spark.checks.log_entries import Entry
from kip848_spark.checks.operations import BROKEN, DELETE, REJOIN, Part
from kip848_spark.checks.results import CRITICAL, ORDER, WARNING, Tally
from kip848_spark.coordinator import records


def judge_order(case: Case, part: Part) -> None:
    """The records of a part, as a whole."""
    if part.name == BROKEN:
        case.tally.wrong(
            ORDER,
            part.entries[0],
            "These records of one operation come in an order that no coordinator writes: one was "
            "lost, added or moved; compare with another replica of this partition.",
            "an operation's records, by key type",
            [_name(entry) for entry in part.entries],
            member="",
        )
    elif (twice := _twice(part)) is not None:
        case.tally.wrong(
            ORDER,
            twice,
            "This record is in its operation twice; a coordinator writes each of them once: it was "
            "appended again, or it is another's.",
            "each record of an operation once",
            [_name(entry) for entry in part.entries],
        )
    elif not _of_one_member(part):
        case.tally.wrong(
            ORDER,
            part.entries[0],
            "A member's three tombstones (keys 8, 7, 5) belong together, but these name "
            "different members: one was lost, added or moved.",
            "three tombstones of one member",
            [(_name(entry), entry.member) for entry in part.entries],
            member="",
        )
    elif part.name == REJOIN and _another_instance(case, part):
        case.tally.wrong(
            ORDER,
            part.entries[3],
            "A member takes another's place without being the same instance: one of the records "
            "was damaged, or tombstones of one member and the join of another were mixed up.",
            "the instance id of the member that went",
            part.entries[3].record,
        )
    else:
        case.tally.right(ORDER)


def _name(entry: Entry) -> str:
    return f"{entry.kind}{'' if entry.value is not None else ' (tombstone)'}"


def _another_instance(case: Case, part: Part) -> bool:
    left, joined = part.entries[0].member, part.entries[3]
    member = case.member(left)
    if member is None or joined.value is None or not case.knows(records.MEMBER, left):
        return False
    return joined.value["instanceId"] in (None, "") or (
        joined.value["instanceId"] != member.instance_id
    )


def _twice(part: Part) -> Entry | None:
    keys = set()
    for entry in part.entries:
        key = (entry.key, entry.value is None)
        if key in keys:
            return entry
        keys.add(key)
    return None


def _of_one_member(part: Part) -> bool:
    gone = [e for e in part.entries if e.value is None and e.kind in ("5", "7", "8")]
    if part.name == DELETE:
        each: list[list[str]] = [[e.member for e in gone if e.kind == k] for k in "875"]
        return sorted(each[0]) == sorted(each[1]) == sorted(each[2])
    return all(
        len({e.member for e in gone[at : at + 3]}) == 1 for at in range(0, len(gone) // 3 * 3, 3)
    )


def judge_sense(case: Case, part: Part, entry: Entry) -> None:
    """One record against the state before it: does it say anything, and of what is there?"""
    if entry.value is None:
        _tombstone(case, part, entry)
    elif entry.kind not in _OF_ONE:
        return
    elif _repeats(case, entry):
        case.tally.wrong(
            ORDER,
            entry,
            "This record says what was so already; a coordinator writes only what changes: it was "
            "appended twice, or something between is lost.",
            "a change",
            entry.record,
            severity=WARNING,
        )
    elif _orphan(case, entry):
        never_joined(case.tally, entry)
    elif _names_one_twice(entry):
        case.tally.wrong(
            ORDER,
            entry,
            "This record names a partition twice, which no coordinator writes: it was damaged or "
            "written by something else; compare with another replica of this partition.",
            "each partition once",
            entry.record,
        )
    elif (other := _same_instance(case, entry)) is not None:
        case.tally.wrong(
            ORDER,
            entry,
            f"Members {other} and {entry.member} are one instance, {entry.value['instanceId']}: "
            "the tombstones of the first are lost, and its partitions stay with it; restart "
            "that consumer.",
            other,
            entry.record,
        )
    elif entry.kind == records.REGEX:
        judge_resolved(case, entry)


def _same_instance(case: Case, entry: Entry) -> str | None:
    """The other member that has the instance id which a member's record names."""
    if entry.kind != records.MEMBER or entry.value is None or case.consumer is None:
        return None
    other = case.consumer.static_ids.get(entry.value["instanceId"] or "")
    return other if other != entry.member and other in case.consumer.members else None


_PARTITIONS = {
    records.TARGET_MEMBER: ("topicPartitions",),
    records.CURRENT: ("assignedPartitions", "partitionsPendingRevocation"),
}
"""Where a kind of record names partitions."""


def _names_one_twice(entry: Entry) -> bool:
    value = entry.value or {}
    for field in _PARTITIONS.get(entry.kind, ()):
        rows = value[field]
        if len(rows) > 1 and len(rows) > len({row["topicId"] for row in rows}):
            return True
        for row in rows:
            if len(row["partitions"]) > len(set(row["partitions"])):
                return True
    return False


def never_joined(tally: Tally, entry: Entry) -> None:
    """The finding that a member has an assignment, but no record of its own."""
    tally.wrong(
        ORDER,
        entry,
        f"Member {entry.member} has an assignment but never said what it subscribes to: that "
        "record is lost, or this one is another group's.",
        "an earlier record by which the member joined",
        entry.record,
    )


def nothing_there(tally: Tally, entry: Entry) -> None:
    """The finding that a tombstone is of a record that is not there."""
    tally.wrong(
        ORDER,
        entry,
        "This tombstone takes away what is not there: the record it belongs to is lost, or it "
        "was appended twice.",
        "something to take away",
        entry.record,
        severity=WARNING,
    )


def _orphan(case: Case, entry: Entry) -> bool:
    of_member = entry.kind in (records.TARGET_MEMBER, records.CURRENT)
    return of_member and case.census and case.member(entry.member) is None


def _tombstone(case: Case, part: Part, entry: Entry) -> None:
    if not case.census:
        return
    there: bool
    if entry.kind in (records.MEMBER, records.TARGET_MEMBER, records.CURRENT):
        there = case.member(entry.member) is not None
    elif entry.kind == records.GROUP:
        there = case.consumer is not None
    elif entry.kind == records.CLASSIC_GROUP and case.consumer is not None:
        case.tally.wrong(
            ORDER,
            entry,
            "This tombstone is a classic group's, but the group is of the new protocol: a broker "
            "that loads this log forgets that group; look for a second writer.",
            "the tombstones of a consumer group",
            entry.record,
            severity=CRITICAL,
        )
        return
    else:
        # The end of a group clears keys 4, 6 and 16 whether or not they are there, and key 2 of a
        # group that only its commits had made.
        return
    if not there:
        nothing_there(case.tally, entry)


_OF_ONE = frozenset({records.MEMBER, records.TARGET_MEMBER, records.CURRENT, records.REGEX})
"""Kinds of records that are about one member or expression, not the whole group."""
_SAY_ONE_THING = frozenset({records.MEMBER, records.TARGET_MEMBER, records.REGEX})
"""Kinds whose records are written only where what they say changes, which the state shows."""


def _repeats(case: Case, entry: Entry) -> bool:
    if entry.kind not in _SAY_ONE_THING:
        return False
    group, value = case.consumer, entry.value
    if group is None or value is None or not case.knows(*entry.key):
        return False
    if entry.kind == records.MEMBER:
        member = group.members.get(entry.member)
        if member is None or (entry.kind, entry.member) not in case.seen:
            return False
        return bool(group.member_record(member)["value"]["data"] == _normal(value))
    if entry.kind == records.TARGET_MEMBER:
        if entry.member in case.rejoined:  # its target of a moment ago is not looked at
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


def _normal(value: dict[str, object]) -> dict[str, object]:
    """Key 5's value as the reference writes it."""
    names = value["subscribedTopicNames"]
    assert isinstance(names, list)
    return value | {
        "subscribedTopicNames": sorted(names),
        "subscribedTopicRegex": value["subscribedTopicRegex"] or "",
    }
