"""Every request in every phase of a member of a streams group, as in `consumer_phases`."""

from __future__ import annotations

from collections.abc import Callable

from tests.coordinator.conversation import Conversation, Json
from tests.coordinator.conversations.administrator import ADMIN, RequestFunction
from tests.coordinator.conversations.registry import scripted
from tests.coordinator.conversations.streams_requests import OTHERS, STREAMS, commit
from tests.streams_conversations import (
    DELAY,
    STANDBYS,
    StreamsClient,
    configure,
    internal_topic,
    subtopology,
)

Members = list[StreamsClient]
PhaseFunction = Callable[[Conversation], Members]
"""Gives the member that the request is about, another one, and all further ones."""
HOUR = "3600000"


def needed_topic(name: str, partitions: int = 0) -> Json:
    """An internal topic that a broker cannot create by itself: it wants more replicas than there
    are brokers.
    """
    return internal_topic(name, partitions) | {"replicationFactor": 3}


def threads(
    conversation: Conversation, *processes: str, topology: list[Json] | None = None
) -> Members:
    """Members in these processes of which none has joined. They read foo."""
    for name, size in (("foo", 4), ("bar", 2)):
        if name not in conversation.topics:
            conversation.shared_topic(name, size)
    if topology is None:
        topology = [subtopology("0", sourceTopics=[conversation.topic_name("foo")])]
    return [
        StreamsClient(conversation, name, process, topology, topology_epoch=1)
        for name, process in zip("ABCDE", processes, strict=False)
    ]


def stateful(conversation: Conversation, *processes: str, store: int = 4) -> Members:
    """The same with a state store, whose changelog has this number of partitions."""
    if store and "store" not in conversation.topics:
        conversation.shared_topic("store", store)
    group = threads(conversation, *processes)
    for member in group:
        member.topology = [
            subtopology(
                "0",
                sourceTopics=[conversation.topic_name("foo")],
                stateChangelogTopics=[needed_topic(conversation.topic_name("store"))],
            )
        ]
    return group


def rest(*group: StreamsClient) -> None:
    """Heartbeats until the group is quiet."""
    for _ in range(4):
        for member in group:
            if member.epoch > 0:
                member.acknowledge()


def join(group: Members) -> Members:
    for member in group:
        member.join()
    return group


# Phases of a streams group


def nobody(conversation: Conversation) -> Members:
    """The group does not exist."""
    return threads(conversation, "p1", "p2")


def without_its_source(conversation: Conversation) -> Members:
    """The topic that the members read does not exist."""
    topology = [subtopology("0", sourceTopics=[conversation.topic_name("missing")])]
    return join(threads(conversation, "p1", "p2", topology=topology))


def without_its_changelog(conversation: Conversation) -> Members:
    return join(stateful(conversation, "p1", "p2", store=0))


def with_a_changelog_of_another_size(conversation: Conversation) -> Members:
    return join(stateful(conversation, "p1", "p2", store=3))


def delayed(conversation: Conversation) -> Members:
    """The first target waits for more members."""
    configure(conversation, {DELAY: HOUR})
    return join(threads(conversation, "p1", "p2"))


def alone(conversation: Conversation) -> Members:
    me, other = nobody(conversation)
    me.join()
    rest(me)
    return [me, other]


def behind(conversation: Conversation) -> Members:
    """Another member has joined, and this member does not know yet."""
    me, other = alone(conversation)
    other.join()
    return [me, other]


def revoking(conversation: Conversation) -> Members:
    """The member was told which tasks to give up."""
    me, other = behind(conversation)
    me.heartbeat()
    return [me, other]


def waiting(conversation: Conversation) -> Members:
    """The member waits for tasks that another one must give up."""
    other, me = revoking(conversation)
    me.heartbeat()
    return [me, other]


def at_rest(conversation: Conversation) -> Members:
    group = behind(conversation)
    rest(*group)
    return group


def in_one_process(conversation: Conversation) -> Members:
    group = join(threads(conversation, "p1", "p1", "p2"))
    rest(*group)
    return group


def with_standby_tasks(conversation: Conversation) -> Members:
    group = stateful(conversation, "p1", "p2", "p2")
    configure(conversation, {STANDBYS: "1", DELAY: "0"})
    join(group)
    rest(*group)
    return group


def with_standby_tasks_that_move(conversation: Conversation) -> Members:
    """A member has left, and the others do not know yet."""
    group = with_standby_tasks(conversation)
    group.pop().leave()
    return group


def left(conversation: Conversation) -> Members:
    """All members have left: the group is empty."""
    group = at_rest(conversation)
    for member in group:
        commit(member, member.member_id, member.epoch)
        member.leave()
    return group


def of_another_type(conversation: Conversation) -> Members:
    """The id belongs to a consumer group."""
    group = threads(conversation, "p1", "p2")
    conversation.consumer("consumer", "foo").join()
    return group


def of_offsets(conversation: Conversation) -> Members:
    """The id belongs to a classic group without members, which has committed offsets."""
    group = threads(conversation, "p1", "p2")
    commit(group[0], "", -1)
    return group


STREAMS_PHASES: list[PhaseFunction] = [
    nobody,
    without_its_source,
    without_its_changelog,
    with_a_changelog_of_another_size,
    delayed,
    alone,
    behind,
    revoking,
    waiting,
    at_rest,
    in_one_process,
    with_standby_tasks,
    with_standby_tasks_that_move,
    left,
    of_another_type,
    of_offsets,
]


def describe(conversation: Conversation) -> None:
    conversation.send("x", "StreamsGroupDescribe", groupIds=[conversation.group])
    conversation.send("x", "ListGroups", statesFilter=[], typesFilter=[])


def finish(conversation: Conversation, group: Members) -> None:
    """What shows lasting effects: heartbeats until the group is quiet, the end of the group."""
    describe(conversation)
    rest(*group)
    describe(conversation)
    for member in group:
        if member.epoch > 0:
            member.leave()
    describe(conversation)
    conversation.delete_group()
    describe(conversation)


@scripted("streams", phase=STREAMS_PHASES, request=STREAMS + OTHERS + ADMIN)
def streams(conversation: Conversation, phase: PhaseFunction, request: RequestFunction) -> None:
    group = phase(conversation)
    request(group[0], group[1])
    finish(conversation, group)
