"""An example of each kind of finding: the values that the checks give it."""

from __future__ import annotations

from typing import Any

from kip848_spark.checks.results import (
    CAUSES,
    COMMITS,
    EPOCHS,
    ERROR,
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
    Finding,
    as_json,
)

ORDERS, PAYMENTS, UNNAMED = (
    "cGqFWoKIRp2CA1lBob-T_g",
    "2kQwH0JcTf2jX7bC1l8m3A",
    "zzzzzzzzzzzzzzzzzzzzzw",
)
NAMES = {ORDERS: "orders", PAYMENTS: "payments"}


def assignment(**changes: Any) -> dict[str, Any]:
    """A member's assignment, as the check of transitions shows it."""
    return {
        "memberEpoch": 5,
        "previousMemberEpoch": 4,
        "state": 0,
        "assigned": {ORDERS: [0, 1, 2]},
        "pendingRevocation": {},
        "assignmentEpochs": [[ORDERS, n, 4] for n in range(3)],
        **changes,
    }


def record(kind: str, value: Any, **key: str) -> dict[str, Any]:
    data = None if value is None else {"version": "0", "data": value}
    return {"key": {"type": kind, "data": {"groupId": "billing", **key}}, "value": data}


TARGET = record(
    "7", {"topicPartitions": [{"topicId": ORDERS, "partitions": [3, 4, 4, 5]}]}, memberId="worker-1"
)
CURRENT = record(
    "8",
    {
        "memberEpoch": 5,
        "previousMemberEpoch": 4,
        "state": 0,
        "assignedPartitions": [{"topicId": ORDERS, "partitions": [3, 4]}],
        "partitionsPendingRevocation": [{"topicId": UNNAMED, "partitions": [7]}],
    },
    memberId="worker-1",
)
GONE = record("8", None, memberId="worker-1")
ROW = {"type": "consumer", "state": "Stable", "epoch": 5, "members": 2}

EXAMPLES: dict[tuple[str, str], tuple[Any, Any]] = {
    (STATE, "row_differs"): (
        {"table": "groups", "key": {}, "row": ROW},
        {"table": "groups", "key": {}, "row": ROW | {"epoch": 6, "members": 3}},
    ),
    (STATE, "row_missing"): (
        {"table": "members", "key": {"member_id": "worker-1"}, "row": {"member_epoch": 5}},
        {"table": "members", "key": {"member_id": "worker-1"}, "row": None},
    ),
    (STATE, "row_without_record"): (
        {"table": "offsets", "key": {"topic": "orders", "topic_partition": 3}, "row": None},
        {
            "table": "offsets",
            "key": {"topic": "orders", "topic_partition": 3},
            "row": {"offset": 1},
        },
    ),
    (LOADING, "not_loadable"): (
        "a record that a broker can load",
        {"fault": "member worker-1 is unknown", "record": CURRENT},
    ),
    (LOADING, "audit_failed"): (
        "a group that this program can audit",
        "ZeroDivisionError: division by zero",
    ),
    (ORDER, "invalid_order"): ("an operation's records, by key type", ["8", "3", "7 (tombstone)"]),
    (ORDER, "duplicate_record"): ("each record of an operation once", ["7", "7", "6"]),
    (ORDER, "mixed_tombstones"): (
        "three tombstones of one member",
        [["8 (tombstone)", "worker-1"], ["7 (tombstone)", "worker-2"]],
    ),
    (ORDER, "other_instance"): ({"instanceId": "node-1"}, {"instanceId": "node-2"}),
    (ORDER, "no_change"): ("a change", TARGET),
    (ORDER, "unknown_member"): ("an earlier record by which the member joined", CURRENT),
    (ORDER, "repeated_partition"): ("each partition once", TARGET),
    (ORDER, "same_instance"): (
        {"instanceId": "node-1", "members": ["worker-2"]},
        {"instanceId": "node-1", "members": ["worker-2", "worker-1"]},
    ),
    (ORDER, "orphan_tombstone"): ("a record to delete", GONE),
    (ORDER, "classic_tombstone"): ("the tombstones of a consumer group", record("2", None)),
    (ORDER, "unmatched_topic"): (
        {"expression": "orders.*", "topics": "only those that it matches"},
        {"expression": "orders.*", "topics": ["payments"]},
    ),
    (ORDER, "unused_expression"): ("a tombstone of key 16", ["orders.*"]),
    (ORDER, "second_topology"): ({"epoch": 0}, {"epoch": 0}),
    (ORDER, "no_topology"): ("the topology", "none"),
    (EPOCHS, "group_epoch"): (42, 44),
    (EPOCHS, "target_epoch"): (None, 3),
    (EPOCHS, "target_again"): (41, 41),
    (EPOCHS, "member_epoch"): ({"least": 4, "target": 6, "group": 6}, 30),
    (EPOCHS, "member_epochs"): (
        {"least": 4, "target": 6, "previous": 4},
        {"memberEpoch": 3, "previousMemberEpoch": 2},
    ),
    (EPOCHS, "validated_topology"): (None, 1),
    (CAUSES, "changed_by_leaving"): (
        {"hash": 77, "assignment settings": ["num.standby.replicas=1"]},
        {"hash": -5, "assignment settings": ["num.standby.replicas=0"]},
    ),
    (CAUSES, "no_cause"): ("a cause in the same operation", {"epoch": 42, "causes": []}),
    (CAUSES, "no_new_epoch"): (
        "a record of key 3 in the same operation",
        {"causes": ["member joined", "subscription"]},
    ),
    (HASH, "unsubscribed_topic"): (["orders"], ["orders", "payments"]),
    (HASH, "wrong_hash"): (
        {"metadataHash": 77, "topics": {"orders": 6, "payments": 1}},
        {"metadataHash": -5},
    ),
    (TARGETS, "partition_in_two_targets"): (
        {"partition": [ORDERS, 3], "members": 1},
        {"partition": [ORDERS, 3], "members": ["worker-1", "worker-2"]},
    ),
    (TARGETS, "not_initialized"): (
        {"partition": [ORDERS, 3], "owner": "worker-1"},
        {"partition": [ORDERS, 3]},
    ),
    (TARGETS, "share_state"): ({ORDERS: [0, 1]}, {ORDERS: [0, 1, 2]}),
    (TARGETS, "not_a_target_for_each_member"): (["worker-1", "worker-2"], ["worker-2", "worker-3"]),
    (TARGETS, "another_target"): (
        {
            "assignors": ["uniform"],
            "targets": {"worker-1": {ORDERS: [0, 1]}, "worker-2": {ORDERS: [2, 3]}, "worker-3": {}},
        },
        {
            "fault": f"leaves out {ORDERS}-3",
            "targets": {"worker-1": {ORDERS: [0, 1]}, "worker-2": {ORDERS: [2]}, "worker-3": {}},
        },
    ),
    (TRANSITIONS, "unreachable"): (
        {
            "from": assignment(),
            "to one of": [
                assignment(memberEpoch=6, previousMemberEpoch=5, assigned={ORDERS: [3, 4, 5]}),
                assignment(assigned={}),
            ],
        },
        assignment(memberEpoch=6, previousMemberEpoch=5, assigned={ORDERS: [3, 4]}),
    ),
    (TRANSITIONS, "static_rejoin"): (
        {"from": assignment(), "replaced": "worker-0", "to one of": [assignment(memberEpoch=0)]},
        assignment(memberEpoch=0, assigned={}, pendingRevocation={UNNAMED: [1]}, state=1),
    ),
    (OWNERSHIP, "two_owners"): ({"owner": "worker-2", "partition": [ORDERS, 3]}, assignment()),
    (OWNERSHIP, "assigned_and_revoked"): ({"partition": [ORDERS, 2]}, assignment()),
    (OWNERSHIP, "task_with_two_owners"): (
        {"owner": "worker-2", "task": ["0", 3]},
        {"activeTasks": [{"subtopologyId": "0", "partitions": [3]}]},
    ),
    (OWNERSHIP, "task_twice_in_process"): (
        {"process": "p-1", "member": "worker-2", "task": ["0", 3]},
        {"process": "p-1", "member": "worker-1", "task": ["0", 3]},
    ),
    (MIGRATION, "nothing_to_upgrade"): ("a classic group", None),
    (MIGRATION, "upgrade_epoch"): (7, 3),
    (MIGRATION, "upgrade_target_epoch"): (7, 8),
    (MIGRATION, "upgrade_targets"): (["worker-1", "worker-2"], ["worker-1"]),
    (MIGRATION, "upgrade_assignments"): (["worker-1", "worker-2"], ["worker-1"]),
    (MIGRATION, "upgraded_member_epoch"): (
        {"memberEpoch": 7, "previousMemberEpoch": 7, "state": 0},
        {"memberEpoch": 7, "previousMemberEpoch": 6, "state": 2},
    ),
    (MIGRATION, "upgraded_assignment"): (
        {"assigned": {ORDERS: [0, 1]}, "pendingRevocation": {}},
        {"assigned": {ORDERS: [0]}, "pendingRevocation": {ORDERS: [1]}},
    ),
    (MIGRATION, "upgraded_assignment_epoch"): ([7], [6, 7]),
    (MIGRATION, "upgrade_gained_partitions"): (
        {"assigned": [["orders", 0]]},
        {"assigned": [["orders", 0], ["payments", 1]]},
    ),
    (MIGRATION, "upgrade_lost_partitions"): ({"assigned": [["orders", 0]]}, {"assigned": []}),
    (MIGRATION, "leader_not_a_member"): (["worker-1", "worker-2"], "worker-9"),
    (MIGRATION, "classic_record"): (
        "the consumer group's tombstones before it",
        record("2", {"generation": 3, "members": []}),
    ),
    (MIGRATION, "generation_decreases"): (9, 3),
    (MIGRATION, "downgrade"): (
        {"generation": 9, "members": ["worker-1", "worker-2"]},
        {"generation": 10, "members": ["worker-1"]},
    ),
    (MIGRATION, "downgraded_assignment"): (
        {"assigned": [["orders", 0], ["orders", 1]]},
        {"assigned": [["orders", 0]]},
    ),
    (VALUE_TIMES, "time_in_value"): (
        {
            "field": "assignmentTimestamp",
            "least": 1_795_248_023_153,
            "most": 1_795_248_143_153,
            "appended": 1_795_248_083_153,
        },
        {"field": "assignmentTimestamp", "time": 1_795_334_483_153},
    ),
    (VALUE_TIMES, "expressions_resolved_apart"): ({"version": 77}, {"version": 78}),
    (VALUE_TIMES, "resolved_too_soon"): (
        {"least": 1_795_248_083_154},
        {"timestamp": 1_795_248_073_153},
    ),
    (VALUE_TIMES, "record_time"): (
        {"time": 1_795_248_083_153},
        {"time": 1_795_334_483_153},
    ),
    (COMMITS, "commit_topic_id"): (
        {"topic": "orders", "topicId": ORDERS},
        {"topic": "payments", "topicId": PAYMENTS},
    ),
    (COMMITS, "partition_does_not_exist"): (
        {"topic": "orders", "partition": "below 6"},
        {"topic": "orders", "partition": 9},
    ),
    (COMMITS, "value_version"): ({"version": 4}, {"version": 3}),
    (COMMITS, "deleted_while_subscribed"): (
        "no tombstone, since a member subscribes to the topic and the topic exists",
        "a tombstone of orders-3",
    ),
    (LIVE, "cluster_differs"): (
        {"assignment of worker-1": [["orders", 0], ["orders", 1], ["orders", 2]]},
        {"assignment of worker-1": []},
    ),
}


def example(check: str, reason: str) -> Finding:
    """The finding of an example, about member worker-1 of the group billing."""
    expected, recorded = EXAMPLES[check, reason]
    return Finding(
        check, reason, ERROR, "billing", "worker-1", 46, 10, 0, as_json(expected), as_json(recorded)
    )
