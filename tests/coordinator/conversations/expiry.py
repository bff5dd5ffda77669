"""Offsets that expire, and groups that are deleted after their last offset."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted("small")
def offsets_expire(conversation: Conversation) -> Pauses:
    """Offsets of a simple group expire, and the group with them;
    `offsets.retention.minutes` is one.
    """
    conversation.shared_topic("foo", 6)
    a = conversation.consumer("A", "foo", member_id="")
    a.commit("foo", 0, 5, generationIdOrMemberEpoch=-1)
    yield 30
    a.commit("foo", 1, 5, generationIdOrMemberEpoch=-1)
    yield 33.5
    conversation.offsets("foo")
    yield 31
    conversation.describe()


@scripted("small", subscribed=["foo", "bar"])
def offsets_of_an_active_group_expire(conversation: Conversation, subscribed: str) -> Pauses:
    """Only offsets of topics without a subscriber expire."""
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    a = conversation.consumer("A", subscribed)
    a.join()
    a.commit("foo", 0, 5)
    yield 63.5
    conversation.offsets("foo")
    a.leave()
    yield 3
    conversation.offsets("foo")
    conversation.describe()


@scripted("small", protocol=["classic", "consumer"])
def offsets_of_an_empty_group_expire(conversation: Conversation, protocol: str) -> Pauses:
    """In a classic group retention starts when it becomes empty, in a consumer group at
    the commit.
    """
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    if protocol == "classic":
        c = conversation.classic("C", "bar")
        c.join()
        yield 1.5
        c.joined(c.join())
        yield 1.5
        c.sync({c.member_id: {"bar": [0]}})
        rows = conversation.commit_topics("foo", 0, 5, "")
        conversation.send(
            "C",
            "OffsetCommit",
            memberId=c.member_id,
            generationIdOrMemberEpoch=c.generation,
            topics=rows,
        )
        yield 10
        c.leave()
    else:
        a = conversation.consumer("A", "bar")
        a.join()
        a.commit("foo", 0, 5)
        yield 12
        a.leave()
    yield 51.5
    conversation.offsets("foo")
    yield 12.5
    conversation.offsets("foo")
    conversation.describe()


@scripted("small", version=[2, 4])
def commit_with_its_own_retention(conversation: Conversation, version: int) -> Pauses:
    conversation.shared_topic("foo", 6)
    a = conversation.consumer("A", "foo", member_id="")
    a.commit("foo", 0, 5, generationIdOrMemberEpoch=-1, version=version, retentionTimeMs=1_500)
    a.commit("foo", 1, 5, generationIdOrMemberEpoch=-1, version=version)
    yield 0.9
    conversation.offsets("foo")
    yield 3
    conversation.offsets("foo")
    conversation.describe()


@scripted("small", committed=[True, False])
def pending_offset_keeps_a_group(conversation: Conversation, committed: bool) -> Pauses:
    """A pending offset does not expire, nor does its group."""
    conversation.shared_topic("foo", 6)
    a = conversation.consumer("A", "foo", member_id="")
    a.commit("foo", 0, 5, generationIdOrMemberEpoch=-1)
    transaction = conversation.transaction()
    transaction.begin(timeout=200_000)
    transaction.commit("foo", 0, 6)
    yield 62
    conversation.offsets("foo", requireStable=True)
    conversation.describe()
    transaction.end(committed=committed)
    yield 3
    conversation.offsets("foo", requireStable=True)
    conversation.describe()
