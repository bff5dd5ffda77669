"""Scripted conversations of static members of streams groups (4.4; other releases refuse them)."""

from __future__ import annotations

from tests.coordinator.conversation import Conversation, Pauses
from tests.coordinator.conversations.registry import scripted
from tests.coordinator.conversations.streams_groups import HEARTBEAT, SESSION, clients
from tests.streams_conversations import STATIC_LEAVE, configure


@scripted("streams")
def a_static_member_returns(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2", stateful=True)
    first.instance = "i1"
    first.join()
    second.join()
    for member in (first, second, first, second):
        member.acknowledge()
    for returns in (
        {},  # what changes nothing
        {"rebalanceTimeoutMs": 200_000, "userEndpoint": None},
        {"rackId": "a"},
        {"processId": "p3"},
        {"clientTags": [{"key": "zone", "value": "a"}]},
    ):
        first.leave(STATIC_LEAVE)
        second.acknowledge()
        first.member_id += "x"
        first.join(**returns)
        for member in (first, second, first, second):
            member.acknowledge()
    first.leave(STATIC_LEAVE)
    first.join()  # under the same member id
    first.acknowledge()
    first.leave()
    second.acknowledge()
    yield 0


@scripted("streams")
def a_static_member_returns_while_it_gives_tasks_up(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    first.instance = "i1"
    first.join()
    second.join()
    first.heartbeat()  # must give up half, and does not say that it has
    first.leave(STATIC_LEAVE)
    second.acknowledge()
    first.member_id += "x"
    first.join()
    for member in (first, second, first):
        member.acknowledge()
    yield 0


@scripted("streams")
def static_members_are_fenced(conversation: Conversation) -> Pauses:
    first, second, third = clients(conversation, "p1", "p2", "p3")
    first.instance = second.instance = "i1"
    first.heartbeat(memberEpoch=1)
    first.join()
    first.acknowledge()
    second.join()  # the name is taken
    second.heartbeat(memberEpoch=1)
    second.leave(STATIC_LEAVE)
    second.leave()
    first.acknowledge()
    third.instance = "i3"
    third.heartbeat(memberEpoch=1)
    third.leave(STATIC_LEAVE)
    third.leave()
    third.join()
    first.heartbeat(instanceId="i3", memberEpoch=1)
    for wrong in ("", " "):
        third.join(instanceId=wrong)
    third.heartbeat(memberEpoch=-3)
    third.heartbeat(instanceId=None, memberEpoch=STATIC_LEAVE)
    first.leave(STATIC_LEAVE)
    first.heartbeat(memberEpoch=1)  # it has left
    yield 0


@scripted("streams")
def a_refused_request_takes_a_static_member_its_target(conversation: Conversation) -> Pauses:
    first, second, third = clients(conversation, "p1", "p2", "p3", partitions=6)
    second.instance = "i2"
    first.join()
    second.join()
    first.acknowledge()
    second.acknowledge()
    third.join()
    first.acknowledge()
    second.join(memberId="other")  # refused
    for member in (second, first, third, second, first, third):
        member.acknowledge()
    second.leave(STATIC_LEAVE)
    second.member_id += "x"
    second.join()
    for member in (second, first, third, second):
        member.acknowledge()
    yield 0


@scripted("streams")
def members_become_static(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    first.join()
    second.join()
    first.acknowledge()
    first.instance = "i1"
    first.join()  # under its member id
    first.acknowledge()
    first.instance = "i2"
    first.join()
    first.heartbeat(instanceId="i1")
    first.heartbeat(instanceId=None)
    first.heartbeat(instanceId=None, rackId="a")
    second.instance = "i1"
    second.join()
    first.leave(STATIC_LEAVE)
    second.leave(STATIC_LEAVE)
    first.join()
    yield 0


@scripted("streams")
def the_session_of_a_member_that_left_for_a_while_ends(conversation: Conversation) -> Pauses:
    first, second = clients(conversation, "p1", "p2")
    first.instance = "i1"
    first.join()
    second.join()
    first.acknowledge()
    configure(conversation, {HEARTBEAT: "300", SESSION: "1000"})
    first.acknowledge()
    first.leave(STATIC_LEAVE)
    yield 1.5
    first.join()
    second.acknowledge()
    yield 0
