"""What is said of a kind of finding."""

from __future__ import annotations

from dataclasses import dataclass

COMPARE_REPLICAS = (
    "Compare the records around this offset with another replica of the partition. If they are the "
    "same there, look for a second program that writes to __consumer_offsets."
)
"""What to do about records that a coordinator would not write."""


@dataclass(frozen=True)
class FindingKind:
    """One kind of finding: a line that says what is wrong, what it means for the consumers of the
    group, and what to do."""

    summary: str
    consequence: str
    action: str
