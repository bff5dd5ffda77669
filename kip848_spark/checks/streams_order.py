"""Checks that the records of a streams group come in an order that a coordinator writes, that none
is duplicated, and that none is about a member that does not exist."""

from __future__ import annotations

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import HEARTBEAT, REJOIN
from kip848_spark.checks.order_rules import (
    repeats_partition,
    report_disorder,
    report_invalid_order,
    report_no_change,
    report_orphan_tombstone,
    report_repeated_partition,
    report_unknown_member,
)
from kip848_spark.checks.results import ORDER
from kip848_spark.checks.streams_operations import StreamsPart
from kip848_spark.checks.streams_state import AuditedStreams
from kip848_spark.coordinator import streams_group as streams
from kip848_spark.coordinator.streams_group import Tasks

_OF_MEMBER = (streams.MEMBER, streams.TARGET, streams.CURRENT)
_TASKS = (*streams.ROLES, *streams.PENDING_ROLES)


def check_order(audited: AuditedStreams, part: StreamsPart) -> None:
    """Checks the order of the records in a part. Reports at most one finding."""
    if report_disorder(audited.tally, part, _OF_MEMBER):
        return
    if _lacks_records(audited, part):
        report_invalid_order(audited.tally, part)
    elif part.name == REJOIN and _is_other_instance(audited, part):
        old = audited.member(part.entries[0].member)
        audited.tally.add_disagreement(
            ORDER,
            "other_instance",
            part.entries[3],
            {"instanceId": None if old is None else old.instance_id},
            {"instanceId": (part.entries[3].value or {}).get("instanceId")},
        )
    else:
        _check_topology(audited, part)


def _lacks_records(audited: AuditedStreams, part: StreamsPart) -> bool:
    """Whether a member joins without getting an assignment."""
    if part.name != HEARTBEAT or part.of(streams.CURRENT):
        return False
    joined = [entry for entry in part.of(streams.MEMBER) if audited.member(entry.member) is None]
    return audited.complete and bool(joined)


def _is_other_instance(audited: AuditedStreams, part: StreamsPart) -> bool:
    left, joined = part.entries[0].member, part.entries[3]
    member = audited.member(left)
    if member is None or not audited.knows(streams.MEMBER, left):
        return False
    instance = (joined.value or {}).get("instanceId")
    return instance is None or instance != member.instance_id


def _check_topology(audited: AuditedStreams, part: StreamsPart) -> None:
    """The first member brings the topology, which is written once."""
    written, group = part.of(streams.TOPOLOGY), audited.group
    joins = [e for e in part.of(streams.MEMBER) if audited.member(e.member) is None]
    if not audited.complete:
        pass
    elif written and group.topology is not None:
        audited.tally.add_disagreement(
            ORDER,
            "second_topology",
            written[0],
            {"epoch": group.topology["epoch"]},
            {"epoch": (written[0].value or {})["epoch"]},
            member="",
        )
    elif not written and joins and group.topology is None and part.name == HEARTBEAT:
        audited.tally.add_disagreement(
            ORDER, "no_topology", joins[0], "the topology", "none", member=""
        )


def check_record(audited: AuditedStreams, part: StreamsPart, entry: LogEntry) -> None:
    """Checks one record against the state before it: it changes something, and what it is about
    exists."""
    unknown = audited.complete and audited.member(entry.member) is None
    if entry.kind not in _OF_MEMBER:
        audited.tally.add_verified(ORDER)
    elif entry.value is None:
        if unknown:
            report_orphan_tombstone(audited.tally, entry)
        else:
            audited.tally.add_verified(ORDER)
    elif unknown and entry.kind != streams.MEMBER:
        report_unknown_member(audited.tally, entry)
    elif _changes_nothing(audited, entry):
        report_no_change(audited.tally, entry)
    elif repeats_partition(entry, _TASKS, "subtopologyId"):
        report_repeated_partition(audited.tally, entry)
    else:
        audited.tally.add_verified(ORDER)


def _changes_nothing(audited: AuditedStreams, entry: LogEntry) -> bool:
    if entry.key not in audited.seen:
        return False
    if entry.kind == streams.MEMBER:
        member = audited.member(entry.member)
        return member is not None and member.metadata == entry.value
    if entry.kind == streams.TARGET:
        return audited.group.targets.get(entry.member) == Tasks.of(entry.value or {})
    return False
