"""Runs one program and sees to it that the program doesn't outlive whoever started it.

    python -m kip848_spark.local.supervisor LOG FOLDER_OR_EMPTY COMMAND...

The warden holds the read end of a pipe from its parent. However the parent ends, kill -9
included, that pipe closes (and the parent's id changes): then the warden kills the program and
removes the folder. Should the warden itself be killed, Linux kills the program (PDEATHSIG). Both
are in a session of their own, so that the Ctrl-C of a terminal reaches the parent alone, which
can then stop things in their order.
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
    """Start ``command`` under a warden; the warden ends when the command does.

    The first line of the warden's output is the command's process id. ``remove`` is the folder
    to remove if the caller dies; a caller that lives removes its folders itself.
    """
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, str(log), str(remove or ""), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def die_with_parent() -> Callable[[], None] | None:
    """For ``preexec_fn``: ask Linux to kill this process when its parent's thread ends."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)  # looked up before the fork, where little is safe to do
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Guard the command until it ends or the parent does."""
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
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - the warden has one thread
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
