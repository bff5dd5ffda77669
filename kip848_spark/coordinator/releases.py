"""Releases as data: how the coordinators of the KIP's text, 4.0, 4.1, 4.2 and 4.3 differ.

``4.0`` is 4.0.2, ``4.1`` is 4.1.2, ``4.2`` is 4.2.0 and ``4.3`` is 4.3.1. Each field is one
difference; other modules read the fields and never the name. See docs/kafka-facts.md#releases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kip848_spark.errors import UsageError

_GROUP_SETTINGS_40 = frozenset(
    {
        "consumer.session.timeout.ms",
        "consumer.heartbeat.interval.ms",
        "share.session.timeout.ms",
        "share.heartbeat.interval.ms",
        "share.record.lock.duration.ms",
        "share.auto.offset.reset",
    }
)
_GROUP_SETTINGS_41 = _GROUP_SETTINGS_40 | {
    "share.isolation.level",
    "streams.session.timeout.ms",
    "streams.heartbeat.interval.ms",
    "streams.num.standby.replicas",
}
_GROUP_SETTINGS_42 = _GROUP_SETTINGS_41 | {"streams.initial.rebalance.delay.ms"}
_GROUP_SETTINGS_43 = _GROUP_SETTINGS_42 | {
    "consumer.assignment.interval.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.renew.acknowledge.enable",
    "streams.assignment.interval.ms",
}


@dataclass(frozen=True, slots=True)
class Release:
    """The behaviour of one release, rule by rule."""

    name: str
    first_epoch: int = 0
    """Group epoch and target epoch of a group without records: 1 from 4.3 on (KAFKA-20268)."""
    bumps_fresh_group: bool = True
    """Any heartbeat bumps the epoch of a group at epoch 0 (until 4.2)."""
    partition_metadata_record: bool = False
    """A record of key 4 stores topic metadata (the KIP and 4.0); later releases only delete it."""
    metadata_hash: bool = True
    """The group's epoch record stores a hash of the topic metadata (from 4.1)."""
    epochs_after_revocation: int = 0
    """What an acknowledged revocation adds to the member epoch if more must be revoked
    (1 until 4.1).
    """
    masks_lost_topics: bool = True
    """The target counts as empty for topics that were unsubscribed or deleted since (from 4.2)."""
    unsubscribing_steps: bool = False
    """Dropping partitions of unsubscribed topics also sets the previous epoch to the member's epoch
    (observed on 4.3.1; 4.2.0 leaves both epochs unchanged).
    """
    free_includes_own_pending: bool = True
    """A partition that the member itself is revoking counts as free for it (4.0.2, 4.1.2, 4.2)."""
    tolerant_ownership: bool = True
    """On replay, a member with a higher epoch takes a partition over (KAFKA-19862:
    4.0.2, 4.1.2, 4.2).
    """
    clearing_regex_bumps: bool = True
    """Removing a regular expression bumps the epoch at once (from 4.1)."""
    regex_refresh_interval: bool = True
    """Expressions are resolved again once the last resolution is older than the refresh interval
    (from 4.1, KAFKA-18961).
    """
    short_group_names: bool = True
    """Expressions may name a group with ``(?<name>`` (from 4.1, with RE2J 1.8)."""
    malformed_subscription: str = "UNKNOWN_SERVER_ERROR"
    """How a consumer group refuses a JoinGroup whose subscription cannot be read (until 4.3.1)."""
    join_is_never_fenced: bool = True
    """Epoch 0 passes the epoch check of an existing member (from 4.2)."""
    partition_epochs: bool = False
    """Each assigned partition stores the epoch of its assignment, for offset fencing (from 4.3)."""
    assignment_interval: bool = False
    """A new target waits until the assignment interval since the last one has passed (from 4.3)."""
    group_settings: frozenset[str] = _GROUP_SETTINGS_42
    """The settings that a group may have (`group_settings.GROUP_SETTINGS`)."""
    clamps_group_settings: bool = False
    """A setting of a group that is outside of the broker's limits counts as the nearest limit
    (from 4.3): it was set under other limits.
    """
    calls_classic_at_group_epoch: bool = True
    """Classic members of a consumer group are told to rejoin as soon as the group epoch is ahead
    (until 4.2), not only once the target epoch is.
    """
    policy_bars_classic_join: bool = False
    """Migration policy ``disabled`` refuses classic members of a consumer group (from 4.3)."""
    deletes_offsets_by_topic_id: bool = False
    """Deleting a topic deletes offsets with that topic id or none, not every offset of
    that name.
    """
    offset_topic_ids: bool = True
    """Offset records have value version 4 and may contain a topic id (from 4.1)."""
    topic_ids_by_name: bool = False
    """A commit that names its topic by name is stored with the topic id as well (from 4.3)."""
    legacy_offset_key_any_version: bool = False
    """Key type 0 is read with every value version (4.0); later releases read version 0 only."""
    describes_pending: bool = False
    """ConsumerGroupDescribe lists partitions pending revocation as assigned (from 4.3)."""
    client_assignors: bool = False
    """Members may compute the assignment (the KIP's client-side mode; never shipped)."""
    member_id_by_client: bool = True
    """The newest heartbeat version requires a member id from the client (from 4.0)."""


_43 = Release(
    "4.3",
    first_epoch=1,
    bumps_fresh_group=False,
    calls_classic_at_group_epoch=False,
    partition_epochs=True,
    unsubscribing_steps=True,
    assignment_interval=True,
    group_settings=_GROUP_SETTINGS_43,
    clamps_group_settings=True,
    policy_bars_classic_join=True,
    deletes_offsets_by_topic_id=True,
    describes_pending=True,
    topic_ids_by_name=True,
)
_42 = Release("4.2")
_41 = replace(
    _42,
    name="4.1",
    group_settings=_GROUP_SETTINGS_41,
    epochs_after_revocation=1,
    masks_lost_topics=False,
    join_is_never_fenced=False,
)
_40 = replace(
    _41,
    name="4.0",
    group_settings=_GROUP_SETTINGS_40,
    partition_metadata_record=True,
    metadata_hash=False,
    clearing_regex_bumps=False,
    regex_refresh_interval=False,
    short_group_names=False,
    offset_topic_ids=False,
    legacy_offset_key_any_version=True,
)
_KIP = replace(
    _40,
    name="kip",
    epochs_after_revocation=0,
    join_is_never_fenced=True,  # "it can rejoin with a member epoch equal to 0"
    client_assignors=True,
    member_id_by_client=False,
)

RELEASES: dict[str, Release] = {r.name: r for r in (_KIP, _40, _41, _42, _43)}


def find_release(name: str) -> Release:
    """The release of that name; a patch release (``4.3.1``) means its line. Raises UsageError."""
    short = name if name == "kip" else ".".join(name.split(".")[:2])
    try:
        return RELEASES[short]
    except KeyError:
        raise UsageError(f"no release {name!r}", f"Use one of: {', '.join(RELEASES)}") from None
