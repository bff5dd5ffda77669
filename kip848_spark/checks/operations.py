"""Operations: the records that a coordinator writes in one batch, and the order they come in.

The records of an operation have adjacent offsets and one timestamp. Two operations of a group may
fall into the same millisecond, so each run of records with one timestamp is split once more into
*parts* by the order of the record kinds: one part is one thing that a coordinator does. See
docs/kafka-facts.md#operations for the orders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.coordinator import records

_LETTERS = {"2": "a", "3": "b", "4": "c", "5": "d", "6": "e", "7": "f", "8": "g", "16": "h"}

_CLASSIC_MEMBER = "k"
SINGLE_ASSIGNMENT = _LETTERS[records.CURRENT]
"""`OperationPart.letters` of a part that is one member's new assignment."""
_VALUES = _LETTERS | {records.MEMBER: _LETTERS[records.MEMBER] + _CLASSIC_MEMBER}

_OTHER_KIND = "?"
"""Records of share and streams groups, which a group id may have had before: no operation."""

UPGRADE = "upgrade"
CLASSIC = "classic"
REJOIN = "rejoin"
LEAVE = "leave"
DELETE = "delete"
REGEX = "regex"
HEARTBEAT = "heartbeat"
INVALID_ORDER = "invalid order"
"""Records in an order that no coordinator writes."""

_PARTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        # One letter for each kind, in the order of the key types; a capital is a tombstone. "k" is
        # a member that uses the classic protocol. Without one the group is not upgraded: its
        # classic predecessor was empty, and a new group begins.
        (UPGRADE, r"Ak+c?bf*eg+"),
        (CLASSIC, r"[aA]"),
        (REJOIN, r"GFD[dk]fg"),
        (LEAVE, r"(?:GFD)+H*c?b"),
        (DELETE, r"G*F*ED*H*CB"),
        (REGEX, r"h+(?:c?b)?C?"),
        (HEARTBEAT, r"(?:[dk]H*)?(?:c?b)?C?(?:f*e)?g?"),
    )
)


class OperationPart(NamedTuple):
    """One thing that a coordinator did: a heartbeat, a leave, the end of a group, ..."""

    name: str
    """One of the constants of this module."""
    entries: Sequence[LogEntry]
    letters: str
    """One letter for each record: see `letter`."""

    def of(self, kind: str, *, values: bool = True) -> list[LogEntry]:
        """Its records of a key type that have a value; its tombstones if ``values`` is false."""
        entries = self.entries
        return [entries[at] for at in _indexes(self.letters, kind, values)]


@lru_cache(4096)
def _indexes(letters: str, kind: str, values: bool) -> tuple[int, ...]:
    """The positions in a part of the records of a kind."""
    wanted = _VALUES[kind] if values else _LETTERS[kind].upper()
    return tuple(at for at, found in enumerate(letters) if found in wanted)


def letter(entry: LogEntry) -> str:
    """The letter of a kind of record; a capital letter for its tombstone."""
    found = _LETTERS.get(entry.kind, _OTHER_KIND)
    if entry.value is None:
        return found.upper()
    return _CLASSIC_MEMBER if entry.value.get("classicMemberMetadata") is not None else found


def same_operation(before: LogEntry, after: LogEntry) -> bool:
    """Whether two consecutive records of a group may belong to one operation."""
    return after.offset == before.offset + 1 and after.timestamp == before.timestamp


def split_operation(entries: Sequence[LogEntry]) -> list[OperationPart]:
    """The parts of an operation. From the first record that fits no valid order on, the rest is one
    part called `INVALID_ORDER`."""
    letters = "".join(map(letter, entries))
    return [
        OperationPart(name, entries[begin:end], letters[begin:end])
        for name, begin, end in part_bounds(letters, _PARTS)
    ]


Orders = tuple[tuple[str, re.Pattern[str]], ...]
"""The valid orders of records in a part, as patterns of letters, by the names of the parts."""


@lru_cache(2048)
def part_bounds(letters: str, orders: Orders) -> tuple[tuple[str, int, int], ...]:
    """The name of each part, the position of its first record, and the one after its last. From the
    first record that fits none of the ``orders`` on, the rest is one part: `INVALID_ORDER`."""
    bounds = []
    at = 0
    while at < len(letters):
        name, end = _next(letters, at, orders)
        bounds.append((name, at, end))
        at = end
    return tuple(bounds)


def _next(letters: str, at: int, orders: Orders) -> tuple[str, int]:
    for name, pattern in orders:
        found = pattern.match(letters, at)
        if found is not None and found.end() > at:
            return name, found.end()
    return INVALID_ORDER, len(letters)
