"""Every request in every phase of a classic member, in a classic group and in a consumer group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.conversation import ClassicSide, Conversation, Talk
from tests.coordinator.conversations.administrator import ADMIN, Asks
from tests.coordinator.conversations.registry import story

# Phases


def classics(talk: Talk, **options: Any) -> tuple[ClassicSide, ClassicSide]:
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    return talk.classic("me", "foo", **options), talk.classic("other", "foo", **options)


def unknown(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """There is no group."""
    return classics(talk)


def promised(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """The member has been given an id and has not joined with it."""
    me, other = classics(talk)
    request = {"protocols": [{"name": "range", "metadata": me.metadata()}]}
    answer = talk.ask(
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


def joined(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """The member has joined; nobody has synced."""
    me, other = classics(talk)
    me.join()
    return me, other


def synced(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """The group is stable."""
    me, other = joined(talk)
    me.sync({me.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    me.owned = [(talk.topic_name("foo"), (0, 1, 2, 3, 4, 5))]
    return me, other


def rebalancing(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """Another waits for this member to join again."""
    me, other = synced(talk)
    other.join()
    return me, other


def emptied(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """All have left."""
    me, other = synced(talk)
    me.leave()
    return me, other


def upgraded(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """A member of the new protocol has just joined: the group is a consumer group now."""
    me, other = synced(talk)
    talk.consumer("new", "foo").join()
    return me, other


def called_back(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """After the upgrade: told to join again, to revoke."""
    me, other = upgraded(talk)
    me.beat()
    me.join()
    me.sync()
    me.beat()
    return me, other


def alone_with_consumers(talk: Talk) -> tuple[ClassicSide, ClassicSide]:
    """A classic member in a consumer group, with what it shall have."""
    me, other = called_back(talk)
    me.owned = [(talk.topic_name("foo"), (0, 1, 2))]
    me.join()
    me.sync()
    me.beat()
    return me, other


CLASSIC_PHASES = [
    unknown,
    promised,
    joined,
    synced,
    rebalancing,
    emptied,
    upgraded,
    called_back,
    alone_with_consumers,
]


def heartbeats(me: ClassicSide, _: ClassicSide) -> None:
    me.beat()


def heartbeats_at_another_generation(me: ClassicSide, _: ClassicSide) -> None:
    me.beat(generationId=me.generation + 1)


def joins_once_more(me: ClassicSide, _: ClassicSide) -> None:
    me.join()


def joins_with_other_topics(me: ClassicSide, _: ClassicSide) -> None:
    me.names = ["bar", "foo"]
    me.join()


def joins_with_another_protocol(me: ClassicSide, _: ClassicSide) -> None:
    me.protocols = ("roundrobin",)
    me.join()


def is_joined_by_another(_: ClassicSide, other: ClassicSide) -> None:
    other.join()


def is_joined_by_one_without_promise(_: ClassicSide, other: ClassicSide) -> None:
    other.join(version=3)


def is_joined_by_a_static_member(_: ClassicSide, other: ClassicSide) -> None:
    other.instance = "static"
    other.join()


def is_joined_by_a_consumer(me: ClassicSide, _: ClassicSide) -> None:
    consumer = me.talk.consumer("newer", "foo")
    consumer.join()
    consumer.beat()


def syncs(me: ClassicSide, _: ClassicSide) -> None:
    me.sync({me.member_id: {"foo": [5]}})


def syncs_at_another_generation(me: ClassicSide, _: ClassicSide) -> None:
    me.sync(generationId=me.generation - 1)


def syncs_with_another_protocol(me: ClassicSide, _: ClassicSide) -> None:
    me.sync(protocolName="roundrobin")


def goes(me: ClassicSide, _: ClassicSide) -> None:
    me.leave()


def goes_twice_at_once(me: ClassicSide, _: ClassicSide) -> None:
    row = {"memberId": me.member_id, "groupInstanceId": None}
    me.leave(members=[row, row, {"memberId": "nobody", "groupInstanceId": None}])


def commits(me: ClassicSide, _: ClassicSide) -> None:
    _commit(me, me.generation, memberId=me.member_id)


def commits_at_another_generation(me: ClassicSide, _: ClassicSide) -> None:
    _commit(me, me.generation + 1, memberId=me.member_id)


def commits_for_nobody(me: ClassicSide, _: ClassicSide) -> None:
    _commit(me, -1, memberId="")


def _commit(me: ClassicSide, generation: int, **more: Any) -> None:
    rows = me.talk.commit_rows("foo", 0, 5, "")
    me.talk.ask("me", "OffsetCommit", generationIdOrMemberEpoch=generation, topics=rows, **more)


def commits_as_a_member_in_a_transaction(me: ClassicSide, _: ClassicSide) -> None:
    for generation in (me.generation, me.generation + 1):
        transaction = me.talk.transaction()
        transaction.begin()
        transaction.commit("foo", 0, 9, memberId=me.member_id, generationId=generation)
        transaction.end(committed=False)
    me.talk.offsets("foo")


CLASSIC: list[Asks] = [
    heartbeats,
    heartbeats_at_another_generation,
    joins_once_more,
    joins_with_other_topics,
    joins_with_another_protocol,
    is_joined_by_another,
    is_joined_by_one_without_promise,
    is_joined_by_a_static_member,
    is_joined_by_a_consumer,
    syncs,
    syncs_at_another_generation,
    syncs_with_another_protocol,
    goes,
    goes_twice_at_once,
    commits,
    commits_at_another_generation,
    commits_for_nobody,
    commits_as_a_member_in_a_transaction,
]


@story(phase=CLASSIC_PHASES, asks=CLASSIC + ADMIN)
def classic(
    talk: Talk, phase: Callable[[Talk], tuple[ClassicSide, ClassicSide]], asks: Asks
) -> Conversation:
    me, other = phase(talk)
    asks(me, other)
    yield 0.05
    talk.look()
    for member in (me, other):
        if member.member_id:
            member.beat()
            member.join()
    yield 0.05
    for member in (me, other):
        if member.member_id:
            member.sync({member.member_id: {"foo": [0, 1]}})
            member.beat()
    talk.look()
