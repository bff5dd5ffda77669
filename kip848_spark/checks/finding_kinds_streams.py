"""What the kinds of finding mean that only streams groups have. See `finding_kinds`."""

from __future__ import annotations

from kip848_spark.checks.finding_kind import COMPARE_REPLICAS, FindingKind
from kip848_spark.checks.results import CAUSES, EPOCHS, ORDER, OWNERSHIP

STREAMS_KINDS: dict[tuple[str, str], FindingKind] = {
    (ORDER, "second_topology"): FindingKind(
        "The topology of the group is written a second time.",
        "The coordinator distributes the tasks of another topology than the instances run: they "
        "get tasks that they do not know, or lack tasks.",
        "Check that all instances run the same version of the application. " + COMPARE_REPLICAS,
    ),
    (ORDER, "no_topology"): FindingKind(
        "The first member joins without the topology of the group.",
        "After a restart, the coordinator knows no tasks: every instance gives up its tasks.",
        "Restart one instance, so that it sends the topology again. " + COMPARE_REPLICAS,
    ),
    (EPOCHS, "validated_topology"): FindingKind(
        "The topology epoch {recorded} was validated, which the group does not have.",
        "The next heartbeat validates the topology again, and the group rebalances without need.",
        COMPARE_REPLICAS,
    ),
    (CAUSES, "changed_by_leaving"): FindingKind(
        "A member left, and the record changes more than the group epoch.",
        "At the next heartbeat the coordinator takes the topics or the settings for changed, and "
        "rebalances the group once more.",
        "Check that all brokers run the same version. " + COMPARE_REPLICAS,
    ),
    (OWNERSHIP, "task_twice_in_process"): FindingKind(
        "Member {member} gets task {task}, which member {owner} of the same process has already.",
        "Both instances would use the same state directory: one of them fails to lock it, and its "
        "task makes no progress.",
        "Restart the process. " + COMPARE_REPLICAS,
    ),
}
"""As `finding_kinds.KINDS`."""
