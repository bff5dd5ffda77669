"""Scripted conversations with a coordinator: each a short story, told to broker and reference."""

from __future__ import annotations

from collections.abc import Callable

from tests.coordinator.duel import Conversation, Talk

Story = Callable[[Talk], Conversation]
STORIES: list[Story] = []


def story(tell: Story) -> Story:
    STORIES.append(tell)
    return tell


@story
def three_members_join_foo(talk: Talk) -> Conversation:
    """The KIP's first example, with a member more."""
    talk.topic("foo", 3)
    a, b, c = (talk.consumer(name, "foo") for name in "ABC")
    a.join()
    b.join()
    b.beat()
    a.beat()
    a.beat()
    a.ack()
    b.beat()
    c.join()
    b.beat()
    c.beat()
    a.beat()
    a.ack()
    c.beat()
    yield 0
    for member in (a, b, c):
        member.beat()
        member.leave()
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])
    a.beat()


@story
def every_bad_heartbeat(talk: Talk) -> Conversation:
    """Errors of a request itself, and of a member or group that isn't there."""
    talk.topic("foo", 2)
    a = talk.consumer("A", "foo")
    a.join(groupId="")
    a.join(memberId="")
    a.join(memberEpoch=-3)
    a.join(rebalanceTimeoutMs=-1)
    a.join(topicPartitions=None)
    a.join(topicPartitions=[{"topicId": talk.topic("foo2", 1), "partitions": [0]}])
    a.join(subscribedTopicNames=None)
    a.join(serverAssignor="nonsense")
    a.join(instanceId="")
    a.join(rackId="")
    a.join(subscribedTopicRegex="(")
    a.beat(memberEpoch=5)
    a.leave()
    a.leave(-2)
    a.beat(memberEpoch=-2, instanceId="i")
    a.join()
    a.beat(memberEpoch=9)
    a.beat(memberEpoch=1)
    a.beat(memberEpoch=0, topicPartitions=[])
    a.beat(memberEpoch=3, memberId="B")
    a.beat(memberId="")
    a.beat(memberEpoch=-1, memberId="B")
    a.beat(instanceId="nobody")
    a.beat()
    yield 0


@story
def lost_response(talk: Talk) -> Conversation:
    """A member that missed the response which moved it on retries with its previous epoch."""
    talk.topic("foo", 4)
    a, b = talk.consumer("A", "foo"), talk.consumer("B", "foo")
    a.join()
    old = a.epoch
    owned = a.owned
    b.join()
    a.beat()
    a.ack()
    a.beat(memberEpoch=old)
    a.beat(memberEpoch=old, topicPartitions=owned)
    a.beat(memberEpoch=old, topicPartitions=a.owned)
    a.beat(memberEpoch=old, topicPartitions=[])
    a.beat()
    yield 0


@story
def changing_what_is_said(talk: Talk) -> Conversation:
    """Only the subscription bumps the epoch; everything else is merely stored."""
    talk.topic("foo", 3)
    talk.topic("bar", 2)
    a, b = talk.consumer("A", "foo"), talk.consumer("B", "foo")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.beat()
    a.beat(rackId="r1")
    a.beat(rebalanceTimeoutMs=1234)
    a.beat(serverAssignor="range")
    a.beat(subscribedTopicNames=[talk.topic_name("foo")])
    a.subscribe("foo", "bar")
    a.beat()
    b.ack()
    a.ack()
    b.subscribe("bar", "foo")
    b.ack()
    a.ack()
    b.beat()
    a.beat()
    a.subscribe("bar")
    a.ack()
    a.ack()
    b.ack()
    b.ack()
    a.beat(subscribedTopicNames=[])
    a.ack()
    a.ack()
    b.ack()
    a.beat(
        rebalanceTimeoutMs=30000,
        subscribedTopicNames=[talk.topic_name("foo")],
        topicPartitions=a.owned,
    )
    yield 0


@story
def range_assignor(talk: Talk) -> Conversation:
    talk.topic("foo", 5)
    talk.topic("bar", 4)
    members = [talk.consumer(name, "foo", "bar", assignor="range") for name in ("m1", "m2", "m3")]
    for member in members:
        member.join()
    for _ in range(4):
        for member in members:
            member.ack()
    members[0].leave()
    for _ in range(3):
        for member in members[1:]:
            member.ack()
    yield 0


@story
def votes_for_an_assignor(talk: Talk) -> Conversation:
    talk.topic("foo", 7)
    a = talk.consumer("A", "foo", assignor="range")
    b = talk.consumer("B", "foo", assignor="uniform")
    c = talk.consumer("C", "foo")
    d = talk.consumer("D", "foo", assignor="range")
    for member in (a, b, c, d):
        member.join()
        for other in (a, b, c, d):
            if other.epoch:
                other.ack()
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])
    yield 0


@story
def static_bounce(talk: Talk) -> Conversation:
    """A static member leaves for a while and comes back under another id."""
    talk.topic("foo", 4)
    a = talk.consumer("A1", "foo", instance="a")
    b = talk.consumer("B", "foo")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.beat()
    again = talk.consumer("A2", "foo", instance="a")
    again.join()
    a.leave(-2)
    b.beat()
    a.beat()
    again.join()
    again.beat()
    a.beat()
    b.ack()
    again.leave(-2)
    same = talk.consumer("A2", "foo", instance="a")
    same.join()
    same.ack()
    same.leave(-1)
    b.beat()
    b.beat()
    yield 0


@story
def static_bounce_while_revoking(talk: Talk) -> Conversation:
    talk.topic("foo", 4)
    a = talk.consumer("A1", "foo", instance="a")
    b = talk.consumer("B", "foo")
    a.join()
    b.join()
    a.beat()
    a.leave(-2)
    again = talk.consumer("A2", "foo", instance="a")
    b.beat()
    again.join()
    b.beat()
    again.ack()
    b.beat()
    yield 0


@story
def static_back_with_other_topics(talk: Talk) -> Conversation:
    talk.topic("foo", 3)
    talk.topic("bar", 3)
    a = talk.consumer("A1", "foo", instance="a")
    b = talk.consumer("B", "foo", instance="b")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.beat()
    a.leave(-2)
    again = talk.consumer("A2", "foo", "bar", instance="a")
    again.join()
    again.ack()
    b.ack()
    again.ack()
    b.leave(-2)
    again.leave(-2)
    talk.consumer("B9", "bar", instance="b").join()
    again.ack()
    yield 0


@story
def topics_come_grow_and_go(talk: Talk) -> Conversation:
    talk.topic("foo", 1)
    a, b = talk.consumer("A", "foo", "bar"), talk.consumer("B", "foo", "bar")
    a.join()
    b.join()
    a.ack()
    b.ack()
    talk.topic("foo", 2)
    a.beat()
    b.beat()
    talk.topic("bar", 3)
    b.beat()
    a.beat()
    a.ack()
    b.ack()
    a.commit("foo", 0, 5)
    talk.delete_topic("foo")
    a.beat()
    b.beat()
    a.ack()
    b.ack()
    a.ack()
    yield 0.2
    a.ack()
    b.ack()
    talk.topic("foo", 2)
    a.beat()
    b.beat()


@story
def regular_expressions(talk: Talk) -> Conversation:
    talk.topic("aa", 2)
    talk.topic("ab", 2)
    prefix = f"{talk.name}-"
    a = talk.consumer("A", regex=prefix + "a.*")
    a.join()
    yield 0.3
    a.beat()
    a.beat()
    b = talk.consumer("B", regex=prefix + "a.*")
    b.join()
    yield 0.2
    a.beat()
    a.ack()
    b.beat()
    b.beat(subscribedTopicRegex=prefix + "ab")
    yield 0.3
    b.beat()
    a.ack()
    b.ack()
    a.beat(subscribedTopicRegex="(?<x")
    a.beat(subscribedTopicRegex="")
    yield 0.3
    a.ack()
    yield 0.3
    b.ack()
    a.ack()
    b.leave()
    a.leave()


@story
def regex_and_names(talk: Talk) -> Conversation:
    talk.topic("aa", 2)
    talk.topic("b", 3)
    a = talk.consumer("A", "b", regex=f"{talk.name}-a.*")
    c = talk.consumer("C", "b")
    a.join()
    yield 0.3
    c.join()
    a.beat()
    a.ack()
    c.beat()
    a.ack()
    c.ack()
    a.leave()
    c.ack()
    c.ack()


@story
def session_ends(talk: Talk) -> Conversation:
    talk.topic("foo", 4)
    talk.duel.configure(
        talk.group,
        {"consumer.session.timeout.ms": "1500", "consumer.heartbeat.interval.ms": "400"},
    )
    a, b = talk.consumer("A", "foo"), talk.consumer("B", "foo")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.beat()
    for _ in range(5):
        yield 0.4
        a.beat()
    a.beat()
    b.beat()
    yield 0.1
    a.ack()


@story
def rebalance_times_out(talk: Talk) -> Conversation:
    talk.topic("foo", 4)
    a, b = talk.consumer("A", "foo", timeout=700), talk.consumer("B", "foo")
    a.join()
    b.join()
    a.beat()
    b.beat()
    yield 0.4
    a.beat()
    yield 0.7
    a.beat()
    b.beat()
    b.beat()


@story
def static_session_ends(talk: Talk) -> Conversation:
    talk.topic("foo", 2)
    talk.duel.configure(
        talk.group,
        {"consumer.session.timeout.ms": "1200", "consumer.heartbeat.interval.ms": "400"},
    )
    a = talk.consumer("A", "foo", instance="a")
    a.join()
    a.leave(-2)
    yield 1.6
    a.join()
    talk.consumer("B", "foo", instance="a").join()


@story
def offsets_of_a_consumer_group(talk: Talk) -> Conversation:
    talk.topic("foo", 3)
    a = talk.consumer("A", "foo")
    a.join()
    a.commit("foo", 0, 10)
    a.commit("foo", 1, 11, generationIdOrMemberEpoch=a.epoch + 1)
    a.commit("foo", 1, 11, generationIdOrMemberEpoch=a.epoch - 1)
    a.commit("foo", 1, 11, generationIdOrMemberEpoch=-1)
    a.commit("foo", 1, 11, memberId="nobody")
    a.commit("foo", 1, 12, version=8)
    a.commit("none", 1, 12)
    row = {"groupId": talk.group, "memberId": "A", "memberEpoch": a.epoch}
    foo = talk.topic_name("foo")
    topics = [{"name": foo, "partitionIndexes": [0, 1, 2]}]
    for change in ({}, {"memberEpoch": 99}, {"memberId": "x"}, {"memberId": None}):
        group = row | change | {"topics": topics}
        if change.get("memberId", "") is None:
            group["memberEpoch"] = -1
        talk.ask("A", "OffsetFetch", groups=[group], requireStable=False)
    none = {"groupId": talk.group, "memberId": None, "memberEpoch": -1, "topics": None}
    talk.ask("A", "OffsetFetch", groups=[none], requireStable=True)
    missing = none | {"groupId": talk.group + "-missing", "topics": topics}
    talk.ask("A", "OffsetFetch", groups=[missing], requireStable=True)
    wanted = [{"name": foo, "partitions": [{"partitionIndex": 0}]}]
    talk.ask("A", "OffsetDelete", topics=wanted)
    a.leave()
    a.commit("foo", 2, 3, generationIdOrMemberEpoch=-1, memberId="")
    talk.ask("A", "OffsetDelete", topics=wanted)
    talk.ask("A", "DeleteGroups", groupsNames=[talk.group, talk.group + "-missing"])
    a.join()
    talk.ask("A", "DeleteGroups", groupsNames=[talk.group])
    yield 0


@story
def simple_group(talk: Talk) -> Conversation:
    talk.topic("foo", 3)
    a = talk.consumer("A", "foo", member_id="A")
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=3)
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=-1, memberId="")
    a.commit("foo", 2, 7, generationIdOrMemberEpoch=-1, memberId="", version=8)
    talk.ask("A", "DescribeGroups", groups=[talk.group])
    a.join()
    a.leave()
    talk.ask("A", "DescribeGroups", groups=[talk.group, talk.group + "-x"])
    talk.ask("A", "DeleteGroups", groupsNames=[talk.group])
    yield 0


@story
def classic_life(talk: Talk) -> Conversation:
    """Two classic members: join, sync, heartbeat, rebalance, leave."""
    talk.topic("foo", 4)
    a, b = talk.classic("A", "foo"), talk.classic("B", "foo")
    a.join()
    yield 0.1
    a.joined(a.join())
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    a.beat()
    a.beat(generationId=99)
    a.beat(memberId="nobody")
    b.join()
    a.beat()
    a.join()
    yield 0.1
    b.join()
    a.join()
    yield 0.1
    talk.ask("x", "DescribeGroups", groups=[talk.group])
    talk.ask("x", "ListGroups", statesFilter=["stable"], typesFilter=["nonsense"])
    a.leave()
    b.leave(members=[{"memberId": "nobody", "groupInstanceId": None}])
    b.beat()
    yield 0.1
    b.leave()
    b.beat()
    talk.ask("x", "DeleteGroups", groupsNames=[talk.group])
    a.beat()


@story
def classic_errors(talk: Talk) -> Conversation:
    talk.topic("foo", 2)
    a = talk.classic("A", "foo")
    a.join(sessionTimeoutMs=1)
    a.join(groupId="")
    a.join(memberId="nobody")
    a.join(protocolType="")
    a.join(protocols=[])
    a.sync()
    a.beat()
    a.leave()
    a.join()
    yield 0.1
    c = talk.classic("C", "foo", protocols=("other",))
    c.join()
    c.join(protocolType="connect")
    a.sync(generationId=7)
    a.sync(memberId="nobody")
    a.sync(protocolName="other")
    a.sync(groupInstanceId="nobody")
    yield 0


@story
def classic_static(talk: Talk) -> Conversation:
    """Static members come back under new ids; a stable group does not rebalance for that."""
    talk.topic("foo", 4)
    a = talk.classic("A", "foo", instance="a")
    b = talk.classic("B", "foo", instance="b")
    a.join()
    yield 0.3
    a.joined(a.join())
    a.sync({a.member_id: {"foo": [0, 1, 2, 3]}})
    b.join()
    yield 0.1
    a.join()
    yield 0.3
    b.joined(b.join())
    a.joined(a.join())
    talk.ask("x", "DescribeGroups", groups=[talk.group])
    old = a.member_id
    a.member_id = ""
    a.join()
    yield 0.2
    a.beat(memberId=old)
    a.sync(memberId=old)
    a.leave(members=[{"memberId": old, "groupInstanceId": "a"}])
    b.leave(members=[{"memberId": "", "groupInstanceId": "b"}])
    b.leave(members=[{"memberId": "", "groupInstanceId": "nobody"}])
    yield 0.2
    talk.ask("x", "DescribeGroups", groups=[talk.group])


@story
def upgrade_and_downgrade(talk: Talk) -> Conversation:
    """Online migration up, with a classic member reconciled, and down again."""
    talk.topic("foo", 6)
    a = talk.classic("A", "foo")
    a.join()
    yield 0.2
    a.join()
    a.generation = 1
    a.sync({a.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    a.beat()
    b = talk.consumer("B", "foo")
    b.join()
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])
    a.beat()
    a.sync()
    b.beat()
    a.owned = []
    a.join()
    a.sync()
    b.beat()
    a.beat()
    a.beat(memberId="nobody")
    a.beat(generationId=77)
    a.sync(protocolName="other")
    c = talk.classic("C", "foo", protocols=("other",))
    c.join()
    d = talk.classic("D", "foo")
    d.join()
    d.sync()
    b.ack()
    b.ack()
    a.beat()
    a.join()
    a.sync()
    d.beat()
    d.join()
    d.sync()
    b.leave()
    yield 0.1
    a.beat()
    a.join()
    d.join()
    yield 0.1
    a.beat()


@story
def empty_groups_change_type(talk: Talk) -> Conversation:
    talk.topic("foo", 2)
    a = talk.consumer("A", "foo")
    a.join()
    a.leave()
    c = talk.classic("C", "foo")
    c.join()
    yield 0.2
    c.leave()
    yield 0.1
    a.join()
    a.leave()


@story
def downgrade_by_static_replacement(talk: Talk) -> Conversation:
    """The last member of the new protocol is replaced by itself, with the classic protocol."""
    talk.topic("foo", 4)
    c = talk.classic("C", "foo")
    c.join()
    yield 0.2
    c.join()
    c.generation = 1
    c.sync({c.member_id: {"foo": [0, 1, 2, 3]}})
    a = talk.consumer("A", "foo", instance="a")
    a.join()
    c.beat()
    c.owned = []
    c.joined(c.join())
    c.sync()
    a.beat()
    a.leave(-2)
    back = talk.classic("A2", "foo", instance="a")
    back.join()
    yield 0.2
    c.beat()
    back.beat()
    talk.ask("x", "DescribeGroups", groups=[talk.group])
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])


@story
def static_replacement_by_a_classic_member(talk: Talk) -> Conversation:
    """A static member changes its protocol while others of the new one remain."""
    talk.topic("foo", 4)
    a, b = talk.consumer("A", "foo", instance="a"), talk.consumer("B", "foo")
    a.join()
    b.join()
    a.ack()
    a.ack()
    b.beat()
    back = talk.classic("A2", "foo", instance="a")
    back.join()
    back.sync()
    a.beat()
    b.ack()
    back.beat()
    b.leave()
    yield 0.2
    back.beat()


@story
def full_groups(talk: Talk) -> Conversation:
    """More members than the broker allows in any group are not to be had here: all get in."""
    talk.topic("foo", 20)
    members = [talk.consumer(f"m{number:02}", "foo") for number in range(14)]
    for member in members:
        member.join()
    for _ in range(3):
        for member in members:
            member.ack()
    for member in members[::2]:
        member.leave()
    for _ in range(3):
        for member in members[1::2]:
            member.ack()
    yield 0


@story
def classic_session_ends(talk: Talk) -> Conversation:
    talk.topic("foo", 2)
    a = talk.classic("A", "foo", session=1_200, timeout=1_000)
    b = talk.classic("B", "foo", session=30_000, timeout=1_000)
    a.join()
    yield 0.2
    a.joined(a.join())
    a.sync({a.member_id: {"foo": [0, 1]}})
    b.join()
    yield 0.2
    a.beat()
    yield 1.6
    a.beat()
    b.beat()


@story
def syncs_time_out(talk: Talk) -> Conversation:
    talk.topic("foo", 2)
    a = talk.classic("A", "foo", session=30_000, timeout=800)
    a.join()
    yield 0.3
    a.joined(a.join())
    yield 1.2
    a.beat()
    a.sync()


@story
def classic_members_of_a_consumer_group_time_out(talk: Talk) -> Conversation:
    """One is told to join again and does not; another joins and does not sync."""
    talk.topic("foo", 4)
    a = talk.consumer("A", "foo")
    a.join()
    c = talk.classic("C", "foo", session=30_000, timeout=700)
    c.join()
    yield 1.1
    c.beat()
    a.ack()
    c.member_id, c.generation = "", -1
    c.join()
    c.sync()
    a.ack()
    a.ack()
    c.beat()
    yield 1.1
    c.beat()
    a.ack()
    a.ack()


@story
def commits_of_classic_members(talk: Talk) -> Conversation:
    """Generations are checked, in a classic group and after its upgrade."""
    talk.topic("foo", 2)
    c = talk.classic("C", "foo")
    a = talk.consumer("A", "foo")
    c.join()
    yield 0.2
    c.joined(c.join())
    who = {"memberId": c.member_id}
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=c.generation, **who)
    c.sync({c.member_id: {"foo": [0, 1]}})
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=c.generation, **who)
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=c.generation + 1, **who)
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=-1, memberId="")
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=c.generation, memberId="nobody")
    wanted = [{"name": talk.topic_name("foo"), "partitions": [{"partitionIndex": 0}]}]
    a.talk.ask("A", "OffsetDelete", topics=wanted)
    a.join()
    a.commit("foo", 0, 2, generationIdOrMemberEpoch=c.generation, **who)
    a.commit("foo", 0, 2, generationIdOrMemberEpoch=c.generation + 5, **who)
    a.commit("foo", 0, 2, generationIdOrMemberEpoch=c.generation - 1, **who)
    a.commit("foo", 0, 2)


@story
def downgrade_is_refused_while_new_members_remain(talk: Talk) -> Conversation:
    talk.topic("foo", 6)
    a, b = talk.consumer("A", "foo"), talk.consumer("B", "foo")
    c = talk.classic("C", "foo")
    a.join()
    c.join()
    c.sync()
    b.join()
    a.ack()
    a.ack()
    c.beat()
    c.join()
    c.sync()
    b.ack()
    a.leave()
    yield 0.1
    c.beat()
    b.ack()
    talk.ask("x", "ListGroups", statesFilter=["nothing"], typesFilter=["classic"])
    b.leave()
    yield 0.2
    c.beat()
    talk.ask("x", "ConsumerGroupDescribe", groupIds=[talk.group])
