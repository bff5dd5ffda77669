"""Kinds of findings that only share groups have (`finding_kinds`)."""

from __future__ import annotations

from kip848_spark.checks.finding_kind import FindingKind
from kip848_spark.checks.results import TARGETS

SHARE_KINDS: dict[tuple[str, str], FindingKind] = {
    (TARGETS, "not_initialized"): FindingKind(
        "The target of member {owner} has {partition}, whose share state is not initialized.",
        "The member fetches from a partition that the share coordinator does not know: its fetches "
        "fail until the state is initialized.",
        "Restart one consumer of the share group, so that the coordinator initializes the state "
        "and computes a new target.",
    ),
    (TARGETS, "share_state"): FindingKind(
        "The initialized partitions do not follow from the partitions that were to be initialized.",
        "A partition may be assigned without share state, or be left out of the assignment "
        "although it has share state.",
        "Compare the records around this offset with another replica of the partition. If they are "
        "the same there, look for a second program that writes to __consumer_offsets.",
    ),
}
"""Kinds of findings of share groups, by check and reason."""
