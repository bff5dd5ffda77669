"""The steps of a run: their progress and durations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

Progress = Callable[[str], None]
"""Called with a few words as each step of a run begins. A `RecordProgress` is also called with the
records done of records planned while a long step runs."""


@runtime_checkable
class RunProgress(Protocol):
    """A `Progress` that wants to know the id of the run."""

    def run_started(self, run_id: str) -> None:
        """The run has its plan and begins to write."""


class Steps:
    """Reports the progress, and measures the duration of each step in ms."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.durations_ms: dict[str, int] = {}

    def run_started(self, run_id: str) -> None:
        """Tells the progress the id of the run, if it wants it."""
        if isinstance(self.progress, RunProgress):
            self.progress.run_started(run_id)

    @contextmanager
    def step(self, name: str, words: str) -> Iterator[None]:
        """Reports ``words``, and measures the time that the block takes as the step ``name``."""
        self.progress(words)
        started = time.monotonic()
        yield
        self.durations_ms[name] = round((time.monotonic() - started) * 1000)
