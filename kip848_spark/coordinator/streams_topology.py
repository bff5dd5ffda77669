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
    missing = ConfiguredTopology(False, {}, stateful)
    sizes: dict[str, int] = {}
    for name in required_topics(topology):
        topic = topics.named(name)
        if topic is None:
            return missing
        sizes[name] = topic.partitions
    tasks: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for row in rows:
        inputs = [*row["sourceTopics"], *(t["name"] for t in row["repartitionSourceTopics"])]
        tasks[row["subtopologyId"]] = max((sizes[name] for name in inputs), default=0)
    for row in rows:
        count = tasks[row["subtopologyId"]]
        wanted |= {topic["name"]: count for topic in row["stateChangelogTopics"]}
        for name in row["repartitionSinkTopics"]:
            wanted[name] = max(wanted.get(name, 0), count)
    for row in rows:
        for topic in row["repartitionSourceTopics"]:
            if topic["partitions"]:
                wanted[topic["name"]] = topic["partitions"]
    if any(sizes.get(name, count) != count for name, count in wanted.items()):
        return missing
    return ConfiguredTopology(True, tasks, stateful)
