"""What the kinds of finding about offset commits mean, and what to do (`finding_kinds`)."""

from __future__ import annotations

from kip848_spark.checks.finding_kind import COMPARE_REPLICAS, FindingKind
from kip848_spark.checks.results import COMMITS

COMMIT_KINDS: dict[tuple[str, str], FindingKind] = {
    (COMMITS, "commit_topic_id"): FindingKind(
        "The commit has the id of another topic.",
        "Brokers that read offsets by topic id do not find this offset. The consumer then starts "
        "where auto.offset.reset says.",
        "Commit the offset again: let the consumer that owns the partition commit its position. "
        + COMPARE_REPLICAS,
    ),
    (COMMITS, "partition_does_not_exist"): FindingKind(
        "The commit is for a partition that the topic does not have.",
        "None for the consumers. The offset stays until it expires, and tools that add up the lag "
        "of the group may fail.",
        "Delete the offset with `kafka-consumer-groups.sh --delete-offsets` while no consumer "
        "subscribes to the topic. " + COMPARE_REPLICAS,
    ),
    (COMMITS, "value_version"): FindingKind(
        "The commit has a value version that the broker did not write at that time.",
        "A broker that does not know the version cannot load the partition.",
        COMPARE_REPLICAS,
    ),
    (COMMITS, "deleted_while_subscribed"): FindingKind(
        "A committed offset was deleted although a member subscribes to the topic.",
        "A consumer that is assigned the partition next starts where auto.offset.reset says: it "
        "may read records again, or skip some.",
        "Compare the position of the consumer that owns the partition with what it has processed. "
        + COMPARE_REPLICAS,
    ),
}
"""Kinds of findings about offset commits, by check and reason."""
