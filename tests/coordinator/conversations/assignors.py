"""Which assignor is chosen, and which partitions it assigns."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def range_assignor(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 5)
    conversation.topic("bar", 4)
    members = [
        conversation.consumer(name, "foo", "bar", assignor="range") for name in ("m1", "m2", "m3")
    ]
    for member in members:
        member.join()
    for _ in range(4):
        for member in members:
            member.acknowledge()
    members[0].leave()
    for _ in range(3):
        for member in members[1:]:
            member.acknowledge()
    yield 0


@scripted()
def votes_for_an_assignor(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 7)
    a = conversation.consumer("A", "foo", assignor="range")
    b = conversation.consumer("B", "foo", assignor="uniform")
    c = conversation.consumer("C", "foo")
    d = conversation.consumer("D", "foo", assignor="range")
    for member in (a, b, c, d):
        member.join()
        for other in (a, b, c, d):
            if other.epoch:
                other.acknowledge()
    conversation.send("x", "ConsumerGroupDescribe", groupIds=[conversation.group])
    yield 0


@scripted(
    assignor=[None, "range", "uniform"],
    subscriptions=["same", "different"],
    members=["dynamic", "static"],
)
def members_join_and_leave(
    conversation: Conversation, assignor: str | None, subscriptions: str, members: str
) -> None:
    """Which partitions members keep when one joins and one leaves."""
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    conversation.shared_topic("baz", 5)
    wishes = {
        "same": [("foo", "baz")] * 4,
        "different": [("foo",), ("foo", "bar"), ("baz", "foo"), ("bar",)],
    }
    crowd = [
        conversation.consumer(
            name,
            *wishes[subscriptions][number],
            assignor=assignor,
            instance=f"i{9 - number}" if members == "static" else None,
        )
        for number, name in enumerate(["delta", "alpha", "omega", "beta"])
    ]
    for member in crowd:
        member.join()
        for _ in range(2):
            for other in crowd:
                if other.epoch > 0:
                    other.acknowledge()
    crowd.pop(1).leave()
    for _ in range(3):
        for member in crowd:
            member.acknowledge()
    conversation.describe()
