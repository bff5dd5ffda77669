"""Registers scripted conversations: a function runs once for each combination of its parameters."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.coordinator.conversation import Conversation, Pauses

ConversationFunction = Callable[[Conversation], Pauses | None]


@dataclass(frozen=True, slots=True)
class ScriptedConversation:
    """One conversation, and the kind of broker it needs (`test_against_broker.BROKERS`)."""

    name: str
    function: ConversationFunction
    broker: str
    function_name: str


SCRIPTED: dict[str, ScriptedConversation] = {}


def scripted(
    broker: str = "plain", **dimensions: Iterable[Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a conversation for every combination of the given values, which become part of its
    name.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for values in itertools.product(*dimensions.values()):
            words = [
                function.__name__,
                *map(_word, values),
                *([] if broker == "plain" else [broker]),
            ]
            name = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(words)).strip("-")
            if name in SCRIPTED:  # values without letters and digits give equal names
                name += f"-{len(SCRIPTED)}"
            chosen = dict(zip(dimensions, values, strict=True))
            SCRIPTED[name] = ScriptedConversation(
                name, partial(function, **chosen), broker, function.__name__
            )
        return function

    return register


def _word(value: Any) -> str:
    return str(getattr(value, "__name__", value))
