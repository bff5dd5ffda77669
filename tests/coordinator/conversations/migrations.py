"""Groups that change their protocol, with and without members."""

from __future__ import annotations

import base64

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def upgrade_and_downgrade(conversation: Conversation) -> Pauses:
    """Online upgrade, reconciliation of a classic member, and downgrade."""
    conversation.topic("foo", 6)
    a = conversation.classic("A", "foo")
    a.join()
    yield 0.2
    a.join()
    a.generation = 1
    a.sync({a.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    a.heartbeat()
    b = conversation.consumer("B", "foo")
    b.join()
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])
    a.heartbeat()
    a.sync()
    b.heartbeat()
    a.owned = []
    a.join()
    a.sync()
    b.heartbeat()
    a.heartbeat()
    a.heartbeat(memberId="nobody")
    a.heartbeat(generationId=77)
    a.sync(protocolName="other")
    c = conversation.classic("C", "foo", protocols=("other",))
    c.join()
    d = conversation.classic("D", "foo")
    d.join()
    d.sync()
    b.acknowledge()
    b.acknowledge()
    a.heartbeat()
    a.join()
    a.sync()
    d.heartbeat()
    d.join()
    d.sync()
    b.leave()
    yield 0.1
    a.heartbeat()
    a.join()
    d.join()
    yield 0.1
    a.heartbeat()


@scripted()
def empty_groups_change_type(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 2)
    a = conversation.consumer("A", "foo")
    a.join()
    a.leave()
    c = conversation.classic("C", "foo")
    c.join()
    yield 0.2
    c.leave()
    yield 0.1
    a.join()
    a.leave()


@scripted()
def downgrade_by_static_replacement(conversation: Conversation) -> Pauses:
    """The last member of the new protocol returns with the classic protocol."""
    conversation.topic("foo", 4)
    c = conversation.classic("C", "foo")
    c.join()
    yield 0.2
    c.join()
    c.generation = 1
    c.sync({c.member_id: {"foo": [0, 1, 2, 3]}})
    a = conversation.consumer("A", "foo", instance="a")
    a.join()
    c.heartbeat()
    c.owned = []
    c.joined(c.join())
    c.sync()
    a.heartbeat()
    a.leave(-2)
    back = conversation.classic("A2", "foo", instance="a")
    back.join()
    yield 0.2
    c.heartbeat()
    back.heartbeat()
    conversation.send("x", "DescribeGroups", groups=[conversation.group])
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])


@scripted(names=[["foo"], ["foo", "bar"], ["bar"]], away=[True, False])
def downgrade_by_static_replacement_with_topics(
    conversation: Conversation, names: list[str], away: bool
) -> Pauses:
    """If the topics changed, the group rebalances as a classic one from 4.0.2 and 4.1.1 on. Before,
    it gets a new target first (KAFKA-19546).
    """
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 3)
    c = conversation.classic("C", "foo")
    c.join()
    c.sync({c.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    a = conversation.consumer("A", "foo", instance="a")
    a.join()
    c.heartbeat()
    c.owned = []
    c.joined(c.join())
    c.sync()
    a.acknowledge()
    if away:
        a.leave(-2)
    back = conversation.classic("A2", *names, instance="a")
    back.join()
    yield 0.2
    c.heartbeat()
    back.heartbeat()
    conversation.describe()


@scripted()
def static_replacement_by_a_classic_member(conversation: Conversation) -> Pauses:
    """A static member changes its protocol while other members of the new protocol remain."""
    conversation.topic("foo", 4)
    a, b = conversation.consumer("A", "foo", instance="a"), conversation.consumer("B", "foo")
    a.join()
    b.join()
    a.acknowledge()
    a.acknowledge()
    b.heartbeat()
    back = conversation.classic("A2", "foo", instance="a")
    back.join()
    back.sync()
    a.heartbeat()
    b.acknowledge()
    back.heartbeat()
    b.leave()
    yield 0.2
    back.heartbeat()


@scripted()
def downgrade_is_refused_while_new_members_remain(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 6)
    a, b = conversation.consumer("A", "foo"), conversation.consumer("B", "foo")
    c = conversation.classic("C", "foo")
    a.join()
    c.join()
    c.sync()
    b.join()
    a.acknowledge()
    a.acknowledge()
    c.heartbeat()
    c.join()
    c.sync()
    b.acknowledge()
    a.leave()
    yield 0.1
    c.heartbeat()
    b.acknowledge()
    conversation.send("x", "ListGroups", statesFilter=["nothing"], typesFilter=["classic"])
    b.leave()
    yield 0.2
    c.heartbeat()
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])


@scripted(away=[True, False], beside=["classic", "consumer", "nobody"])
def static_member_changes_protocol_under_its_own_ids(
    conversation: Conversation, away: bool, beside: str
) -> Pauses:
    """The member keeps its member id. The group becomes a classic one if no other consumer is in
    it.
    """
    conversation.shared_topic("foo", 6)
    if beside == "consumer":
        conversation.consumer("B", "foo").join()
    c = conversation.classic("C", "foo")
    if beside == "classic":
        c.join()
        c.sync({c.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    a = conversation.consumer("A", "foo", instance="a")
    a.join()
    a.acknowledge()
    if away:
        a.leave(-2)
    same = conversation.classic("A", "foo", instance="a", member_id="A")
    same.join()
    yield 0.2
    conversation.describe()
    same.sync()
    same.heartbeat()
    c.heartbeat()
    conversation.describe()


@scripted(instance=["a", None], names=[["b1"], ["a1"], []], same=[True, False])
def member_with_an_expression_becomes_classic(
    conversation: Conversation, instance: str | None, names: list[str], same: bool
) -> Pauses:
    """The expression is cleared; the topic names may stay the same."""
    conversation.topic("a1", 2)
    conversation.topic("b1", 2)
    conversation.consumer("B", "b1").join()
    expression = f"{conversation.name}-a.*"
    a = conversation.consumer("A", *names, regex=expression, instance=instance)
    a.join()
    yield 0.3
    a.acknowledge()
    member_id = "A" if same or instance is None else ""
    if instance is not None and not same:
        a.leave(-2)
    back = conversation.classic("A", *(names or ["b1"]), instance=instance, member_id=member_id)
    back.join()
    yield 0.3
    back.sync()
    back.heartbeat()
    conversation.describe()


SUBSCRIPTIONS = {
    "nothing": b"",
    "half a version": b"\0",
    "no topics": b"\0\1",
    "a version below zero": b"\xff\xff\0\0\0\0\xff\xff\xff\xff",
    "too few topics": b"\0\0\0\0\0\2\0\3foo",
    "too many topics": b"\0\0\x7f\xff\xff\xff\0\3foo",
    "a negative number of topics": b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
    "a topic without a name": b"\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff",
    "a name that is not UTF-8": b"\0\0\0\0\0\1\0\1\xff\xff\xff\xff\xff",
    "a later version": b"\0\x09\0\0\0\0\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff",
}


@scripted(data=list(SUBSCRIPTIONS))
def malformed_subscription(conversation: Conversation, data: str) -> None:
    """A consumer group reads the subscription of a classic member; a classic group does not."""
    metadata = base64.b64encode(SUBSCRIPTIONS[data]).decode()
    conversation.shared_topic("foo", 6)
    conversation.consumer("A", "foo").join()
    c = conversation.classic("C", "foo")
    c.join(protocols=[{"name": "range", "metadata": metadata}])
    conversation.describe()


@scripted(then=["classic", "consumer", "delete", "commit"], expression=[True, False])
def unknown_classic_member_joins_an_empty_consumer_group(
    conversation: Conversation, then: str, expression: bool
) -> Pauses:
    """The request is refused, and the coordinator forgets the group without a record."""
    conversation.topic("foo", 3)
    regex = f"{conversation.name}-f.*" if expression else None
    a = conversation.consumer("A", *([] if expression else ["foo"]), regex=regex)
    a.join()
    yield 0.3
    a.acknowledge()
    a.commit("foo", 0, 5)
    a.leave()
    conversation.classic("C", "foo", member_id="nobody").join()
    conversation.describe()  # it is seen until the next record
    conversation.offsets("foo")
    conversation.consumer("X", "foo").join(groupId=conversation.group + "-other")
    conversation.describe()
    conversation.offsets("foo")
    all_topics = {"groupId": conversation.group, "memberId": None, "memberEpoch": -1}
    conversation.send(
        "x", "OffsetFetch", groups=[all_topics | {"topics": None}], requireStable=False
    )
    if then == "classic":
        c = conversation.classic("C", "foo")
        c.join()
        c.sync({c.member_id: {"foo": [0, 1, 2]}})
    elif then == "consumer":
        a.join()
        yield 0.3
        a.acknowledge()
    elif then == "delete":
        conversation.delete_offset("foo")
        conversation.delete_group()
    else:
        a.commit("foo", 1, 7, memberId="", generationIdOrMemberEpoch=-1)
        a.join()
        yield 0.3
        a.acknowledge()
    conversation.offsets("foo")
    conversation.describe()
