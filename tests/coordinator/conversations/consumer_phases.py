"""Every request in every phase of a member of a consumer group.

A request that is valid in one phase is an error in another. The conversation continues afterwards,
so that lasting effects of the request become visible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.conversation import ConsumerClient, Conversation
from tests.coordinator.conversations.administrator import ADMIN, RequestFunction
from tests.coordinator.conversations.registry import scripted

# Phases of a consumer group: each gives the member that the request is about, and the other one


def consumers(conversation: Conversation, **options: Any) -> tuple[ConsumerClient, ConsumerClient]:
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    me = conversation.consumer("me", "foo", instance="mine", **options)
    return me, conversation.consumer("other", "foo", **options)


def nobody(conversation: Conversation) -> tuple[ConsumerClient, ConsumerClient]:
    """The group does not exist."""
    return consumers(conversation)


def at_rest(conversation: Conversation) -> tuple[ConsumerClient, ConsumerClient]:
    """Two reconciled members."""
    me, other = revoking(conversation)
    me.acknowledge()
    other.acknowledge()
    return me, other


def behind(conversation: Conversation) -> tuple[ConsumerClient, ConsumerClient]:
    """Another member has joined, and this member does not know yet."""
    me, other = consumers(conversation)
    me.join()
    other.join()
    return me, other


def revoking(conversation: Conversation) -> tuple[ConsumerClient, ConsumerClient]:
    """The member was told which partitions to revoke."""
    me, other = behind(conversation)
    me.heartbeat()
    return me, other


def waiting(conversation: Conversation) -> tuple[ConsumerClient, ConsumerClient]:
    """The member waits for partitions that another one must revoke."""
    me, other = consumers(conversation)
    other.join()
    me.join()
    other.heartbeat()
    me.heartbeat()
    return me, other


def away(conversation: Conversation) -> tuple[ConsumerClient, ConsumerClient]:
    """The member has left temporarily, while it was revoking."""
    me, other = revoking(conversation)
    me.leave(-2)
    return me, other


def left(conversation: Conversation) -> tuple[ConsumerClient, ConsumerClient]:
    """All members have left: the group is empty."""
    me, other = at_rest(conversation)
    me.commit("foo", 0, 7)
    me.leave()
    other.leave()
    return me, other


CONSUMER_PHASES = [nobody, at_rest, behind, revoking, waiting, away, left]

# Requests of a member of the new protocol


def sends_heartbeat(me: ConsumerClient, _: Any) -> None:
    me.heartbeat()


def reports_owned_partitions(me: ConsumerClient, _: Any) -> None:
    me.acknowledge()


def reports_no_partitions(me: ConsumerClient, _: Any) -> None:
    me.heartbeat(topicPartitions=[])


def reports_all_partitions(me: ConsumerClient, _: Any) -> None:
    topic = me.conversation.comparison.topic_ids[me.conversation.topic_name("foo")]
    me.heartbeat(topicPartitions=[{"topicId": topic, "partitions": [0, 1, 2, 3, 4, 5]}])


def repeats_previous_epoch(me: ConsumerClient, _: Any) -> None:
    me.heartbeat(memberEpoch=me.epoch - 1, topicPartitions=me.owned)


def repeats_previous_epoch_without_partitions(me: ConsumerClient, _: Any) -> None:
    me.heartbeat(memberEpoch=me.epoch - 1)


def sends_a_later_epoch(me: ConsumerClient, _: Any) -> None:
    me.heartbeat(memberEpoch=me.epoch + 1, topicPartitions=[])


def joins_again(me: ConsumerClient, _: Any) -> None:
    me.join()


def joins_under_another_id(me: ConsumerClient, _: Any) -> None:
    me.member_id = "me-2"
    me.join()


def joins_without_its_instance(me: ConsumerClient, _: Any) -> None:
    me.instance = None
    me.join()


def subscribes_to_one_more_topic(me: ConsumerClient, _: Any) -> None:
    me.subscribe("foo", "bar")


def subscribes_to_other_topics(me: ConsumerClient, _: Any) -> None:
    me.subscribe("bar")


def sends_a_full_heartbeat(me: ConsumerClient, _: Any) -> None:
    names = [me.conversation.topic_name("foo")]
    me.heartbeat(rebalanceTimeoutMs=250_000, subscribedTopicNames=names, topicPartitions=me.owned)


def leaves(me: ConsumerClient, _: Any) -> None:
    me.leave()


def leaves_temporarily(me: ConsumerClient, _: Any) -> None:
    me.leave(-2)


def leaves_by_leave_group(me: ConsumerClient, _: Any) -> None:
    member = {"memberId": "", "groupInstanceId": "mine"}
    me.conversation.send("me", "LeaveGroup", members=[member])


def commits_at_its_epoch(me: ConsumerClient, _: Any) -> None:
    for partition in range(6):
        me.commit("foo", partition, 5)


def commits_at_the_previous_epoch(me: ConsumerClient, _: Any) -> None:
    for partition in range(6):
        me.commit("foo", partition, 5, generationIdOrMemberEpoch=me.epoch - 1)


def commits_without_a_member(me: ConsumerClient, _: Any) -> None:
    me.commit("foo", 0, 5, memberId="", groupInstanceId=None, generationIdOrMemberEpoch=-1)


def commits_with_an_old_version(me: ConsumerClient, _: Any) -> None:
    me.commit("foo", 0, 5, version=8)


def fetches_at_its_epoch(me: ConsumerClient, _: Any) -> None:
    me.conversation.offsets("foo", memberId=me.member_id, memberEpoch=me.epoch)


def fetches_at_a_wrong_epoch(me: ConsumerClient, _: Any) -> None:
    me.conversation.offsets("foo", memberId=me.member_id, memberEpoch=me.epoch + 3)


def is_joined_by_a_classic_member(me: ConsumerClient, _: Any) -> None:
    classic = me.conversation.classic("classic", "foo")
    classic.join()
    classic.sync()
    classic.heartbeat()


def is_replaced_by_a_classic_member(me: ConsumerClient, _: Any) -> None:
    classic = me.conversation.classic("classic", "foo", instance="mine")
    classic.join()
    classic.sync()
    classic.heartbeat()


CONSUMER: list[RequestFunction] = [
    sends_heartbeat,
    reports_owned_partitions,
    reports_no_partitions,
    reports_all_partitions,
    repeats_previous_epoch,
    repeats_previous_epoch_without_partitions,
    sends_a_later_epoch,
    joins_again,
    joins_under_another_id,
    joins_without_its_instance,
    subscribes_to_one_more_topic,
    subscribes_to_other_topics,
    sends_a_full_heartbeat,
    leaves,
    leaves_temporarily,
    leaves_by_leave_group,
    commits_at_its_epoch,
    commits_at_the_previous_epoch,
    commits_without_a_member,
    commits_with_an_old_version,
    fetches_at_its_epoch,
    fetches_at_a_wrong_epoch,
    is_joined_by_a_classic_member,
    is_replaced_by_a_classic_member,
]


@scripted(phase=CONSUMER_PHASES, request=CONSUMER + ADMIN)
def consumer(
    conversation: Conversation,
    phase: Callable[[Conversation], tuple[ConsumerClient, ConsumerClient]],
    request: RequestFunction,
) -> None:
    me, other = phase(conversation)
    request(me, other)
    conversation.describe()
    for _ in range(2):
        for member in (me, other):
            if member.epoch > 0:
                member.acknowledge()
    conversation.describe()
