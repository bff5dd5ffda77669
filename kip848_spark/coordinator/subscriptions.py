"""What a group subscribes to, and which changes bump the group epoch.

KIP-848 "Group Epoch - Trigger a rebalance" and "Regex Based Subscriptions";
docs/kafka-facts.md#what-bumps-the-group-epoch. The epoch is bumped when a member's topic names
change, when its regular expression changes to one that is already resolved (or to none), when a
resolution finds other topics, when topic metadata changes, and when a member leaves. Nothing else
in a heartbeat bumps it.

A regular expression (:mod:`.re2`) must match the whole topic name.
"""

from __future__ import annotations

import re
from enum import Enum

from kip848_spark.coordinator import records
from kip848_spark.coordinator.config import INT_MAX, REGEX_REFRESH
from kip848_spark.coordinator.consumer_group import ConsumerGroup, Member, ResolvedRegex
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import string_order, table_size
from kip848_spark.coordinator.re2 import compile_re2
from kip848_spark.coordinator.releases import Release
from kip848_spark.coordinator.shard import Shard

MIN_REFRESH_MS = 10_000
"""A group's expressions are resolved again only after more than ten seconds."""


class RegexChange(Enum):
    """How a heartbeat changed a member's regular expression."""

    NONE = 0
    UPDATED = 1
    UPDATED_AND_RESOLVED = 2


def compile_regex(regex: str, release: Release) -> re.Pattern[str]:
    """Compile an expression. Raises INVALID_REGULAR_EXPRESSION."""
    try:
        return compile_re2(regex, short_names=release.short_group_names)
    except ValueError as bad:
        raise GroupError("INVALID_REGULAR_EXPRESSION", f"{regex!r}: {bad}") from None


def regex_change(old: Member, new: Member, group: ConsumerGroup) -> RegexChange:
    """How the expression changed; one that no member uses yet must be valid."""
    if old.regex == new.regex:
        return RegexChange.NONE
    if new.regex:
        if not group.regex_counts[new.regex]:
            compile_regex(new.regex, group.release)
        elif new.regex in group.resolved:
            return RegexChange.UPDATED_AND_RESOLVED
        return RegexChange.UPDATED
    if group.release.clearing_regex_bumps:
        return RegexChange.UPDATED_AND_RESOLVED
    return RegexChange.UPDATED


def drop_unused_regex(shard: Shard, group: ConsumerGroup, regex: str) -> None:
    """Write key 16's tombstone once no member uses this expression."""
    if regex and not group.regex_counts[regex]:
        shard.append(records.tombstone("16", groupId=group.group_id, regularExpression=regex))


def refresh_metadata(shard: Shard, group: ConsumerGroup, *, bump: bool) -> None:
    """Check topic metadata, and bump the epoch if it changed or ``bump`` is set."""
    metadata_hash: int | None = None
    if shard.release.partition_metadata_record:
        topics = shard.topics.subscription_metadata(sorted(group.topic_names()))
        if set(topics) != set(group.topic_metadata or ()):
            bump = True
            shard.append(records.topic_metadata(group.group_id, topics))
    else:
        metadata_hash = shard.topics.hash_of(group.topic_names())
        bump = bump or metadata_hash != group.metadata_hash
    if bump:
        shard.append(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        shard.metrics.mark("consumer-group-rebalance", shard.now)
    group.metadata_deadline = shard.now + INT_MAX
    if not shard.release.partition_metadata_record and group.topic_metadata is not None:
        shard.append(records.tombstone("4", groupId=group.group_id))


def bump_after_removal(shard: Shard, group: ConsumerGroup) -> None:
    """A member was removed: bump the epoch, even after the last one. Without members, the target is
    empty, and from 4.4 on of the new epoch.
    """
    metadata_hash: int | None = None
    if shard.release.partition_metadata_record:
        topics = shard.topics.subscription_metadata(sorted(group.topic_names()))
        if set(topics) != set(group.topic_metadata or ()):
            shard.append(records.topic_metadata(group.group_id, topics))
    else:
        metadata_hash = shard.topics.hash_of(group.topic_names())
    shard.append(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
    if shard.release.empties_target and not group.members:
        shard.append(records.target_epoch(group.group_id, group.epoch, 0))


# Resolution of regular expressions: asynchronous in a broker, a timer due now here


def _resolution_key(group_id: str) -> str:
    return f"regex-{group_id}"


def maybe_resolve(
    shard: Shard, group: ConsumerGroup, resolved: dict[str, ResolvedRegex], *, requested: bool
) -> None:
    """Schedule a resolution if one is due.

    ``resolved`` is what was resolved before this heartbeat. ``requested`` is False if neither this
    heartbeat nor any member before it had an expression.
    """
    group_id = group.group_id
    key = _resolution_key(group_id)
    if not requested or shard.timers.scheduled(key) or not group.regex_counts:
        return
    last = max((found.timestamp for found in resolved.values()), default=None)
    if last is not None and shard.now <= last + MIN_REFRESH_MS:
        return
    version = max((found.version for found in resolved.values()), default=0)
    interval = shard.config.number(REGEX_REFRESH)
    outdated = last is not None and shard.now > last + interval
    if (
        len(group.regex_counts) != len(resolved)
        or version < shard.topics.version_with_new_topics
        or (outdated and shard.release.regex_refresh_interval)
    ):
        regexes = list(group.regex_counts)
        shard.schedule(key, 0, lambda: _resolve(shard, group_id, regexes))


def _resolve(shard: Shard, group_id: str, regexes: list[str]) -> None:
    """Match every topic, store the result, and bump the epoch if the group's topics changed."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return
    bump = False
    for regex in string_order(regexes, table_size(len(regexes))):
        if not group.regex_counts[regex]:
            continue
        try:
            pattern = compile_regex(regex, shard.release)
        except GroupError:
            topics: list[str] = []
        else:
            topics = [name for name in shard.topics.names() if pattern.fullmatch(name)]
        before = group.resolved[regex].topics if regex in group.resolved else frozenset()
        bump = bump or before != frozenset(topics)
        shard.append(
            records.regular_expression(group_id, regex, topics, shard.topics.version, shard.now)
        )
    refresh_metadata(shard, group, bump=bump)
