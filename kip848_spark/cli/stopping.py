"""What a verb does if it is told to stop: by Ctrl-C (SIGINT), or by a scheduler (SIGTERM)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil
import typer

from kip848_spark.cli.display import say
from kip848_spark.errors import INTERRUPTED, TERMINATED, Terminated

GRACE_S = 20.0
"""How long a verb may take to end after SIGTERM. Kubernetes kills it after 30 s."""


@contextmanager
def says_if_stopped() -> Iterator[None]:
    """Says that the block was stopped by SIGINT or SIGTERM, and ends the command with the exit code
    for it. SIGTERM raises `Terminated` in the block. Child processes that the block has started and
    that have not ended get a SIGTERM."""
    earlier = psutil.Process().children()
    try:
        with _raised_terminated():
            yield
    except KeyboardInterrupt as stop:
        # A JVM that PySpark has not finished starting would stay for ever.
        for child in set(psutil.Process().children()).difference(earlier):
            with suppress(psutil.NoSuchProcess):
                child.terminate()
        terminated = isinstance(stop, Terminated)
        words, code = ("terminated", TERMINATED) if terminated else ("interrupted", INTERRUPTED)
        say(words, level="error", style="yellow", wrap=True, exit_code=code)
        raise typer.Exit(code) from None


@contextmanager
def _raised_terminated() -> Iterator[None]:
    """Does nothing if the process has its own handler of SIGTERM or ignores it, or if this is not
    its main thread. Nothing else can have a handler."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    # As without a handler, if the verb does not end by itself.
    last = threading.Timer(GRACE_S, os.kill, (os.getpid(), signal.SIGTERM))
    last.daemon = True

    def stop(_: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
        last.start()
        interrupt = signal.getsignal(signal.SIGINT)
        with suppress(KeyboardInterrupt):
            if callable(interrupt):  # PySpark's own cancels the jobs
                interrupt(signal.SIGINT, frame)
        raise Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        last.cancel()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
