"""Sessions, rebalances, joins and syncs that time out."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def session_ends(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 4)
    conversation.comparison.configure(
        conversation.group,
        {"consumer.session.timeout.ms": "1500", "consumer.heartbeat.interval.ms": "400"},
    )
    a, b = conversation.consumer("A", "foo"), conversation.consumer("B", "foo")
    a.join()
    b.join()
    a.acknowledge()
    a.acknowledge()
    b.heartbeat()
    for _ in range(5):
        yield 0.4
        a.heartbeat()
    a.heartbeat()
    b.heartbeat()
    yield 0.1
    a.acknowledge()


@scripted()
def rebalance_times_out(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 4)
    a, b = conversation.consumer("A", "foo", timeout=700), conversation.consumer("B", "foo")
    a.join()
    b.join()
    a.heartbeat()
    b.heartbeat()
    yield 0.4
    a.heartbeat()
    yield 0.7
    a.heartbeat()
    b.heartbeat()
    b.heartbeat()


@scripted()
def static_session_ends(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 2)
    conversation.comparison.configure(
        conversation.group,
        {"consumer.session.timeout.ms": "1200", "consumer.heartbeat.interval.ms": "400"},
    )
    a = conversation.consumer("A", "foo", instance="a")
    a.join()
    a.leave(-2)
    yield 1.6
    a.join()
    conversation.consumer("B", "foo", instance="a").join()


@scripted()
def classic_session_ends(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 2)
    a = conversation.classic("A", "foo", session=1_200, timeout=1_000)
    b = conversation.classic("B", "foo", session=30_000, timeout=1_000)
    a.join()
    yield 0.2
    a.joined(a.join())
    a.sync({a.member_id: {"foo": [0, 1]}})
    b.join()
    yield 0.2
    a.heartbeat()
    yield 1.6
    a.heartbeat()
    b.heartbeat()


@scripted()
def syncs_time_out(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 2)
    a = conversation.classic("A", "foo", session=30_000, timeout=800)
    a.join()
    yield 0.3
    a.joined(a.join())
    yield 1.2
    a.heartbeat()
    a.sync()


@scripted()
def classic_members_of_a_consumer_group_time_out(conversation: Conversation) -> Pauses:
    """One member is told to rejoin and does not; another joins and does not sync."""
    conversation.topic("foo", 4)
    a = conversation.consumer("A", "foo")
    a.join()
    c = conversation.classic("C", "foo", session=30_000, timeout=700)
    c.join()
    yield 1.1
    c.heartbeat()
    a.acknowledge()
    c.member_id, c.generation = "", -1
    c.join()
    c.sync()
    a.acknowledge()
    a.acknowledge()
    c.heartbeat()
    yield 1.1
    c.heartbeat()
    a.acknowledge()
    a.acknowledge()


SHORT = 1_200
"""ms: session or rebalance timeout of a member that is to exceed it."""


def _short_sessions(conversation: Conversation) -> None:
    settings = {
        "consumer.session.timeout.ms": str(SHORT),
        "consumer.heartbeat.interval.ms": "400",
    }
    conversation.comparison.configure(conversation.group, settings)


@scripted(says=["beat", "ack", "commit", "fetch", "bad_epoch", "nothing"])
def session_of_a_consumer_is_extended_by(conversation: Conversation, says: str) -> Pauses:
    """Only accepted heartbeats extend a session."""
    conversation.shared_topic("foo", 6)
    _short_sessions(conversation)
    a = conversation.consumer("A", "foo")
    a.join()
    for _ in range(2):
        yield 0.75
        if says == "beat":
            a.heartbeat()
        elif says == "ack":
            a.acknowledge()
        elif says == "commit":
            a.commit("foo", 0, 1)
        elif says == "fetch":
            conversation.offsets("foo", memberId=a.member_id, memberEpoch=a.epoch)
        elif says == "bad_epoch":
            a.heartbeat(memberEpoch=a.epoch + 9)
    conversation.describe()
    a.heartbeat()


@scripted(says=["beat", "commit", "join", "sync", "bad_generation", "nothing"])
def session_of_a_classic_member_is_extended_by(conversation: Conversation, says: str) -> Pauses:
    conversation.shared_topic("foo", 6)
    c = conversation.classic("C", "foo", session=SHORT)
    c.join()
    c.sync({c.member_id: {"foo": [0]}})
    for number in range(2):
        yield 0.75
        if says == "beat":
            c.heartbeat()
        elif says == "commit":
            rows = conversation.commit_topics("foo", 0, number, "")
            conversation.send(
                "C",
                "OffsetCommit",
                memberId=c.member_id,
                generationIdOrMemberEpoch=c.generation,
                topics=rows,
            )
        elif says == "join":
            c.join()
        elif says == "sync":
            c.sync()
        elif says == "bad_generation":
            c.heartbeat(generationId=c.generation + 9)
    conversation.describe()
    c.heartbeat()


@scripted(protocol=["classic", "consumer"])
def session_ends_in_a_mixed_group(conversation: Conversation, protocol: str) -> Pauses:
    """When the last consumer's session ends, the group becomes a classic one."""
    conversation.shared_topic("foo", 6)
    if protocol == "consumer":
        _short_sessions(conversation)
    a = conversation.consumer("A", "foo")
    c = conversation.classic("C", "foo", session=SHORT if protocol == "classic" else 200_000)
    c.join()
    c.sync({c.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    a.join()
    yield 1.6
    conversation.describe()
    c.heartbeat()
    a.heartbeat()
    yield 0.1
    conversation.describe()


@scripted(instance=["i", None])
def temporarily_left_member_expires(conversation: Conversation, instance: str | None) -> Pauses:
    """A static member that left temporarily, alone or beside another."""
    conversation.shared_topic("foo", 6)
    _short_sessions(conversation)
    a, b = (
        conversation.consumer("A", "foo", instance="a"),
        conversation.consumer("B", "foo", instance=instance),
    )
    a.join()
    b.join()
    a.heartbeat()
    a.leave(-2)
    for _ in range(4):
        yield 0.4
        b.acknowledge()
    conversation.describe()
    conversation.consumer("A2", "foo", instance="a").join()


@scripted()
def unused_member_id_expires(conversation: Conversation) -> Pauses:
    """A rebalance waits for a member that received an id, for its session timeout."""
    conversation.shared_topic("foo", 6)
    a, b = conversation.classic("A", "foo"), conversation.classic("B", "foo")
    a.join()
    a.sync({a.member_id: {"foo": [0]}})
    conversation.send(
        "B",
        "JoinGroup",
        memberId="",
        sessionTimeoutMs=SHORT,
        rebalanceTimeoutMs=200_000,
        protocolType="consumer",
        protocols=[{"name": "range", "metadata": b.metadata()}],
    )
    a.names = ["bar", "foo"]
    a.join()
    conversation.describe()
    yield 1.6
    a.joined(a.join())
    conversation.describe()


@scripted(instance=["i", None], who=["leader", "follower"])
def member_does_not_join_again(
    conversation: Conversation, instance: str | None, who: str
) -> Pauses:
    """After the rebalance timeout the others continue; a static member stays."""
    conversation.shared_topic("foo", 6)
    first = conversation.classic("A", "foo", timeout=SHORT, instance=instance)
    second = conversation.classic("B", "foo", timeout=SHORT)
    first.join()
    yield 0.1
    first.sync({first.member_id: {"foo": [0]}})
    second.join()
    yield 0.05
    first.joined(first.join())
    yield 0.05
    second.joined(second.join())
    for member in (first, second):
        member.sync({member.member_id: {"foo": [1]}})
    late, punctual = (first, second) if who == "leader" else (second, first)
    punctual.names = ["bar", "foo"]
    punctual.join()
    conversation.describe()
    yield 1.6
    conversation.describe()
    late.heartbeat()
    punctual.joined(punctual.join())
    punctual.sync({punctual.member_id: {"foo": [0]}})
    conversation.describe()


@scripted(who=["leader", "follower"])
def member_does_not_sync(conversation: Conversation, who: str) -> Pauses:
    conversation.shared_topic("foo", 6)
    first, second = (conversation.classic(name, "foo", timeout=SHORT) for name in "AB")
    first.join()
    first.sync({first.member_id: {"foo": [0]}})
    second.join()
    first.joined(first.join())
    yield 0.05
    second.joined(second.join())
    punctual = second if who == "leader" else first
    punctual.sync({first.member_id: {"foo": [0]}})
    conversation.describe()
    yield 1.6
    conversation.describe()
    for member in (first, second):
        member.heartbeat()


@scripted(does=["revokes_in_time", "is_late", "gets_a_newer_target", "goes_away"])
def member_that_revokes(conversation: Conversation, does: str) -> Pauses:
    """The rebalance timeout starts when the member is told to revoke."""
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    a, b = (
        conversation.consumer("A", "foo", timeout=SHORT, instance="a"),
        conversation.consumer("B", "foo"),
    )
    a.join()
    b.join()
    a.heartbeat()
    yield 0.7
    if does == "revokes_in_time":
        a.acknowledge()
    elif does == "gets_a_newer_target":
        b.subscribe("bar")
        a.heartbeat()
    elif does == "goes_away":
        a.leave(-2)
    yield 0.9
    conversation.describe()
    a.acknowledge()
    b.acknowledge()
    yield 0.8
    conversation.describe()


@scripted(does=["joins", "leaves", "subscribes_to_more", "comes_back", "is_fenced"])
def target_waits_for_the_interval(conversation: Conversation, does: str) -> Pauses:
    """From 4.3 on, the next target is computed an assignment interval after the last one."""
    if not conversation.comparison.reference.release.assignment_interval:
        return
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    conversation.comparison.configure(
        conversation.group, {"consumer.assignment.interval.ms": "1500"}
    )
    a, b, c = (
        conversation.consumer("A", "foo"),
        conversation.consumer("B", "foo", instance="b"),
        conversation.consumer("C"),
    )
    a.join()
    yield 1.7
    b.join()
    a.acknowledge()
    a.acknowledge()
    b.acknowledge()
    if does == "joins":
        c.names = ["foo"]
        c.join()
    elif does == "leaves":
        b.leave()
    elif does == "subscribes_to_more":
        b.subscribe("foo", "bar")
    elif does == "comes_back":
        b.leave(-2)
        conversation.consumer("B2", "bar", instance="b").join()
    else:
        conversation.send("x", "LeaveGroup", members=[{"memberId": "", "groupInstanceId": "b"}])
    for pause in (0.3, 0.3, 1.2):
        a.acknowledge()
        conversation.describe()
        yield pause
    for _ in range(2):
        for member in (a, b, c):
            if member.epoch > 0:
                member.acknowledge()
    conversation.describe()
