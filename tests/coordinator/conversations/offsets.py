"""Commits, fetches and deletions; transactions; what expires."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.registry import story


@story()
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


@story()
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


@story()
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


def _rows(talk: Talk, topic: str, partition: int, offset: int) -> list[dict[str, object]]:
    row = talk.commit_rows(topic, partition, offset, "text")[0]
    return [{"topicId": talk.duel.topic_ids[talk.topic_name(topic)], **row}]


BETWEEN = ["nothing", "plain_commit", "delete_offset", "delete_group", "delete_topic", "other_one"]


@story(committed=[True, False], between=BETWEEN)
def transaction(talk: Talk, committed: bool, between: str) -> None:
    """Its offsets wait for the marker; what comes between counts by its place in the log."""
    talk.topic("foo", 2)
    a = talk.consumer("A", "foo", member_id="")
    a.commit("foo", 0, 5, generationIdOrMemberEpoch=-1)
    one, other = talk.transaction(), talk.transaction("other")
    one.begin()
    one.commit("foo", 0, 9)
    one.commit("foo", 1, 9)
    one.commit("foo", 1, 10)
    talk.offsets("foo", requireStable=True)
    talk.offsets("foo")
    if between == "plain_commit":
        a.commit("foo", 0, 6, generationIdOrMemberEpoch=-1)
    elif between == "delete_offset":
        talk.delete_offset("foo")
    elif between == "delete_group":
        talk.delete_group()
    elif between == "delete_topic":
        talk.delete_topic("foo")
    elif between == "other_one":
        other.begin()
        other.commit("foo", 0, 77)
        other.end(committed=True)
        talk.offsets("foo", requireStable=True)
    one.end(committed=committed)
    talk.offsets("foo", requireStable=True)
    talk.look()


@story()
def transaction_times_out(talk: Talk) -> Conversation:
    """Its coordinator aborts it."""
    talk.shared("foo", 6)
    one = talk.transaction()
    one.begin(timeout=1_000)
    one.commit("foo", 0, 9)
    talk.offsets("foo", requireStable=True)
    yield 12
    one.is_aborted()
    talk.offsets("foo", requireStable=True)


@story()
def marker_of_a_transaction_without_offsets(talk: Talk) -> None:
    talk.shared("foo", 6)
    one = talk.transaction()
    one.begin()
    one.end(committed=True)
    talk.look()
    one.begin()
    one.commit("foo", 0, 3)
    one.end(committed=True)
    talk.offsets("foo")


@story(topic=["known", "deleted", "never"], partition=[0, 99])
def commits_by_topic_id(talk: Talk, topic: str, partition: int) -> None:
    """OffsetCommit and OffsetFetch from version 10 on, which 4.2 was the first to offer."""
    if talk.duel.broker.version < "4.2":
        return
    talk.topic("foo", 2)
    rows = _rows(talk, "foo", partition, 5)
    del rows[0]["name"]
    a = talk.consumer("A", "foo")
    a.join()
    if topic == "deleted":
        talk.delete_topic("foo")
    elif topic == "never":
        rows[0]["topicId"] = "AAAAAAAAAAAAAAAAAAAAAQ"
    who = {"memberId": "A", "generationIdOrMemberEpoch": a.epoch}
    talk.ask("A", "OffsetCommit", version=10, topics=rows, **who)
    asked = [{"topicId": rows[0]["topicId"], "partitionIndexes": [0, partition]}]
    group = {"groupId": talk.group, "memberId": None, "memberEpoch": -1, "topics": asked}
    talk.ask("A", "OffsetFetch", version=10, groups=[group], requireStable=False)


@story(api=["OffsetCommit", "TxnOffsetCommit"])
def commits_of_what_is_there_and_what_is_not(talk: Talk, api: str) -> None:
    """Each partition has its answer; what is not there is answered first."""
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    rows = [
        {**talk.commit_rows(topic, 0, 5, "")[0], "partitions": parts}
        for topic, numbers in (("bar", [1, 7]), ("none", [0]), ("foo", [99, 3]), ("gone", [1]))
        for parts in [[talk.commit_rows(topic, n, 5, "")[0]["partitions"][0] for n in numbers]]
    ]
    one = talk.transaction()
    one.begin()
    who = {"generationIdOrMemberEpoch": -1, "memberId": ""}
    if api == "TxnOffsetCommit":
        one.commit("foo", 0, 9, topics=rows)
    else:
        talk.ask("A", api, topics=rows, **who)
    one.end(committed=True)
    talk.offsets("bar")


@story(version=[2, 5, 7, 9], partition=[0, 99])
def commits_by_name(talk: Talk, version: int, partition: int) -> None:
    """Older versions cannot say all; a partition that is not there is an error."""
    talk.shared("foo", 6)
    a = talk.consumer("A", "foo", member_id="")
    a.commit("foo", partition, 5, "text", generationIdOrMemberEpoch=-1, version=version)
    a.commit("foo", 1, -1, generationIdOrMemberEpoch=-1, version=version)
    talk.offsets("foo")
    talk.look()


@story(number=range(4))
def topic_comes_back_under_the_same_name(talk: Talk, number: int) -> None:
    """Offsets of a deleted topic go; a topic's new id is another topic."""
    talk.topic("foo", 2)
    a = talk.consumer("A", "foo")
    a.join()
    if number % 2:
        a.commit("foo", 0, 5)
    if number > 1:
        a.leave()
    talk.delete_topic("foo")
    talk.offsets("foo")
    talk.topic("foo", 3)
    talk.offsets("foo")
    if number <= 1:
        a.ack()
        a.ack()
        a.commit("foo", 2, 7)
    talk.look()


@story(member=["right", "wrong", "none"], stable=[True, False])
def fetches_everything(talk: Talk, member: str, stable: bool) -> None:
    """No topics named means all that have an offset."""
    talk.shared("foo", 6)
    talk.shared("bar", 2)
    a = talk.consumer("A", "foo")
    a.join()
    a.commit("foo", 3, 5)
    a.commit("bar", 1, 6)
    one = talk.transaction()
    one.begin()
    one.commit("foo", 4, 9)
    group: dict[str, object] = {"groupId": talk.group, "topics": None}
    group |= {
        "right": {"memberId": "A", "memberEpoch": a.epoch},
        "wrong": {"memberId": "B", "memberEpoch": a.epoch},
        "none": {"memberId": None, "memberEpoch": -1},
    }[member]
    talk.ask("A", "OffsetFetch", groups=[group], requireStable=stable)
    one.end(committed=True)
    talk.ask("A", "OffsetFetch", groups=[group], requireStable=stable)
