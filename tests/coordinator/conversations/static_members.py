"""Members with an instance id that leave temporarily and return."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def static_restart(conversation: Conversation) -> Pauses:
    """A static member leaves temporarily and returns with another id."""
    conversation.topic("foo", 4)
    a = conversation.consumer("A1", "foo", instance="a")
    b = conversation.consumer("B", "foo")
    a.join()
    b.join()
    a.acknowledge()
    a.acknowledge()
    b.heartbeat()
    again = conversation.consumer("A2", "foo", instance="a")
    again.join()
    a.leave(-2)
    b.heartbeat()
    a.heartbeat()
    again.join()
    again.heartbeat()
    a.heartbeat()
    b.acknowledge()
    again.leave(-2)
    same = conversation.consumer("A2", "foo", instance="a")
    same.join()
    same.acknowledge()
    same.leave(-1)
    b.heartbeat()
    b.heartbeat()
    yield 0


@scripted()
def static_restart_while_revoking(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 4)
    a = conversation.consumer("A1", "foo", instance="a")
    b = conversation.consumer("B", "foo")
    a.join()
    b.join()
    a.heartbeat()
    a.leave(-2)
    again = conversation.consumer("A2", "foo", instance="a")
    b.heartbeat()
    again.join()
    b.heartbeat()
    again.acknowledge()
    b.heartbeat()
    yield 0


@scripted()
def static_member_returns_with_other_topics(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 3)
    conversation.topic("bar", 3)
    a = conversation.consumer("A1", "foo", instance="a")
    b = conversation.consumer("B", "foo", instance="b")
    a.join()
    b.join()
    a.acknowledge()
    a.acknowledge()
    b.heartbeat()
    a.leave(-2)
    again = conversation.consumer("A2", "foo", "bar", instance="a")
    again.join()
    again.acknowledge()
    b.acknowledge()
    again.acknowledge()
    b.leave(-2)
    again.leave(-2)
    conversation.consumer("B9", "bar", instance="b").join()
    again.acknowledge()
    yield 0
