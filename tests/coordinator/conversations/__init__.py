"""Scripted conversations with a coordinator, held with a broker and with the reference."""

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
from tests.coordinator.conversations.registry import SCRIPTED, ScriptedConversation

__all__ = [
    "SCRIPTED",
    "ScriptedConversation",
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
