"""Topics and topologies of streams groups: what makes tasks, and what changes them."""

from __future__ import annotations

from collections.abc import Callable

from tests.coordinator.conversation import Conversation, Json
from tests.coordinator.conversations.registry import scripted
from tests.coordinator.conversations.streams_phases import (
    Members,
    PhaseFunction,
    alone,
    at_rest,
    behind,
    delayed,
    finish,
    join,
    left,
    needed_topic,
    rest,
    revoking,
    stateful,
    threads,
    waiting,
    with_standby_tasks,
    with_standby_tasks_that_move,
    without_its_changelog,
    without_its_source,
)
from tests.streams_conversations import DELAY, STANDBYS, configure, subtopology

ChangeFunction = Callable[[Conversation], None]

# Changes of topics


def with_endpoints(conversation: Conversation) -> Members:
    """Members that other members can query."""
    group = threads(conversation, "p1", "p2")
    for port, member in enumerate(group):
        member.join(userEndpoint={"host": "here", "port": port})
    rest(*group)
    return group


def foo_grows(conversation: Conversation) -> None:
    conversation.topic("foo", 6)


def foo_is_deleted(conversation: Conversation) -> None:
    conversation.delete_topic("foo")


def foo_is_recreated(conversation: Conversation) -> None:
    """With fewer partitions."""
    conversation.delete_topic("foo")
    conversation.topic("foo", 2)


def missing_appears(conversation: Conversation) -> None:
    conversation.topic("missing", 3)


def bar_grows(conversation: Conversation) -> None:
    """Which nobody reads."""
    conversation.topic("bar", 3)


@scripted(
    "streams",
    phase=[
        without_its_source,
        delayed,
        alone,
        behind,
        revoking,
        waiting,
        at_rest,
        with_standby_tasks,
        with_endpoints,
        left,
    ],
    change=[foo_grows, foo_is_deleted, foo_is_recreated, missing_appears, bar_grows],
)
def streams_sources(
    conversation: Conversation, phase: PhaseFunction, change: ChangeFunction
) -> None:
    """A source changes; members notice one after the other, or join again."""
    conversation.topic("foo", 4)
    conversation.topic("bar", 2)
    _change(conversation, phase, change)


def with_a_small_changelog(conversation: Conversation) -> Members:
    conversation.topic("store", 3)
    return join(stateful(conversation, "p1", "p2"))


def with_a_changelog(conversation: Conversation) -> Members:
    conversation.topic("store", 4)
    return with_standby_tasks(conversation)


def with_a_changelog_and_without_a_member(conversation: Conversation) -> Members:
    conversation.topic("store", 4)
    return with_standby_tasks_that_move(conversation)


def changelog_appears(conversation: Conversation) -> None:
    """Or grows to the number of tasks, or is recreated."""
    name = conversation.topics.get("store")
    if name and conversation.comparison.topic_ids.get(name) and _grown(conversation) == 4:
        conversation.delete_topic("store")
    conversation.topic("store", 4)


def _grown(conversation: Conversation) -> int:
    topic = conversation.comparison.reference.shard.topics.named(conversation.topics["store"])
    return 0 if topic is None else topic.partitions


def changelog_gets_too_large(conversation: Conversation) -> None:
    conversation.topic("store", 5)


def changelog_is_deleted(conversation: Conversation) -> None:
    if "store" in conversation.topics:
        conversation.delete_topic("store")


def source_and_changelog_grow(conversation: Conversation) -> None:
    conversation.topic("foo", 6)
    conversation.topic("store", 6)


@scripted(
    "streams",
    phase=[
        without_its_changelog,
        with_a_small_changelog,
        with_a_changelog,
        with_a_changelog_and_without_a_member,
    ],
    change=[
        foo_grows,
        changelog_appears,
        changelog_gets_too_large,
        changelog_is_deleted,
        source_and_changelog_grow,
    ],
)
def streams_changelogs(
    conversation: Conversation, phase: PhaseFunction, change: ChangeFunction
) -> None:
    """A changelog appears, goes, or has the wrong size."""
    conversation.topic("foo", 4)
    _change(conversation, phase, change)


def _change(conversation: Conversation, phase: PhaseFunction, change: ChangeFunction) -> None:
    group = phase(conversation)
    change(conversation)
    me, other = group[:2]
    if me.epoch > 0:
        me.heartbeat()
        me.acknowledge()
    other.join()
    finish(conversation, group)


# Topologies

TopologyFunction = Callable[[Conversation], list[Json]]


def _names(conversation: Conversation, *topics: str) -> list[str]:
    return [conversation.topic_name(name) for name in topics]


def _internal(conversation: Conversation, name: str, size: int, wanted: int = 0) -> Json:
    conversation.shared_topic(name, size)
    return needed_topic(conversation.topic_name(name), wanted)


def reads_two_topics(conversation: Conversation) -> list[Json]:
    """In one subtopology: the larger one decides."""
    return [subtopology("0", sourceTopics=_names(conversation, "foo", "bar"))]


def has_two_parts(conversation: Conversation) -> list[Json]:
    """One with a store; their names are not in order."""
    store = _internal(conversation, "store", 4)
    return [
        subtopology("b", sourceTopics=_names(conversation, "foo"), stateChangelogTopics=[store]),
        subtopology("a", sourceTopics=_names(conversation, "bar")),
    ]


def has_two_parts_of_one_topic(conversation: Conversation) -> list[Json]:
    return [
        subtopology(name, sourceTopics=_names(conversation, "foo"), stateChangelogTopics=[store])
        for name, store in (
            ("0", _internal(conversation, "store", 4)),
            ("1", _internal(conversation, "other-store", 4)),
        )
    ]


def _by_key(conversation: Conversation, size: int, wanted: int) -> list[Json]:
    repartition = _internal(conversation, "by-key", size, wanted)
    store = _internal(conversation, "store", size)
    return [
        subtopology(
            "0",
            sourceTopics=_names(conversation, "foo"),
            repartitionSinkTopics=[repartition["name"]],
        ),
        subtopology("1", repartitionSourceTopics=[repartition], stateChangelogTopics=[store]),
    ]


def repartitions(conversation: Conversation) -> list[Json]:
    """Into as many partitions as the source has."""
    return _by_key(conversation, 4, 0)


def repartitions_into_three(conversation: Conversation) -> list[Json]:
    return _by_key(conversation, 3, 3)


def repartitions_into_the_wrong_number(conversation: Conversation) -> list[Json]:
    return _by_key(conversation, 3, 5)


def is_in_no_order(conversation: Conversation) -> list[Json]:
    """Names of topics, of stores and of parts."""
    conversation.shared_topic("more", 4)
    sinks = [_internal(conversation, name, 4) for name in ("w", "z", "y", "x")]
    stores = [_internal(conversation, name, 4) for name in ("d", "a", "c")]
    return [
        subtopology("9", repartitionSourceTopics=sinks, stateChangelogTopics=stores),
        subtopology(
            "10",
            sourceTopics=_names(conversation, "more", "bar", "foo"),
            repartitionSinkTopics=[sink["name"] for sink in sinks],
        ),
    ]


def is_in_no_order_and_lacks_a_topic(conversation: Conversation) -> list[Json]:
    rows = is_in_no_order(conversation)
    rows[1]["sourceTopics"].insert(1, conversation.topic_name("missing"))
    return rows


def joins_topics_of_one_size(conversation: Conversation) -> list[Json]:
    conversation.shared_topic("more", 4)
    return [_joined(conversation, "foo", "more")]


def joins_topics_of_different_sizes(conversation: Conversation) -> list[Json]:
    return [_joined(conversation, "foo", "bar")]


def _joined(conversation: Conversation, *topics: str) -> Json:
    together = {"sourceTopics": [0, 1], "sourceTopicRegex": [], "repartitionSourceTopics": []}
    names = sorted(_names(conversation, *topics))
    return subtopology("0", sourceTopics=names, copartitionGroups=[together])


def joins_a_topic_with_a_repartitioned_one(conversation: Conversation) -> list[Json]:
    """The repartition topic is to have as many partitions as the topic that it is joined with."""
    repartition = _internal(conversation, "by-key", 4)
    together = {"sourceTopics": [0], "sourceTopicRegex": [], "repartitionSourceTopics": [0]}
    return [
        subtopology(
            "0",
            sourceTopics=_names(conversation, "bar"),
            repartitionSinkTopics=[repartition["name"]],
        ),
        subtopology(
            "1",
            sourceTopics=_names(conversation, "foo"),
            repartitionSourceTopics=[repartition],
            copartitionGroups=[together],
        ),
    ]


def joins_repartitioned_topics(conversation: Conversation) -> list[Json]:
    """All of them have as many partitions as the largest one needs."""
    first = _internal(conversation, "by-key", 4)
    second = _internal(conversation, "by-value", 4)
    together = {"sourceTopics": [], "sourceTopicRegex": [], "repartitionSourceTopics": [0, 1]}
    return [
        *(
            subtopology(
                topic,
                sourceTopics=_names(conversation, topic),
                repartitionSinkTopics=[repartition["name"]],
            )
            for topic, repartition in (("foo", first), ("bar", second))
        ),
        subtopology("j", repartitionSourceTopics=[first, second], copartitionGroups=[together]),
    ]


def joins_a_topic_with_a_fixed_number(conversation: Conversation) -> list[Json]:
    """Which is not that of the topic."""
    rows = joins_a_topic_with_a_repartitioned_one(conversation)
    for topic in rows[1]["repartitionSourceTopics"]:
        topic["partitions"] = 2
    return rows


TOPOLOGIES: list[TopologyFunction] = [
    reads_two_topics,
    has_two_parts,
    has_two_parts_of_one_topic,
    repartitions,
    repartitions_into_three,
    repartitions_into_the_wrong_number,
    is_in_no_order,
    is_in_no_order_and_lacks_a_topic,
    joins_topics_of_one_size,
    joins_topics_of_different_sizes,
    joins_a_topic_with_a_repartitioned_one,
    joins_a_topic_with_a_fixed_number,
    joins_repartitioned_topics,
]


@scripted(
    "streams",
    topology=TOPOLOGIES,
    processes=["p1", "p1 p1", "p1 p2", "p1 p2 p1 p3"],
    standbys=[0, 2],
)
def streams_topologies(
    conversation: Conversation, topology: TopologyFunction, processes: str, standbys: int
) -> None:
    """The first member leaves and returns with the same parts in another order."""
    group = threads(conversation, *processes.split())
    rows = topology(conversation)
    for member in group:
        member.topology = rows
    if standbys:
        configure(conversation, {STANDBYS: str(standbys), DELAY: "0"})
    join(group)
    rest(*group)
    group[0].leave()
    rest(*group)
    group[0].topology = rows[::-1]
    group[0].join()
    finish(conversation, group)


@scripted(
    "streams",
    part=[
        "subtopologies",
        "sourceTopics",
        "stateChangelogTopics",
        "repartitionSinkTopics",
        "repartitionSourceTopics",
    ],
)
def a_topology_in_another_order(conversation: Conversation, part: str) -> None:
    """A second member sends the same topology with some lists in another order."""
    me, other = threads(conversation, "p1", "p2")
    me.topology = is_in_no_order(conversation)
    rows = me.topology
    other.topology = [{**row, part: row[part][::-1]} for row in rows if part in row] or rows[::-1]
    me.join()
    other.join()
    finish(conversation, [me, other])
