"""What is said of a kind of finding."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FindingKind:
    """One kind of finding: a line that says what is wrong, what it means for the consumers of the
    group, and what to do."""

    summary: str
    consequence: str
    action: str
