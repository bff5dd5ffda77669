"""What docs/model.md says under "Found", as requests: the shortest counterexamples of TLC.

Each is a list of script lines for one group and a topic of two partitions. All members use the
assignor range, so that the order of their ids decides who gets what.
"""

from __future__ import annotations

from typing import Any

from spec.scripts import HEARTBEAT, TOPIC, TOPIC_ID

Line = dict[str, Any]


def topic() -> Line:
    return {"event": "topic", "name": TOPIC, "topicId": TOPIC_ID, "partitions": 2}


def heartbeat(member: str, epoch: int, owned: list[int] | None = None, **more: Any) -> Line:
    request: dict[str, Any] = {"groupId": "g", "memberId": member, "memberEpoch": epoch, **more}
    if owned is not None:
        request["topicPartitions"] = [{"topicId": TOPIC_ID, "partitions": owned}] if owned else []
    return {"api": HEARTBEAT, "clientId": member, "request": request}


def join(member: str) -> Line:
    return heartbeat(member, 0, [], **ALL_FIELDS)


def commit(member: str, epoch: int, partition: int) -> Line:
    part = {
        "partitionIndex": partition,
        "committedOffset": 848,
        "committedLeaderEpoch": -1,
        "committedMetadata": "",
    }
    request = {
        "groupId": "g",
        "memberId": member,
        "generationIdOrMemberEpoch": epoch,
        "topics": [{"name": TOPIC, "partitions": [part]}],
    }
    # With the newest version, a topic is named by its id.
    return {"api": "OffsetCommit", "apiVersion": 9, "clientId": member, "request": request}


ALL_FIELDS: dict[str, Any] = {
    "rebalanceTimeoutMs": 300_000,
    "subscribedTopicNames": [TOPIC],
    "serverAssignor": "range",
}


def late_commit(first: int) -> list[Line]:
    """A member revokes 0, and then 1. Its commit of 0, sent before, arrives after the first
    acknowledgement and after another member got 0. ``first``: the epoch of the first member.
    """
    return [
        topic(),
        join("c"),  # gets 0 and 1
        join("a"),  # 0 is to go to a
        heartbeat("c", first),  # c is to revoke 0
        join("b"),  # 1 is to go to b
        heartbeat("c", first, [1]),  # c has revoked 0, and is to revoke 1
        heartbeat("a", first + 1),  # a gets 0
        commit("c", first, 0),
    ]


def late_heartbeat(first: int) -> list[Line]:
    """The first heartbeat after a join, with no partitions yet, arrives late: a second time, when
    the member is to revoke 1. The coordinator takes it for the acknowledgement.
    """
    return [
        topic(),
        join("a"),  # gets 0 and 1
        join("b"),  # 1 is to go to b
        heartbeat("a", first, [], **ALL_FIELDS),  # sent before a took 0 and 1
        heartbeat("b", first + 1),  # b gets 1, which a consumes
    ]
