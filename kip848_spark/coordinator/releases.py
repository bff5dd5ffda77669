"""Releases as data: how the coordinators of the KIP's text and of Kafka 4.0.0 to 4.4.0 differ.

Each field of `Release` is one difference; other modules read the fields and never the name. A line
such as ``4.0`` stands for its newest patch release (`find_release`). Releases that are published
but missing here decide as the patch release before them. See docs/kafka-facts.md#releases.
"""

from __future__ import annotations

import re
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
    """Removing a regular expression bumps the epoch at once (KAFKA-19899: 4.1.2, 4.2)."""
    regex_refresh_interval: bool = True
    """Expressions are resolved again once the last resolution is older than the refresh interval
    (from 4.1, KAFKA-18961).
    """
    short_group_names: bool = True
    """Expressions may name a group with ``(?<name>`` (from 4.1, with RE2J 1.8)."""
    malformed_subscription: str = "UNKNOWN_SERVER_ERROR"
    """How a consumer group refuses a JoinGroup whose subscription cannot be read (KAFKA-20662:
    another error in 4.2.2 and 4.4).
    """
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
    """Migration policy ``disabled`` refuses classic members of a consumer group (KAFKA-20640:
    4.2.2, 4.3.1).
    """
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
    upgrade_reads_topics: bool = True
    """The conversion of a classic group reads the topics' metadata (KAFKA-18687: 4.0.1)."""
    uniform_gives_back: bool = True
    """The uniform assignor leaves the extra partitions with their owners (KAFKA-18688: 4.0.1);
    4.0.0 gives them to the first members that it visits.
    """
    pending_keeps_group: bool = True
    """Offsets of an open transaction keep a group without other offsets (KAFKA-19163: 4.0.1)."""
    replacement_may_rebalance: bool = True
    """A static member that returns with the classic protocol, and so converts the group, causes a
    classic rebalance instead of a new target (KAFKA-19546: 4.0.2, 4.1.1, 4.2).
    """
    classic_clears_regex: bool = True
    """A classic member that replaces a static one drops its expression (KAFKA-19720: 4.0.2, 4.1.2,
    4.2).
    """
    assignor_votes_bump: bool = False
    """A heartbeat that changes the assignor with the most votes bumps the epoch (KAFKA-20434:
    4.4).
    """
    empties_target: bool = False
    """Removing the last member writes a target epoch without a time (KAFKA-20442: 4.4)."""
    repeats_copied_target: bool = True
    """A new target is written for a static member that has just replaced another one, even if it is
    the target that was copied (until 4.3, KAFKA-20292).
    """
    counts_static_return: bool = True
    """A static member that returns to a full group is refused (until 4.3, KAFKA-20601)."""
    keeps_old_instance: bool = True
    """The former instance id of a member still leads to it (until 4.3, KAFKA-20747)."""
    transactional_topic_ids: bool = False
    """Transactional commits are stored with the topic id (from 4.4, KIP-1319)."""
    share_groups: bool = True
    """Share groups exist (from 4.1; 4.0 had an early version with other records)."""
    share_assignor: str = "balanced"
    """How the assignor of share groups works: ``hash`` in 4.1, ``balanced`` from 4.2 on."""
    share_pending_waits: bool = False
    """Initialized partitions bump the epoch of a share group only once it has a target of its
    epoch (from 4.3).
    """
    streams_configs: bool = True
    """A streams group stores its assignment settings, the validated topology epoch, and the
    assignment epochs of active tasks; it keeps its hash when a member leaves (from 4.2).
    """
    streams_own_settings_hide_brokers: bool = False
    """In a streams group with any setting of its own, Kafka's defaults hold for the others, not the
    broker's settings (until 4.2).
    """
    streams_skips_own_process: bool = True
    """Earlier holders of a standby task whose process has the task already are passed over
    (KAFKA-20899: 4.2.2, 4.4).
    """
    streams_computes_processes: bool = False
    """The sticky task assignor fills its table of processes in another way (from 4.4)."""
    streams_previous_is_assigned: bool = False
    """The sticky task assignor keeps the tasks that members have (from 4.4), not their targets."""
    streams_keeps_left_targets: bool = False
    """A member that left gets its last target again if it returns before the next one (from 4.4:
    the coordinator keeps the target in memory until then).
    """
    streams_roles_in_place: bool = False
    """A member changes the role of a task that it holds in one step (from 4.4, KAFKA-20665)."""
    streams_refuses_warmups: bool = False
    """A heartbeat that reports warm-up tasks is refused (until 4.3)."""
    streams_static_members: bool = False
    """Streams groups have static members (from 4.4, KAFKA-20169)."""

    empty_id_fails_description: bool = False
    """A ConsumerGroupDescribe that names an empty group id fails for all of its groups (seen on
    4.0.0).
    """

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def line(self) -> str:
        """Major and minor number, such as ``4.0``."""
        return ".".join(self.name.split(".")[:2])


_43 = Release(
    "4.3.1",
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
    share_pending_waits=True,
    streams_skips_own_process=False,
    streams_refuses_warmups=True,
)
_44 = replace(
    _43,
    name="4.4.0",
    malformed_subscription="INCONSISTENT_GROUP_PROTOCOL",
    assignor_votes_bump=True,
    empties_target=True,
    repeats_copied_target=False,
    counts_static_return=False,
    keeps_old_instance=False,
    transactional_topic_ids=True,
    streams_skips_own_process=True,
    streams_computes_processes=True,
    streams_previous_is_assigned=True,
    streams_keeps_left_targets=True,
    streams_roles_in_place=True,
    streams_refuses_warmups=False,
    streams_static_members=True,
)
_42 = Release(
    "4.2.2",
    streams_own_settings_hide_brokers=True,
    streams_refuses_warmups=True,
    malformed_subscription="INCONSISTENT_GROUP_PROTOCOL",
    policy_bars_classic_join=True,
)
_41 = replace(
    _42,
    name="4.1.2",
    streams_configs=False,
    malformed_subscription="UNKNOWN_SERVER_ERROR",
    policy_bars_classic_join=False,
    group_settings=_GROUP_SETTINGS_41,
    epochs_after_revocation=1,
    masks_lost_topics=False,
    join_is_never_fenced=False,
    share_assignor="hash",
)
_40 = replace(
    _41,
    name="4.0.2",
    group_settings=_GROUP_SETTINGS_40,
    partition_metadata_record=True,
    metadata_hash=False,
    clearing_regex_bumps=False,
    regex_refresh_interval=False,
    short_group_names=False,
    offset_topic_ids=False,
    legacy_offset_key_any_version=True,
    share_groups=False,
)
_KIP = replace(
    _40,
    name="kip",
    epochs_after_revocation=0,
    join_is_never_fenced=True,  # "it can rejoin with a member epoch equal to 0"
    client_assignors=True,
    member_id_by_client=False,
)

# Earlier patch releases: each is the next one without its fixes.
_430 = replace(_43, name="4.3.0", policy_bars_classic_join=False)
_421 = replace(
    _42,
    name="4.2.1",
    streams_skips_own_process=False,
    malformed_subscription="UNKNOWN_SERVER_ERROR",
    policy_bars_classic_join=False,
)
_420 = replace(_421, name="4.2.0")
_411 = replace(
    _41,
    name="4.1.1",
    free_includes_own_pending=False,
    tolerant_ownership=False,
    clearing_regex_bumps=False,
    classic_clears_regex=False,
)
_410 = replace(_411, name="4.1.0", replacement_may_rebalance=False)
_401 = replace(
    _40,
    name="4.0.1",
    free_includes_own_pending=False,
    tolerant_ownership=False,
    classic_clears_regex=False,
    replacement_may_rebalance=False,
)
_400 = replace(
    _401,
    name="4.0.0",
    upgrade_reads_topics=False,
    uniform_gives_back=False,
    pending_keeps_group=False,
    empty_id_fails_description=True,
)

RELEASES: dict[str, Release] = {
    release.name: release
    for release in (
        _KIP, _400, _401, _40, _410, _411, _41, _420, _421, _42, _430, _43, _44,
    )
}  # fmt: skip
"""Every release by its name, the oldest first."""
LINES: dict[str, Release] = {release.line: release for release in RELEASES.values()}
"""The newest patch release of each line, by the line: ``4.0``, …; and ``kip``."""


def find_release(name: str) -> Release:
    """The release of that name; a line such as ``4.3`` means its newest patch release, and so does
    a patch release that is newer than those known here. Raises UsageError.
    """
    found = RELEASES.get(name) or LINES.get(name)
    if found is None and re.fullmatch(r"\d+\.\d+\.\d+", name):
        line, _, patch = name.rpartition(".")
        newest = LINES.get(line)
        if newest is not None and int(patch) > int(newest.name.rpartition(".")[2]):
            found = newest
    if found is None:
        names = [*LINES, *(name for name in RELEASES if name not in LINES)]
        raise UsageError(f"There is no release {name!r} here.", f"Use one of: {', '.join(names)}.")
    return found


def release_note(name: str) -> str | None:
    """A sentence for the user if ``name`` stands for a release of another name; else None. Raises
    UsageError.
    """
    found = find_release(name)
    return None if found.name == name else f"Release {name} means {found.name} here."
