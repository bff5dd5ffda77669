"""Every request in every phase of a classic member, in a classic group and in a consumer group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.conversation import ClassicClient, Conversation, Pauses
from tests.coordinator.conversations.administrator import ADMIN, RequestFunction
from tests.coordinator.conversations.registry import scripted

# Phases


def classics(conversation: Conversation, **options: Any) -> tuple[ClassicClient, ClassicClient]:
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    return conversation.classic("me", "foo", **options), conversation.classic(
        "other", "foo", **options
    )


def unknown(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """The group does not exist."""
    return classics(conversation)


def given_an_id(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """The member has received an id and has not joined with it."""
    me, other = classics(conversation)
    request = {"protocols": [{"name": "range", "metadata": me.metadata()}]}
    answer = conversation.send(
        "me",
        "JoinGroup",
        memberId="",
        sessionTimeoutMs=me.session,
        rebalanceTimeoutMs=me.timeout,
        protocolType="consumer",
        **request,
    )
    me.member_id = answer["memberId"]
    return me, other


def joined(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """The member has joined; no member has synced."""
    me, other = classics(conversation)
    me.join()
    return me, other


def synced(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """The group is stable."""
    me, other = joined(conversation)
    me.sync({me.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    me.owned = [(conversation.topic_name("foo"), (0, 1, 2, 3, 4, 5))]
    return me, other


def rebalancing(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """Another member waits for this one to rejoin."""
    me, other = synced(conversation)
    other.join()
    return me, other


def emptied(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """All members have left."""
    me, other = synced(conversation)
    me.leave()
    return me, other


def upgraded(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """A member of the new protocol has just joined: the group is a consumer group now."""
    me, other = synced(conversation)
    conversation.consumer("new", "foo").join()
    return me, other


def called_back(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """After the upgrade: the member is told to rejoin and to revoke."""
    me, other = upgraded(conversation)
    me.heartbeat()
    me.join()
    me.sync()
    me.heartbeat()
    return me, other


def alone_with_consumers(conversation: Conversation) -> tuple[ClassicClient, ClassicClient]:
    """A reconciled classic member in a consumer group."""
    me, other = called_back(conversation)
    me.owned = [(conversation.topic_name("foo"), (0, 1, 2))]
    me.join()
    me.sync()
    me.heartbeat()
    return me, other


CLASSIC_PHASES = [
    unknown,
    given_an_id,
    joined,
    synced,
    rebalancing,
    emptied,
    upgraded,
    called_back,
    alone_with_consumers,
]


def heartbeats(me: ClassicClient, _: ClassicClient) -> None:
    me.heartbeat()


def heartbeats_at_another_generation(me: ClassicClient, _: ClassicClient) -> None:
    me.heartbeat(generationId=me.generation + 1)


def joins_once_more(me: ClassicClient, _: ClassicClient) -> None:
    me.join()


def joins_with_other_topics(me: ClassicClient, _: ClassicClient) -> None:
    me.names = ["bar", "foo"]
    me.join()


def joins_with_another_protocol(me: ClassicClient, _: ClassicClient) -> None:
    me.protocols = ("roundrobin",)
    me.join()


def is_joined_by_another(_: ClassicClient, other: ClassicClient) -> None:
    other.join()


def is_joined_by_a_member_without_id(_: ClassicClient, other: ClassicClient) -> None:
    other.join(version=3)


def is_joined_by_a_static_member(_: ClassicClient, other: ClassicClient) -> None:
    other.instance = "static"
    other.join()


def is_joined_by_a_consumer(me: ClassicClient, _: ClassicClient) -> None:
    consumer = me.conversation.consumer("newer", "foo")
    consumer.join()
    consumer.heartbeat()


def syncs(me: ClassicClient, _: ClassicClient) -> None:
    me.sync({me.member_id: {"foo": [5]}})


def syncs_at_another_generation(me: ClassicClient, _: ClassicClient) -> None:
    me.sync(generationId=me.generation - 1)


def syncs_with_another_protocol(me: ClassicClient, _: ClassicClient) -> None:
    me.sync(protocolName="roundrobin")


def leaves(me: ClassicClient, _: ClassicClient) -> None:
    me.leave()


def leaves_twice_in_one_request(me: ClassicClient, _: ClassicClient) -> None:
    row = {"memberId": me.member_id, "groupInstanceId": None}
    me.leave(members=[row, row, {"memberId": "nobody", "groupInstanceId": None}])


def commits(me: ClassicClient, _: ClassicClient) -> None:
    _commit(me, me.generation, memberId=me.member_id)


def commits_at_another_generation(me: ClassicClient, _: ClassicClient) -> None:
    _commit(me, me.generation + 1, memberId=me.member_id)


def commits_without_a_member_id(me: ClassicClient, _: ClassicClient) -> None:
    _commit(me, -1, memberId="")


def _commit(me: ClassicClient, generation: int, **more: Any) -> None:
    rows = me.conversation.commit_topics("foo", 0, 5, "")
    me.conversation.send(
        "me", "OffsetCommit", generationIdOrMemberEpoch=generation, topics=rows, **more
    )


def commits_as_a_member_in_a_transaction(me: ClassicClient, _: ClassicClient) -> None:
    for generation in (me.generation, me.generation + 1):
        transaction = me.conversation.transaction()
        transaction.begin()
        transaction.commit("foo", 0, 9, memberId=me.member_id, generationId=generation)
        transaction.end(committed=False)
    me.conversation.offsets("foo")


CLASSIC: list[RequestFunction] = [
    heartbeats,
    heartbeats_at_another_generation,
    joins_once_more,
    joins_with_other_topics,
    joins_with_another_protocol,
    is_joined_by_another,
    is_joined_by_a_member_without_id,
    is_joined_by_a_static_member,
    is_joined_by_a_consumer,
    syncs,
    syncs_at_another_generation,
    syncs_with_another_protocol,
    leaves,
    leaves_twice_in_one_request,
    commits,
    commits_at_another_generation,
    commits_without_a_member_id,
    commits_as_a_member_in_a_transaction,
]


@scripted(phase=CLASSIC_PHASES, request=CLASSIC + ADMIN)
def classic(
    conversation: Conversation,
    phase: Callable[[Conversation], tuple[ClassicClient, ClassicClient]],
    request: RequestFunction,
) -> Pauses:
    me, other = phase(conversation)
    request(me, other)
    yield 0.05
    conversation.describe()
    for member in (me, other):
        if member.member_id:
            member.heartbeat()
            member.join()
    yield 0.05
    for member in (me, other):
        if member.member_id:
            member.sync({member.member_id: {"foo": [0, 1]}})
            member.heartbeat()
    conversation.describe()
