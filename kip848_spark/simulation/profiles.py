"""Profiles: how many clients of which kind a cluster has, and how often each event occurs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kip848_spark.errors import UsageError

SECOND = 1_000
MINUTE = 60_000


@dataclass(frozen=True)
class Profile:
    """One kind of cluster. Times are in ms, shares and losses between 0 and 1."""

    name: str
    about: str
    events: Mapping[str, int]
    """Events that happen to a group, by weight; the names are the keys of `events.EVENTS`."""
    event_interval: int
    """Mean time between two events in one group."""
    classic: float
    """Share of groups that start with the classic protocol."""
    simple: float = 0.05
    """Share of groups without members: consumers with manually assigned partitions."""
    transactional: float = 0.05
    """Share of groups whose offsets are committed in transactions."""
    static: float = 0.25
    """Share of groups whose members have instance ids."""
    cycle: int = 12
    """Of this many groups, the last but one is a share group and the last a streams group, in
    releases that have them.
    """
    topic_interval: int = 20 * MINUTE
    """Mean time between two changes of topics in the cluster."""
    topics_go: bool = False
    """Whether topics are also deleted and recreated with another id."""
    loss: float = 0.0005
    """Share of requests, and of responses, that the network loses."""
    delay: tuple[int, int] = (1, 12)
    """Lower and upper limit of a message's network delay."""
    clients: tuple[int, int] = (2, 6)
    retention_minutes: int = 10_080


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            "steady",
            "a quiet cluster: occasional deployments, crashes and topics that grow",
            {"rolling": 4, "bounce": 3, "crash": 1, "scale_up": 1, "scale_down": 1},
            event_interval=30 * MINUTE,
            classic=0.3,
        ),
        Profile(
            "churn",
            "members join, leave, crash and are redeployed all the time",
            {
                "rolling": 4,
                "bounce": 8,
                "crash": 6,
                "cut_off": 2,
                "scale_up": 6,
                "scale_down": 6,
                "slow": 1,
                "subscribe": 2,
                "stop": 1,
                "assignor": 1,
            },
            event_interval=80 * SECOND,
            classic=0.3,
            topic_interval=10 * MINUTE,
            retention_minutes=30,
        ),
        Profile(
            "migration",
            "classic groups move to the new protocol member by member, some of them back",
            {"migrate": 6, "rolling": 1, "bounce": 3, "crash": 1, "scale_up": 1, "scale_down": 1},
            event_interval=5 * MINUTE,
            classic=0.9,
            simple=0.03,
            transactional=0.03,
        ),
        Profile(
            "chaos",
            "all events, over a network that loses messages",
            {
                "rolling": 3,
                "bounce": 6,
                "crash": 8,
                "cut_off": 6,
                "scale_up": 5,
                "scale_down": 5,
                "slow": 4,
                "subscribe": 5,
                "regex": 3,
                "assignor": 2,
                "stop": 3,
                "delete": 3,
                "reset": 2,
                "forget": 2,
                "migrate": 4,
            },
            event_interval=75 * SECOND,
            classic=0.4,
            simple=0.08,
            transactional=0.1,
            static=0.35,
            topic_interval=4 * MINUTE,
            topics_go=True,
            loss=0.02,
            delay=(1, 250),
            retention_minutes=15,
        ),
        Profile(
            "types",
            "groups of every type, whose members join, leave, crash and read other topics",
            {
                "rolling": 3,
                "bounce": 6,
                "crash": 6,
                "cut_off": 3,
                "scale_up": 5,
                "scale_down": 5,
                "slow": 2,
                "subscribe": 4,
                "assignor": 3,
                "stop": 2,
                "delete": 1,
                "reset": 1,
                "forget": 1,
            },
            event_interval=75 * SECOND,
            classic=0.3,
            cycle=3,
            topic_interval=4 * MINUTE,
            topics_go=True,
            loss=0.005,
            delay=(1, 60),
            retention_minutes=15,
        ),
    )
}


def find_profile(name: str) -> Profile:
    """The profile of that name. Raises UsageError."""
    if name not in PROFILES:
        raise UsageError(f"There is no profile {name}.", f"Use one of: {', '.join(PROFILES)}.")
    return PROFILES[name]
