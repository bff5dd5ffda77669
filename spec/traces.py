"""Reads the states that TLC prints: TLA+ values as Python values.

A record or a function becomes a dict, a sequence a tuple (a function of 1..n is printed as one), a
set a frozenset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

State = dict[str, Any]
"""The value of each variable."""

_TOKEN = re.compile(r'\s*(<<|>>|\|->|:>|@@|\.\.|[\[\]{}(),]|"[^"]*"|-?\d+|\w+)')
_STATE = re.compile(r"^(?:State \d+: .*|STATE_\d+ == *)\n((?:.*\S.*\n)+)", re.MULTILINE)
_VARIABLE = re.compile(r"^(?:/\\ )?(\w+) = ", re.MULTILINE)


def read_trace(text: str) -> Iterator[State]:
    """The states in TLC's output, or in a file that its simulation mode wrote."""
    for block in _STATE.findall(text + "\n"):
        names = list(_VARIABLE.finditer(block))
        if not names:
            continue
        ends = [name.start() for name in names[1:]] + [len(block)]
        yield {
            name[1]: read_value(block[name.end() : end])
            for name, end in zip(names, ends, strict=True)
        }


def read_value(text: str) -> Any:
    """A TLA+ value. Raises ValueError if the text is none."""
    tokens = _TOKEN.findall(text)
    reader = _Reader(tokens)
    value = reader.value()
    if reader.at != len(tokens):
        raise ValueError(f"not a TLA+ value: {text!r}")
    return value


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if expected is not None and token != expected:
            raise ValueError(f"expected {expected}, found {token}")
        self.at += 1
        return token

    def peek(self) -> str:
        if self.at >= len(self.tokens):
            raise ValueError("the value ends too early")
        return self.tokens[self.at]

    def value(self) -> Any:
        token = self.take()
        match token:
            case "<<":
                return tuple(self.items(">>"))
            case "{":
                return frozenset(self.items("}"))
            case "[":
                return self.pairs("|->", ",", "]")
            case "(":
                return self.pairs(":>", "@@", ")")
            case "TRUE" | "FALSE":
                return token == "TRUE"
        if token.startswith('"'):
            return token[1:-1]
        if re.fullmatch(r"-?\d+", token) is None:
            raise ValueError(f"unexpected {token}")
        if self.at < len(self.tokens) and self.peek() == "..":
            self.take()
            return frozenset(range(int(token), int(self.take()) + 1))
        return int(token)

    def items(self, end: str) -> Iterator[Any]:
        while self.peek() != end:
            yield self.value()
            if self.peek() == ",":
                self.take()
        self.take(end)

    def pairs(self, arrow: str, between: str, end: str) -> dict[Any, Any]:
        found = {}
        while self.peek() != end:
            token = self.peek()
            name = self.take() if re.fullmatch(r"[A-Za-z_]\w*", token) else self.value()
            self.take(arrow)
            found[name] = self.value()
            if self.peek() == between:
                self.take()
        self.take(end)
        return found
