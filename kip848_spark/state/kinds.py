"""The kinds of control records, by their role in the state of a group.

The names are those of `schemas/`. `COMMIT` is not a control record: the replay job adds rows for
the first and the latest commit of each group, because a commit alone creates a (simple) classic
group. `MARKERS` are no records either."""

from __future__ import annotations

from kip848_spark.wire.tables import OFFSET_COMMIT

COMMIT = OFFSET_COMMIT
CLASSIC = "group_metadata"

GAP = "gap"
"""Missing offsets whose cause is not a transaction: records may have been deleted there. Such a row
has the offset of the last missing one, or, before and after inferred tombstones, that of the record
before it. It has no group, and its timestamp may be null."""
KNOWN = "known"
"""A record of any kind behind which the log cleaner has not been, because its key had already
occurred since the last gap. Such a row has the offset and the timestamp of that record, and no
group."""
MARKERS = (GAP, KNOWN)
"""Rows that are no records."""

GROUP = "consumer_group_metadata"
PARTITIONS = "consumer_group_partition_metadata"
MEMBER = "consumer_group_member_metadata"
TARGET_EPOCH = "consumer_group_target_assignment_metadata"
TARGET = "consumer_group_target_assignment_member"
CURRENT = "consumer_group_current_member_assignment"
REGEX = "consumer_group_regular_expression"

SHARE_GROUP = "share_group_metadata"
SHARE_MEMBER = "share_group_member_metadata"
SHARE_TARGET_EPOCH = "share_group_target_assignment_metadata"
SHARE_TARGET = "share_group_target_assignment_member"
SHARE_CURRENT = "share_group_current_member_assignment"
SHARE_STATE = "share_group_state_partition_metadata"

STREAMS_GROUP = "streams_group_metadata"
STREAMS_MEMBER = "streams_group_member_metadata"
STREAMS_TARGET_EPOCH = "streams_group_target_assignment_metadata"
STREAMS_TARGET = "streams_group_target_assignment_member"
STREAMS_CURRENT = "streams_group_current_member_assignment"
STREAMS_TOPOLOGY = "streams_group_topology"

GROUP_EPOCHS = (GROUP, SHARE_GROUP, STREAMS_GROUP)
"""The records with the group epoch; their tombstone deletes the group."""

TARGET_EPOCHS = (TARGET_EPOCH, SHARE_TARGET_EPOCH, STREAMS_TARGET_EPOCH)
MEMBERS = (MEMBER, SHARE_MEMBER, STREAMS_MEMBER)
CURRENTS = (CURRENT, SHARE_CURRENT, STREAMS_CURRENT)
TARGETS = (TARGET, SHARE_TARGET, STREAMS_TARGET)
RECONCILED = ((MEMBER, CURRENT), (STREAMS_MEMBER, STREAMS_CURRENT))
"""The records of members that a group waits for, until their current assignment is their target.
A share group never waits."""


def group_type(kind: str) -> str:
    """The type of the group that a record of ``kind`` belongs to, as Kafka's tools name it."""
    for prefix in ("consumer", "share", "streams"):
        if kind.startswith(f"{prefix}_group_"):
            return prefix
    return "classic"
