"""Targets computed by Kafka's own assignor classes, many at a time (``java/Assign.java``)."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from kip848_spark.coordinator.assignors.model import AssignmentSpec, MemberSpec
from kip848_spark.coordinator.assignors.share import ShareAssignor
from kip848_spark.coordinator.config import BrokerConfig
from kip848_spark.coordinator.faults import GroupError
from kip848_spark.coordinator.javahash import int_order, string_order, uuid_order
from kip848_spark.coordinator.releases import find_release
from kip848_spark.coordinator.shard import Shard
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java

_SOURCE = Path(__file__).parent / "java" / "Assign.java"


def kafka_targets(
    version: str, specs: list[tuple[str, AssignmentSpec]]
) -> list[dict[str, dict[str, list[int]]]]:
    """The targets that a release's own classes compute for each (assignor, group)."""
    return [_parse(line) for line in _answers(version, [_line(name, spec) for name, spec in specs])]


def kafka_share_targets(
    version: str, specs: list[tuple[AssignmentSpec, dict[str, list[int]]]]
) -> list[dict[str, dict[str, list[int]]] | None]:
    """The same of share groups, with the partitions that may be assigned; None if it fails."""
    lines = [_line("simple", spec, assignable) for spec, assignable in specs]
    return [None if line == "failed" else _parse(line) for line in _answers(version, lines)]


def _answers(version: str, lines: list[str]) -> list[str]:
    jars = os.pathsep.join(str(jar) for jar in broker_jars(version))
    done = subprocess.run(
        [str(find_java()), "-Xmx512m", "-cp", jars, str(_SOURCE)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def _line(name: str, spec: AssignmentSpec, assignable: dict[str, list[int]] | None = None) -> str:
    def size(topic: str, count: int) -> str:
        allowed = None if assignable is None else assignable.get(topic, [])
        return f"{count}" if allowed is None else f"{count}/{'.'.join(map(str, allowed))}"

    rows = [
        f"{name} {'HOMOGENEOUS' if spec.homogeneous else 'HETEROGENEOUS'}",
        ",".join(f"{topic}={size(topic, count)}" for topic, count in spec.partitions.items()),
    ]
    for member in spec.members:
        target = ",".join(
            f"{topic}:{'.'.join(map(str, numbers))}" for topic, numbers in member.target.items()
        )
        topics = ",".join(member.topics)
        rows.append(f"{member.member_id};{member.instance_id or ''};{topics};{target}")
    return "|".join(rows)


def _parse(line: str) -> dict[str, dict[str, list[int]]]:
    out: dict[str, dict[str, list[int]]] = {}
    for row in line.split("|"):
        if not row:
            continue
        member, _, share = row.partition("=")
        out[member] = {}
        for topic in share.split(","):
            if topic:
                name, _, numbers = topic.partition(":")
                out[member][name] = [int(n) for n in numbers.split(".") if n]
    return out


def random_group(seed: int) -> tuple[str, AssignmentSpec]:
    """A random group with an old target and some changes since."""
    rng = random.Random(seed)
    shard = Shard(find_release("4.3"), BrokerConfig(find_release("4.3")), seed)
    topics = [shard.new_uuid() for _ in range(rng.randint(1, 5))]
    partitions = {topic: rng.choice((1, 2, 3, 5, 8, 20)) for topic in topics}
    same = rng.random() < 0.5
    names = [f"m{seed}-{i}" for i in range(rng.randint(1, 7))]
    wanted = {
        name: topics if same else rng.sample(topics, rng.randint(0, len(topics))) for name in names
    }
    owned: dict[str, dict[str, dict[int, None]]] = {name: {} for name in names}
    for topic in topics:
        for number in range(partitions[topic]):
            if rng.random() < 0.75:
                owner = rng.choice(names)
                owned[owner].setdefault(topic, {})[number] = None
    members = tuple(
        MemberSpec(
            name,
            f"i{rng.randint(0, 99)}-{name}" if rng.random() < 0.3 else None,
            dict.fromkeys(wanted[name]),
            {topic: owned[name][topic] for topic in uuid_order(owned[name])},
        )
        for name in names
    )
    used = {topic for member in members for topic in member.topics}
    homogeneous = all(set(member.topics) == used for member in members)
    spec = AssignmentSpec(
        members, {topic: partitions[topic] for topic in topics if topic in used}, homogeneous
    )
    return rng.choice(("uniform", "uniform", "range")), spec


def random_share_group(
    seed: int, assign: ShareAssignor
) -> list[tuple[AssignmentSpec, dict[str, list[int]]]]:
    """The computations of one share group: first with random targets, of which a partition may be
    in several, then with those that ``assign`` gave, after members and topics changed.
    """
    rng = random.Random(seed)
    shard = Shard(find_release("4.3"), BrokerConfig(find_release("4.3")), seed)
    topics = {shard.new_uuid(): rng.choice((1, 2, 3, 5, 8, 20)) for _ in range(rng.randint(1, 4))}
    names = [f"m{seed}-{i}" for i in range(rng.choice((1, 2, 3, 4, 7, 15)))]
    same = rng.random() < 0.5
    targets: dict[str, dict[str, dict[int, None]]] = {name: {} for name in names}
    if rng.random() < 0.5:
        for topic, count in topics.items():
            for number in range(count):
                for name in rng.sample(names, min(len(names), rng.choice((0, 1, 1, 2, 3)))):
                    targets[name].setdefault(topic, {})[number] = None
    out = []
    for step in range(3):
        ids = list(topics)
        wanted = {
            name: ids if same else rng.sample(ids, rng.randint(0, len(ids))) for name in names
        }
        order = string_order(names)
        members = tuple(
            MemberSpec(
                name,
                None,
                dict.fromkeys(wanted[name]),
                {topic: targets[name][topic] for topic in uuid_order(targets.get(name, {}))},
            )
            for name in order
        )
        used = {topic for member in members for topic in member.topics}
        homogeneous = all(set(member.topics) == used for member in members)
        # Partitions that have been in a target stay assignable.
        held = {(t, n) for target in targets.values() for t, ns in target.items() for n in ns}
        assignable = {
            topic: [n for n in range(count) if rng.random() < 0.9 or (topic, n) in held]
            for topic, count in topics.items()
            if topic in used
        }
        spec = AssignmentSpec(members, {t: topics[t] for t in topics if t in used}, homogeneous)
        out.append((spec, assignable))
        try:
            made = assign(spec, assignable)
        except GroupError:
            break
        targets = {
            name: {topic: dict.fromkeys(numbers) for topic, numbers in made.get(name, {}).items()}
            for name in names
        }
        what = rng.random()
        if what < 0.4:
            names = [*names, f"n{seed}-{step}"]
        elif what < 0.7 and len(names) > 1:
            names = names[1:]
        else:
            topics = {t: count + rng.choice((0, 1, 3)) for t, count in topics.items()}
        targets = {name: targets.get(name, {}) for name in names}
        same = rng.random() < 0.7
    return out


__all__ = [
    "int_order",
    "kafka_share_targets",
    "kafka_targets",
    "random_group",
    "random_share_group",
]
