"""Every request in every phase of a static member of a streams group (from 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.coordinator.conversation import Conversation
from tests.coordinator.conversations.administrator import RequestFunction
from tests.coordinator.conversations.registry import scripted
from tests.coordinator.conversations.streams_phases import (
    Members,
    PhaseFunction,
    finish,
    rest,
    stateful,
)
from tests.coordinator.conversations.streams_requests import (
    commits_at_its_epoch,
    commits_at_other_epochs,
    is_described_as_every_type,
    is_left_by_the_other,
    joins_again,
    joins_again_in_another_process,
    joins_under_another_id,
    leaves,
    leaves_and_returns,
    meets_another_member,
    moves_to_another_process,
    repeats_the_previous_epoch,
    reports_owned_tasks,
    sends_a_later_epoch,
    sends_heartbeat,
)
from tests.streams_conversations import DELAY, STANDBYS, STATIC_LEAVE, StreamsClient, configure


def nobody(conversation: Conversation) -> Members:
    """The group does not exist. Two of its members will be static."""
    configure(conversation, {STANDBYS: "1", DELAY: "0"})
    me, other, third = stateful(conversation, "p1", "p2", "p2")
    me.instance, third.instance = "mine", "third"
    return [me, other, third]


def alone(conversation: Conversation) -> Members:
    group = nobody(conversation)
    group[0].join()
    rest(group[0])
    return group


def revoking(conversation: Conversation) -> Members:
    """The member was told which tasks to give up."""
    group = alone(conversation)
    group[1].join()
    group[0].heartbeat()
    return group


def at_rest(conversation: Conversation) -> Members:
    group = revoking(conversation)
    group[2].join()
    rest(*group)
    return group


def away(conversation: Conversation) -> Members:
    """The member has left for a while."""
    group = at_rest(conversation)
    group[0].leave(STATIC_LEAVE)
    return group


def away_while_revoking(conversation: Conversation) -> Members:
    group = revoking(conversation)
    group[0].leave(STATIC_LEAVE)
    return group


def away_and_the_other_left(conversation: Conversation) -> Members:
    """What the other one had belongs to those that remain."""
    group = away(conversation)
    group[1].leave()
    return group


def all_away(conversation: Conversation) -> Members:
    """Each static member has left for a while, and the other one for good."""
    group = away_and_the_other_left(conversation)
    group[2].leave(STATIC_LEAVE)
    return group


PHASES: list[PhaseFunction] = [
    nobody,
    alone,
    revoking,
    at_rest,
    away,
    away_while_revoking,
    away_and_the_other_left,
    all_away,
]


def leaves_for_a_while(me: StreamsClient, _: Any) -> None:
    me.leave(STATIC_LEAVE)


def leaves_for_a_while_and_returns(me: StreamsClient, _: Any) -> None:
    me.leave(STATIC_LEAVE)
    me.member_id = "A2"
    me.join()


def leaves_twice(me: StreamsClient, _: Any) -> None:
    me.leave(STATIC_LEAVE)
    me.leave(STATIC_LEAVE)
    me.leave()


def _returns(**more: Any) -> Callable[[StreamsClient, Any], None]:
    def returns(me: StreamsClient, _: Any) -> None:
        me.leave(STATIC_LEAVE)
        me.member_id = "A3"
        me.join(**more)

    [name] = more
    returns.__name__ = f"returns with another {name}"
    return returns


def speaks_without_its_name(me: StreamsClient, _: Any) -> None:
    replace(me, instance=None).heartbeat(**me.owned)


def speaks_under_another_name(me: StreamsClient, _: Any) -> None:
    replace(me, instance="unknown").heartbeat()
    replace(me, instance="third").heartbeat()


def is_called_by_its_name(me: StreamsClient, other: StreamsClient) -> None:
    """Another member uses the name of this one."""
    for epoch in (max(other.epoch, 1), -1, STATIC_LEAVE):
        replace(other, instance="mine").heartbeat(memberEpoch=epoch)
    replace(other, instance="mine").join()


def takes_the_name_of_the_third(me: StreamsClient, _: Any) -> None:
    replace(me, instance="third").join()


def loses_its_name(me: StreamsClient, _: Any) -> None:
    """Joins as a member without a name."""
    me.instance = None
    me.join()


REQUESTS: list[RequestFunction] = [
    sends_heartbeat,
    reports_owned_tasks,
    repeats_the_previous_epoch,
    sends_a_later_epoch,
    joins_again,
    joins_again_in_another_process,
    joins_under_another_id,
    meets_another_member,
    moves_to_another_process,
    leaves,
    leaves_and_returns,
    leaves_for_a_while,
    leaves_for_a_while_and_returns,
    leaves_twice,
    _returns(rebalanceTimeoutMs=200_000),
    _returns(rackId="there"),
    _returns(processId="p9"),
    _returns(userEndpoint={"host": "here", "port": 9}),
    _returns(clientTags=[{"key": "zone", "value": "a"}]),
    speaks_without_its_name,
    speaks_under_another_name,
    is_called_by_its_name,
    takes_the_name_of_the_third,
    loses_its_name,
    is_left_by_the_other,
    commits_at_its_epoch,
    commits_at_other_epochs,
    is_described_as_every_type,
]


@scripted("streams-static", phase=PHASES, request=REQUESTS)
def static_stream(
    conversation: Conversation, phase: PhaseFunction, request: RequestFunction
) -> None:
    group = phase(conversation)
    request(group[0], group[1])
    finish(conversation, group)
