"""What every group is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from kip848_spark.audit.coverage import Coverage
from kip848_spark.audit.topics import KnownTopics


@dataclass(frozen=True)
class Settings:
    """What every group is judged by. ``release``: the only one that wrote the log, if given."""

    coverage: Coverage
    topics: KnownTopics
    release: str | None = None
    since_ms: int | None = None
    """Verdicts on operations before this time are not counted, though their effects are."""
