"""Runs one program and makes sure that it does not outlive the process that started it.

    python -m kip848_spark.local.supervisor LOG FOLDER_OR_EMPTY COMMAND...

The supervisor holds the read end of a pipe from its parent. When the parent ends, even by kill -9,
the pipe closes and the parent's id changes; then the supervisor kills the program and removes the
folder. If the supervisor itself is killed, Linux kills the program (PDEATHSIG). Both run in a
session of their own, so the Ctrl-C of a terminal reaches only the parent, which can then stop
things in order.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_TICK = 0.1


def start(command: list[str], log: Path, remove: Path | None = None) -> subprocess.Popen[bytes]:
    """Starts ``command`` under a supervisor, which ends when the command does.

    The first line of the supervisor's output is the command's process id. ``remove`` is the folder
    that the supervisor removes if the caller dies; otherwise the caller removes its own folders.
    """
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, str(log), str(remove or ""), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def die_with_parent() -> Callable[[], None] | None:
    """For ``preexec_fn``: asks Linux to kill this process when its parent thread ends."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)  # looked up before the fork, where little is safe to do
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Supervises the command until it or the parent ends."""
    log, remove, *command = arguments
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    with Path(log).open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - the supervisor has one thread
        )
    try:
        with contextlib.suppress(BrokenPipeError):
            print(child.pid, flush=True)
        while child.poll() is None:
            readable, _, _ = select.select([0], [], [], _TICK)
            if (readable and not os.read(0, 1024)) or os.getppid() != parent:
                child.kill()
                child.wait()
                if remove:
                    shutil.rmtree(remove, ignore_errors=True)
        return child.returncode
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
