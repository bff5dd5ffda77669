"""Runs the command line in this process, as a shell would see it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from kip848_spark.cli import main


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``err`` on one line, as the terminal's width does not matter here;
    ``err_lines`` are its lines."""

    code: int
    out: str
    err: str
    err_lines: tuple[str, ...] = ()


class Command:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capfd = capfd

    def __call__(self, *arguments: str) -> Ended:
        self._monkeypatch.setattr(sys, "argv", ["kip848", *arguments])
        self._capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        output = self._capfd.readouterr()
        return Ended(code, output.out, " ".join(output.err.split()), tuple(output.err.splitlines()))
