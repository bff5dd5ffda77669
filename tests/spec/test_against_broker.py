"""Behaviours of the model, and the counterexamples of docs/model.md, on real brokers.

Every request goes to the broker and to the reference, whose answers and logs are compared. The
answers are also compared with the model's.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spec.scripts import Call, answer_difference, script
from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.test_against_broker import Conversations, check_against_broker
from tests.spec.assumptions import Line, late_commit, late_heartbeat
from tests.spec.test_behaviours import INSTANCES, behaviours

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def send(conversation: Conversation, line: Line) -> Any:
    """Send one line of a script, with the group and the topic of this conversation."""
    if "event" in line:
        conversation.topic(line["name"], line["partitions"])
        return None
    request = dict(line["request"])
    del request["groupId"]
    name = conversation.topic_name("foo")
    if "subscribedTopicNames" in request:
        request["subscribedTopicNames"] = [name]
    if request.get("topicPartitions"):
        topic_id = conversation.comparison.topic_ids[name]
        request["topicPartitions"] = [
            row | {"topicId": topic_id} for row in request["topicPartitions"]
        ]
    if "topics" in request:
        request["topics"] = [row | {"name": name} for row in request["topics"]]
    return conversation.send(line["clientId"], line["api"], line.get("apiVersion"), **request)


def follow(conversation: Conversation, calls: list[Call]) -> None:
    for call in calls:
        answer = send(conversation, call.line)
        if answer is not None:
            assert answer_difference(call, answer) == []


def send_all(conversation: Conversation, lines: list[Line]) -> None:
    for line in lines:
        send(conversation, line)


def early_upgrade(conversation: Conversation) -> Pauses:
    """A classic member A consumes both partitions and sends nothing while the group is upgraded,
    downgraded and upgraded again: B gets a partition that A was never told to give up."""
    conversation.topic("foo", 2)
    a = conversation.classic("A", "foo")
    a.join()
    yield 0.2
    a.join()
    a.generation = 1
    a.sync({a.member_id: {"foo": [0, 1]}})
    b = conversation.consumer("B", "foo")
    waits = b.join()
    assert waits["assignment"]["topicPartitions"] == []
    b.leave()
    granted = b.join()
    assert [len(row["partitions"]) for row in granted["assignment"]["topicPartitions"]] == [1]


@pytest.mark.parametrize("version", ["4.3.1", "4.0.2"])
def test_a_second_upgrade_does_not_wait_for_classic_members(version: str) -> None:
    check_against_broker(version, [("early-upgrade", early_upgrade)])


@pytest.mark.parametrize("version", ["4.3.1", "4.0.2"])
def test_brokers_do_what_the_model_does(tmp_path: Path, version: str) -> None:
    conversations: Conversations = []
    for static in (False, True):
        found = behaviours(tmp_path, version[:3], static=static, number=10)
        for number, behaviour in enumerate(found):
            calls = script(behaviour, INSTANCES)
            conversations.append((f"model{number}-{static}", partial(follow, calls=calls)))
    check_against_broker(version, conversations)


@pytest.mark.parametrize(("version", "first"), [("4.3.1", 2), ("4.2.0", 1), ("4.0.2", 1)])
def test_assumptions_on_brokers(version: str, first: int) -> None:
    """The reference answers as test_assumptions.py says, and the broker like the reference."""
    check_against_broker(
        version,
        [
            ("late-commit", partial(send_all, lines=late_commit(first))),
            ("late-heartbeat", partial(send_all, lines=late_heartbeat(first))),
        ],
    )
