"""Commands of `kip848`, one after the other in one Spark session: a process, and how tests use it.

A command of a process of its own spends most of its time on the start of Spark. A test that kills
many commands starts the session first, so that the kills meet the work.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from kip848_spark.cli import main
from kip848_spark.cli.display import log_line
from kip848_spark.spark.session import session

DRIVER, JVM, WORKER = "driver", "JVM", "Python worker"
READY, ENDED = "ready", "ended"
OPENING = "opening the lake"
"""What a command does before its first step."""


@dataclass(frozen=True)
class Phase:
    """What a command did from ``start`` on, in seconds since the command was sent."""

    name: str
    start: float


class WarmCommands:
    """A process with a Spark session. ``options`` are variables of its environment, ``settings``
    those of Spark; with settings it has the jars for ``s3a://`` paths."""

    def __init__(self, options: Mapping[str, str], settings: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(dict(settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"KIP848_LOG_FORMAT": "json"} | dict(options),
        )
        self._changed = threading.Condition()
        self._sent = time.monotonic()
        self._lines: list[str] = []
        self._phases: list[Phase] = []
        self._state: str | int = ""
        """`READY`, the exit code of the last command, or `ENDED`; empty at work."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self._lines.append(line)
                fields: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
                event = fields.get("event")
                if event == "begins":
                    self._add(fields["message"])
                elif event in (READY, "exit"):
                    self._state = READY if event == READY else fields["code"]
                self._changed.notify_all()
        with self._changed:
            self._state = ENDED
            self._changed.notify_all()

    def _add(self, words: str) -> None:
        """Notes a phase; Spark has started long ago."""
        name = OPENING if words == "starting Spark" else words
        self._phases.append(Phase(name, time.monotonic() - self._sent))

    def send(self, arguments: Sequence[str]) -> None:
        """Starts a command, as soon as the session is there."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._state != "", 300), self.text()
            assert self._state != ENDED, self.text()
            self._state, self._phases, self._lines = "", [], []
            self._sent = time.monotonic()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(list(arguments)) + "\n")
        self.process.stdin.flush()

    def wait(self, timeout: float = 900) -> int:
        """The exit code of the command; that of the process if it has ended."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._state != "", timeout), self.text()
        return self.process.wait() if isinstance(self._state, str) else self._state

    def completed(self, arguments: Sequence[str]) -> list[Phase]:
        """Runs a command that must succeed; returns its phases, and the end as one without name."""
        self.send(arguments)
        assert self.wait() == 0, self.text()
        return [*self.phases(), Phase("", time.monotonic() - self._sent)]

    def phases(self) -> list[Phase]:
        with self._changed:
            return list(self._phases)

    def wait_until(self, phase: Phase, after: float) -> bool:
        """Waits until ``after`` seconds after the start of ``phase``. False if the command ends
        before that."""

        def begun() -> bool:
            return self._state != "" or any(one.name == phase.name for one in self._phases)

        def done() -> bool:
            return self._state != ""

        with self._changed:
            assert self._changed.wait_for(begun, 900), self.text()
            return not self._changed.wait_for(done, after)

    def kill(self, kind: str, chance: random.Random) -> str:
        """Sends SIGKILL to the driver, its JVM, or a Python worker, if possible one at work; to
        the JVM if it has none.
        Returns which of them it was."""
        victim = psutil.Process(self.process.pid)
        if kind != DRIVER:
            victim = next(one for one in victim.children() if one.name() == "java")
        if kind == WORKER:
            states = [(one, _python_state(one)) for one in victim.children(recursive=True)]
            workers = [one for one, state in states if state is not None]
            busy = [one for one, state in states if state == psutil.STATUS_RUNNING]
            victim, kind = (chance.choice(busy or workers), WORKER) if workers else (victim, JVM)
        victim.send_signal(signal.SIGKILL)
        return kind

    def text(self) -> str:
        """What the process wrote to standard error since the command began."""
        return "".join(self._lines)

    def close(self) -> None:
        """Ends the process, and waits for it."""
        self.process.kill()
        self.process.wait()


def _python_state(process: psutil.Process) -> str | None:
    """Whether a Python process runs or sleeps; None if it has ended, or is another program."""
    try:
        return str(process.status()) if "python" in process.name() else None
    except psutil.NoSuchProcess:
        return None


def _serve(settings: dict[str, str]) -> None:
    os.environ["TZ"] = "UTC"  # as the command line does
    time.tzset()
    with session(settings, s3=bool(settings)):
        log_line("info", "", event=READY)
        for line in sys.stdin:
            sys.argv = ["kip848", *json.loads(line)]
            code: object = 0
            try:
                main()
            except SystemExit as ended:
                code = ended.code or 0
            log_line("info", "", event="exit", code=code)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
