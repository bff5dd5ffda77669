"""Targets of streams groups computed by Kafka's own assignor (``java/AssignTasks.java``)."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from kip848_spark.coordinator.assignors.sticky import StickyMember, StickySpec
from kip848_spark.coordinator.javahash import string_order
from kip848_spark.coordinator.streams_group import Tasks, TaskSet
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java

_SOURCE = Path(__file__).parent / "java" / "AssignTasks.java"


def kafka_tasks(version: str, specs: list[StickySpec]) -> list[dict[str, Tasks]]:
    """The targets that a release's own class computes for each group."""
    jars = os.pathsep.join(str(jar) for jar in broker_jars(version))
    done = subprocess.run(
        [str(find_java()), "-Xmx512m", "-cp", jars, str(_SOURCE)],
        input="".join(_line(spec) + "\n" for spec in specs),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [_parse(line) for line in done.stdout.splitlines() if "=" in line]


def _line(spec: StickySpec) -> str:
    counts = (f"{n}={count}={int(n in spec.stateful)}" for n, count in spec.subtopologies.items())
    rows = [str(spec.standbys), ",".join(counts)]
    for member in spec.members:
        held = ";".join(map(_text, (member.target.active, member.target.standby)))
        rows.append(f"{member.member_id};{member.process_id};{held}")
    return "|".join(rows)


def _text(tasks: TaskSet) -> str:
    numbers: dict[str, list[str]] = {}
    for name, number in sorted(tasks):
        numbers.setdefault(name, []).append(str(number))
    return ",".join(f"{name}:{'.'.join(found)}" for name, found in numbers.items())


def _parse(line: str) -> dict[str, Tasks]:
    out = {}
    for row in line.split("|"):
        if row:
            member, _, roles = row.partition("=")
            out[member] = Tasks(*map(_tasks, roles.split("/")))
    return out


def _tasks(text: str) -> TaskSet:
    found = set()
    for row in text.split(","):
        if row:
            name, _, numbers = row.partition(":")
            found |= {(name, int(number)) for number in numbers.split(".") if number}
    return frozenset(found)


def random_application(seed: int) -> StickySpec:
    """A random group with an old target, some of it from members that have left."""
    rng = random.Random(seed)
    names = [f"{n}" for n in range(rng.randint(1, 3))]
    counts = {name: rng.choice((1, 2, 3, 4, 6, 9)) for name in names}
    stateful = frozenset(name for name in names if rng.random() < 0.7)
    ids = string_order(f"m{rng.randint(0, 999)}-{n}" for n in range(rng.randint(1, 7)))
    processes = [f"process-{n}" for n in range(rng.randint(1, 4))]
    active: dict[str, set[tuple[str, int]]] = {member: set() for member in ids}
    standby: dict[str, set[tuple[str, int]]] = {member: set() for member in ids}
    for name, count in counts.items():
        for number in range(count + rng.randint(-1, 1)):
            if rng.random() < 0.8:
                active[rng.choice(ids)].add((name, number))
            for _ in range(rng.randint(0, 2)):
                if name in stateful and rng.random() < 0.8:
                    standby[rng.choice(ids)].add((name, number))
    members = [
        StickyMember(
            member,
            rng.choice(processes),
            Tasks(frozenset(active[member]), frozenset(standby[member] - active[member])),
        )
        for member in ids
    ]
    return StickySpec(members, counts, stateful, rng.choice((0, 0, 1, 1, 2)))
