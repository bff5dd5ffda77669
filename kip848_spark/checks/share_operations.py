"""Operations of share groups: the records that a coordinator writes in one batch, split into parts
as those of consumer groups are (`operations`). See docs/kafka-facts.md#share-groups."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import DELETE, HEARTBEAT, LEAVE, OperationPart, part_bounds

_LETTERS = {"10": "m", "11": "g", "12": "e", "13": "t", "14": "c", "15": "s"}
_PARTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        # In the order of the key types; a capital is a tombstone. The answer of the share
        # coordinator, a lone "s", is a heartbeat's part as well.
        (LEAVE, r"(?:CTM)+ge?"),
        (DELETE, r"s?C*T*EM*SG"),
        (HEARTBEAT, r"m?g?(?:t*e)?c?s?"),
    )
)


def split_share_operation(entries: Sequence[LogEntry]) -> list[OperationPart]:
    """The parts of an operation. From the first record that fits no valid order on, the rest is one
    part called `INVALID_ORDER`."""
    letters = "".join(
        _LETTERS[e.kind] if e.value is not None else _LETTERS[e.kind].upper() for e in entries
    )
    return [
        OperationPart(name, entries[begin:end], letters[begin:end])
        for name, begin, end in part_bounds(letters, _PARTS)
    ]


def entries_of(part: OperationPart, kind: str) -> list[LogEntry]:
    """The records of a key type in a part that have a value."""
    return [e for e in part.entries if e.kind == kind and e.value is not None]
