"""Server-side assignors that users plug in (KIP-848 "Broker API", ``PartitionAssignor``).

An assignor is a Python class with a ``name`` and a method ``assign``, see `PartitionAssignor`. It
is named ``module:Class`` wherever a list of assignors is given, beside ``uniform`` and ``range``.

As on a broker, the result is not checked (docs/kafka-facts.md#custom-assignors): a member without
an assignment gets no partitions, other members are ignored, and partitions may be left out or
assigned twice.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from kip848_spark.coordinator.assignors.model import AssignmentSpec, Assignor, GroupAssignment
from kip848_spark.coordinator.assignors.range import assign_range
from kip848_spark.coordinator.assignors.uniform import assign_uniform
from kip848_spark.errors import UsageError

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""Kafka's own assignors, by name."""
BUILTIN_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
_HINT = "Write --assignors module:Class; docs/coordinator.md#custom-assignors describes the class."


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of the group, as an assignor sees it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    subscribed_topic_ids: tuple[str, ...]
    """Ids, in Kafka's base64 form, of the topics that it subscribes to and that exist."""
    target_partitions: Mapping[str, tuple[int, ...]]
    """Topic id -> partitions of its last target."""


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic that at least one member subscribes to."""

    topic_id: str
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...]
    """The racks of the replicas of each partition, as far as they are known."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The group for which a target is computed."""

    members: Mapping[str, GroupMember]
    """By member id, in the order in which a broker's hash table has them."""
    topics: Mapping[str, TopicMetadata]
    """By topic id."""
    homogeneous: bool
    """Whether all members count as subscribed to the same topics."""


@runtime_checkable
class PartitionAssignor(Protocol):
    """An assignor. It is created without arguments, once a process, and must be deterministic: the
    audit computes each recorded target again."""

    @property
    def name(self) -> str:
        """What members ask for (the field ServerAssignor)."""

    def assign(self, group: GroupSpec) -> Mapping[str, Mapping[str, Iterable[int]]]:
        """The new target: member id -> topic id -> partitions."""


@dataclass(frozen=True, slots=True)
class CustomAssignor:
    """Calls an assignor that a user plugged in, as one of Kafka's own is called."""

    reference: str
    """``module:Class``."""
    assignor: PartitionAssignor

    def __call__(self, spec: AssignmentSpec) -> GroupAssignment:
        """The target. Raises UsageError if the user's code fails or returns something else."""
        try:
            found = self.assignor.assign(_group(spec))
            members = {member.member_id for member in spec.members}
            return {
                member: {
                    topic: [int(number) for number in numbers] for topic, numbers in share.items()
                }
                for member, share in found.items()
                if member in members
            }
        except Exception as cause:
            raise UsageError(
                f"The assignor {self.reference} failed: {type(cause).__name__}: {cause}.",
                "assign() returns a mapping: member id, topic id, partitions.",
            ) from cause


def _group(spec: AssignmentSpec) -> GroupSpec:
    return GroupSpec(
        {
            member.member_id: GroupMember(
                member.member_id,
                member.instance_id,
                member.rack_id,
                tuple(member.topics),
                {topic: tuple(numbers) for topic, numbers in member.target.items()},
            )
            for member in spec.members
        },
        {
            topic_id: TopicMetadata(
                topic_id, spec.topics[topic_id].name, count, spec.topics[topic_id].racks
            )
            for topic_id, count in spec.partitions.items()
        },
        spec.homogeneous,
    )


def find_assignors(listed: Iterable[str]) -> dict[str, Assignor | None]:
    """The assignors of a list as in ``group.consumer.assignors``, by name, in its order: Kafka's
    own by name or by Java class, Python classes as ``module:Class``. What is neither has the value
    None: only its name is known. Raises UsageError.
    """
    found: dict[str, Assignor | None] = {}
    for text in (item.strip() for item in listed):
        if not text:
            continue
        name = BUILTIN_CLASSES.get(text, text)
        assignor = ASSIGNORS.get(name)
        if ":" in text:
            custom = load_assignor(text)
            name, assignor = custom.assignor.name, custom
            if name in ASSIGNORS:
                raise UsageError(
                    f"The assignor {text} is called {name!r}, as one of Kafka's own.",
                    "Give it another name.",
                )
        if name in found:
            raise UsageError(f"Two assignors are called {name!r}.", "Name each of them once.")
        found[name] = assignor
    if not found:
        raise UsageError("no assignor is named", "Write them as in --assignors uniform,range.")
    return found


def load_assignor(reference: str) -> CustomAssignor:
    """The assignor ``module:Class``. The module may also be in the current folder. Raises
    UsageError.
    """
    module_name, _, class_name = reference.partition(":")
    try:
        with _current_folder():
            found = getattr(importlib.import_module(module_name), class_name)
    except Exception as cause:
        raise UsageError(
            f"The assignor {reference} can't be loaded: {type(cause).__name__}: {cause}.", _HINT
        ) from cause
    try:
        assignor = found()
    except Exception as cause:
        raise UsageError(
            f"The assignor {reference} can't be created without arguments: {cause}.", _HINT
        ) from cause
    name = getattr(assignor, "name", None)
    if not isinstance(name, str) or not name or not callable(getattr(assignor, "assign", None)):
        raise UsageError(
            f"{reference} is not an assignor: it needs a text `name` and a method `assign`.", _HINT
        )
    return CustomAssignor(reference, assignor)


@contextmanager
def _current_folder() -> Iterator[None]:
    """Modules of the current folder can be imported, after all others."""
    folder = str(Path.cwd())
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
