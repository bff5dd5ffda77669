"""Members with an instance id: going for a while, and coming back."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story()
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


@story()
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


@story()
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
