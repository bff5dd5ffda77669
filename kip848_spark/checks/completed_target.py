"""A group's new target assignment, checked at the record that completes it (key 6)."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kip848_spark.checks import targets
from kip848_spark.checks.audited_group import AuditedGroup
from kip848_spark.checks.migration import EndedConsumerGroup
from kip848_spark.checks.operations import DELETE, REJOIN, UPGRADE, OperationPart
from kip848_spark.checks.release import uniform_rules, with_uniform_rule
from kip848_spark.checks.results import GAP, TARGETS
from kip848_spark.coordinator import records
from kip848_spark.coordinator.assignors import ASSIGNORS
from kip848_spark.coordinator.classic_group import ClassicGroup
from kip848_spark.coordinator.consumer_group import Member, Targets
from kip848_spark.coordinator.target import EMPTY_SNAPSHOT, GroupSnapshot
from kip848_spark.wire.pseudonyms import ANONYMIZED, is_anonymized

BY_PROPERTIES = (
    "verified by properties only: the order of the broker's hash tables cannot be reconstructed"
)
TOPICS_UNKNOWN = "the group's topics at that time are not known"
OTHER_ASSIGNOR = "not one of Kafka's own assignors"


class StateBefore(NamedTuple):
    """What a part of an operation replaces, as far as the checks need it."""

    group: GroupSnapshot | None = None
    """The consumer group, if the part has a new target."""
    targets: Targets | None = None
    """The target assignment before, if the part has a new one: member, topic id, partitions."""
    replaced: Member | None = None
    """The static member that a member replaces."""
    classic: ClassicGroup | None = None
    """The classic group that is upgraded."""
    ended: EndedConsumerGroup | None = None
    """The consumer group that the part deletes."""

    @classmethod
    def of(cls, audited: AuditedGroup, part: OperationPart) -> StateBefore:
        """Copies what the checks of ``part`` need, before it is replayed."""
        group = audited.consumer
        if part.name == UPGRADE:
            return cls(classic=audited.classic)
        if part.name == REJOIN:
            return cls(replaced=audited.member(part.entries[0].member))
        if group is None:
            return cls(EMPTY_SNAPSHOT, {}) if part.of(records.TARGET_EPOCH) else cls()
        if part.name == DELETE:
            return cls(ended=EndedConsumerGroup(audited, group))
        if part.of(records.TARGET_EPOCH):
            # The votes for assignors are left out: of a tie, the check accepts either assignor.
            before = GroupSnapshot(group.walk_members(), group.homogeneous(), Counter(), None)
            return cls(before, dict(group.targets))
        return cls()


def check_target(audited: AuditedGroup, part: OperationPart, before: StateBefore) -> None:
    """Checks the target that a part completes, if it completes one."""
    closing = part.of(records.TARGET_EPOCH)
    group = audited.consumer
    if not closing or group is None or before.group is None or before.targets is None:
        return
    at = closing[-1]
    shares = targets.shares_of(group.targets)
    names = targets.assignors(group, audited.default_assignor)
    by_kafka = set(names) <= ASSIGNORS.keys()
    judged = set(names) <= audited.assignors.keys()
    shared = targets.overlap(shares)
    if shared is not None and audited.complete and by_kafka:  # others may give partitions twice
        audited.tally.add_disagreement(
            TARGETS,
            "partition_in_two_targets",
            at,
            {"partition": shared, "members": 1},
            {"partition": shared, "members": sorted(targets.holders(shares, *shared))},
        )
        return
    if not audited.complete:
        audited.tally.add_unverifiable(TARGETS, GAP)
        return
    missing = group.members.keys() ^ group.targets.keys()
    if missing:
        audited.tally.add_disagreement(
            TARGETS,
            "not_a_target_for_each_member",
            at,
            sorted(group.members),
            sorted(group.targets),
            member=min(missing),
        )
        return
    if not judged:
        audited.tally.add_unverifiable(TARGETS, OTHER_ASSIGNOR)
        return
    topics = audited.prover.proven
    if topics is None:
        audited.tally.add_unverifiable(TARGETS, TOPICS_UNKNOWN)
        return
    rules = uniform_rules(audited.releases)
    given = targets.Given(before.group, before.targets, topics)
    possible = {name: audited.assignors[name] for name in names}
    verdict = targets.compare(audited.shard, group, shares, given, possible, rules)
    anonymized = is_anonymized(at.group)
    if verdict.gives_back is not None and not anonymized:
        audited.set_releases(with_uniform_rule(audited.releases, verdict.gives_back))
    by_default = len(group.members) > 1 and not targets.has_votes(group)
    if verdict.fault is None:
        audited.default_targets.verified += by_default
        audited.tally.add_verified(TARGETS, None if verdict.exact else BY_PROPERTIES)
        return
    if verdict.by_order and anonymized:
        audited.tally.add_unverifiable(TARGETS, ANONYMIZED)
        return
    found = len(audited.tally.findings)
    audited.tally.add_disagreement(
        TARGETS,
        "another_target",
        at,
        {"assignors": names, "targets": verdict.expected},
        {"fault": verdict.fault, "targets": shares},
    )
    postponed = len(audited.tally.findings) == found
    if not by_default or postponed or targets.nonexistent(shares, topics) is not None:
        return
    fewer = targets.with_given_partitions(shares, topics)
    if fewer != topics:
        with_fewer = targets.compare(
            audited.shard, group, shares, given._replace(topics=fewer), possible, rules
        )
        if with_fewer.fault is None:
            return  # the record of the topics is wrong, not the assignor another one
    audited.default_targets.contradicted.append((audited.tally, audited.tally.findings[-1]))


_LEAST_CONTRADICTED = 3


def accept_default_assignor(audited: AuditedGroup) -> None:
    """Call this after the last record. If most targets that the default assignor has computed are
    not those of Kafka's own assignors, it is another one: what it computes is not known.

    One wrong target among right ones stays a finding. So does each target with a partition of which
    no assignor knows, since one damaged record brings it into the targets after it, and each that
    Kafka's assignors compute for fewer partitions of a topic."""
    seen = audited.default_targets
    contradicted = len(seen.contradicted)
    if audited.default_assignor is not None or contradicted < _LEAST_CONTRADICTED:
        return
    if contradicted <= seen.verified:
        return
    for tally, finding in seen.contradicted:
        tally.findings.remove(finding)
        tally.disagreed[TARGETS] -= 1
        tally.add_unverifiable(TARGETS, OTHER_ASSIGNOR)
