"""A group's whole target, judged when the record that closes it (key 6) is read."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kip848_spark.checks import targets
from kip848_spark.checks.group_case import Case
from kip848_spark.checks.migration import Dissolved
from kip848_spark.checks.operations import DELETE, REJOIN, UPGRADE, Part
from kip848_spark.checks.results import GAP, TARGETS
from kip848_spark.coordinator import records
from kip848_spark.coordinator.assignors import ASSIGNORS
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import Member
from kip848_spark.coordinator.target import EMPTY_SNAPSHOT, GroupSnapshot

BY_PROPERTIES = "verified by the properties alone: the order of a broker's tables is not known"
TOPICS_UNKNOWN = "the group's topics at that time are not known"
OTHER_ASSIGNOR = "an assignor that is not Kafka's own"


class Before(NamedTuple):
    """What a part replaces, kept while it is replayed."""

    tables: GroupSnapshot | None = None
    targets: dict[str, dict[str, dict[int, None]]] | None = None
    left: Member | None = None
    classic: ClassicGroup | None = None
    dissolved: Dissolved | None = None

    @classmethod
    def of(cls, case: Case, part: Part) -> Before:
        """What of the state before ``part`` its judges will ask for."""
        group = case.consumer
        if part.name == UPGRADE:
            return cls(classic=case.classic)
        if part.name == REJOIN:
            return cls(left=case.member(part.entries[0].member))
        if group is None:
            return cls(EMPTY_SNAPSHOT, {}) if part.of(records.TARGET_EPOCH) else cls()
        if part.name == DELETE:
            return cls(dissolved=Dissolved(group, case.census, case.began))
        if part.of(records.TARGET_EPOCH):
            # Whose vote changed does not matter: of a tie, either assignor is accepted.
            tables = GroupSnapshot(group.walk_members(), group.homogeneous(), Counter(), None)
            return cls(tables, dict(group.targets))
        return cls()


def judge_target(case: Case, part: Part, before: Before) -> None:
    """The target that a part closes, if it does."""
    closing = part.of(records.TARGET_EPOCH)
    group = case.consumer
    if not closing or group is None or before.tables is None or before.targets is None:
        return
    at = closing[-1]
    shares = targets.shares_of(group.targets)
    twice = targets.overlap(shares)
    if twice is not None and case.census:
        case.tally.wrong(
            TARGETS,
            at,
            f"Partition {_named(case, *twice)} is in the targets of two members: one of them "
            "will wait for it for ever; restart one of the two, so that the group rebalances.",
            "disjoint targets",
            shares,
        )
        return
    if not case.census:
        case.tally.unknown(TARGETS, GAP)
        return
    missing = group.members.keys() ^ group.targets.keys()
    if missing:
        case.tally.wrong(
            TARGETS,
            at,
            f"Member {min(missing)} is not in the target, or not in the group, though a target "
            "covers every member: a record of key 5 or 7 is lost; restart that consumer.",
            sorted(group.members),
            sorted(group.targets),
            member=min(missing),
        )
        return
    names = targets.assignors(group)
    if not set(names) <= ASSIGNORS.keys():
        case.tally.unknown(TARGETS, OTHER_ASSIGNOR)
        return
    topics = case.prover.proven
    if topics is None:
        case.tally.unknown(TARGETS, TOPICS_UNKNOWN)
        return
    verdict = targets.judge(case.shard, group, shares, before.tables, before.targets, topics, names)
    if verdict.fault is None:
        case.tally.right(TARGETS, None if verdict.exact else BY_PROPERTIES)
        return
    case.tally.wrong(
        TARGETS,
        at,
        f"The target {verdict.fault}; the assignor ({' or '.join(names)}) gives another one for "
        "these members: check that all brokers run one version, then restart one consumer, so that "
        "the group rebalances.",
        verdict.expected,
        shares,
    )


def _named(case: Case, topic: str, number: int) -> str:
    return f"{case.known.name_of(topic) or topic}-{number}"
