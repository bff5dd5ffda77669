"""A consumer or classic group as plain JSON values, and back: the whole state, in the same order.

The order of the keys of a dict is part of the state: the order in which a broker walks its hash
tables depends on it.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kip848_spark.coordinator.classic_group import ClassicGroup, ClassicMember
from kip848_spark.coordinator.consumer_group import (
    ClassicMetadata,
    ConsumerGroup,
    Member,
    MemberState,
    ResolvedRegex,
)
from kip848_spark.coordinator.records import Json, Partitions
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.topics import Topic

_T = TypeVar("_T")
_U = TypeVar("_U")
_NUMBERS = ("epoch", "metadata_hash", "target_epoch", "target_timestamp")
_CLASSIC = (
    "state", "state_since", "protocol_type", "protocol", "generation", "leader", "static_ids",
)  # fmt: skip
_CLASSIC_MEMBER = (
    "member_id", "instance_id", "client_id", "client_host", "rebalance_timeout", "session_timeout",
    "protocol_type",
)  # fmt: skip


_NAMED = Member._fields.index("topic_names")
"""The first fields of a member are texts."""


def save_group(group: ConsumerGroup | ClassicGroup) -> Json | None:
    """The state of a group that was loaded from a log; None if it has a part that is not saved:
    what a client-side assignor has computed (the KIP's first version)."""
    if isinstance(group, ClassicGroup):
        return _save_classic(group)
    if any(member.client_assignors for member in group.members.values()):
        return None
    if group.client_side.targets or group.client_side.current:
        return None
    return {
        "type": group.type,
        **{name: getattr(group, name) for name in _NUMBERS},
        "members": [_save_member(member) for member in group.members.values()],
        "targets": {
            member: {topic: list(numbers) for topic, numbers in target.items()}
            for member, target in group.targets.items()
        },
        "topic_metadata": _unless_none(group.topic_metadata, save_topics),
        "resolved": {
            regex: [sorted(found.topics), found.version, found.timestamp]
            for regex, found in group.resolved.items()
        },
        "owners": [[topic, number, epoch] for (topic, number), epoch in group.owners.items()],
        "static_ids": group.static_ids,
        "name_counts": dict(group.name_counts),
        "regex_counts": dict(group.regex_counts),
        "table_sizes": [group.order.slots, group.regex_order.slots],
    }


def load_group(
    group_id: str, saved: Mapping[str, Any], release: Release
) -> ConsumerGroup | ClassicGroup:
    """The group that `save_group` has saved, as records of ``release`` are replayed on it. Raises
    KeyError, TypeError or ValueError for anything else."""
    if saved["type"] == ClassicGroup.type:
        return _load_classic(group_id, saved)
    group = ConsumerGroup(group_id, release)
    for name in _NUMBERS:
        setattr(group, name, saved[name])
    group.members = {row[0]: _load_member(row) for row in saved["members"]}
    group.targets = {
        member: {topic: dict.fromkeys(numbers) for topic, numbers in target.items()}
        for member, target in saved["targets"].items()
    }
    group.topic_metadata = _unless_none(saved["topic_metadata"], load_topics)
    group.resolved = {
        regex: ResolvedRegex(frozenset(topics), version, timestamp)
        for regex, (topics, version, timestamp) in saved["resolved"].items()
    }
    group.owners = {(topic, number): epoch for topic, number, epoch in saved["owners"]}
    group.static_ids = dict(saved["static_ids"])
    group.name_counts = Counter(saved["name_counts"])
    group.regex_counts = Counter(saved["regex_counts"])
    group.order.slots, group.regex_order.slots = saved["table_sizes"]
    return group


def save_topics(topics: Iterable[Topic]) -> list[Any]:
    """Topics as JSON values."""
    return [[t.name, t.topic_id, t.partitions, [list(racks) for racks in t.racks]] for t in topics]


def load_topics(saved: Iterable[Any]) -> list[Topic]:
    """The topics that `save_topics` has saved."""
    return [
        Topic(name, topic_id, partitions, tuple(tuple(one) for one in racks))
        for name, topic_id, partitions, racks in saved
    ]


def _unless_none(value: _T | None, change: Callable[[_T], _U]) -> _U | None:
    return None if value is None else change(value)


def _save_member(member: Member) -> list[Any]:
    return [
        *member[:_NAMED],
        sorted(member.topic_names),
        member.regex,
        member.rebalance_timeout,
        member.server_assignor,
        _unless_none(member.classic, _save_metadata),
        member.epoch,
        member.previous_epoch,
        int(member.state),
        _save_partitions(member.assigned),
        _save_partitions(member.pending),
    ]


def _load_member(saved: list[Any]) -> Member:
    topics, regex, timeout, assignor, classic, epoch, previous, state, *partitions = saved[_NAMED:]
    assigned, pending = map(_load_partitions, partitions)
    metadata = _unless_none(classic, _load_metadata)
    subscription = frozenset(topics), regex, timeout, assignor, metadata, ()
    assignment = epoch, previous, MemberState(state), assigned, pending
    return Member._make((*saved[:_NAMED], *subscription, *assignment))


def _save_partitions(partitions: Partitions) -> list[Any]:
    return [[topic, list(n), list(n.values())] for topic, n in partitions.items()]


def _load_partitions(saved: Iterable[Any]) -> Partitions:
    return {topic: dict(zip(n, epochs, strict=True)) for topic, n, epochs in saved}


def _save_metadata(classic: ClassicMetadata) -> list[Any]:
    return [classic.session_timeout, _save_protocols(classic.protocols)]


def _load_metadata(saved: list[Any]) -> ClassicMetadata:
    return ClassicMetadata(saved[0], _load_protocols(saved[1]))


def _save_protocols(protocols: Iterable[tuple[str, bytes]]) -> list[Any]:
    return [[name, base64.b64encode(data).decode()] for name, data in protocols]


def _load_protocols(saved: Iterable[Any]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, base64.b64decode(data)) for name, data in saved)


def _save_classic(group: ClassicGroup) -> Json:
    return {
        "type": group.type,
        **{name: getattr(group, name) for name in _CLASSIC},
        "members": [
            [
                *(getattr(member, name) for name in _CLASSIC_MEMBER),
                _save_protocols(member.protocols),
                base64.b64encode(member.assignment).decode(),
            ]
            for member in group.members.values()
        ],
    }


def _load_classic(group_id: str, saved: Mapping[str, Any]) -> ClassicGroup:
    group = ClassicGroup(group_id, **{name: saved[name] for name in _CLASSIC})
    for *texts, protocols, assignment in saved["members"]:
        values = dict(zip(_CLASSIC_MEMBER, texts, strict=True))
        member = ClassicMember(
            **values,
            protocols=_load_protocols(protocols),
            assignment=base64.b64decode(assignment),
        )
        group.members[member.member_id] = member
    return group
