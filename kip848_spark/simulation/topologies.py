"""The topologies of simulated streams applications, and the topics that they need.

An application without state reads a topic of the cluster, which may grow or disappear. The others
have a source topic of their own: an application with state ends when its source topic grows, since
its changelog does not grow with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kip848_spark.coordinator.records import Json

KINDS = ("stateless", "stateful", "repartition")


def sources(kind: str, group_id: str) -> Iterator[str]:
    """The source topics of its own that an application has."""
    if kind != "stateless":
        yield f"{group_id}.events"


def own_topics(kind: str, group_id: str, partitions: int) -> Iterator[tuple[str, int]]:
    """The topics that only this application uses, and their partitions."""
    for name in sources(kind, group_id):
        yield name, partitions
    if kind == "repartition":
        yield _repartition(group_id), partitions
    if kind != "stateless":
        yield _changelog(group_id), partitions


def subtopologies(kind: str, group_id: str, topics: tuple[str, ...]) -> list[Json]:
    """The topology that members send when they join. ``topics`` are the source topics."""
    stores = [] if kind == "stateless" else [_internal_topic(_changelog(group_id))]
    if kind != "repartition":
        return [_subtopology("0", sourceTopics=list(topics), stateChangelogTopics=stores)]
    name = _repartition(group_id)
    return [
        _subtopology("0", sourceTopics=list(topics), repartitionSinkTopics=[name]),
        _subtopology(
            "1", repartitionSourceTopics=[_internal_topic(name)], stateChangelogTopics=stores
        ),
    ]


def topics_of(subtopology: Json) -> list[str]:
    """The topics that a subtopology reads."""
    names: list[str] = [*subtopology["sourceTopics"]]
    return names + [topic["name"] for topic in subtopology["repartitionSourceTopics"]]


def _changelog(group_id: str) -> str:
    return f"{group_id}-counts-changelog"


def _repartition(group_id: str) -> str:
    return f"{group_id}-by-key-repartition"


def _internal_topic(name: str) -> Json:
    return {"name": name, "partitions": 0, "replicationFactor": 0, "topicConfigs": []}


def _subtopology(name: str, **fields: object) -> Json:
    return {
        "subtopologyId": name,
        "sourceTopics": [],
        "sourceTopicRegex": [],
        "stateChangelogTopics": [],
        "repartitionSinkTopics": [],
        "repartitionSourceTopics": [],
        "copartitionGroups": [],
    } | fields
