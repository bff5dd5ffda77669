"""What a scripted conversation is: a story, told once for each combination of what it is about."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.coordinator.conversation import Conversation, Talk

Telling = Callable[[Talk], Conversation | None]


@dataclass(frozen=True, slots=True)
class Story:
    """One conversation, and the kind of broker it is for (`test_against_broker.BROKERS`)."""

    name: str
    tell: Telling
    broker: str
    function: str


STORIES: dict[str, Story] = {}


def story(
    broker: str = "plain", **dimensions: Iterable[Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A conversation for every combination of the values given; they name it."""

    def told(tell: Callable[..., Any]) -> Callable[..., Any]:
        for values in itertools.product(*dimensions.values()):
            words = [tell.__name__, *map(_word, values), *([] if broker == "plain" else [broker])]
            name = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(words)).strip("-")
            if name in STORIES:  # of values that are all signs
                name += f"-{len(STORIES)}"
            chosen = dict(zip(dimensions, values, strict=True))
            STORIES[name] = Story(name, partial(tell, **chosen), broker, tell.__name__)
        return tell

    return told


def _word(value: Any) -> str:
    return str(getattr(value, "__name__", value))
