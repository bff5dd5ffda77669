"""Corrections of a log at the place of a finding: the records as they may have had to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import orjson

from kip848_spark.checks.audit_rows import AuditStep
from kip848_spark.checks.corrected_log import Correction, Operation, tombstone_of, with_values
from kip848_spark.checks.finding_phrases import nearest
from kip848_spark.checks.log_entries import SHARE_STREAMS_KEY_TYPES, JsonValue, LogEntry
from kip848_spark.checks.results import Finding
from kip848_spark.coordinator import records

_MOST_OPTIONS = 4
"""Of several assignments that were possible, those that are tried: the nearest to the recorded."""
_MOST_CORRECTIONS = 12
"""Corrections of one place that are tried."""
_MOST_RECORDS = 40
"""Records of an operation in which records are added or moved."""


class FindingAt(NamedTuple):
    """A finding, and the record that it is at."""

    operation: Operation
    at: int
    """The position of the record in the operation."""
    entry: LogEntry
    expected: JsonValue
    recorded: JsonValue


def corrections(findings: Sequence[Finding], steps: Sequence[AuditStep]) -> Iterator[Correction]:
    """The corrections for ``findings``, which are all at one record, the likeliest first. The last
    one is the log without the record."""
    offset = findings[0].offset
    at = next((i for i, step in enumerate(steps) if step.offset == offset), None)
    if at is None or (entry := steps[at].entry) is None or steps[at].is_commit:
        return
    operation = Operation.at(steps, at)
    found = _of_findings(findings, operation, at - operation.begin, entry)
    yield from islice(found, _MOST_CORRECTIONS)
    yield operation.without(at - operation.begin)


def _of_findings(
    findings: Sequence[Finding], operation: Operation, at: int, entry: LogEntry
) -> Iterator[Correction]:
    for finding in findings:
        expected, recorded = orjson.loads(finding.expected), orjson.loads(finding.recorded)
        place = FindingAt(operation, at, entry, expected, recorded)
        if entry.value is not None:
            for values in _VALUES.get(finding.reason, _no_values)(place):
                yield operation.replaced({at: with_values(entry, values)})
        small = operation.end - operation.begin <= _MOST_RECORDS
        if small and entry.kind not in SHARE_STREAMS_KEY_TYPES:
            yield from _OPERATIONS.get(finding.reason, _no_operations)(place)


# Values of the record at which the finding is


Values = Iterator[Mapping[str, JsonValue]]
"""Fields of a record's value that are set."""


def _no_values(place: FindingAt) -> Values:
    yield from ()


def _expected_field(name: str) -> Callable[[FindingAt], Values]:
    def values(place: FindingAt) -> Values:
        if isinstance(place.expected, int) and name in (place.entry.value or {}):
            yield {name: place.expected}

    return values


def _metadata_hash(place: FindingAt) -> Values:
    yield {"metadataHash": place.expected["metadataHash"]}


def _generation(place: FindingAt) -> Values:
    yield {"generation": place.expected["generation"]}


def _target_epoch_of_upgrade(place: FindingAt) -> Values:
    yield {"epoch": place.recorded}


def _member_epoch_of_upgrade(place: FindingAt) -> Values:
    yield {"epoch": place.recorded["memberEpoch"]}


def _assignments(place: FindingAt) -> Values:
    """The nearest of the assignments that were possible."""
    options = list(place.expected["to one of"])
    for _ in range(min(len(options), _MOST_OPTIONS)):
        option = nearest(options, place.recorded)
        options.remove(option)
        epochs = {(topic, n): at for topic, n, at in option.get("assignmentEpochs") or ()}
        yield {
            "memberEpoch": option["memberEpoch"],
            "previousMemberEpoch": option["previousMemberEpoch"],
            "state": option["state"],
            "assignedPartitions": _rows(option["assigned"], epochs),
            "partitionsPendingRevocation": _rows(option["pendingRevocation"], epochs),
        }


def _rows(partitions: Mapping[str, Sequence[int]], epochs: Mapping[Any, int]) -> list[JsonValue]:
    """A list of a value of key 8. Partitions have assignment epochs if they are known."""
    rows = []
    for topic, numbers in partitions.items():
        row: JsonValue = {"topicId": topic, "partitions": list(numbers)}
        if all((topic, n) in epochs for n in numbers):
            row["assignmentEpochs"] = [epochs[topic, n] for n in numbers]
        rows.append(row)
    return rows


def _member_epochs(place: FindingAt) -> Values:
    """Of a share or streams group, in which other fields are not checked."""
    before = place.expected["previous"]
    recorded = place.recorded["previousMemberEpoch"]
    for epoch in dict.fromkeys((place.expected["target"], place.expected["least"])):
        previous = before if before is not None and before > 0 else recorded
        yield {"memberEpoch": epoch, "previousMemberEpoch": previous}


def _time(place: FindingAt) -> Values:
    yield {place.expected["field"]: place.expected["appended"]}


def _fields(place: FindingAt) -> Values:
    yield place.expected


_VALUES: dict[str, Callable[[FindingAt], Values]] = {
    "group_epoch": _expected_field("epoch"),
    "target_epoch": _expected_field("assignmentEpoch"),
    "target_again": _expected_field("assignmentEpoch"),
    "generation_decreases": _expected_field("generation"),
    "upgrade_epoch": _expected_field("epoch"),
    "upgrade_target_epoch": _target_epoch_of_upgrade,
    "upgraded_member_epoch": _member_epoch_of_upgrade,
    "downgrade": _generation,
    "wrong_hash": _metadata_hash,
    "unreachable": _assignments,
    "static_rejoin": _assignments,
    "member_epochs": _member_epochs,
    "time_in_value": _time,
    "expressions_resolved_apart": _fields,
}
"""By reason: the values that the record may have had to have."""


# Other records of the operation


def _no_operations(place: FindingAt) -> Iterator[Correction]:
    yield from ()


def _targets(place: FindingAt) -> Iterator[Correction]:
    """The expected targets: those of this operation's records, and further records."""
    expected, recorded = place.expected["targets"], place.recorded["targets"]
    yield from _shown_topics(place)
    if expected is None:
        return
    own = _own_targets(place)
    changes, added = {}, []
    for member in sorted(expected.keys() | recorded.keys()):
        share = expected.get(member) or {}
        if _partitions(share) == _partitions(recorded.get(member)):
            continue
        if member in own:
            changes[own[member]] = _with_target(place.operation.entries[own[member]], share)
        else:
            added.append((member, share))
    if not added:
        yield place.operation.replaced(changes)
    elif len(added) == 1 and not changes:
        ((member, share),) = added
        yield from place.operation.valid_with(_target_record(place, member, share), member)


def _shown_topics(place: FindingAt) -> Iterator[Correction]:
    """Kafka 4.0: the topics of key 4 with the partition counts that the targets show."""
    counts: dict[str, int] = {}
    for share in place.recorded["targets"].values():
        for topic, numbers in share.items():
            counts[topic] = max(counts.get(topic, 0), *(n + 1 for n in numbers))
    for at, entry in enumerate(place.operation.entries):
        if entry.kind == records.TOPICS and entry.value is not None:
            rows = [
                {**row, "numPartitions": counts.get(row["topicId"], row["numPartitions"])}
                for row in entry.value["topics"]
            ]
            yield place.operation.replaced({at: with_values(entry, {"topics": rows})})


def _one_target(place: FindingAt) -> Iterator[Correction]:
    """The partition in the target of only one of the members that have it."""
    topic, number = place.recorded["partition"]
    own = _own_targets(place)
    for member in place.recorded["members"]:
        if member in own:
            entry = place.operation.entries[own[member]]
            share = {
                row["topicId"]: [
                    n for n in row["partitions"] if (row["topicId"], n) != (topic, number)
                ]
                for row in (entry.value or {})["topicPartitions"]
            }
            yield place.operation.replaced({own[member]: _with_target(entry, share)})


def _own_targets(place: FindingAt) -> dict[str, int]:
    """The positions of the values of key 7 in the operation, by member."""
    return {
        entry.member: at
        for at, entry in enumerate(place.operation.entries)
        if entry.kind == records.TARGET_MEMBER and entry.value is not None
    }


def _partitions(share: JsonValue) -> set[tuple[str, int]]:
    return {(topic, n) for topic, numbers in (share or {}).items() for n in numbers}


def _target_value(share: Mapping[str, Sequence[int]]) -> JsonValue:
    rows = [
        {"topicId": topic, "partitions": sorted(numbers)}
        for topic, numbers in share.items()
        if numbers
    ]
    return {"topicPartitions": rows}


def _with_target(entry: LogEntry, share: Mapping[str, Sequence[int]]) -> LogEntry:
    return with_values(entry, _target_value(share))


def _target_record(place: FindingAt, member: str, share: Mapping[str, Sequence[int]]) -> JsonValue:
    key = {"groupId": place.entry.group, "memberId": member}
    return records.record(records.TARGET_MEMBER, 0, key, _target_value(share))


def _valid_orders(place: FindingAt) -> Iterator[Correction]:
    """The operation without one of its records, with one that is missing, or with two of them in
    each other's place."""
    operation, group = place.operation, place.entry.group
    yield from _missing_epochs(place)
    members = dict.fromkeys(e.member for e in operation.entries if e.member and e.value is None)
    for kind in (records.CURRENT, records.TARGET_MEMBER, records.MEMBER):
        have = {e.member for e in operation.entries if e.kind == kind and e.value is None}
        for member in members:
            if member not in have:
                yield from operation.valid_with(tombstone_of(group, kind, member), member)
    for kind in (records.GROUP, records.TARGET_EPOCH):
        yield from operation.valid_with(tombstone_of(group, kind, ""), "")
    yield from operation.valid_moved()
    yield from operation.valid_without()


def _missing_epochs(place: FindingAt) -> Iterator[Correction]:
    """The operation with the next group epoch, or with the epoch of its target."""
    operation = place.operation
    last, following = operation.last_value(records.GROUP), operation.next_value(records.GROUP)
    key = {"groupId": place.entry.group}
    bumps = []
    if last is not None:
        bumps.append({**last[1], "epoch": last[1]["epoch"] + 1})
    if following is not None:  # a new hash is known from there
        epoch = following[1]["epoch"] - 1 if last is None else last[1]["epoch"] + 1
        bumps.append({**following[1], "epoch": epoch})
    if last is not None:
        target = {"assignmentEpoch": last[1]["epoch"], "assignmentTimestamp": last[0].timestamp}
        yield from operation.valid_with(records.record(records.TARGET_EPOCH, 0, key, target), "")
    if last is None or last[0].offset < operation.entries[0].offset:
        for bump in bumps:
            yield from operation.valid_with(records.record(records.GROUP, 0, key, bump), "")


def _missing_member(place: FindingAt) -> Iterator[Correction]:
    """The operation with the join of a member that has a target or an assignment in it, but never
    joined: with the subscription of another member."""
    operation = place.operation
    known = operation.newest_of(records.MEMBER)
    joined = dict.fromkeys(
        entry.member
        for entry in operation.entries
        if entry.kind in (records.TARGET_MEMBER, records.CURRENT) and entry.member not in known
    )
    if known:
        value = {**list(known.values())[-1], "instanceId": None, "classicMemberMetadata": None}
        for member in joined:
            key = {"groupId": place.entry.group, "memberId": member}
            record = records.record(records.MEMBER, 0, key, value)
            yield from operation.valid_with(record, member)


def _missing_target(place: FindingAt) -> Iterator[Correction]:
    """The operation with the target of the only member that has none: the partitions that the
    others' targets have lost."""
    missing = set(place.expected) - set(place.recorded)
    if len(missing) != 1:
        return
    (member,) = missing
    before, after = (
        {
            (row["topicId"], number)
            for value in place.operation.newest_of(records.TARGET_MEMBER, before=first).values()
            for row in value["topicPartitions"]
            for number in row["partitions"]
        }
        for first in (True, False)
    )
    share: dict[str, list[int]] = {}
    for topic, number in before - after:
        share.setdefault(topic, []).append(number)
    yield from place.operation.valid_with(_target_record(place, member, share), member)


_OPERATIONS: dict[str, Callable[[FindingAt], Iterator[Correction]]] = {
    "another_target": _targets,
    "partition_in_two_targets": _one_target,
    "not_a_target_for_each_member": _missing_target,
    "no_cause": _missing_member,
    "unknown_member": _missing_member,
    "invalid_order": _valid_orders,
    "mixed_tombstones": _valid_orders,
    "orphan_tombstone": _valid_orders,
    "not_loadable": _valid_orders,
    "no_new_epoch": _missing_epochs,
    "target_epoch": _missing_epochs,
    "member_epoch": _missing_epochs,
}
"""By reason: the operations that may have had to be written."""
