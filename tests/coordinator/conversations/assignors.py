"""Which assignor, and what it gives to whom."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story()
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


@story()
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


@story(
    assignor=[None, "range", "uniform"],
    subscriptions=["same", "different"],
    members=["dynamic", "static"],
)
def members_come_and_go(talk: Talk, assignor: str | None, subscriptions: str, members: str) -> None:
    """Who keeps what when one comes and one goes."""
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    talk.shared("baz", 5)
    wishes = {
        "same": [("foo", "baz")] * 4,
        "different": [("foo",), ("foo", "bar"), ("baz", "foo"), ("bar",)],
    }
    crowd = [
        talk.consumer(
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
                    other.ack()
    crowd.pop(1).leave()
    for _ in range(3):
        for member in crowd:
            member.ack()
    talk.look()
