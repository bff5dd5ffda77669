"""Values of findings as people write them: partitions with topic names, and only what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kip848_spark.checks.log_entries import JsonValue
from kip848_spark.coordinator import records
from kip848_spark.insight.phrases import ranges

TopicNames = Mapping[str, str]
"""Topic id to name."""
Sides = tuple[str, str]
"""What was expected, and what was recorded."""

_MOST_MEMBERS = 3
"""Members whose partitions are listed; the others are counted."""
_MOST_WORDS = 8
"""Elements of another list that are shown."""
_MOST_TEXT = 200
"""Characters of a text that are shown."""

_END_OF_CALENDAR_MS = 253_402_300_800_000
"""The year 10000."""

_KINDS = {
    records.OFFSET: "committed offset",
    records.CLASSIC_GROUP: "classic group",
    records.GROUP: "group epoch",
    records.TOPICS: "topic metadata",
    records.MEMBER: "member",
    records.TARGET_EPOCH: "target epoch",
    records.TARGET_MEMBER: "target",
    records.CURRENT: "assignment",
    records.REGEX: "regular expression",
    "10": "member", "11": "group epoch", "12": "target epoch", "13": "target", "14": "assignment",
    "15": "share state",
    "17": "group epoch", "19": "member", "20": "target epoch", "21": "target", "22": "assignment",
    "23": "topology",
}  # fmt: skip
_MEMBER_STATES = ("stable", "unrevoked partitions", "unreleased partitions")
_PARTITION_FIELDS = (
    "topicPartitions", "assignedPartitions", "partitionsPendingRevocation", "activeTasks",
    "standbyTasks", "warmupTasks",
)  # fmt: skip
_LABELS = {
    "memberEpoch": "member epoch",
    "previousMemberEpoch": "previous member epoch",
    "state": "state",
    "metadataHash": "hash",
    "instanceId": "instance id",
}


def topic(topic_id: str | None, names: TopicNames) -> str:
    """The name of a topic; where it is not known, its id."""
    return names.get(topic_id or "") or topic_id or "an unknown topic"


def partition(place: Sequence[Any], names: TopicNames) -> str:
    """``orders-3``, from a topic id or name and a number."""
    return f"{topic(place[0], names)}-{place[1]}"


def places(value: JsonValue, names: TopicNames) -> str:
    """``orders(0-2) payments(1)``, from partitions by topic or from pairs; "" for none."""
    by_topic: dict[str, list[int]] = {}
    pairs = (
        ((one, n) for one, numbers in value.items() for n in numbers)
        if isinstance(value, Mapping)
        else ((pair[0], pair[1]) for pair in value or ())
    )
    for one, number in pairs:
        by_topic.setdefault(topic(one, names), []).append(number)
    return " ".join(f"{name}({ranges(by_topic[name])})" for name in sorted(by_topic))


def words(values: Iterable[Any]) -> str:
    """A list in one line; a long one is cut."""
    shown = [text(value) for value in values]
    more = len(shown) - _MOST_WORDS
    return ", ".join(shown[:_MOST_WORDS]) + (f" and {more} more" if more > 0 else "")


def text(value: Any) -> str:
    """A scalar value in one line; a long text is cut."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    found = str(value)
    return found if len(found) <= _MOST_TEXT else found[:_MOST_TEXT] + "…"


def moment(ms: int) -> str:
    """A time in ms since the epoch, in UTC; as a number if it is outside of the calendar."""
    if not 0 <= ms < _END_OF_CALENDAR_MS:
        return f"{ms} ms"
    at = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{at}.{ms % 1000:03}"


# Records


def kind_of(name: str) -> str:
    """The name of a record from its key type, which may have `` (tombstone)`` behind it."""
    key_type, _, rest = name.partition(" ")
    shown = _KINDS.get(key_type, f"record of key type {key_type}")
    return f"tombstone of {shown}" if rest else shown


def record_name(value: JsonValue) -> str:
    """What a record is: ``the assignment of member X``."""
    key, key_type = value["key"]["data"], str(value["key"]["type"])
    shown = f"the {kind_of(key_type)}"
    if value["value"] is None:
        shown = f"the tombstone of {shown}"
    owner = key.get("memberId")
    if owner is not None:
        return (
            f"{shown} {owner}" if _KINDS.get(key_type) == "member" else f"{shown} of member {owner}"
        )
    return f"{shown} {key['regularExpression']}" if "regularExpression" in key else shown


def record(value: JsonValue, names: TopicNames) -> str:
    """As `record_name`, with its partitions: ``the assignment of member X: orders(3)``."""
    held = _partitions_of(value["value"], names)
    return f"{record_name(value)}: {held}" if held else record_name(value)


def _partitions_of(value: JsonValue, names: TopicNames) -> str:
    data = (value or {}).get("data", value) or {}
    rows = [row for name in _PARTITION_FIELDS for row in data.get(name) or ()]
    return places([(_held(row), n) for row in rows for n in row["partitions"]], names)


def _held(row: JsonValue) -> str:
    """What the partitions of a row are of: a topic, or a subtopology."""
    return str(row["topicId"] if "topicId" in row else f"task {row['subtopologyId']}")


def repeated(value: JsonValue, names: TopicNames) -> str:
    """The partitions that a record lists more than once."""
    data = value["value"]["data"]
    found: set[tuple[str, int]] = set()
    for name in _PARTITION_FIELDS:
        seen: set[tuple[str, int]] = set()
        for row in data.get(name) or ():
            for number in row["partitions"]:
                place = (_held(row), number)
                (found if place in seen else seen).add(place)
    return places(sorted(found), names) or "a topic"


# Two sides of which only the difference is shown


def assignments(expected: JsonValue, recorded: JsonValue, names: TopicNames) -> Sides:
    """The fields that differ of two assignments of a member (`transitions.show_member`)."""
    sides: tuple[list[str], list[str]] = ([], [])
    for field in ("assigned", "pendingRevocation", "memberEpoch", "previousMemberEpoch", "state"):
        pair = expected.get(field), recorded.get(field)
        if pair[0] != pair[1]:
            for side, value in zip(sides, pair, strict=True):
                side.append(_assignment_field(field, value, names))
    _add_assignment_epochs(sides, expected, recorded, names)
    return ", ".join(sides[0]), ", ".join(sides[1])


def _assignment_field(field: str, value: JsonValue, names: TopicNames) -> str:
    if field == "assigned":
        return places(value, names) or "no partition"
    if field == "pendingRevocation":
        return f"{places(value, names) or 'no partition'} to give up"
    if field == "state":
        known = isinstance(value, int) and 0 <= value < len(_MEMBER_STATES)
        return f"state {_MEMBER_STATES[value] if known else value}"
    return f"{_LABELS[field]} {value}"


def _add_assignment_epochs(
    sides: tuple[list[str], list[str]], expected: JsonValue, recorded: JsonValue, names: TopicNames
) -> None:
    """Adds the assignment epochs of partitions that both sides have, with different epochs."""
    both = [
        {(one, n): at for one, n, at in side.get("assignmentEpochs") or ()}
        for side in (expected, recorded)
    ]
    differing = sorted(
        place for place in both[0].keys() & both[1].keys() if both[0][place] != both[1][place]
    )
    for side, epochs in zip(sides, both, strict=True):
        by_epoch: dict[int, list[tuple[str, int]]] = {}
        for place in differing:
            by_epoch.setdefault(epochs[place], []).append(place)
        side.extend(f"{places(of, names)} since epoch {at}" for at, of in sorted(by_epoch.items()))


def nearest(options: Sequence[JsonValue], recorded: JsonValue) -> JsonValue:
    """The one of several assignments that differs least from the recorded one."""

    def distance(option: JsonValue) -> tuple[int, int]:
        fields = sum(option[name] != recorded.get(name) for name in option)
        held = (
            {(one, n) for one, ns in side["assigned"].items() for n in ns}
            for side in (option, recorded)
        )
        first, second = held
        return len(first ^ second), fields

    return min(options, key=distance)


def targets(expected: JsonValue, recorded: JsonValue, names: TopicNames) -> Sides:
    """The partitions of the members whose targets differ, by member."""
    differing = sorted(
        member
        for member in expected.keys() | recorded.keys()
        if places(expected.get(member), names) != places(recorded.get(member), names)
    )
    more = len(differing) - _MOST_MEMBERS
    rest = f" and {more} more {'members' if more > 1 else 'member'}" if more > 0 else ""
    first, second = (
        "; ".join(
            f"{member}: {places(side.get(member), names) or 'no partition'}"
            for member in differing[:_MOST_MEMBERS]
        )
        + rest
        for side in (expected, recorded)
    )
    return first, second


def members(expected: Sequence[str], recorded: Sequence[str], what: str) -> Sides:
    """Which members only one of two lists has. ``what`` is what the lists are of."""
    missing, strange = sorted(set(expected) - set(recorded)), sorted(set(recorded) - set(expected))
    sides: tuple[list[str], list[str]] = ([], [])
    one = f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
    if missing:
        sides[0].append(f"{one} for {words(missing)}")
        sides[1].append(f"no {what} for {words(missing)}")
    if strange:
        sides[0].append(f"no {what} for {words(strange)}")
        sides[1].append(f"{one} for {words(strange)}")
    return ", ".join(sides[0]), ", ".join(sides[1])


def fields(
    expected: Mapping[str, JsonValue], recorded: Mapping[str, JsonValue], names: TopicNames
) -> Sides:
    """The fields that differ of two rows or records."""
    differing = [
        name
        for name in dict.fromkeys([*expected, *recorded])
        if expected.get(name) != recorded.get(name)
    ]
    first, second = (
        ", ".join(
            f"{_LABELS.get(name, name.replace('_', ' '))} {value_text(side.get(name), names)}"
            for name in differing
        )
        for side in (expected, recorded)
    )
    return first, second


def value_text(value: JsonValue, names: TopicNames) -> str:
    """Any value of a finding in one line."""
    if isinstance(value, Mapping):
        return places(value, names) or "none"
    if isinstance(value, list):
        if value and all(_is_place(item) for item in value):
            return places(value, names)
        return words(value) or "none"
    return text(value)


def _is_place(value: JsonValue) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[1], int)
