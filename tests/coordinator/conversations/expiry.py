"""Offsets that nobody needs any more, and groups that have nothing else."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story("small")
def offsets_expire(talk: Talk) -> Conversation:
    """Of a simple group, with the group; `offsets.retention.minutes` is one."""
    talk.shared("foo", 6)
    a = talk.consumer("A", "foo", member_id="")
    a.commit("foo", 0, 5, generationIdOrMemberEpoch=-1)
    yield 30
    a.commit("foo", 1, 5, generationIdOrMemberEpoch=-1)
    yield 33.5
    talk.offsets("foo")
    yield 31
    talk.look()


@story("small", subscribed=["foo", "bar"])
def offsets_of_a_living_group_expire(talk: Talk, subscribed: str) -> Conversation:
    """Only those of topics nobody asks for."""
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    a = talk.consumer("A", subscribed)
    a.join()
    a.commit("foo", 0, 5)
    yield 63.5
    talk.offsets("foo")
    a.leave()
    yield 3
    talk.offsets("foo")
    talk.look()


@story("small", protocol=["classic", "consumer"])
def offsets_of_an_emptied_group_expire(talk: Talk, protocol: str) -> Conversation:
    """A classic group counts from when it became empty, a consumer group from the commit."""
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    if protocol == "classic":
        c = talk.classic("C", "bar")
        c.join()
        yield 1.5
        c.joined(c.join())
        yield 1.5
        c.sync({c.member_id: {"bar": [0]}})
        rows = talk.commit_rows("foo", 0, 5, "")
        talk.ask(
            "C",
            "OffsetCommit",
            memberId=c.member_id,
            generationIdOrMemberEpoch=c.generation,
            topics=rows,
        )
        yield 10
        c.leave()
    else:
        a = talk.consumer("A", "bar")
        a.join()
        a.commit("foo", 0, 5)
        yield 12
        a.leave()
    yield 51.5
    talk.offsets("foo")
    yield 12.5
    talk.offsets("foo")
    talk.look()


@story("small", version=[2, 4])
def commit_with_its_own_retention(talk: Talk, version: int) -> Conversation:
    talk.shared("foo", 6)
    a = talk.consumer("A", "foo", member_id="")
    a.commit("foo", 0, 5, generationIdOrMemberEpoch=-1, version=version, retentionTimeMs=1_500)
    a.commit("foo", 1, 5, generationIdOrMemberEpoch=-1, version=version)
    yield 0.9
    talk.offsets("foo")
    yield 3
    talk.offsets("foo")
    talk.look()


@story("small", committed=[True, False])
def pending_offset_keeps_a_group(talk: Talk, committed: bool) -> Conversation:
    """What waits for a marker does not expire, nor does a group with it."""
    talk.shared("foo", 6)
    a = talk.consumer("A", "foo", member_id="")
    a.commit("foo", 0, 5, generationIdOrMemberEpoch=-1)
    transaction = talk.transaction()
    transaction.begin(timeout=200_000)
    transaction.commit("foo", 0, 6)
    yield 62
    talk.offsets("foo", requireStable=True)
    talk.look()
    transaction.end(committed=committed)
    yield 3
    talk.offsets("foo", requireStable=True)
    talk.look()
