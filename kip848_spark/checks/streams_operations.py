"""Operations of streams groups: the order in which a coordinator writes their records.

As in `operations`, records with adjacent offsets and one timestamp are split into *parts*, each of
which is one thing that a coordinator does (docs/kafka-facts.md#streams-groups).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import DELETE, HEARTBEAT, LEAVE, REJOIN, part_bounds
from kip848_spark.checks.operations import OperationPart as Part
from kip848_spark.coordinator import streams_group as streams

_LETTERS = {
    streams.GROUP: "b",
    streams.MEMBER: "d",
    streams.TARGET_EPOCH: "e",
    streams.TARGET: "f",
    streams.CURRENT: "g",
    streams.TOPOLOGY: "t",
}

_PARTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        # As in `operations`: one letter for each kind; a capital is a tombstone.
        (REJOIN, r"GFDdfg"),
        (LEAVE, r"(?:GFD)+be?"),
        (DELETE, r"G*F*ED*BT?"),
        (HEARTBEAT, r"d?t?b?(?:f*e)?g?"),
    )
)


class StreamsPart(Part):
    """One thing that a coordinator did to a streams group."""

    __slots__ = ()

    def of(self, kind: str, *, values: bool = True) -> list[LogEntry]:
        """Its records of a key type that have a value; its tombstones if ``values`` is false."""
        letter = _LETTERS[kind] if values else _LETTERS[kind].upper()
        pairs = zip(self.letters, self.entries, strict=True)
        return [entry for found, entry in pairs if found == letter]


def split_operation(entries: Sequence[LogEntry]) -> list[StreamsPart]:
    """The parts of an operation. From the first record that fits no valid order on, the rest is one
    part called `INVALID_ORDER`. The assignment of a member other than the one that a heartbeat
    changes is that member's own heartbeat, in the same millisecond."""
    letters = "".join(
        _LETTERS[entry.kind] if entry.value is not None else _LETTERS[entry.kind].upper()
        for entry in entries
    )
    parts = []
    for name, begin, end in part_bounds(letters, _PARTS):
        last = end - 1
        assigns = name == HEARTBEAT and (letters[begin], letters[last]) == ("d", "g")
        two = assigns and entries[begin].member != entries[last].member
        bounds = ((begin, last), (last, end)) if two else ((begin, end),)
        parts += [StreamsPart(name, entries[a:b], letters[a:b]) for a, b in bounds]
    return parts
