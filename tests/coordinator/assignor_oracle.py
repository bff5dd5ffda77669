"""Targets computed by Kafka's own assignor classes, many at a time (``java/Assign.java``)."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from kip848_spark.coordinator.assignors.model import AssignmentSpec, MemberSpec
from kip848_spark.coordinator.config import BrokerConfig
from kip848_spark.coordinator.javahash import int_order, uuid_order
from kip848_spark.coordinator.releases import find_release
from kip848_spark.coordinator.shard import Shard
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java

_SOURCE = Path(__file__).parent / "java" / "Assign.java"


def kafka_targets(
    version: str, specs: list[tuple[str, AssignmentSpec]]
) -> list[dict[str, dict[str, list[int]]]]:
    """The targets that a release's own classes compute for each (assignor, group)."""
    jars = os.pathsep.join(str(jar) for jar in broker_jars(version))
    done = subprocess.run(
        [str(find_java()), "-Xmx512m", "-cp", jars, str(_SOURCE)],
        input="".join(_line(name, spec) + "\n" for name, spec in specs),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [_parse(line) for line in done.stdout.splitlines()]


def _line(name: str, spec: AssignmentSpec) -> str:
    rows = [
        f"{name} {'HOMOGENEOUS' if spec.homogeneous else 'HETEROGENEOUS'}",
        ",".join(f"{topic}={count}" for topic, count in spec.partitions.items()),
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


__all__ = ["int_order", "kafka_targets", "random_group"]
