"""The assignors against Kafka's own classes, and properties of their targets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kip848_spark.coordinator.assignors import ASSIGNORS
from kip848_spark.coordinator.releases import find_release
from tests.coordinator.assignor_oracle import kafka_targets, random_group

GROUPS = 3_000


VERSIONS = ["4.4.0", "4.3.1", "4.0.2", "4.0.0"]


@pytest.mark.parametrize("version", VERSIONS)
def test_targets_equal_those_of_kafka(version: str) -> None:
    """For the same order of members, targets are equal, including the order of their lists."""
    gives_back = find_release(version).uniform_gives_back
    specs = [
        (name, replace(spec, gives_back=gives_back))
        for name, spec in map(random_group, range(GROUPS))
    ]
    wrong = []
    for (name, spec), kafka in zip(specs, kafka_targets(version, specs), strict=True):
        ours = ASSIGNORS[name](spec)
        if [(m, list(ours[m].items())) for m in ours] != [
            (m, list(kafka[m].items())) for m in kafka
        ]:
            wrong.append((name, spec.homogeneous, ours, kafka))
    assert not wrong, f"{len(wrong)} of {GROUPS}, the first: {wrong[0]}"


@pytest.mark.parametrize("version", ["4.3.1", "4.0.2"])
def test_heterogeneous_group_that_counts_as_homogeneous(version: str) -> None:
    """As after a member without topics joined, which bumps no epoch: observed on 4.2.0."""
    groups = (random_group(seed) for seed in range(GROUPS // 2))
    specs = [(name, replace(spec, homogeneous=True)) for name, spec in groups]
    for (name, spec), kafka in zip(specs, kafka_targets(version, specs), strict=True):
        ours = ASSIGNORS[name](spec)
        assert [(m, list(ours[m].items())) for m in ours] == [
            (m, list(kafka[m].items())) for m in kafka
        ]


@pytest.mark.parametrize("seed", range(300))
def test_targets_are_complete_disjoint_and_balanced(seed: int) -> None:
    name, spec = random_group(seed)
    target = ASSIGNORS[name](spec)
    owners: dict[tuple[str, int], str] = {}
    for member in spec.members:
        for topic, numbers in target[member.member_id].items():
            assert topic in member.topics
            for number in numbers:
                assert (topic, number) not in owners
                owners[topic, number] = member.member_id
    assert set(owners) == {(t, n) for t, count in spec.partitions.items() for n in range(count)}
    loads = {m: sum(map(len, share.values())) for m, share in target.items()}
    if name == "uniform" and spec.homogeneous:
        assert max(loads.values()) - min(loads.values()) <= 1
