"""Lists of groups by state and type, descriptions, and a group's own settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.classic_phases import CLASSIC_PHASES
from tests.coordinator.conversations.consumer_phases import CONSUMER_PHASES
from tests.coordinator.conversations.registry import scripted

STATES = [
    "empty",
    "Assigning",
    "RECONCILING",
    "stable",
    "PreparingRebalance",
    "completingrebalance",
    "Dead",
    "nonsense",
]


@scripted(phase=CONSUMER_PHASES + CLASSIC_PHASES)
def groups_are_listed(conversation: Conversation, phase: Callable[[Conversation], Any]) -> Pauses:
    """Filter by each state and type, in upper and lower case."""
    phase(conversation)
    yield 0.1  # a list shows only written state
    for state in STATES:
        conversation.send("x", "ListGroups", statesFilter=[state], typesFilter=[])
    for kind in ("classic", "Consumer", "share", "nonsense"):
        conversation.send("x", "ListGroups", statesFilter=["stable", "empty"], typesFilter=[kind])
    conversation.send("x", "ListGroups", version=4, statesFilter=["stable", "empty"])


@scripted(version=[0, 4, 5, 6])
def groups_described_by_older_clients(conversation: Conversation, version: int) -> Pauses:
    conversation.shared_topic("foo", 6)
    member = conversation.classic("C", "foo")
    member.join()
    groups = [conversation.group, conversation.group + "-x"]
    yield 0.1
    conversation.send("x", "DescribeGroups", version=version, groups=groups)
    member.sync({member.member_id: {"foo": [0, 1]}})
    conversation.send("x", "DescribeGroups", version=version, groups=groups)


SETTINGS = [
    {"consumer.session.timeout.ms": "100000", "consumer.heartbeat.interval.ms": "700"},
    {"consumer.session.timeout.ms": "1"},
    {"consumer.session.timeout.ms": "999999999"},
    {"consumer.session.timeout.ms": "soon"},
    {"consumer.heartbeat.interval.ms": "1"},
    {"consumer.heartbeat.interval.ms": "4000"},
    {"session.timeout.ms": "4000"},
]


@scripted(number=range(len(SETTINGS)))
def settings(conversation: Conversation, number: int) -> Pauses:
    """An accepted group setting shows in the next response; a refused one changes nothing."""
    conversation.shared_topic("foo", 6)
    configs = [
        {"name": name, "configOperation": 0, "value": value}
        for name, value in SETTINGS[number].items()
    ]
    resource = {"resourceType": 32, "resourceName": conversation.group, "configs": configs}
    conversation.send("x", "IncrementalAlterConfigs", resources=[resource], validateOnly=False)
    yield 0.5
    member = conversation.consumer("A", "foo")
    member.join()


@scripted()
def description_of_no_group(conversation: Conversation) -> None:
    """The empty group id."""
    for api, field in (("ConsumerGroupDescribe", "groupIds"), ("DescribeGroups", "groups")):
        conversation.send("x", api, **{field: ["", conversation.group]})


@scripted(operation=[1, 2, 3], name=["consumer.session.timeout.ms", "no.such.setting"])
def setting_is_changed_by(conversation: Conversation, operation: int, name: str) -> None:
    """Deleted; or appended to and subtracted from, which only lists allow."""
    config = {"name": name, "configOperation": operation, "value": "45000"}
    resource = {"resourceType": 32, "resourceName": conversation.group, "configs": [config]}
    conversation.send("x", "IncrementalAlterConfigs", resources=[resource], validateOnly=False)
