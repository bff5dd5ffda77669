"""The assignor of streams groups against Kafka's own class, and properties of its targets."""

from __future__ import annotations

import math

import pytest

from kip848_spark.coordinator.assignors.sticky import StickyRules, assign
from tests.coordinator.task_oracle import kafka_tasks, random_application

GROUPS = 3_000
RULES = {
    "4.2.0": StickyRules(skips_own_process=False),
    "4.2.2": StickyRules(),
    "4.3.1": StickyRules(skips_own_process=False),
    "4.4.0": StickyRules(computes_processes=True),
}


def _differences(version: str, seeds: range) -> list[int]:
    specs = [random_application(seed) for seed in seeds]
    found = kafka_tasks(version, specs)
    assert len(found) == len(specs)
    pairs = zip(seeds, specs, found, strict=True)
    return [seed for seed, spec, kafka in pairs if assign(spec, RULES[version]) != kafka]


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_targets_equal_those_of_kafka(version: str) -> None:
    assert _differences(version, range(GROUPS)) == []


@pytest.mark.long
@pytest.mark.parametrize("version", RULES)
def test_targets_of_thousands_of_groups(version: str) -> None:
    assert _differences(version, range(10_000, 10_000 + 5 * GROUPS)) == []


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_every_task_has_one_owner_and_its_standby_tasks(rules: StickyRules) -> None:
    for seed in range(400):
        spec = random_application(seed)
        targets = assign(spec, rules)
        process = {member.member_id: member.process_id for member in spec.members}
        processes = len(set(process.values()))
        tasks = {(name, n) for name, count in spec.subtopologies.items() for n in range(count)}
        active = sorted(task for target in targets.values() for task in target.active)
        assert active == sorted(tasks)
        copies = sorted(task for target in targets.values() for task in target.standby)
        replicas = min(spec.standbys, processes - 1)
        assert copies == sorted(
            task for task in tasks if task[0] in spec.stateful for _ in range(replicas)
        )
        held = [(process[m], task) for m, t in targets.items() for task in t.active | t.standby]
        assert len(held) == len(set(held))
        quota = math.ceil(len(tasks) / len(spec.members))
        assert max(len(target.active) for target in targets.values()) <= quota


EARLY = ("4.1.0", "4.1.2")


@pytest.mark.parametrize(
    ("version", "groups"),
    [("4.1.2", GROUPS), *(pytest.param(v, 7 * GROUPS, marks=pytest.mark.long) for v in EARLY)],
)
def test_what_the_audit_expects_of_targets_of_4_1(version: str, groups: int) -> None:
    """In 4.1, ties depend on addresses in memory, so a target can't be predicted. Kafka's own class
    shows what is common to all of them."""
    specs = [random_application(seed) for seed in range(groups)]
    kept = 0
    for spec, targets in zip(specs, kafka_tasks(version, specs), strict=True):
        process = {member.member_id: member.process_id for member in spec.members}
        tasks = {(name, n) for name, count in spec.subtopologies.items() for n in range(count)}
        assert sorted(t for target in targets.values() for t in target.active) == sorted(tasks)
        replicas = min(spec.standbys, len(set(process.values())) - 1)
        copies = [task for task in sorted(tasks) if task[0] in spec.stateful]
        assert sorted(t for target in targets.values() for t in target.standby) == sorted(
            copies * replicas
        )
        held = [(process[m], task) for m, t in targets.items() for task in t.active | t.standby]
        assert len(held) == len(set(held))
        sizes = [len(target.active) for target in targets.values()]
        assert max(sizes) <= math.ceil(len(tasks) / len(sizes))
        before = {member.member_id: member.target.active for member in spec.members}
        if not any(member.target.active | member.target.standby for member in spec.members):
            assert max(sizes) - min(sizes) <= 1
        for member_id, old in before.items():
            others = {task for m, own in before.items() if m != member_id for task in own}
            own = old & tasks
            if own and not own & others and len(own) <= len(tasks) // len(sizes):
                assert own <= targets[member_id].active
                kept += 1
    assert kept > groups / 10
