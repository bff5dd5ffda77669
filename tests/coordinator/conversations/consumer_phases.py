"""Every request in every phase that a member of a consumer group can be in: what is a rule in one
is an error in the next. Afterwards life goes on, so that what the request left behind shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.conversation import ConsumerSide, Talk
from tests.coordinator.conversations.administrator import ADMIN, Asks
from tests.coordinator.conversations.registry import story

# Phases of a consumer group: each gives the member that the request is about, and the other one


def consumers(talk: Talk, **options: Any) -> tuple[ConsumerSide, ConsumerSide]:
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    me = talk.consumer("me", "foo", instance="mine", **options)
    return me, talk.consumer("other", "foo", **options)


def nobody(talk: Talk) -> tuple[ConsumerSide, ConsumerSide]:
    """There is no group."""
    return consumers(talk)


def at_rest(talk: Talk) -> tuple[ConsumerSide, ConsumerSide]:
    """Two members with what they shall have."""
    me, other = revoking(talk)
    me.ack()
    other.ack()
    return me, other


def behind(talk: Talk) -> tuple[ConsumerSide, ConsumerSide]:
    """Another has joined, and this member does not know yet."""
    me, other = consumers(talk)
    me.join()
    other.join()
    return me, other


def revoking(talk: Talk) -> tuple[ConsumerSide, ConsumerSide]:
    """The member was told what to give up."""
    me, other = behind(talk)
    me.beat()
    return me, other


def waiting(talk: Talk) -> tuple[ConsumerSide, ConsumerSide]:
    """The member waits for what another is to give up."""
    me, other = consumers(talk)
    other.join()
    me.join()
    other.beat()
    me.beat()
    return me, other


def away(talk: Talk) -> tuple[ConsumerSide, ConsumerSide]:
    """The member has left for a while, in the middle of revoking."""
    me, other = revoking(talk)
    me.leave(-2)
    return me, other


def left(talk: Talk) -> tuple[ConsumerSide, ConsumerSide]:
    """All have left: the group is empty."""
    me, other = at_rest(talk)
    me.commit("foo", 0, 7)
    me.leave()
    other.leave()
    return me, other


CONSUMER_PHASES = [nobody, at_rest, behind, revoking, waiting, away, left]

# Requests of a member of the new protocol


def beats(me: ConsumerSide, _: Any) -> None:
    me.beat()


def says_what_it_owns(me: ConsumerSide, _: Any) -> None:
    me.ack()


def says_it_owns_nothing(me: ConsumerSide, _: Any) -> None:
    me.beat(topicPartitions=[])


def says_it_owns_all(me: ConsumerSide, _: Any) -> None:
    topic = me.talk.duel.topic_ids[me.talk.topic_name("foo")]
    me.beat(topicPartitions=[{"topicId": topic, "partitions": [0, 1, 2, 3, 4, 5]}])


def repeats_its_previous_epoch(me: ConsumerSide, _: Any) -> None:
    me.beat(memberEpoch=me.epoch - 1, topicPartitions=me.owned)


def repeats_it_without_a_word(me: ConsumerSide, _: Any) -> None:
    me.beat(memberEpoch=me.epoch - 1)


def is_ahead(me: ConsumerSide, _: Any) -> None:
    me.beat(memberEpoch=me.epoch + 1, topicPartitions=[])


def joins_again(me: ConsumerSide, _: Any) -> None:
    me.join()


def joins_under_another_id(me: ConsumerSide, _: Any) -> None:
    me.member_id = "me-2"
    me.join()


def joins_without_its_instance(me: ConsumerSide, _: Any) -> None:
    me.instance = None
    me.join()


def asks_for_more(me: ConsumerSide, _: Any) -> None:
    me.subscribe("foo", "bar")


def asks_for_other_topics(me: ConsumerSide, _: Any) -> None:
    me.subscribe("bar")


def says_everything(me: ConsumerSide, _: Any) -> None:
    names = [me.talk.topic_name("foo")]
    me.beat(rebalanceTimeoutMs=250_000, subscribedTopicNames=names, topicPartitions=me.owned)


def leaves(me: ConsumerSide, _: Any) -> None:
    me.leave()


def leaves_for_a_while(me: ConsumerSide, _: Any) -> None:
    me.leave(-2)


def leaves_the_classic_way(me: ConsumerSide, _: Any) -> None:
    member = {"memberId": "", "groupInstanceId": "mine"}
    me.talk.ask("me", "LeaveGroup", members=[member])


def commits_at_its_epoch(me: ConsumerSide, _: Any) -> None:
    for partition in range(6):
        me.commit("foo", partition, 5)


def commits_at_the_previous_epoch(me: ConsumerSide, _: Any) -> None:
    for partition in range(6):
        me.commit("foo", partition, 5, generationIdOrMemberEpoch=me.epoch - 1)


def commits_without_a_name(me: ConsumerSide, _: Any) -> None:
    me.commit("foo", 0, 5, memberId="", groupInstanceId=None, generationIdOrMemberEpoch=-1)


def commits_the_old_way(me: ConsumerSide, _: Any) -> None:
    me.commit("foo", 0, 5, version=8)


def fetches_at_its_epoch(me: ConsumerSide, _: Any) -> None:
    me.talk.offsets("foo", memberId=me.member_id, memberEpoch=me.epoch)


def fetches_at_a_wrong_epoch(me: ConsumerSide, _: Any) -> None:
    me.talk.offsets("foo", memberId=me.member_id, memberEpoch=me.epoch + 3)


def is_joined_by_a_classic_member(me: ConsumerSide, _: Any) -> None:
    classic = me.talk.classic("classic", "foo")
    classic.join()
    classic.sync()
    classic.beat()


def is_replaced_by_a_classic_member(me: ConsumerSide, _: Any) -> None:
    classic = me.talk.classic("classic", "foo", instance="mine")
    classic.join()
    classic.sync()
    classic.beat()


CONSUMER: list[Asks] = [
    beats,
    says_what_it_owns,
    says_it_owns_nothing,
    says_it_owns_all,
    repeats_its_previous_epoch,
    repeats_it_without_a_word,
    is_ahead,
    joins_again,
    joins_under_another_id,
    joins_without_its_instance,
    asks_for_more,
    asks_for_other_topics,
    says_everything,
    leaves,
    leaves_for_a_while,
    leaves_the_classic_way,
    commits_at_its_epoch,
    commits_at_the_previous_epoch,
    commits_without_a_name,
    commits_the_old_way,
    fetches_at_its_epoch,
    fetches_at_a_wrong_epoch,
    is_joined_by_a_classic_member,
    is_replaced_by_a_classic_member,
]


@story(phase=CONSUMER_PHASES, asks=CONSUMER + ADMIN)
def consumer(
    talk: Talk, phase: Callable[[Talk], tuple[ConsumerSide, ConsumerSide]], asks: Asks
) -> None:
    me, other = phase(talk)
    asks(me, other)
    talk.look()
    for _ in range(2):
        for member in (me, other):
            if member.epoch > 0:
                member.ack()
    talk.look()
