"""The errors that this program raises on purpose, with the exit code of each.

    Kip848Error
    ├── UsageError           2  the command line or a setting is wrong, such as the source of a lake
    │   └── CaptureError     2  a capture lacks columns, has wrong types or is damaged
    ├── EnvironmentFault     2  this machine lacks something (Java, a jar, a Python worker)
    ├── SourceError          3  the Kafka cluster or the topic can't be read, or no capture is there
    ├── LakeError            3  the lake can't be read or written
    ├── OutputError          3  standard output can't be written
    ├── SparkFailure         3  Spark failed for a reason that this program does not know
    └── NotFoundError        1  the lake does not have what was requested (an unknown group)

``message`` is one sentence that says what is wrong and where. ``hint`` says what to do about it.

The command line has more exit codes: `FINDINGS`, `CRASHED`, `INTERRUPTED` and `TERMINATED`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FINDINGS = 1
"""Done, but something is wrong: an audit has findings, a group does not conform."""
CRASHED = 70
"""An exception that this program does not raise on purpose, so a bug (EX_SOFTWARE of sysexits.h).
Python's own exit code would be 1, which means `FINDINGS`."""
INTERRUPTED = 130
"""Interrupted by Ctrl-C."""
TERMINATED = 143
"""A job that was told to end by SIGTERM."""


class Terminated(KeyboardInterrupt):
    """The process was told to end by SIGTERM."""


class Kip848Error(Exception):
    """The base class. ``exit_code`` is the exit code of the command line."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(Kip848Error):
    """The command line or a setting is wrong, so that it helps nothing to repeat the command."""


class CaptureError(UsageError):
    """A capture (Parquet or Delta) can't be used as a source."""


class EnvironmentFault(Kip848Error):
    """Something that this machine needs is missing or does not work."""


class SourceError(Kip848Error):
    """The Kafka cluster or the topic can't be read, or a capture does not exist."""

    exit_code = 3


class LakeError(Kip848Error):
    """The lake can't be read or written."""

    exit_code = 3


class OutputError(Kip848Error):
    """Standard output can't be written."""

    exit_code = 3


class SparkFailure(Kip848Error):
    """Spark failed for a reason that this program does not know."""

    exit_code = 3


class NotFoundError(Kip848Error):
    """The lake does not have what was requested."""

    exit_code = 1


def quoted_if_blank(name: str) -> str:
    """``name`` as a sentence shows it: in quotes if it would not be seen."""
    return name if name.strip() else f'"{name}"'


def near(name: str, known: Iterable[str], otherwise: str) -> str:
    """A hint for a ``name`` that does not exist: similar names among ``known``, or ``otherwise`` if
    there are none."""
    found = difflib.get_close_matches(name, list(known), 3, 0.5)
    return f"Did you mean {', '.join(map(quoted_if_blank, found))}?" if found else otherwise


def no_such_group(name: str, known: Iterable[str]) -> NotFoundError:
    """The error that says that the lake has no group ``name``, with similar names of ``known``."""
    hint = near(name, known, "`kip848 groups` lists them.")
    return NotFoundError(f"The lake has no group {quoted_if_blank(name)}.", hint)
