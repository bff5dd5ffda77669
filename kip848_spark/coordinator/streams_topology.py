"""What a streams topology (key 23) needs of the cluster's topics: whether it is ready, and how many
tasks each subtopology has (KIP-1071 "Topology"; docs/kafka-facts.md#topology-and-tasks).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kip848_spark.coordinator.records import Json
from kip848_spark.coordinator.topics import Topics


class ConfiguredTopology(NamedTuple):
    """A topology with the topics that exist."""

    ready: bool
    tasks: dict[str, int]
    """Subtopology id to its number of tasks, by id; empty unless the topology is ready."""
    stateful: frozenset[str]
    """Subtopologies with state stores."""
    resolved: bool = True
    """Whether the tasks can be told: all sources exist, and no topic has a wrong size."""


def required_topics(topology: Json) -> set[str]:
    """The names of the topics that a topology reads, or stores its state in."""
    names: set[str] = set()
    for row in topology["subtopologies"]:
        names.update(row["sourceTopics"])
        for field in ("repartitionSourceTopics", "stateChangelogTopics"):
            names.update(topic["name"] for topic in row[field])
    return names


def reading_subtopologies(topology: Json, topic: str) -> Iterator[str]:
    """The ids of the subtopologies that read a topic."""
    for row in topology["subtopologies"]:
        internal = (source["name"] for source in row["repartitionSourceTopics"])
        if topic in row["sourceTopics"] or topic in internal:
            yield row["subtopologyId"]


def configure(topology: Json, topics: Topics) -> ConfiguredTopology:
    """Look up the topics of a topology. It is ready if all exist, and the internal ones have as
    many partitions as they need.
    """
    rows = sorted(topology["subtopologies"], key=lambda row: str(row["subtopologyId"]))
    stateful = frozenset(row["subtopologyId"] for row in rows if row["stateChangelogTopics"])
    unresolved = ConfiguredTopology(False, {}, stateful, resolved=False)
    needed = required_topics(topology)
    found = {name: topics.named(name) for name in needed}
    sizes = {name: topic.partitions for name, topic in found.items() if topic is not None}
    wanted = _repartition_sizes(rows, sizes)
    if wanted is None or not _align(rows, sizes, wanted):
        return unresolved
    tasks: dict[str, int] = {}
    for row in rows:
        tasks[row["subtopologyId"]] = count = _largest_input(row, sizes | wanted) or 0
        wanted |= {topic["name"]: count for topic in row["stateChangelogTopics"]}
    if any(sizes.get(name, count) != count for name, count in wanted.items()):
        return unresolved
    if sizes.keys() != needed:
        return ConfiguredTopology(False, {}, stateful)
    return ConfiguredTopology(True, tasks, stateful)


def _inputs(row: Json) -> list[str]:
    return [*row["sourceTopics"], *(topic["name"] for topic in row["repartitionSourceTopics"])]


def _largest_input(row: Json, sizes: dict[str, int]) -> int | None:
    """The number of tasks of a subtopology; None while the size of an input is not known."""
    if any(name not in sizes for name in _inputs(row)):
        return None
    return max((sizes[name] for name in _inputs(row)), default=0)


def _repartition_sizes(rows: list[Json], sizes: dict[str, int]) -> dict[str, int] | None:
    """How many partitions each repartition topic needs: the number that the topology names, or the
    largest number of tasks of the subtopologies that write to it. None if a source is missing.
    """
    sources = [name for row in rows for name in row["sourceTopics"]]
    if any(name not in sizes for name in sources):
        return None
    repartition = {topic["name"]: topic for row in rows for topic in row["repartitionSourceTopics"]}
    decided = {name: int(topic["partitions"]) for name, topic in repartition.items()}
    decided = {name: count for name, count in decided.items() if count}
    known = {name: sizes[name] for name in sources}
    while open_ones := repartition.keys() - decided.keys():
        before = len(decided)
        for name in open_ones:
            writers = [row for row in rows if name in row["repartitionSinkTopics"]]
            counts = [_largest_input(row, known | decided) for row in writers]
            if counts and None not in counts:
                decided[name] = max(count for count in counts if count is not None)
        if len(decided) == before:
            return None
    return decided


def _align(rows: list[Json], sizes: dict[str, int], wanted: dict[str, int]) -> bool:
    """Give topics that are joined the same number of partitions, as far as the topology leaves it
    open; whether that is possible. Changes ``wanted``.
    """
    fixed = {
        topic["name"]
        for row in rows
        for topic in row["repartitionSourceTopics"]
        if topic["partitions"]
    }
    for row in rows:
        for group in row["copartitionGroups"]:
            sources = [row["sourceTopics"][index] for index in group["sourceTopics"]]
            internal = [
                row["repartitionSourceTopics"][index]["name"]
                for index in group["repartitionSourceTopics"]
            ]
            given = {sizes[name] for name in sources}
            given |= {wanted[name] for name in internal if name in fixed}
            if len(given) > 1:
                return False
            count = max(given or {wanted[name] for name in internal}, default=0)
            wanted |= dict.fromkeys(internal, count)
    return True
