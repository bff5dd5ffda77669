"""The assignors of share groups against Kafka's own class, and properties of their targets."""

from __future__ import annotations

import pytest

from kip848_spark.coordinator.assignors.share import ShareAssignor, assign_share, wanted_counts
from kip848_spark.coordinator.assignors.share_41 import assign_share_41
from kip848_spark.coordinator.faults import GroupError
from tests.coordinator.assignor_oracle import kafka_share_targets, random_share_group

GROUPS = 400
_MOST_MIXED_41 = 12
"""4.1 visits more subscribers than this in an order that the reference does not reproduce."""


def _targets(
    assign: ShareAssignor, spec: object, assignable: object
) -> dict[str, dict[str, list[int]]] | None:
    try:
        made = assign(spec, assignable)  # type: ignore[arg-type]
    except GroupError:
        return None
    return {m: {t: sorted(n) for t, n in share.items()} for m, share in made.items()}


@pytest.mark.parametrize(
    ("version", "assign"), [("4.3.1", assign_share), ("4.1.2", assign_share_41)]
)
def test_targets_equal_those_of_kafka(version: str, assign: ShareAssignor) -> None:
    """Every topic of every member: one with an empty list is not one that is missing."""
    specs = [item for seed in range(GROUPS) for item in random_share_group(seed, assign)]
    wrong = []
    for (spec, assignable), kafka in zip(specs, kafka_share_targets(version, specs), strict=True):
        ours = _targets(assign, spec, assignable)
        theirs = kafka and {m: {t: sorted(n) for t, n in kafka[m].items()} for m in kafka}
        if version == "4.1.2" and not spec.homogeneous and len(spec.members) > _MOST_MIXED_41:
            continue
        if theirs is not None and ours is not None:
            ours = {member: ours.get(member, {}) for member in theirs}
        if ours != theirs:
            wrong.append((spec, assignable, ours, theirs))
    assert len(specs) > 2 * GROUPS
    assert not wrong, f"{len(wrong)} of {len(specs)}, the first: {wrong[0]}"


@pytest.mark.parametrize("seed", range(100))
def test_every_partition_has_a_member_and_no_member_too_many(seed: int) -> None:
    for spec, assignable in random_share_group(seed, assign_share):
        if not spec.homogeneous or not spec.members[0].topics:
            continue
        made = assign_share(spec, assignable)
        free = [(t, n) for t in spec.members[0].topics for n in assignable[t]]
        sharing, wanted = wanted_counts(len(spec.members), len(free))
        held = [(t, n) for share in made.values() for t, ns in share.items() for n in ns]
        for partition in free:
            assert 1 <= held.count(partition) <= sharing
        for member, most in zip(spec.members, wanted, strict=True):
            assert sum(map(len, made[member.member_id].values())) <= most
