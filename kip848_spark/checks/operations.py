"""Operations: the records that a coordinator wrote in one go, and the orders they may come in.

The records of an operation stand side by side and bear one time. Two operations of a group may
share a millisecond, so what is cut out by time is then cut into *parts* by the order of its kinds
(facts A, "Record order per operation"): each part is one thing a coordinator does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from kip848_spark.checks.log_entries import Entry
from kip848_spark.coordinator import records

_LETTERS = {"2": "a", "3": "b", "4": "c", "5": "d", "6": "e", "7": "f", "8": "g", "16": "h"}

_CLASSIC_MEMBER = "k"
STEP = _LETTERS[records.CURRENT]
"""The letters of a part that is one member's next assignment."""
_VALUES = _LETTERS | {records.MEMBER: _LETTERS[records.MEMBER] + _CLASSIC_MEMBER}

UPGRADE = "upgrade"
CLASSIC = "classic"
REJOIN = "rejoin"
LEAVE = "leave"
DELETE = "delete"
REGEX = "regex"
HEARTBEAT = "heartbeat"
BROKEN = "broken"
"""Records in an order that no coordinator writes."""

_PARTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        # A letter a kind, in the order of the key types; a capital is a tombstone. "k" is a member
        # that speaks the classic protocol: a group without any is not upgraded but made anew.
        (UPGRADE, r"Ak+c?bf*eg+"),
        (CLASSIC, r"[aA]"),
        (REJOIN, r"GFD[dk]fg"),
        (LEAVE, r"(?:GFD)+H*c?b"),
        (DELETE, r"G*F*ED*H*CB"),
        (REGEX, r"h+(?:c?b)?C?"),
        (HEARTBEAT, r"(?:[dk]H*)?(?:c?b)?C?(?:f*e)?g?"),
    )
)


class Part(NamedTuple):
    """One thing a coordinator did."""

    name: str
    entries: Sequence[Entry]
    letters: str
    """One for each record: see `letter`."""

    def of(self, kind: str, *, values: bool = True) -> list[Entry]:
        """Its records of a kind: those with values, or the tombstones."""
        entries = self.entries
        return [entries[at] for at in _places(self.letters, kind, values)]


@lru_cache(4096)
def _places(letters: str, kind: str, values: bool) -> tuple[int, ...]:
    """Where in a part the records of a kind stand."""
    wanted = _VALUES[kind] if values else _LETTERS[kind].upper()
    return tuple(at for at, told in enumerate(letters) if told in wanted)


def letter(entry: Entry) -> str:
    """One letter for a kind of record, a capital for its tombstone."""
    found = _LETTERS[entry.kind]
    if entry.value is None:
        return found.upper()
    return _CLASSIC_MEMBER if entry.value.get("classicMemberMetadata") is not None else found


def same_operation(before: Entry, after: Entry) -> bool:
    """Whether two records of a group, one after the other, may be of one operation."""
    return after.offset == before.offset + 1 and after.timestamp == before.timestamp


def parts_of(entries: Sequence[Entry]) -> list[Part]:
    """The parts of an operation; what is in no order that exists ends it, as one `BROKEN` part."""
    letters = "".join(map(letter, entries))
    return [
        Part(name, entries[begin:end], letters[begin:end]) for name, begin, end in _cuts(letters)
    ]


@lru_cache(512)
def _cuts(letters: str) -> tuple[tuple[str, int, int], ...]:
    """The name of each part, where it begins and where it ends."""
    cuts = []
    at = 0
    while at < len(letters):
        name, end = _next(letters, at)
        if name == BROKEN:
            end = len(letters)
        cuts.append((name, at, end))
        at = end
    return tuple(cuts)


def _next(letters: str, at: int) -> tuple[str, int]:
    for name, pattern in _PARTS:
        found = pattern.match(letters, at)
        if found is not None and found.end() > at:
            return name, found.end()
    return BROKEN, at
