"""Values of the audit as JSON, and back: of a closed set of types, each as it was.

A list, tuple, set, dict or object becomes an array that begins with a mark of its type. Dicts keep
the order of their keys, which is part of the state: the order in which a broker walks its hash
tables depends on it. What a lake holds is not trusted, so no other class is ever created.
"""

from __future__ import annotations

import base64
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from kip848_spark.checks.log_entries import LogEntry, log_entry
from kip848_spark.checks.stateful import Stateful
from kip848_spark.coordinator.classic_group import ClassicGroup, ClassicMember
from kip848_spark.coordinator.client_side import AssignorResult, ClientSide
from kip848_spark.coordinator.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    Member,
    MemberState,
    ResolvedRegex,
)
from kip848_spark.coordinator.javahash import TimelineOrder
from kip848_spark.coordinator.partition_state import AnyGroup, PartitionState
from kip848_spark.coordinator.releases import RELEASES, Release
from kip848_spark.coordinator.share_group import ShareGroup, ShareMember, ShareState, StateTopic
from kip848_spark.coordinator.streams_group import (
    Holders,
    StreamsGroup,
    StreamsMember,
    Tasks,
    TaskState,
)
from kip848_spark.coordinator.topics import Topic

_TUPLES = (
    AssignorResult, Member, ShareMember, ShareState, StateTopic, StreamsMember, Tasks,
)  # fmt: skip
_DATACLASSES = (ClassicGroup, ClassicMember, ClassicMetadata, ClientSide, ResolvedRegex, Topic)
_OBJECTS = (ConsumerGroup, Holders, ShareGroup, StreamsGroup, TimelineOrder)
_ENUMS = (MemberState, TaskState)
_CLASSES: dict[str, type] = {
    one.__name__: one for one in chain(_TUPLES, _DATACLASSES, _OBJECTS, _ENUMS)
}
_ENTRY = "e"
"""The mark of a log entry, of which all but its place follows from the record."""
_SET_LATER = ("release",)
"""Attributes that are not saved: see `SavedGroups`."""
_PLAIN = (type(None), bool, int, float, str)
_SEQUENCES: dict[type, str] = {list: "l", tuple: "t"}
_SETS: dict[type, str] = {set: "s", frozenset: "f"}
_DICTS: dict[type, str] = {dict: "d", Counter: "c"}


class SavedGroups(Stateful):
    """The groups that records were replayed on. Groups that were saved get the release of the
    replay when they are set."""

    STATE = ("groups",)

    def __init__(self, replayed: PartitionState) -> None:
        self._replayed = replayed

    @property
    def groups(self) -> dict[str, AnyGroup]:
        """The groups by id."""
        return self._replayed.groups

    @groups.setter
    def groups(self, groups: dict[str, AnyGroup]) -> None:
        for group in groups.values():
            if isinstance(group, ConsumerGroup | ShareGroup):
                group.release = self._replayed.release
        self._replayed.groups = groups


def encode(value: Any) -> Any:
    """``value`` as JSON. Raises TypeError for another type than those of this module."""
    type_ = type(value)
    if type_ in _PLAIN:
        return value
    if type_ in _SEQUENCES:
        return [_SEQUENCES[type_], *map(encode, value)]
    if type_ in _DICTS:
        return [_DICTS[type_], *map(encode, chain.from_iterable(value.items()))]
    if type_ in _SETS:
        return [_SETS[type_], *sorted(map(encode, value), key=repr)]
    if type_ is bytes:
        return ["b", base64.b64encode(value).decode()]
    if type_ is Release:
        return ["r", value.name]
    if type_ is LogEntry:
        return [_ENTRY, value.partition, value.offset, value.timestamp, encode(value.record)]
    if _CLASSES.get(type_.__name__) is not type_:
        raise TypeError(f"a {type_.__name__} cannot be saved")
    return [type_.__name__, *map(encode, _contents(value, type_))]


def decode(saved: Any) -> Any:
    """The value that `encode` has encoded. Raises LookupError, TypeError or ValueError for anything
    else."""
    if type(saved) in _PLAIN:
        return saved
    mark, *contents = saved
    if mark == "b":
        return base64.b64decode(contents[0])
    if mark == "r":
        return RELEASES[contents[0]]
    values = list(map(decode, contents))
    if mark == _ENTRY:
        return log_entry(*values)
    if mark in _FROM_VALUES:
        return _FROM_VALUES[mark](values)
    return _made(_CLASSES[mark], values)


def _contents(value: Any, type_: type) -> Iterable[Any]:
    if type_ in _TUPLES:
        found: Iterable[Any] = value
        return found
    if type_ in _ENUMS:
        return (int(value),)
    if type_ in _DATACLASSES:
        return [getattr(value, field.name) for field in dataclasses.fields(type_)]
    names: Iterable[str] = getattr(type_, "__slots__", None) or vars(value)
    named = ((name, getattr(value, name)) for name in names if name not in _SET_LATER)
    return chain.from_iterable(named)


def _made(type_: type, values: list[Any]) -> Any:
    if type_ not in _OBJECTS:
        return type_(*values)
    made = type_.__new__(type_)
    for name, value in _pairs(values).items():
        setattr(made, name, value)
    return made


def _pairs(values: list[Any]) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


_FROM_VALUES: dict[str, Callable[[list[Any]], Any]] = {
    "l": list,
    "t": tuple,
    "s": set,
    "f": frozenset,
    "d": _pairs,
    "c": lambda values: Counter(_pairs(values)),
}
