"""What an administrator sees: lists by state and type, descriptions; and a group's own settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.coordinator.conversation import Conversation, Talk
from tests.coordinator.conversations.classic_phases import CLASSIC_PHASES
from tests.coordinator.conversations.consumer_phases import CONSUMER_PHASES
from tests.coordinator.conversations.registry import story

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


@story(phase=CONSUMER_PHASES + CLASSIC_PHASES)
def listed(talk: Talk, phase: Callable[[Talk], Any]) -> Conversation:
    """By each state and type, in any case of letters."""
    phase(talk)
    yield 0.1  # a list shows what is written for good
    for state in STATES:
        talk.ask("x", "ListGroups", statesFilter=[state], typesFilter=[])
    for kind in ("classic", "Consumer", "share", "nonsense"):
        talk.ask("x", "ListGroups", statesFilter=["stable", "empty"], typesFilter=[kind])
    talk.ask("x", "ListGroups", version=4, statesFilter=["stable", "empty"])


@story(version=[0, 4, 5, 6])
def described_by_older_clients(talk: Talk, version: int) -> Conversation:
    talk.shared("foo", 6)
    member = talk.classic("C", "foo")
    member.join()
    groups = [talk.group, talk.group + "-x"]
    yield 0.1
    talk.ask("x", "DescribeGroups", version=version, groups=groups)
    member.sync({member.member_id: {"foo": [0, 1]}})
    talk.ask("x", "DescribeGroups", version=version, groups=groups)


SETTINGS = [
    {"consumer.session.timeout.ms": "100000", "consumer.heartbeat.interval.ms": "700"},
    {"consumer.session.timeout.ms": "1"},
    {"consumer.session.timeout.ms": "999999999"},
    {"consumer.session.timeout.ms": "soon"},
    {"consumer.heartbeat.interval.ms": "1"},
    {"consumer.heartbeat.interval.ms": "4000"},
    {"session.timeout.ms": "4000"},
]


@story(number=range(len(SETTINGS)))
def settings(talk: Talk, number: int) -> Conversation:
    """Of a group: what is taken shows in the next response, what is refused changes nothing."""
    talk.shared("foo", 6)
    configs = [
        {"name": name, "configOperation": 0, "value": value}
        for name, value in SETTINGS[number].items()
    ]
    resource = {"resourceType": 32, "resourceName": talk.group, "configs": configs}
    talk.ask("x", "IncrementalAlterConfigs", resources=[resource], validateOnly=False)
    yield 0.5
    member = talk.consumer("A", "foo")
    member.join()
