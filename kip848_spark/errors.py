"""Every error this program raises on purpose, and the exit code each one ends with.

    Kip848Error
    ├── UsageError           2  the command line or a setting is wrong
    │   └── CaptureError     2  a capture lacks columns, has wrong types or is damaged
    ├── EnvironmentFault     2  this machine lacks something (Java, a jar, a Python worker)
    ├── SourceError          3  the Kafka cluster or the topic can't be read
    ├── LakeError            3  the lake can't be read or written
    ├── SparkFailure         3  Spark gave up for a reason that has no sentence of its own here
    └── NotFoundError        1  the question has no answer here (an unknown group)

A message is one sentence: what is wrong and where; ``hint`` says what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Kip848Error(Exception):
    """Root of the tree. ``exit_code`` is what the command line ends with."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(Kip848Error):
    """The command line or a setting is wrong."""


class CaptureError(UsageError):
    """A capture (Parquet or Delta) can't serve as a source."""


class EnvironmentFault(Kip848Error):
    """Something this machine must have is missing or unfit."""


class SourceError(Kip848Error):
    """The Kafka cluster or the topic can't be read."""

    exit_code = 3


class LakeError(Kip848Error):
    """The lake can't be read or written."""

    exit_code = 3


class SparkFailure(Kip848Error):
    """Spark gave up for a reason that has no sentence of its own here."""

    exit_code = 3


class NotFoundError(Kip848Error):
    """What was asked for is not there."""

    exit_code = 1


def near(name: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about a ``name`` that is not there: the names in ``known`` that are like it, or
    ``otherwise`` if none is."""
    found = difflib.get_close_matches(name, list(known), 3, 0.5)
    return f"Did you mean {', '.join(found)}?" if found else otherwise
