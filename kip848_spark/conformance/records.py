"""The records of a group as the model has them (``spec/Coordinator.tla``, "Records").

The model names records by their key types in ``__consumer_offsets``. It leaves out offset commits
(0, 1), and keeps of the others what a decision of the coordinator depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

CLASSIC, EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 2, 3, 4, 5, 6, 7, 8, 16
STABLE, UNREVOKED, UNRELEASED = "STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"
STATES = {0: STABLE, 1: UNREVOKED, 2: UNRELEASED}
STATIC_LEAVE = -2

JsonObject = Mapping[str, Any]
Partition = tuple[str, int]
"""A topic id and a partition's number."""
REPEATED: Partition = ("", -1)
"""Stands in a set of partitions for one that its record lists twice; no coordinator writes it."""


class NotModelledError(Exception):
    """The group has records that the model leaves out."""


class MemberValue(NamedTuple):
    """What a member's record of key 5 says, as far as decisions depend on it."""

    topics: frozenset[str] = frozenset()
    regex: str = ""
    classic: bool = False
    """Whether the member uses the classic protocol (online migration)."""
    instance: str = ""
    """The instance id; "" for a dynamic member."""
    votes: str = ""
    """The assignor that the member asks for."""


class Epoch(NamedTuple):
    """Key 3: the group epoch, and what it was computed for."""

    epoch: int
    known: int
    """The hash of the subscribed topics' metadata; in 4.0, the number of the last record of key 4.
    """


class Current(NamedTuple):
    """Key 8: the current assignment of a member. Each partition has its assignment epoch."""

    epoch: int = 0
    previous: int = -1
    state: str = STABLE
    assigned: Mapping[Partition, int] = {}
    pending: Mapping[Partition, int] = {}


class ClassicValue(NamedTuple):
    """Key 2: a classic group. The model only knows its generation and who is in it."""

    generation: int
    members: frozenset[str]


class TraceRecord(NamedTuple):
    """A record; ``value`` is None for a tombstone. ``timestamp`` is in ms since the epoch."""

    key: int
    name: str
    """The member id; the expression for key 16; else ""."""
    value: Any
    offset: int = -1
    timestamp: int = -1


class Trace(NamedTuple):
    """The records of a group in offset order, and the releases that may have written them."""

    records: tuple[TraceRecord, ...]
    releases: tuple[str, ...]


RELEASES = ("4.3", "4.4", "4.2", "4.1", "4.0", "4.1.0", "4.0.0")
"""The releases of the model. A line is its newest patch release; 4.0.0 stands for 4.0.1 as well,
and 4.1.0 for 4.1.1."""
_IGNORED = frozenset({"0", "1", "9"})
_MODELLED = frozenset({"2", "3", "5", "6", "7", "8", "16"})


def trace_of(lines: Iterable[JsonObject]) -> Trace:
    """The trace of one group. ``lines``: its records in the form of ``kip848 dump``, in the order
    of their offsets. Raises NotModelledError.
    """
    found: list[TraceRecord] = []
    releases = set(RELEASES)
    metadata, is_consumer = 0, False
    for line in lines:
        kind, key = line["key"]["type"], line["key"]["data"]
        value = None if line["value"] is None else line["value"]["data"]
        if kind in _IGNORED:
            continue
        if kind == "4":
            if value is not None:
                metadata += 1
                releases &= _40
            continue
        if kind not in _MODELLED:
            raise NotModelledError(f"it has records of key type {kind} (share or streams groups)")
        is_consumer = is_consumer or kind != "2"
        name = key.get("memberId", key.get("regularExpression", ""))
        if value is not None:
            releases &= _writers(kind, value)
            value = _model_value(kind, value, metadata)
        place = line.get("offset", -1), line.get("timestamp", -1)
        found.append(TraceRecord(int(kind), name, value, *place))
    if found and not is_consumer:
        raise NotModelledError("it is a classic group")
    return Trace(tuple(found), tuple(name for name in RELEASES if name in releases))


_ALL, _40, _43 = set(RELEASES), {"4.0", "4.0.0"}, {"4.3", "4.4"}
_FROM_41 = _ALL - _40


def _writers(kind: str, value: JsonObject) -> set[str]:
    """The releases that write such a value (docs/kafka-facts.md#telling-the-release-from-a-log)."""
    if kind == "3" and value.get("metadataHash"):
        return _FROM_41
    if kind == "6" and value.get("assignmentTimestamp"):
        return _43
    if kind == "8" and any(row.get("assignmentEpochs") for row in value["assignedPartitions"]):
        return _43
    return _ALL


def _model_value(kind: str, value: JsonObject, metadata: int) -> Any:
    match kind:
        case "2":
            members = frozenset(row["memberId"] for row in value["members"])
            return ClassicValue(value["generation"], members)
        case "3":
            return Epoch(value["epoch"], value.get("metadataHash") or metadata)
        case "5":
            return MemberValue(
                frozenset(value["subscribedTopicNames"] or ()),
                value["subscribedTopicRegex"] or "",
                value.get("classicMemberMetadata") is not None,
                value["instanceId"] or "",
                value.get("serverAssignor") or "",
            )
        case "6":
            return value["assignmentEpoch"]
        case "7":
            return frozenset(_partitions(value["topicPartitions"]))
        case "16":
            return frozenset(value["topics"])
    return Current(
        value["memberEpoch"],
        value["previousMemberEpoch"],
        STATES.get(value["state"], "UNKNOWN"),
        _partitions(value["assignedPartitions"]),
        _partitions(value["partitionsPendingRevocation"]),
    )


def _partitions(rows: Iterable[JsonObject]) -> dict[Partition, int]:
    """The partitions of a value with their assignment epochs (0 where there is none)."""
    found: dict[Partition, int] = {}
    for row in rows:
        numbers = row["partitions"]
        epochs = row.get("assignmentEpochs") or ()
        if len(epochs) != len(numbers):
            epochs = [0] * len(numbers)
        for number, epoch in zip(numbers, epochs, strict=True):
            place = row["topicId"], number
            found[REPEATED if place in found else place] = epoch
    return found
