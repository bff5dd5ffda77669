"""The two sides of a finding, of which only the difference is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kip848_spark.checks import finding_phrases as phrases
from kip848_spark.checks.finding_phrases import Sides, TopicNames
from kip848_spark.checks.log_entries import JsonValue


class Case(NamedTuple):
    """A finding, with its values as they were read from JSON."""

    member: str | None
    expected: JsonValue
    recorded: JsonValue
    names: TopicNames


def sides_of(reason: str, case: Case) -> Sides:
    """What was expected and what was recorded, each in one line."""
    return _SIDES.get(reason, _values)(case)


def _values(case: Case) -> Sides:
    if isinstance(case.expected, dict) and isinstance(case.recorded, dict):
        return phrases.fields(case.expected, case.recorded, case.names)
    return (
        phrases.value_text(case.expected, case.names),
        phrases.value_text(case.recorded, case.names),
    )


def _rows(case: Case) -> Sides:
    key = ", ".join(
        f"{name.replace('_', ' ')} {phrases.text(value)}"
        for name, value in case.expected["key"].items()
        if value is not None
    )
    where = f" ({key})" if key else ""
    rows = case.expected["row"], case.recorded["row"]
    if None in rows:
        first, second = ("no row" if row is None else "a row" for row in rows)
        return first + where, second + where
    first, second = phrases.fields(*rows, case.names)
    return first + where, second + where


def _transition(case: Case) -> Sides:
    options = case.expected["to one of"]
    if not options:
        return _no_transition(case)
    expected, recorded = phrases.assignments(
        phrases.nearest(options, case.recorded), case.recorded, case.names
    )
    if len(options) > 1:
        expected += f" (the nearest of {len(options)} possible assignments)"
    return expected or "a change", recorded or "no change"


def _no_transition(case: Case) -> Sides:
    before, recorded = phrases.assignments(case.expected["from"], case.recorded, case.names)
    if not recorded:
        return "no record, since nothing changes", "the same assignment again"
    return f"no change of {before}", recorded


def _two_owners(case: Case) -> Sides:
    place = phrases.partition(case.expected["partition"], case.names)
    owner = case.expected["owner"]
    return f"{place} owned by {owner} alone", f"{place} owned by {owner} and by {case.member}"


def _assigned_and_revoked(case: Case) -> Sides:
    place = phrases.partition(case.expected["partition"], case.names)
    return f"{place} assigned, or to be given up", f"{place} assigned, and to be given up"


def _two_tasks(case: Case) -> Sides:
    owner, task = case.expected["owner"], "_".join(map(str, case.expected["task"]))
    return (
        f"task {task} active on {owner} alone",
        f"task {task} active on {owner} and on {case.member}",
    )


def _not_initialized(case: Case) -> Sides:
    place = phrases.partition(case.expected["partition"], case.names)
    return "only partitions with share state", f"also {place}"


def _share_state(case: Case) -> Sides:
    first, second = (
        phrases.places(side, case.names) or "no partition"
        for side in (case.expected, case.recorded)
    )
    return first, second


def _two_targets(case: Case) -> Sides:
    place = phrases.partition(case.expected["partition"], case.names)
    found = phrases.words(case.recorded["members"])
    return f"{place} in the target of one member", f"{place} in the targets of {found}"


def _targets(case: Case) -> Sides:
    expected, recorded = case.expected["targets"], case.recorded["targets"]
    if expected is None:
        names = " or ".join(case.expected["assignors"])
        found = sum(len(numbers) for share in recorded.values() for numbers in share.values())
        return f"the target of the assignor {names}", f"a target of {found} partitions"
    return phrases.targets(expected, recorded, case.names)


def _member_epoch(case: Case) -> Sides:
    least, target, group = (case.expected[name] for name in ("least", "target", "group"))
    if target > group:
        return f"a target epoch of at most the group epoch {group}", f"target epoch {target}"
    if case.recorded < least:
        expected = f"at least {least}, its last one"
    else:
        expected = f"{least} to {target}" if least < target else f"at most {target}"
    return f"member epoch {expected}", f"member epoch {case.recorded}"


def _member_epochs(case: Case) -> Sides:
    wanted, found = case.expected, case.recorded
    least, target = wanted["least"], wanted["target"]
    expected = f"member epoch {f'{least} to {target}' if least < target else target}"
    recorded = f"member epoch {found['memberEpoch']}"
    if wanted["previous"] is not None and wanted["previous"] != found["previousMemberEpoch"]:
        expected += f", previous member epoch {wanted['previous']}"
        recorded += f", previous member epoch {found['previousMemberEpoch']}"
    return expected, recorded


def _epochs(case: Case) -> Sides:
    expected = "no epoch yet" if case.expected is None else f"epoch {case.expected}"
    return expected, f"epoch {case.recorded}"


def _hashes(case: Case) -> Sides:
    topics = ", ".join(
        f"{name} with {count} {'partitions' if count != 1 else 'partition'}"
        for name, count in sorted(case.expected["topics"].items())
    )
    of = f", of {topics}" if topics else ", of no topic"
    hashes = (side["metadataHash"] for side in (case.expected, case.recorded))
    expected, recorded = hashes
    return f"hash {expected}{of}", f"hash {recorded}"


def _topics(case: Case) -> Sides:
    strange = sorted(set(case.recorded) - set(case.expected))
    return "only topics to which members subscribe", f"also {phrases.words(strange)}"


def _kinds(case: Case) -> Sides:
    found = [_kind(item) for item in case.recorded]
    return phrases.text(case.expected), phrases.words(found)


def _kind(item: JsonValue) -> str:
    """A record, from its key type or from its key type and member."""
    if isinstance(item, list):
        return f"{phrases.kind_of(item[0])}{f' of {item[1]}' if item[1] else ''}"
    return phrases.kind_of(item)


def _record(case: Case) -> Sides:
    return phrases.text(case.expected), phrases.record(case.recorded, case.names)


def _repeated(case: Case) -> Sides:
    found = phrases.repeated(case.recorded, case.names)
    return f"{found} once", f"{found} more than once"


def _loading(case: Case) -> Sides:
    return phrases.text(case.expected), phrases.record(case.recorded["record"], case.names)


def _members_of(what: str) -> Callable[[Case], Sides]:
    return lambda case: phrases.members(case.expected, case.recorded, what)


def _downgrade(case: Case) -> Sides:
    expected, recorded = phrases.members(
        case.expected["members"], case.recorded["members"], "place"
    )
    generations = [side["generation"] for side in (case.expected, case.recorded)]
    first, second = (f"generation {generation}" for generation in generations)
    if generations[0] == generations[1]:
        return expected, recorded
    if not expected:
        return first, second
    return f"{first}, {expected}", f"{second}, {recorded}"


def _assignment(case: Case) -> Sides:
    return phrases.assignments(case.expected, case.recorded, case.names)


def _causes(case: Case) -> Sides:
    return phrases.text(case.expected), "none: no member, subscription, expression or topic changed"


def _no_epoch(case: Case) -> Sides:
    return "a new group epoch in the same operation", "none"


def _leader(case: Case) -> Sides:
    return f"one of {phrases.words(case.expected) or 'no members'}", phrases.text(case.recorded)


def _generation(case: Case) -> Sides:
    return f"generation {case.expected} or higher", f"generation {case.recorded}"


def _expression(case: Case) -> Sides:
    return case.expected["topics"], phrases.words(case.recorded["topics"])


def _unused(case: Case) -> Sides:
    return "its tombstone in this operation", "none"


def _time(case: Case) -> Sides:
    least, most = case.expected["least"], case.expected["most"]
    bounds = [
        f"{word} {phrases.moment(bound)}"
        for word, bound in (("at least", least), ("at most", most))
        if bound is not None
    ]
    return " and ".join(bounds), phrases.moment(case.recorded["time"])


def _record_time(case: Case) -> Sides:
    return phrases.moment(case.expected["time"]), phrases.moment(case.recorded["time"])


def _resolution(case: Case) -> Sides:
    return (
        f"at least {phrases.moment(case.expected['least'])}",
        phrases.moment(case.recorded["timestamp"]),
    )


def _difference(case: Case) -> Sides:
    (live,), (lake,) = case.expected.values(), case.recorded.values()
    return (
        f"{phrases.value_text(live, case.names)} (the cluster)",
        f"{phrases.value_text(lake, case.names)} (the lake)",
    )


_SIDES: dict[str, Callable[[Case], Sides]] = {
    "row_differs": _rows,
    "row_missing": _rows,
    "row_without_record": _rows,
    "not_loadable": _loading,
    "invalid_order": _kinds,
    "not_initialized": _not_initialized,
    "share_state": _share_state,
    "duplicate_record": _kinds,
    "mixed_tombstones": _kinds,
    "no_change": _record,
    "unknown_member": _record,
    "repeated_partition": _repeated,
    "same_instance": lambda case: (
        f"{case.expected['members'][0]} alone",
        " and ".join(case.recorded["members"]),
    ),
    "orphan_tombstone": _record,
    "classic_tombstone": _record,
    "unmatched_topic": _expression,
    "unused_expression": _unused,
    "group_epoch": _epochs,
    "target_epoch": _epochs,
    "target_again": lambda case: ("one target for each epoch", "a second one"),
    "member_epoch": _member_epoch,
    "member_epochs": _member_epochs,
    "no_cause": _causes,
    "no_new_epoch": _no_epoch,
    "unsubscribed_topic": _topics,
    "wrong_hash": _hashes,
    "partition_in_two_targets": _two_targets,
    "not_a_target_for_each_member": _members_of("target"),
    "another_target": _targets,
    "unreachable": _transition,
    "static_rejoin": _transition,
    "two_owners": _two_owners,
    "assigned_and_revoked": _assigned_and_revoked,
    "task_with_two_owners": _two_tasks,
    "task_twice_in_process": lambda case: (
        f"the task on {case.expected['member']} alone",
        f"the task on {case.expected['member']} and on {case.recorded['member']}",
    ),
    "second_topology": lambda case: ("one topology", "a second one"),
    "validated_topology": lambda case: (
        f"topology epoch {phrases.text(case.expected)}",
        f"topology epoch {phrases.text(case.recorded)}",
    ),
    "upgrade_epoch": lambda case: (
        f"an epoch of at least {case.expected}",
        f"epoch {case.recorded}",
    ),
    "upgrade_target_epoch": _epochs,
    "upgrade_targets": _members_of("target"),
    "upgrade_assignments": _members_of("assignment"),
    "upgraded_member_epoch": _assignment,
    "upgraded_assignment": _assignment,
    "upgraded_assignment_epoch": lambda case: (
        f"assignment epoch {phrases.words(case.expected)}",
        f"assignment epoch {phrases.words(case.recorded)}",
    ),
    "upgrade_gained_partitions": _assignment,
    "upgrade_lost_partitions": _assignment,
    "downgraded_assignment": _assignment,
    "leader_not_a_member": _leader,
    "classic_record": _record,
    "generation_decreases": _generation,
    "downgrade": _downgrade,
    "time_in_value": _time,
    "resolved_too_soon": _resolution,
    "record_time": _record_time,
    "cluster_differs": _difference,
}
"""How the two sides of a reason are shown; `_values` for the others."""
