"""What ends by the clock: sessions, rebalances, joins and syncs."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story()
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


@story()
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


@story()
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


@story()
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


@story()
def syncs_time_out(talk: Talk) -> Conversation:
    talk.topic("foo", 2)
    a = talk.classic("A", "foo", session=30_000, timeout=800)
    a.join()
    yield 0.3
    a.joined(a.join())
    yield 1.2
    a.beat()
    a.sync()


@story()
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


SHORT = 1_200
"""ms: the session or rebalance timeout of who is to run out of it."""


def _short_sessions(talk: Talk) -> None:
    settings = {
        "consumer.session.timeout.ms": str(SHORT),
        "consumer.heartbeat.interval.ms": "400",
    }
    talk.duel.configure(talk.group, settings)


@story(says=["beat", "ack", "commit", "fetch", "bad_epoch", "nothing"])
def session_of_a_consumer_is_kept_by(talk: Talk, says: str) -> Conversation:
    """By a heartbeat that is taken, and by nothing else."""
    talk.shared("foo", 6)
    _short_sessions(talk)
    a = talk.consumer("A", "foo")
    a.join()
    for _ in range(2):
        yield 0.75
        if says == "beat":
            a.beat()
        elif says == "ack":
            a.ack()
        elif says == "commit":
            a.commit("foo", 0, 1)
        elif says == "fetch":
            talk.offsets("foo", memberId=a.member_id, memberEpoch=a.epoch)
        elif says == "bad_epoch":
            a.beat(memberEpoch=a.epoch + 9)
    talk.look()
    a.beat()


@story(says=["beat", "commit", "join", "sync", "bad_generation", "nothing"])
def session_of_a_classic_member_is_kept_by(talk: Talk, says: str) -> Conversation:
    talk.shared("foo", 6)
    c = talk.classic("C", "foo", session=SHORT)
    c.join()
    c.sync({c.member_id: {"foo": [0]}})
    for number in range(2):
        yield 0.75
        if says == "beat":
            c.beat()
        elif says == "commit":
            rows = talk.commit_rows("foo", 0, number, "")
            talk.ask(
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
            c.beat(generationId=c.generation + 9)
    talk.look()
    c.beat()


@story(protocol=["classic", "consumer"])
def session_ends_in_a_mixed_group(talk: Talk, protocol: str) -> Conversation:
    """The last consumer's end makes the group a classic one again."""
    talk.shared("foo", 6)
    if protocol == "consumer":
        _short_sessions(talk)
    a = talk.consumer("A", "foo")
    c = talk.classic("C", "foo", session=SHORT if protocol == "classic" else 200_000)
    c.join()
    c.sync({c.member_id: {"foo": [0, 1, 2, 3, 4, 5]}})
    a.join()
    yield 1.6
    talk.look()
    c.beat()
    a.beat()
    yield 0.1
    talk.look()


@story(instance=["i", None])
def member_away_is_forgotten(talk: Talk, instance: str | None) -> Conversation:
    """A static member that left for a while, beside another or alone."""
    talk.shared("foo", 6)
    _short_sessions(talk)
    a, b = talk.consumer("A", "foo", instance="a"), talk.consumer("B", "foo", instance=instance)
    a.join()
    b.join()
    a.beat()
    a.leave(-2)
    for _ in range(4):
        yield 0.4
        b.ack()
    talk.look()
    talk.consumer("A2", "foo", instance="a").join()


@story()
def promised_id_is_not_used(talk: Talk) -> Conversation:
    """A rebalance waits for whoever was promised an id, for that member's session timeout."""
    talk.shared("foo", 6)
    a, b = talk.classic("A", "foo"), talk.classic("B", "foo")
    a.join()
    a.sync({a.member_id: {"foo": [0]}})
    talk.ask(
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
    talk.look()
    yield 1.6
    a.joined(a.join())
    talk.look()


@story(instance=["i", None], who=["leader", "follower"])
def member_does_not_join_again(talk: Talk, instance: str | None, who: str) -> Conversation:
    """When the rebalance timeout is over the others go on; a static member stays."""
    talk.shared("foo", 6)
    first = talk.classic("A", "foo", timeout=SHORT, instance=instance)
    second = talk.classic("B", "foo", timeout=SHORT)
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
    talk.look()
    yield 1.6
    talk.look()
    late.beat()
    punctual.joined(punctual.join())
    punctual.sync({punctual.member_id: {"foo": [0]}})
    talk.look()


@story(who=["leader", "follower"])
def member_does_not_sync(talk: Talk, who: str) -> Conversation:
    talk.shared("foo", 6)
    first, second = (talk.classic(name, "foo", timeout=SHORT) for name in "AB")
    first.join()
    first.sync({first.member_id: {"foo": [0]}})
    second.join()
    first.joined(first.join())
    yield 0.05
    second.joined(second.join())
    punctual = second if who == "leader" else first
    punctual.sync({first.member_id: {"foo": [0]}})
    talk.look()
    yield 1.6
    talk.look()
    for member in (first, second):
        member.beat()


@story(does=["revokes_in_time", "is_late", "gets_a_newer_target", "goes_away"])
def member_that_revokes(talk: Talk, does: str) -> Conversation:
    """The rebalance timeout counts from when the member was told."""
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    a, b = talk.consumer("A", "foo", timeout=SHORT, instance="a"), talk.consumer("B", "foo")
    a.join()
    b.join()
    a.beat()
    yield 0.7
    if does == "revokes_in_time":
        a.ack()
    elif does == "gets_a_newer_target":
        b.subscribe("bar")
        a.beat()
    elif does == "goes_away":
        a.leave(-2)
    yield 0.9
    talk.look()
    a.ack()
    b.ack()
    yield 0.8
    talk.look()


@story(does=["joins", "leaves", "asks_for_more", "comes_back", "is_fenced"])
def target_waits_for_the_interval(talk: Talk, does: str) -> Conversation:
    """From 4.3 on the next target comes an assignment interval after the last one."""
    if not talk.duel.reference.release.assignment_interval:
        return
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    talk.duel.configure(talk.group, {"consumer.assignment.interval.ms": "1500"})
    a, b, c = talk.consumer("A", "foo"), talk.consumer("B", "foo", instance="b"), talk.consumer("C")
    a.join()
    yield 1.7
    b.join()
    a.ack()
    a.ack()
    b.ack()
    if does == "joins":
        c.names = ["foo"]
        c.join()
    elif does == "leaves":
        b.leave()
    elif does == "asks_for_more":
        b.subscribe("foo", "bar")
    elif does == "comes_back":
        b.leave(-2)
        talk.consumer("B2", "bar", instance="b").join()
    else:
        talk.ask("x", "LeaveGroup", members=[{"memberId": "", "groupInstanceId": "b"}])
    for pause in (0.3, 0.3, 1.2):
        a.ack()
        talk.look()
        yield pause
    for _ in range(2):
        for member in (a, b, c):
            if member.epoch > 0:
                member.ack()
    talk.look()
