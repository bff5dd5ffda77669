"""Requests to a share group: of its members, of clients of other types, of administrators."""

from __future__ import annotations

from typing import Any

from tests.coordinator.conversations.administrator import RequestFunction
from tests.coordinator.share_conversations import ShareClient
from tests.streams_conversations import StreamsClient, configure, subtopology

# Requests of a member


def send(member: ShareClient, **request: Any) -> None:
    """A heartbeat of which the client keeps nothing."""
    member.conversation.send("stranger", "ShareGroupHeartbeat", **request)


def names(member: ShareClient, *topics: str) -> list[str]:
    return [member.conversation.topic_name(name) for name in topics]


def sends_heartbeat(me: ShareClient, _: Any) -> None:
    me.heartbeat()


def repeats_the_previous_epoch(me: ShareClient, _: Any) -> None:
    send(me, memberId=me.name, memberEpoch=max(me.epoch - 1, 1))


def sends_an_old_epoch(me: ShareClient, _: Any) -> None:
    send(me, memberId=me.name, memberEpoch=max(me.epoch - 2, 1))


def sends_a_later_epoch(me: ShareClient, _: Any) -> None:
    me.heartbeat(memberEpoch=me.epoch + 1)


def sends_an_epoch_below_minus_one(me: ShareClient, _: Any) -> None:
    send(me, memberId=me.name, memberEpoch=-2)


def joins_again(me: ShareClient, _: Any) -> None:
    me.join()


def joins_again_without_topics(me: ShareClient, _: Any) -> None:
    send(me, memberId=me.name, memberEpoch=0)


def joins_again_with_other_topics(me: ShareClient, _: Any) -> None:
    me.join("bar")


def joins_under_another_id(me: ShareClient, _: Any) -> None:
    me.name = "A2"
    me.join()


def joins_without_a_member_id(me: ShareClient, _: Any) -> None:
    send(me, memberId="", memberEpoch=0, subscribedTopicNames=names(me, "foo"))


def subscribes_to_the_same_topics(me: ShareClient, _: Any) -> None:
    me.subscribe(*me.topics)


def subscribes_to_another_topic(me: ShareClient, _: Any) -> None:
    me.subscribe("bar")


def subscribes_to_one_more_topic(me: ShareClient, _: Any) -> None:
    me.subscribe("foo", "bar")


def subscribes_to_nothing(me: ShareClient, _: Any) -> None:
    me.subscribe()


def subscribes_to_a_missing_topic(me: ShareClient, _: Any) -> None:
    me.subscribe("foo", "missing")


def subscribes_to_a_topic_twice(me: ShareClient, _: Any) -> None:
    me.subscribe("bar", "foo", "bar")


def subscribes_back_and_forth(me: ShareClient, _: Any) -> None:
    """Nothing has changed after the second request, but the epoch has."""
    before = me.topics
    me.subscribe("bar")
    me.subscribe(*before)


def moves_to_a_rack(me: ShareClient, _: Any) -> None:
    me.heartbeat(rackId="there")
    me.heartbeat(rackId="there")


def moves_to_a_blank_rack(me: ShareClient, _: Any) -> None:
    me.heartbeat(rackId=" ")


def moves_to_another_client(me: ShareClient, _: Any) -> None:
    """The member id stays, the client id does not."""
    send(me, memberId=me.name, memberEpoch=me.epoch, subscribedTopicNames=names(me, *me.topics))


def leaves(me: ShareClient, _: Any) -> None:
    me.leave()
    me.leave()


def leaves_and_returns(me: ShareClient, _: Any) -> None:
    me.leave()
    me.join()


def is_left_by_the_other(me: ShareClient, other: ShareClient) -> None:
    other.leave()


def meets_another_member(me: ShareClient, _: Any) -> None:
    """A third member joins, which nobody expects to speak again."""
    third = ShareClient(me.conversation, "third", ["foo"])
    third.join()


def is_called_by_an_unknown_member(me: ShareClient, _: Any) -> None:
    for epoch in (me.epoch, me.epoch + 1, -1):
        send(me, memberId="nobody", memberEpoch=epoch)


SHARE: list[RequestFunction] = [
    sends_heartbeat,
    repeats_the_previous_epoch,
    sends_an_old_epoch,
    sends_a_later_epoch,
    sends_an_epoch_below_minus_one,
    joins_again,
    joins_again_without_topics,
    joins_again_with_other_topics,
    joins_under_another_id,
    joins_without_a_member_id,
    subscribes_to_the_same_topics,
    subscribes_to_another_topic,
    subscribes_to_one_more_topic,
    subscribes_to_nothing,
    subscribes_to_a_missing_topic,
    subscribes_to_a_topic_twice,
    subscribes_back_and_forth,
    moves_to_a_rack,
    moves_to_a_blank_rack,
    moves_to_another_client,
    leaves,
    leaves_and_returns,
    is_left_by_the_other,
    meets_another_member,
    is_called_by_an_unknown_member,
]

# Requests of others


def commit(me: Any, member_id: str, epoch: int, version: int = 9) -> None:
    me.conversation.send(
        "committer",
        "OffsetCommit",
        version,
        memberId=member_id,
        groupInstanceId=None,
        generationIdOrMemberEpoch=epoch,
        topics=me.conversation.commit_topics("foo", 0, 5, ""),
    )


def commits_an_offset(me: ShareClient, _: Any) -> None:
    """As a member, with an old version, and as nobody."""
    commit(me, me.name, me.epoch)
    commit(me, me.name, me.epoch, version=8)
    commit(me, "", -1)


def fetches_offsets(me: ShareClient, _: Any) -> None:
    me.conversation.offsets("foo")
    me.conversation.offsets("foo", topics=None)
    me.conversation.offsets("foo", memberId=me.name, memberEpoch=me.epoch)


def is_described_as_every_type(me: ShareClient, _: Any) -> None:
    me.conversation.describe()
    group, other = me.conversation.group, f"no-{me.conversation.group}"
    for api in ("ShareGroupDescribe", "StreamsGroupDescribe"):
        me.conversation.send("x", api, groupIds=[other, group, "", group])


def is_listed_by_state(me: ShareClient, _: Any) -> None:
    for states, types in ((["empty"], []), (["Stable"], ["SHARE"]), ([], ["consumer", "streams"])):
        me.conversation.send("x", "ListGroups", statesFilter=states, typesFilter=types)


def is_joined_by_a_consumer(me: ShareClient, _: Any) -> None:
    consumer = me.conversation.consumer("c", "foo")
    consumer.join()
    consumer.heartbeat(memberId=me.name, memberEpoch=me.epoch)
    consumer.heartbeat(memberId=me.name, memberEpoch=-1)


def is_joined_by_a_classic_member(me: ShareClient, _: Any) -> None:
    classic = me.conversation.classic("d", "foo", instance="static")
    classic.join()
    classic.sync()
    classic.heartbeat()
    classic.leave()
    me.conversation.classic("d", "foo", member_id="old").join()


def is_joined_by_a_stream(me: ShareClient, _: Any) -> None:
    topology = [subtopology("0", sourceTopics=names(me, "foo"))]
    stream = StreamsClient(me.conversation, "s", "p", topology)
    stream.join()
    stream.heartbeat(memberId=me.name, memberEpoch=me.epoch)
    stream.heartbeat(memberId=me.name, memberEpoch=-1)


def gets_another_heartbeat_interval(me: ShareClient, _: Any) -> None:
    configure(me.conversation, {"share.heartbeat.interval.ms": "7000"})


OTHERS: list[RequestFunction] = [
    commits_an_offset,
    fetches_offsets,
    is_described_as_every_type,
    is_listed_by_state,
    is_joined_by_a_consumer,
    is_joined_by_a_classic_member,
    is_joined_by_a_stream,
    gets_another_heartbeat_interval,
]
