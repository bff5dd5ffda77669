"""Standard output of the process, which may be a full disk or a pipe that nobody reads any more."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from kip848_spark.errors import OutputError


class ClosedOutput(SystemExit):
    """The reader of standard output has closed it, as `head` does."""


class _StandardOutput(io.FileIO):
    """Raises OutputError if it can't be written, and ClosedOutput if its reader has closed it.

    Neither is an OSError: rich and Typer would end the process with the exit code 1 for a closed
    pipe, which means findings. What is written afterwards is dropped."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as cause:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(cause, BrokenPipeError):
                raise ClosedOutput(0) from None
            raise OutputError(f"Standard output can't be written: {cause.strerror}.") from None


def guard_standard_output() -> None:
    """From now on, `sys.stdout` is such an output."""
    given = sys.stdout
    if isinstance(given, io.TextIOWrapper):
        raw = _StandardOutput(given.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw),
            given.encoding,
            given.errors,
            line_buffering=given.line_buffering or given.write_through,
        )
