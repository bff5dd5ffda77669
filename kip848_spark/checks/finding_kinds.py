"""What each kind of finding means for the consumers of the group, and what to do about it.

``summary`` is a template: `finding_text` fills in the names in braces from the finding.
"""

from __future__ import annotations

from kip848_spark.checks.finding_kind import COMPARE_REPLICAS, FindingKind
from kip848_spark.checks.finding_kinds_commits import COMMIT_KINDS
from kip848_spark.checks.finding_kinds_share import SHARE_KINDS
from kip848_spark.checks.finding_kinds_streams import STREAMS_KINDS
from kip848_spark.checks.results import (
    CAUSES,
    EPOCHS,
    HASH,
    LIVE,
    LOADING,
    MIGRATION,
    ORDER,
    OWNERSHIP,
    STATE,
    TARGETS,
    TRANSITIONS,
    VALUE_TIMES,
)

_RESTART_MEMBER = (
    "Restart the consumer of this member, so that it joins again and gets a new assignment."
)
_RESTART_ONE = "Restart one consumer of the group, so that the coordinator computes a new target."
_REPORT = "Report this, with the records of the group: `kip848 capture` writes them to a file."
_FENCED = (
    "The coordinator rejects heartbeats and commits of members whose epoch it does not know: they "
    "drop their partitions and join again."
)
_OWNED_TWICE = (
    "Two consumers may read the same partition and commit offsets of it, so records may be "
    "processed twice and committed offsets may go back."
)
_LOST_ON_LOADING = (
    "A broker that loads this partition of __consumer_offsets, after a restart or an election, "
    "replaces the consumer group by the classic one: its members are fenced and join again."
)


KINDS: dict[tuple[str, str], FindingKind] = {
    # -- state -----------------------------------------------------------------------------------
    (STATE, "row_differs"): FindingKind(
        "A row of the table {table} is not what the records give.",
        "None for the consumers: either this table of the lake or this check is wrong.",
        _REPORT,
    ),
    (STATE, "row_missing"): FindingKind(
        "The table {table} lacks a row that the records give.",
        "None for the consumers: either this table of the lake or this check is wrong.",
        _REPORT,
    ),
    (STATE, "row_without_record"): FindingKind(
        "The table {table} has a row that no record gives.",
        "None for the consumers: either this table of the lake or this check is wrong.",
        _REPORT,
    ),
    # -- loading ---------------------------------------------------------------------------------
    (LOADING, "not_loadable"): FindingKind(
        "A broker cannot load this record: {fault}.",
        "When the partition of __consumer_offsets gets a new leader, or its leader restarts, the "
        "broker fails to load it, and no group of this partition has a coordinator any more.",
        "Do not restart the group's coordinator, and do not move this partition, before you know "
        "where the record comes from. " + COMPARE_REPLICAS,
    ),
    (LOADING, "audit_failed"): FindingKind(
        "This program failed while it checked the group, at this record or soon after it.",
        "None for the consumers, but nothing is known about the decisions in this group.",
        _REPORT,
    ),
    # -- order -----------------------------------------------------------------------------------
    (ORDER, "invalid_order"): FindingKind(
        "The records of this operation are in an order that no coordinator writes.",
        "A record was lost, added or moved. After a restart, the coordinator may know another "
        "state of the group than its consumers.",
        COMPARE_REPLICAS,
    ),
    (ORDER, "duplicate_record"): FindingKind(
        "The same key occurs twice in one operation.",
        "The second record replaces the first. If it belongs to another member or group, that one "
        "lacks it.",
        COMPARE_REPLICAS,
    ),
    (ORDER, "mixed_tombstones"): FindingKind(
        "The tombstones of a leaving member name different members.",
        "After a restart, the coordinator may keep a member that has left, and its partitions stay "
        "unread until the session of that member times out.",
        COMPARE_REPLICAS,
    ),
    (ORDER, "other_instance"): FindingKind(
        "Member {member} replaces a static member that has another instance id.",
        "A static member loses its partitions to a consumer that is not its successor.",
        "Check that each consumer has a group.instance.id of its own. " + COMPARE_REPLICAS,
    ),
    (ORDER, "no_change"): FindingKind(
        "This record repeats what is recorded already: {record}.",
        "None, if the record was only appended twice. If a record before it is lost, the group "
        "had another state in between.",
        COMPARE_REPLICAS,
    ),
    (ORDER, "unknown_member"): FindingKind(
        "The log has {record}, but that member never joined the group.",
        "The partitions of a member that does not exist are not read by anybody.",
        "If the group has partitions without an owner, restart one of its consumers. "
        + COMPARE_REPLICAS,
    ),
    (ORDER, "repeated_partition"): FindingKind(
        "A partition occurs twice in {record}.",
        "The record is damaged, or no coordinator wrote it. Its other partitions may be wrong as "
        "well.",
        COMPARE_REPLICAS,
    ),
    (ORDER, "same_instance"): FindingKind(
        "Two members have the instance id {instanceId}.",
        "The first one should have been removed when the second one joined. It keeps its "
        "partitions, which nobody reads until its session times out.",
        "Check that each consumer has a group.instance.id of its own, then restart that consumer.",
    ),
    (ORDER, "orphan_tombstone"): FindingKind(
        "This tombstone deletes something that does not exist: {record}.",
        "None, if the tombstone was appended twice. If the record that it deletes is lost, the "
        "group had another state before.",
        COMPARE_REPLICAS,
    ),
    (ORDER, "classic_tombstone"): FindingKind(
        "The tombstone of a classic group deletes a consumer group.",
        _LOST_ON_LOADING,
        "Do not restart the group's coordinator before you know where the record comes from. "
        + COMPARE_REPLICAS,
    ),
    (ORDER, "unmatched_topic"): FindingKind(
        "The regular expression {expression} was resolved to topics that it does not match.",
        "Members are assigned partitions of topics to which they did not subscribe.",
        "Check that all brokers run the same version. " + _RESTART_ONE,
    ),
    (ORDER, "unused_expression"): FindingKind(
        "A regular expression without subscribers was not deleted: {recorded}.",
        "None for the consumers now. The coordinator keeps the topics of an expression that nobody "
        "subscribes to.",
        COMPARE_REPLICAS,
    ),
    # -- epochs ----------------------------------------------------------------------------------
    (EPOCHS, "group_epoch"): FindingKind(
        "The group epoch {recorded} does not follow the epoch before it.",
        _FENCED,
        "Check for members that rejoin without a reason at this time. " + COMPARE_REPLICAS,
    ),
    (EPOCHS, "target_epoch"): FindingKind(
        "The target assignment is marked with epoch {recorded}, which is not the group epoch.",
        "Members converge to a wrong epoch, and a rebalance may never end.",
        "Check that the group is Stable now; if it is not: " + _RESTART_ONE,
    ),
    (EPOCHS, "target_again"): FindingKind(
        "A second target assignment was computed for epoch {recorded}.",
        "Members that have reached this epoch do not see the second target: partitions may be "
        "owned twice or by nobody until the next rebalance.",
        "Check that every partition has one owner; if not: " + _RESTART_ONE,
    ),
    (EPOCHS, "member_epoch"): FindingKind(
        "The epoch of member {member} is {recorded}, which it cannot have.",
        "The member may be fenced, or commit offsets of partitions that it no longer owns.",
        _RESTART_MEMBER,
    ),
    (EPOCHS, "member_epochs"): FindingKind(
        "The epochs of member {member} cannot follow from its last ones.",
        "The coordinator fences the member: it drops its partitions and joins again.",
        _RESTART_MEMBER,
    ),
    # -- causes ----------------------------------------------------------------------------------
    (CAUSES, "no_cause"): FindingKind(
        "The group epoch rises to {epoch} without a cause.",
        "The group rebalanced although nothing had changed: its consumers may have paused for it.",
        "If this happens again, compare the times with the brokers' logs. " + COMPARE_REPLICAS,
    ),
    (CAUSES, "no_new_epoch"): FindingKind(
        "The group changed ({causes}), but its epoch did not rise.",
        "No rebalance starts, so the members keep an outdated assignment: partitions may stay "
        "unread.",
        _RESTART_ONE,
    ),
    # -- metadata_hash ---------------------------------------------------------------------------
    (HASH, "unsubscribed_topic"): FindingKind(
        "The group's topic metadata has topics to which no member subscribes.",
        "A record by which a member subscribed, or an expression was resolved, is lost: the "
        "assignments may be of other topics than the consumers ask for.",
        _RESTART_ONE,
    ),
    (HASH, "wrong_hash"): FindingKind(
        "The metadata hash is not the hash of the group's topics ({topics}).",
        "At the next heartbeat the coordinator takes the topics for changed, and rebalances the "
        "group without need.",
        "Check that all brokers run the same version. " + COMPARE_REPLICAS,
    ),
    # -- targets ---------------------------------------------------------------------------------
    (TARGETS, "partition_in_two_targets"): FindingKind(
        "{partition} is in the target assignments of two members.",
        "One of the two waits forever for the other to give it up, and the rebalance never ends.",
        "Restart the consumer of one of the two members, so that the group gets a new target.",
    ),
    (TARGETS, "not_a_target_for_each_member"): FindingKind(
        "The members of the target assignment are not the members of the group.",
        "A member without a target gets no partitions; the target of a member that does not exist "
        "is read by nobody.",
        "Restart the consumer of that member. " + COMPARE_REPLICAS,
    ),
    (TARGETS, "another_target"): FindingKind(
        "The target assignment {fault}.",
        "The members get other partitions than the assignor would give them: the load may be "
        "uneven, more partitions move than necessary, or some have no owner.",
        "Check that all brokers run the same version. " + _RESTART_ONE,
    ),
    # -- transitions -----------------------------------------------------------------------------
    (TRANSITIONS, "unreachable"): FindingKind(
        "The assignment of member {member} cannot follow from its last one.",
        "The member may lack partitions that nobody else reads, keep partitions that it should "
        "give up, or wait forever.",
        "Compare with the log of the consumer at this time. " + _RESTART_MEMBER,
    ),
    (TRANSITIONS, "static_rejoin"): FindingKind(
        "Member {member} does not take over the assignment of the static member that it replaces.",
        "Partitions that are missing from the assignment stay unread until the next rebalance.",
        _RESTART_ONE,
    ),
    # -- ownership -------------------------------------------------------------------------------
    (OWNERSHIP, "two_owners"): FindingKind(
        "{partition} has two owners from here on: {owner} and {member}.",
        _OWNED_TWICE,
        "Restart the consumer of one of the two members, and check what both have processed since.",
    ),
    (OWNERSHIP, "assigned_and_revoked"): FindingKind(
        "{partition} is both assigned to member {member} and to be given up by it.",
        "A broker refuses to load this record: after a restart, no group of this partition of "
        "__consumer_offsets has a coordinator.",
        "Restart the consumer of this member before any broker restarts, so that a newer record "
        "replaces this one.",
    ),
    (OWNERSHIP, "task_with_two_owners"): FindingKind(
        "Task {task} is active on two members from here on: {owner} and {member}.",
        "Two instances may process the same records, and write to the same state store and its "
        "changelog.",
        "Restart one of the two instances, and check what both have processed since.",
    ),
    # -- migration -------------------------------------------------------------------------------
    (MIGRATION, "nothing_to_upgrade"): FindingKind(
        "The group was converted to the consumer protocol, but there was no classic group.",
        "The members of the classic group, if there was one, are fenced and join again.",
        COMPARE_REPLICAS,
    ),
    (MIGRATION, "upgrade_epoch"): FindingKind(
        "The group was converted to the consumer protocol with an epoch below its generation.",
        "Members of the classic group have a higher generation than the group: they are fenced "
        "and join again.",
        "Check that the group's consumers have joined again, and restart those that have not.",
    ),
    (MIGRATION, "upgrade_target_epoch"): FindingKind(
        "The group was converted to the consumer protocol, but its target has another epoch.",
        "Members converge to a wrong epoch, and a rebalance may never end.",
        _RESTART_ONE,
    ),
    (MIGRATION, "upgrade_targets"): FindingKind(
        "The group was converted to the consumer protocol, but not each member has a target.",
        "Members without a target lose their partitions at their next heartbeat.",
        _RESTART_ONE,
    ),
    (MIGRATION, "upgrade_assignments"): FindingKind(
        "The group was converted to the consumer protocol, but not each member has an assignment.",
        "The partitions of a member without an assignment may be given to another member, while "
        "the first still reads them.",
        _RESTART_ONE,
    ),
    (MIGRATION, "upgraded_member_epoch"): FindingKind(
        "The group was converted to the consumer protocol, but {member} is not at its epoch.",
        "The coordinator fences the member: it drops its partitions and joins again.",
        _RESTART_MEMBER,
    ),
    (MIGRATION, "upgraded_assignment"): FindingKind(
        "The group was converted to the consumer protocol, but {member} does not have its target.",
        "Partitions of the member are read by nobody, or also by another member, until the next "
        "rebalance.",
        _RESTART_MEMBER,
    ),
    (MIGRATION, "upgraded_assignment_epoch"): FindingKind(
        "The group was converted to the consumer protocol, but {member} has a wrong assignment "
        "epoch.",
        "The coordinator may reject commits of this member for these partitions, or accept commits "
        "that it should reject.",
        _RESTART_MEMBER,
    ),
    (MIGRATION, "upgrade_gained_partitions"): FindingKind(
        "At the conversion to the consumer protocol, {member} gained partitions.",
        _OWNED_TWICE,
        _RESTART_MEMBER,
    ),
    (MIGRATION, "upgrade_lost_partitions"): FindingKind(
        "At the conversion to the consumer protocol, {member} lost partitions.",
        "The member still reads partitions that are not recorded as its own: another member may "
        "read them too, or nobody after the next rebalance of this member.",
        _RESTART_MEMBER,
    ),
    (MIGRATION, "leader_not_a_member"): FindingKind(
        "The leader of the classic group is not one of its members.",
        "At the next rebalance nobody computes the assignments, so it does not end.",
        "Restart the group's consumers.",
    ),
    (MIGRATION, "classic_record"): FindingKind(
        "A record of a classic group replaces a consumer group that was not deleted.",
        _LOST_ON_LOADING,
        "Do not restart the group's coordinator before you know where the record comes from. "
        + COMPARE_REPLICAS,
    ),
    (MIGRATION, "generation_decreases"): FindingKind(
        "The classic generation falls to {recorded}.",
        "Members that have a higher generation are fenced and join again.",
        "Check that the group's consumers have joined again. " + COMPARE_REPLICAS,
    ),
    (MIGRATION, "downgrade"): FindingKind(
        "The group was converted back to the classic protocol with another generation or other "
        "members.",
        "The members are fenced and must join again.",
        "Check that all consumers of the group have joined again, and restart those that have not.",
    ),
    (MIGRATION, "downgraded_assignment"): FindingKind(
        "The group was converted back to the classic protocol, but {member} does not have its "
        "target.",
        "Partitions stay unread, or are read by two members, until the next rebalance.",
        "Restart one consumer of the group, so that it rebalances.",
    ),
    # -- value_times -----------------------------------------------------------------------------
    (VALUE_TIMES, "time_in_value"): FindingKind(
        "{field} is a time at which the coordinator cannot have made this decision.",
        "After a restart, the coordinator counts from this time: offsets may expire too early or "
        "too late, or the next target or resolution may have to wait.",
        "Compare the clocks of the brokers that led this partition. " + COMPARE_REPLICAS,
    ),
    (VALUE_TIMES, "expressions_resolved_apart"): FindingKind(
        "The regular expressions of one resolution have different times or versions.",
        "Members may be assigned topics of an older state of the cluster.",
        COMPARE_REPLICAS,
    ),
    (VALUE_TIMES, "resolved_too_soon"): FindingKind(
        "The regular expressions of the group were resolved again too soon.",
        "None for the consumers. The coordinator waits for more than ten seconds, so another "
        "program may have written the record.",
        COMPARE_REPLICAS,
    ),
    (VALUE_TIMES, "record_time"): FindingKind(
        "The records directly before and after this one have the same time, and this one has "
        "another.",
        "None for the consumers. The history and the rebalances of the group show a wrong time.",
        COMPARE_REPLICAS,
    ),
    # -- live ------------------------------------------------------------------------------------
    (LIVE, "cluster_differs"): FindingKind(
        "The cluster and the lake differ in the {what}, and no later record explains it.",
        "If the coordinator has lost what it wrote, the consumers may get partitions or committed "
        "offsets of an earlier state.",
        "Run again. If the difference remains, records are missing from the lake (see the table "
        "gaps): tombstones can be gone after about a day without a run. Or the coordinator has "
        "lost records: look for unclean leader elections.",
    ),
    **COMMIT_KINDS,
    **SHARE_KINDS,
    **STREAMS_KINDS,
}
"""Every kind of finding, by check and reason."""
