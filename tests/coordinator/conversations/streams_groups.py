"""Scripted conversations of streams groups: one rule each."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted
from tests.streams_conversations import (
    DELAY,
    STANDBYS,
    StreamsClient,
    configure,
    internal_topic,
    subtopology,
)

SESSION = "streams.session.timeout.ms"
HEARTBEAT = "streams.heartbeat.interval.ms"


def clients(
    conversation: Conversation, *processes: str, partitions: int = 4, stateful: bool = False
) -> list[StreamsClient]:
    """Members A, B, … in these processes, of an application that reads t1."""
    conversation.topic("t1", partitions)
    stores = []
    if stateful:
        conversation.topics["store"] = f"{conversation.group}-store-changelog"
        conversation.comparison.topic(conversation.topics["store"], partitions)
        stores = [internal_topic(conversation.topics["store"])]
    topology = [
        subtopology("0", sourceTopics=[conversation.topic_name("t1")], stateChangelogTopics=stores)
    ]
    configure(conversation, {DELAY: "0", STANDBYS: "1" if stateful else "0"})
    names = zip("ABCD", processes, strict=False)
    return [
        StreamsClient(conversation, f"{name}-{conversation.name}", process, topology)
        for name, process in names
    ]


@scripted("streams")
def a_task_moves_when_it_is_given_up(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    first.join()
    second.join()
    second.acknowledge()
    first.heartbeat()  # must give up half, and does not say that it has
    first.heartbeat()
    second.acknowledge()
    first.acknowledge()
    second.acknowledge()
    second.acknowledge()
    yield 0


@scripted("streams")
def an_answer_is_lost(conversation: Conversation) -> Pauses:
    """The broker does not repeat a member's tasks: neither a full request nor the tasks that it
    reports show them again.
    """
    first, second = clients(conversation, "p1", "p2")
    first.join()
    second.join()
    first.heartbeat()
    first.acknowledge()
    second.heartbeat()  # is assigned its tasks: take this answer as lost
    nothing = {"activeTasks": [], "standbyTasks": [], "warmupTasks": []}
    second.heartbeat(**nothing)
    second.heartbeat(**nothing, rebalanceTimeoutMs=second.timeout, processId="p2", clientTags=[])
    second.join()
    yield 0


@scripted("streams")
def another_target_while_tasks_are_given_up(conversation: Conversation) -> Pauses:
    first, second, third = clients(conversation, "p1", "p2", "p3", partitions=6)
    first.join()
    second.join()
    first.heartbeat()
    third.join()
    first.heartbeat()
    first.acknowledge()
    first.acknowledge()
    for member in (second, third, first, second, third):
        member.acknowledge()
    yield 0


@scripted("streams")
def standby_tasks_change_places(conversation: Conversation) -> Pauses:
    first, second, third = clients(conversation, "p1", "p2", "p1", partitions=3, stateful=True)
    first.join()
    for member in (second, third):
        member.join()
        for _ in range(3):
            first.acknowledge()
            if second.epoch:
                second.acknowledge()
            if third.epoch:
                third.acknowledge()
    first.leave()
    for _ in range(4):
        second.acknowledge()
        third.acknowledge()
    configure(conversation, {STANDBYS: "0"})
    for _ in range(3):
        second.acknowledge()
        third.acknowledge()
    yield 0


@scripted("streams")
def wrong_epochs_are_fenced(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    first.join()
    second.join()
    first.acknowledge()
    first.heartbeat(memberEpoch=first.epoch + 1)
    first.join()
    first.heartbeat(memberEpoch=max(first.epoch - 1, 1))
    second.heartbeat(memberEpoch=99)
    second.heartbeat(memberEpoch=-1)
    second.heartbeat(memberEpoch=3)
    yield 0


@scripted("streams")
def requests_that_are_refused(conversation: Conversation) -> Pauses:
    (first,) = clients(conversation, "p1")
    first.heartbeat(memberEpoch=1)
    first.join(rebalanceTimeoutMs=-1)
    first.join(activeTasks=None)
    first.join(activeTasks=[{"subtopologyId": "0", "partitions": [0]}])
    first.join(topology=None)
    first.join(processId=None)
    first.join(rackId=" ")
    first.heartbeat(memberEpoch=-3)
    first.heartbeat(memberId="")
    first.join()
    first.heartbeat(
        activeTasks=[{"subtopologyId": "0", "partitions": [99]}], standbyTasks=[], warmupTasks=[]
    )
    first.heartbeat(
        activeTasks=[{"subtopologyId": "x", "partitions": [0]}], standbyTasks=[], warmupTasks=[]
    )
    first.heartbeat(topology={"epoch": 0, "subtopologies": first.topology})
    conversation.delete_group()
    first.leave()
    first.leave()
    conversation.delete_group()
    conversation.delete_group()
    yield 0


@scripted("streams")
def groups_of_other_types(conversation: Conversation) -> Pauses:
    (first,) = clients(conversation, "p1")
    consumer = conversation.consumer("consumer", "t1")
    consumer.join()
    first.join()
    consumer.leave()
    first.join()
    conversation.delete_group()
    first.join()
    consumer.join()
    yield 0


@scripted("streams")
def members_that_change(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    first.join()
    second.join(rackId="a", clientTags=[{"key": "b", "value": "1"}, {"key": "a", "value": "2"}])
    first.acknowledge()
    second.acknowledge()
    for change in (
        {"rackId": "b"},
        {"rackId": "b"},
        {"clientTags": [{"key": "zone", "value": "a"}]},
        {"userEndpoint": {"host": "here", "port": 9}},
        {"processId": "p1"},
        {"rebalanceTimeoutMs": 123_456},
    ):
        second.heartbeat(**change)
        first.acknowledge()
        second.acknowledge()
    yield 0


@scripted("streams")
def a_source_topic_that_comes_and_grows(conversation: Conversation) -> Pauses:
    topology = [subtopology("0", sourceTopics=[conversation.topic_name("t1")])]
    configure(conversation, {DELAY: "0"})
    first = StreamsClient(conversation, f"A-{conversation.name}", "p1", topology)
    first.join()
    first.acknowledge()
    for size in (2, 3, 5):
        conversation.topic("t1", size)
        first.acknowledge()
        first.acknowledge()
    yield 0


@scripted("streams")
def a_silent_member_is_fenced(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    configure(conversation, {HEARTBEAT: "300", SESSION: "2000"})
    first.join()
    second.join()
    for _ in range(6):
        first.acknowledge()
        yield 0.6
    first.acknowledge()
    second.acknowledge()


@scripted("streams")
def a_member_that_gives_nothing_up_is_fenced(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    first.join(rebalanceTimeoutMs=1_500)
    second.join()
    for _ in range(4):
        first.heartbeat()
        yield 0.6
    second.acknowledge()
    first.heartbeat()
    yield 0


@scripted("streams")
def the_first_target_waits(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    configure(conversation, {DELAY: "1500"})
    first.join()
    second.join()
    first.acknowledge()
    yield 2
    first.acknowledge()
    second.acknowledge()
    first.leave()
    second.leave()
    first.join()
    yield 2
    first.acknowledge()


@scripted("streams")
def groups_are_described(conversation: Conversation) -> Pauses:
    """Before the group exists, in each state, after the last member has left."""
    describe(conversation)
    first, second = clients(conversation, "p1", "p2", stateful=True)
    first.join(rackId="here", clientTags=[{"key": "zone", "value": "a"}])
    describe(conversation)
    second.join(userEndpoint={"host": "here", "port": 9})
    second.acknowledge()
    describe(conversation)
    first.heartbeat()
    describe(conversation)
    first.acknowledge()
    second.acknowledge()
    second.acknowledge()
    describe(conversation)
    conversation.describe()
    first.leave()
    describe(conversation)
    second.leave()
    describe(conversation)
    yield 0


@scripted("streams")
def a_topology_that_is_not_ready_is_described(conversation: Conversation) -> Pauses:
    topology = [subtopology("0", sourceTopics=[conversation.topic_name("t1")])]
    configure(conversation, {DELAY: "0"})
    member = StreamsClient(conversation, f"A-{conversation.name}", "p1", topology)
    member.join()
    describe(conversation)
    yield 0


def describe(conversation: Conversation) -> None:
    """Requests the description of the group, of none and of another that does not exist."""
    for ids in ([conversation.group], ["", f"no-{conversation.group}"]):
        conversation.send("x", "StreamsGroupDescribe", groupIds=ids)


@scripted("streams")
def threads_commit(conversation: Conversation) -> Pauses:
    """At their epoch, at an older and a newer one, with an old version, and as nobody."""
    first, second = clients(conversation, "p1", "p2")
    first.join()
    for epoch in (first.epoch, first.epoch + 1, first.epoch - 1, -1):
        _commit(conversation, first, epoch)
    second.join()
    second.acknowledge()
    old = first.epoch
    first.heartbeat()
    first.acknowledge()
    for partition in range(4):
        _commit(conversation, first, old, partition)
        _commit(conversation, second, second.epoch, partition)
    second.acknowledge()
    for partition in range(4):
        _commit(conversation, second, second.epoch - 1, partition)
    _commit(conversation, first, first.epoch, version=8)
    _commit(conversation, StreamsClient(conversation, "nobody", "p3", []), 1)
    conversation.offsets("t1")
    conversation.delete_offset("t1")
    first.leave()
    second.leave()
    topics = conversation.commit_topics("t1", 1, 7, "")
    conversation.send(
        "x", "OffsetCommit", memberId="", generationIdOrMemberEpoch=-1, groupInstanceId=None,
        topics=topics,
    )  # fmt: skip
    conversation.offsets("t1")
    conversation.delete_offset("t1")
    conversation.delete_group()
    yield 0


def _commit(
    conversation: Conversation,
    member: StreamsClient,
    epoch: int,
    partition: int = 0,
    version: int = 9,
) -> None:
    conversation.send(
        member.name, "OffsetCommit", version, memberId=member.member_id,
        generationIdOrMemberEpoch=epoch, groupInstanceId=None,
        topics=conversation.commit_topics("t1", partition, 100 + partition, "by a thread"),
    )  # fmt: skip
