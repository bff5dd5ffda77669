"""Every request in every phase of a member of a share group, as in `consumer_phases`."""

from __future__ import annotations

from collections.abc import Callable

from tests.coordinator.conversation import Conversation
from tests.coordinator.conversations.administrator import ADMIN, RequestFunction
from tests.coordinator.conversations.registry import scripted
from tests.coordinator.conversations.share_groups import describe
from tests.coordinator.conversations.share_requests import OTHERS, SHARE, commit
from tests.coordinator.share_conversations import ShareClient

Members = list[ShareClient]
PhaseFunction = Callable[[Conversation], Members]
"""Gives the member that the request is about, another one, and all further ones."""

# Phases of a share group


def members(conversation: Conversation, count: int = 2) -> Members:
    """Members of which none has joined. They read foo, which has two partitions, and sometimes bar,
    which has three.
    """
    for name, size in (("foo", 2), ("bar", 3)):
        if name not in conversation.topics:
            conversation.shared_topic(name, size)
    return [ShareClient(conversation, name, ["foo"]) for name in "ABCDE"[:count]]


def rest(*group: ShareClient) -> None:
    """Heartbeats until the group is quiet."""
    for _ in range(3):
        for member in group:
            if member.epoch > 0:
                member.heartbeat()


def nobody(conversation: Conversation) -> Members:
    """The group does not exist."""
    return members(conversation)


def joined_without_topics(conversation: Conversation) -> Members:
    """The member subscribes to a topic that does not exist."""
    me, other = members(conversation)
    me.join("missing")
    return [me, other]


def joining(conversation: Conversation) -> Members:
    """The member has joined, and does not know yet that its partitions have a share state."""
    me, other = members(conversation)
    me.join()
    return [me, other]


def alone(conversation: Conversation) -> Members:
    me, other = joining(conversation)
    rest(me)
    return [me, other]


def one_of_two(conversation: Conversation) -> Members:
    """Each of two members has one partition."""
    group = behind(conversation)
    rest(*group)
    return group


def one_of_five(conversation: Conversation) -> Members:
    """There are more members than partitions."""
    group = members(conversation, 5)
    for member in group:
        member.join()
    rest(*group)
    return group


def behind(conversation: Conversation) -> Members:
    """Another member has joined, and this member does not know yet."""
    me, other = alone(conversation)
    other.join()
    return [me, other]


def of_two_topics(conversation: Conversation) -> Members:
    """The members read different topics, one of which both read."""
    me, other = members(conversation)
    me.join("foo", "bar")
    other.join("bar")
    rest(me, other)
    return [me, other]


def remaining(conversation: Conversation) -> Members:
    """Another member has left, and this member does not know yet."""
    me, other, third = members(conversation, 3)
    for member in (me, other, third):
        member.join()
    rest(me, other, third)
    third.leave()
    return [me, other]


def left(conversation: Conversation) -> Members:
    """All members have left: the group is empty."""
    group = one_of_two(conversation)
    for member in group:
        member.leave()
    return group


def deleted(conversation: Conversation) -> Members:
    """The group has been deleted."""
    group = left(conversation)
    conversation.delete_group()
    return group


def of_another_type(conversation: Conversation) -> Members:
    """The id belongs to a consumer group."""
    group = members(conversation)
    conversation.consumer("consumer", "foo").join()
    return group


def of_offsets(conversation: Conversation) -> Members:
    """The id belongs to a classic group without members, which has committed offsets."""
    group = members(conversation)
    commit(group[0], "", -1)
    return group


SHARE_PHASES: list[PhaseFunction] = [
    nobody,
    joined_without_topics,
    joining,
    alone,
    one_of_two,
    one_of_five,
    behind,
    of_two_topics,
    remaining,
    left,
    deleted,
    of_another_type,
    of_offsets,
]

# Changes of topics


def foo_grows(conversation: Conversation) -> None:
    conversation.topic("foo", 5)


def foo_grows_twice(conversation: Conversation) -> None:
    conversation.topic("foo", 3)
    conversation.topic("foo", 4)


def foo_is_deleted(conversation: Conversation) -> None:
    conversation.delete_topic("foo")


def foo_is_recreated(conversation: Conversation) -> None:
    """With fewer partitions."""
    conversation.delete_topic("foo")
    conversation.topic("foo", 1)


def missing_appears(conversation: Conversation) -> None:
    conversation.topic("missing", 3)


def bar_is_deleted_and_foo_grows(conversation: Conversation) -> None:
    conversation.delete_topic("bar")
    conversation.topic("foo", 3)


CHANGES: list[Callable[[Conversation], None]] = [
    foo_grows,
    foo_grows_twice,
    foo_is_deleted,
    foo_is_recreated,
    missing_appears,
    bar_is_deleted_and_foo_grows,
]


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


@scripted("share", phase=SHARE_PHASES, request=SHARE + OTHERS + ADMIN)
def share(conversation: Conversation, phase: PhaseFunction, request: RequestFunction) -> None:
    group = phase(conversation)
    request(group[0], group[1])
    finish(conversation, group)


@scripted("share", phase=SHARE_PHASES[1:-2], change=CHANGES)
def share_topic_changes(
    conversation: Conversation,
    phase: PhaseFunction,
    change: Callable[[Conversation], None],
) -> None:
    """A topic changes, and members first notice or first subscribe anew."""
    conversation.topic("foo", 2)
    conversation.topic("bar", 3)
    group = phase(conversation)
    change(conversation)
    rest(group[0])
    group[0].join("foo", "bar", "missing")
    finish(conversation, group)
