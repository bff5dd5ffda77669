"""Reads what happened in a group, and who owned a partition, from the history tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow.compute as pc

from kip848_spark.errors import LakeError, NotFoundError, UsageError, near, quoted_if_blank
from kip848_spark.insight.chronicle import EVENTS, Event, Ownership, events, owners
from kip848_spark.insight.member_names import MemberNames
from kip848_spark.insight.ownership import ASSIGNED, PENDING, TopicPartition
from kip848_spark.lake.history import has_history, of_groups, removed_before
from kip848_spark.lake.rebalances import name_topics, require_group
from kip848_spark.lake.snapshot import LakeSnapshot, one_of, plain
from kip848_spark.state.history_fields import (
    ASSIGNMENT_HISTORY,
    GROUP_HISTORY,
    MEMBER_HISTORY,
)
from kip848_spark.wire.tables import Row


@dataclass(frozen=True)
class GroupChronicle:
    """What happened in a group. ``known_from`` is the time at which its history begins; None if its
    beginning is known. ``removed_before`` is the time before which maintenance has removed it."""

    group: Row
    events: Sequence[Event]
    names: MemberNames
    known_from: datetime | None
    removed_before: datetime | None = None

    def described(self) -> list[dict[str, Any]]:
        """The events as plain values."""
        return [
            {
                "group_id": self.group["group_id"],
                "at": one.at,
                "offset": None if one.offset < 0 else one.offset,
                "epoch": one.epoch,
                "event": one.kind,
                "about": EVENTS[one.kind],
                **_member(self.names, one.member_id),
                "partitions": [
                    {"topic": topic, "topic_partition": number} for topic, number in one.partitions
                ],
            }
            for one in self.events
        ]


@dataclass(frozen=True)
class PartitionChronicle:
    """The owners of a partition in one group."""

    group_id: str
    place: TopicPartition
    owners: Sequence[Ownership]
    names: MemberNames

    def described(self) -> list[dict[str, Any]]:
        """The known times as plain values; ``member_id`` is null where nobody owned the
        partition."""
        return [
            {
                "group_id": self.group_id,
                "topic": self.place[0],
                "topic_partition": self.place[1],
                "from": one.start,
                "to": one.end,
                "giving_up": one.giving_up,
                "away": one.away,
                **_member(self.names, one.member_id),
            }
            for one in self.owners
            if one.known
        ]


def group_chronicle(
    snapshot: LakeSnapshot,
    group_id: str,
    since: datetime | None = None,
    until: datetime | None = None,
) -> GroupChronicle:
    """What happened in a group from ``since`` to before ``until`` (UTC).

    Raises NotFoundError if the lake never had such a group, LakeError if it has no history."""
    _require_history(snapshot)
    group = require_group(snapshot, group_id)
    wanted = of_groups(snapshot, [group_id]) & (pc.field("partition") == group["partition"])
    removed = removed_before(snapshot, group["partition"])
    if removed is not None:  # the rows before it that are left do not say what began with them
        since = removed if since is None else max(since, removed)
    if since is not None:
        ended = pc.field("valid_to")
        wanted &= ended.is_null() | (ended >= since)
    if until is not None:
        wanted &= pc.field("valid_from") < until
    groups, members, assignments = (
        plain(snapshot.select(table, wanted))
        for table in (GROUP_HISTORY, MEMBER_HISTORY, ASSIGNMENT_HISTORY)
    )
    name_topics(snapshot, assignments)
    first = min(groups, key=lambda row: row["from_offset"], default=None)
    known_from: datetime | None = None if first is None else first["known_from"]
    found = events(groups, members, assignments, since, until)
    return GroupChronicle(group, found, MemberNames(members), known_from, removed)


def parse_partition(text: str) -> TopicPartition:
    """The topic and number in ``TOPIC-P``, as Kafka and this program print a partition, or in
    ``TOPIC:P``. Raises UsageError."""
    topic, _, number = text.rpartition(":" if ":" in text else "-")
    if not topic or not number.isdecimal():
        raise UsageError(
            f"{text!r} is not a partition.", "Write it as TOPIC-NUMBER, such as orders-3."
        )
    return topic, int(number)


def partition_chronicles(
    snapshot: LakeSnapshot,
    place: TopicPartition,
    group_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[PartitionChronicle]:
    """The owners of a partition in each group (or in ``group_id`` only) between two times. If a
    group is in two partitions of the offsets topic, those in the one where an owner was last new.

    Raises NotFoundError, with similar names, if no group ever owned a partition of that topic, or
    none owned this one; LakeError if the lake has no history.
    """
    _require_history(snapshot)
    topic, number = place
    ids = _topic_ids(snapshot, topic)
    of_topic = (pc.field("topic") == topic) | one_of("topic_id", ids)
    wanted = of_topic & (pc.field("topic_partition") == number)
    wanted &= pc.field("role").isin([ASSIGNED, PENDING])
    if group_id is not None:
        require_group(snapshot, group_id)
        wanted &= pc.field("group_id") == group_id
    found = plain(snapshot.select(ASSIGNMENT_HISTORY, wanted))
    if not found:
        raise _nobody(snapshot, place, of_topic, group_id)
    home = {
        row["group_id"]: row["partition"]
        for row in sorted(found, key=lambda row: (row["valid_from"], row["from_offset"]))
    }
    of_members = one_of("group_id", home) & one_of("member_id", {row["member_id"] for row in found})
    columns = ["partition", "group_id", "from_offset", "valid_from", "valid_to"]
    columns += ["known_from", "known_to"]
    owned, members, lives = (
        _by_place(rows)
        for rows in (
            found,
            plain(snapshot.select(MEMBER_HISTORY, of_members)),
            plain(snapshot.select(GROUP_HISTORY, one_of("group_id", home), columns)),
        )
    )
    chronicles = []
    for group, partition in sorted(home.items()):
        there = (group, partition)
        own_members = members[there]
        times = owners(owned[there], lives[there], own_members)
        within = [one for one in times if _within(one, since, until)]
        chronicles.append(PartitionChronicle(group, place, within, MemberNames(own_members)))
    return chronicles


def _by_place(rows: Sequence[Row]) -> Mapping[tuple[str, int], list[Row]]:
    """The rows of each group in each partition of the offsets topic."""
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group_id"], row["partition"]].append(row)
    return found


def _within(one: Ownership, since: datetime | None, until: datetime | None) -> bool:
    after = since is None or one.end is None or one.end > since
    return after and (until is None or one.start < until)


def _topic_ids(snapshot: LakeSnapshot, topic: str) -> list[str]:
    """The ids by which records may name the topic; a topic that was recreated has several."""
    wanted = (pc.field("topic") == topic) & pc.field("topic_id").is_valid()
    ids: set[str] = set()
    for table in ("topics", "offsets"):
        found = snapshot.select(table, wanted, ["topic_id"])
        ids.update(pc.unique(found["topic_id"]).to_pylist())
    return sorted(ids)


def _nobody(
    snapshot: LakeSnapshot, place: TopicPartition, of_topic: pc.Expression, group_id: str | None
) -> NotFoundError:
    topic, number = place
    whose = f"The group {quoted_if_blank(group_id)}" if group_id is not None else "No group"
    verb = "never owned" if group_id is not None else "ever owned"
    known = snapshot.select(ASSIGNMENT_HISTORY, of_topic, ["topic_partition"])
    if len(known):
        last = pc.max(known["topic_partition"]).as_py()
        return NotFoundError(
            f"{whose} {verb} {topic}-{number}.",
            f"The largest partition of {topic} that was ever assigned is {last}.",
        )
    topics: set[str] = set()
    for table in ("topics", "offsets", ASSIGNMENT_HISTORY):
        topics.update(
            filter(None, pc.unique(snapshot.select(table, None, ["topic"])["topic"]).to_pylist())
        )
    return NotFoundError(
        f"{whose} {verb} a partition of a topic {quoted_if_blank(topic)}.",
        near(topic, topics, "`kip848 groups --all --members` shows what groups own."),
    )


def _require_history(snapshot: LakeSnapshot) -> None:
    if not has_history(snapshot):
        raise LakeError(
            f"The lake {snapshot.path} has no history yet.",
            "An earlier version of this program wrote it; the next `kip848 run` adds the history.",
        )


def _member(names: MemberNames, member_id: str | None) -> dict[str, Any]:
    if member_id is not None:
        return names.described(member_id)
    return dict.fromkeys(("member_id", "name", "instance_id", "client_id", "host"))
