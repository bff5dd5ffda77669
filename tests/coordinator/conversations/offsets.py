"""Commits, fetches, deletions and transactions."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted


@scripted()
def offsets_of_a_consumer_group(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 3)
    a = conversation.consumer("A", "foo")
    a.join()
    a.commit("foo", 0, 10)
    a.commit("foo", 1, 11, generationIdOrMemberEpoch=a.epoch + 1)
    a.commit("foo", 1, 11, generationIdOrMemberEpoch=a.epoch - 1)
    a.commit("foo", 1, 11, generationIdOrMemberEpoch=-1)
    a.commit("foo", 1, 11, memberId="nobody")
    a.commit("foo", 1, 12, version=8)
    a.commit("none", 1, 12)
    row = {"groupId": conversation.group, "memberId": "A", "memberEpoch": a.epoch}
    foo = conversation.topic_name("foo")
    topics = [{"name": foo, "partitionIndexes": [0, 1, 2]}]
    for change in ({}, {"memberEpoch": 99}, {"memberId": "x"}, {"memberId": None}):
        group = row | change | {"topics": topics}
        if change.get("memberId", "") is None:
            group["memberEpoch"] = -1
        conversation.send("A", "OffsetFetch", groups=[group], requireStable=False)
    none = {"groupId": conversation.group, "memberId": None, "memberEpoch": -1, "topics": None}
    conversation.send("A", "OffsetFetch", groups=[none], requireStable=True)
    missing = none | {"groupId": conversation.group + "-missing", "topics": topics}
    conversation.send("A", "OffsetFetch", groups=[missing], requireStable=True)
    wanted = [{"name": foo, "partitions": [{"partitionIndex": 0}]}]
    conversation.send("A", "OffsetDelete", topics=wanted)
    a.leave()
    a.commit("foo", 2, 3, generationIdOrMemberEpoch=-1, memberId="")
    conversation.send("A", "OffsetDelete", topics=wanted)
    conversation.send(
        "A", "DeleteGroups", groupsNames=[conversation.group, conversation.group + "-missing"]
    )
    a.join()
    conversation.send("A", "DeleteGroups", groupsNames=[conversation.group])
    yield 0


@scripted()
def simple_group(conversation: Conversation) -> Pauses:
    conversation.topic("foo", 3)
    a = conversation.consumer("A", "foo", member_id="A")
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=3)
    a.commit("foo", 0, 1, generationIdOrMemberEpoch=-1, memberId="")
    a.commit("foo", 2, 7, generationIdOrMemberEpoch=-1, memberId="", version=8)
    conversation.send("A", "DescribeGroups", groups=[conversation.group])
    a.join()
    a.leave()
    conversation.send("A", "DescribeGroups", groups=[conversation.group, conversation.group + "-x"])
    conversation.send("A", "DeleteGroups", groupsNames=[conversation.group])
    yield 0


@scripted()
def commits_of_classic_members(conversation: Conversation) -> Pauses:
    """Generations are checked, in a classic group and after its upgrade."""
    conversation.topic("foo", 2)
    c = conversation.classic("C", "foo")
    a = conversation.consumer("A", "foo")
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
    wanted = [{"name": conversation.topic_name("foo"), "partitions": [{"partitionIndex": 0}]}]
    a.conversation.send("A", "OffsetDelete", topics=wanted)
    a.join()
    a.commit("foo", 0, 2, generationIdOrMemberEpoch=c.generation, **who)
    a.commit("foo", 0, 2, generationIdOrMemberEpoch=c.generation + 5, **who)
    a.commit("foo", 0, 2, generationIdOrMemberEpoch=c.generation - 1, **who)
    a.commit("foo", 0, 2)


def _rows(
    conversation: Conversation, topic: str, partition: int, offset: int
) -> list[dict[str, object]]:
    row = conversation.commit_topics(topic, partition, offset, "text")[0]
    return [{"topicId": conversation.comparison.topic_ids[conversation.topic_name(topic)], **row}]


BETWEEN = ["nothing", "plain_commit", "delete_offset", "delete_group", "delete_topic", "other_one"]


@scripted(committed=[True, False], between=BETWEEN)
def transaction(conversation: Conversation, committed: bool, between: str) -> None:
    """Offsets stay pending until the marker; a commit in between is ordered by its log offset."""
    conversation.topic("foo", 2)
    a = conversation.consumer("A", "foo", member_id="")
    a.commit("foo", 0, 5, generationIdOrMemberEpoch=-1)
    one, other = conversation.transaction(), conversation.transaction("other")
    one.begin()
    one.commit("foo", 0, 9)
    one.commit("foo", 1, 9)
    one.commit("foo", 1, 10)
    conversation.offsets("foo", requireStable=True)
    conversation.offsets("foo")
    if between == "plain_commit":
        a.commit("foo", 0, 6, generationIdOrMemberEpoch=-1)
    elif between == "delete_offset":
        conversation.delete_offset("foo")
    elif between == "delete_group":
        conversation.delete_group()
    elif between == "delete_topic":
        conversation.delete_topic("foo")
    elif between == "other_one":
        other.begin()
        other.commit("foo", 0, 77)
        other.end(committed=True)
        conversation.offsets("foo", requireStable=True)
    one.end(committed=committed)
    conversation.offsets("foo", requireStable=True)
    conversation.describe()


@scripted()
def transaction_times_out(conversation: Conversation) -> Pauses:
    """The transaction coordinator aborts it."""
    conversation.shared_topic("foo", 6)
    one = conversation.transaction()
    one.begin(timeout=1_000)
    one.commit("foo", 0, 9)
    conversation.offsets("foo", requireStable=True)
    yield 12
    one.is_aborted()
    conversation.offsets("foo", requireStable=True)


@scripted()
def marker_of_a_transaction_without_offsets(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    one = conversation.transaction()
    one.begin()
    one.end(committed=True)
    conversation.describe()
    one.begin()
    one.commit("foo", 0, 3)
    one.end(committed=True)
    conversation.offsets("foo")


@scripted(topic=["known", "deleted", "never"], partition=[0, 99])
def commits_by_topic_id(conversation: Conversation, topic: str, partition: int) -> None:
    """OffsetCommit and OffsetFetch from version 10 on, available since 4.2."""
    if conversation.comparison.broker.version < "4.2":
        return
    conversation.topic("foo", 2)
    rows = _rows(conversation, "foo", partition, 5)
    del rows[0]["name"]
    a = conversation.consumer("A", "foo")
    a.join()
    if topic == "deleted":
        conversation.delete_topic("foo")
    elif topic == "never":
        rows[0]["topicId"] = "AAAAAAAAAAAAAAAAAAAAAQ"
    who = {"memberId": "A", "generationIdOrMemberEpoch": a.epoch}
    conversation.send("A", "OffsetCommit", version=10, topics=rows, **who)
    topics = [{"topicId": rows[0]["topicId"], "partitionIndexes": [0, partition]}]
    group = {"groupId": conversation.group, "memberId": None, "memberEpoch": -1, "topics": topics}
    conversation.send("A", "OffsetFetch", version=10, groups=[group], requireStable=False)


@scripted(api=["OffsetCommit", "TxnOffsetCommit"])
def commits_of_existing_and_missing_partitions(conversation: Conversation, api: str) -> None:
    """Each partition gets an answer; missing ones are answered first."""
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    rows = [
        {**conversation.commit_topics(topic, 0, 5, "")[0], "partitions": parts}
        for topic, numbers in (("bar", [1, 7]), ("none", [0]), ("foo", [99, 3]), ("gone", [1]))
        for parts in [
            [conversation.commit_topics(topic, n, 5, "")[0]["partitions"][0] for n in numbers]
        ]
    ]
    one = conversation.transaction()
    one.begin()
    who = {"generationIdOrMemberEpoch": -1, "memberId": ""}
    if api == "TxnOffsetCommit":
        one.commit("foo", 0, 9, topics=rows)
    else:
        conversation.send("A", api, topics=rows, **who)
    one.end(committed=True)
    conversation.offsets("bar")


@scripted(version=[2, 5, 7, 9], partition=[0, 99])
def commits_by_name(conversation: Conversation, version: int, partition: int) -> None:
    """Versions that name topics by name; a missing partition is an error."""
    conversation.shared_topic("foo", 6)
    a = conversation.consumer("A", "foo", member_id="")
    a.commit("foo", partition, 5, "text", generationIdOrMemberEpoch=-1, version=version)
    a.commit("foo", 1, -1, generationIdOrMemberEpoch=-1, version=version)
    conversation.offsets("foo")
    conversation.describe()


@scripted(number=range(4))
def topic_is_recreated(conversation: Conversation, number: int) -> None:
    """Offsets of a deleted topic are deleted; a topic with another id is another topic."""
    conversation.topic("foo", 2)
    a = conversation.consumer("A", "foo")
    a.join()
    if number % 2:
        a.commit("foo", 0, 5)
    if number > 1:
        a.leave()
    conversation.delete_topic("foo")
    conversation.offsets("foo")
    conversation.topic("foo", 3)
    conversation.offsets("foo")
    if number <= 1:
        a.acknowledge()
        a.acknowledge()
        a.commit("foo", 2, 7)
    conversation.describe()


@scripted(member=["right", "wrong", "none"], stable=[True, False])
def fetch_of_all_partitions(conversation: Conversation, member: str, stable: bool) -> None:
    """Without topics, a fetch returns every partition with an offset."""
    conversation.shared_topic("foo", 6)
    conversation.shared_topic("bar", 2)
    a = conversation.consumer("A", "foo")
    a.join()
    a.commit("foo", 3, 5)
    a.commit("bar", 1, 6)
    one = conversation.transaction()
    one.begin()
    one.commit("foo", 4, 9)
    group: dict[str, object] = {"groupId": conversation.group, "topics": None}
    group |= {
        "right": {"memberId": "A", "memberEpoch": a.epoch},
        "wrong": {"memberId": "B", "memberEpoch": a.epoch},
        "none": {"memberId": None, "memberEpoch": -1},
    }[member]
    conversation.send("A", "OffsetFetch", groups=[group], requireStable=stable)
    one.end(committed=True)
    conversation.send("A", "OffsetFetch", groups=[group], requireStable=stable)


@scripted()
def commit_to_a_partition_below_zero(conversation: Conversation) -> None:
    conversation.shared_topic("foo", 6)
    a = conversation.consumer("A", "foo", member_id="")
    a.commit("foo", -1, 5, generationIdOrMemberEpoch=-1)
    one = conversation.transaction()
    one.begin()
    one.commit("foo", -1, 9)
    one.end(committed=True)
    conversation.describe()


@scripted(deleted=[True, False])
def fetch_of_all_topics_by_id(conversation: Conversation, deleted: bool) -> None:
    """OffsetFetch version 10, which is available since 4.2, answers with topic ids."""
    if conversation.comparison.broker.version < "4.2":
        return
    conversation.topic("foo", 2)
    conversation.shared_topic("bar", 2)
    a = conversation.consumer("A", "bar")
    a.join()
    for topic in ("foo", "bar"):
        a.commit(topic, 1, 5)
    if deleted:
        conversation.delete_topic("foo")
    group = {"groupId": conversation.group, "memberId": None, "memberEpoch": -1, "topics": None}
    conversation.send("A", "OffsetFetch", version=10, groups=[group], requireStable=False)
