"""Scripted conversations with a coordinator: each a short story, told to broker and reference."""

from tests.coordinator.conversations import (
    assignors,
    classic_groups,
    classic_phases,
    consumer_groups,
    consumer_phases,
    expiry,
    limits,
    migrations,
    offsets,
    static_members,
    timeouts,
    topics,
    views,
)
from tests.coordinator.conversations.registry import STORIES, Story

__all__ = [
    "STORIES",
    "Story",
    "assignors",
    "classic_groups",
    "classic_phases",
    "consumer_groups",
    "consumer_phases",
    "expiry",
    "limits",
    "migrations",
    "offsets",
    "static_members",
    "timeouts",
    "topics",
    "views",
]
