"""Storage that fails at one chosen operation: every file and every commit of a run is a point.

`StorageFaults` wraps the operations that change a lake in a folder: the lease's files, the Parquet
files that the driver and the Python workers write, and each commit of delta-rs. Most operations are
two points, before and after their effect: after it, the operation has happened and its caller does
not get the answer. The points of a run are counted, in all processes, and the chosen one fails.

Two things can happen there:

* ``error``: the operation raises an OSError once, as a disk does that has a bad moment.
* ``kill``: the process ends. A Python worker really does; the driver, which the tests keep, gets
  `Killed`, and from then on every operation raises it, so that nothing is cleaned up.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deltalake import DeltaTable
from deltalake.table import TableAlterer, TableOptimizer
from pyspark import cloudpickle

from kip848_spark.lake import arrow_files, folders
from kip848_spark.spark.storage import worker_written
from kip848_spark.wire.batches import Batches, BatchFunction

# The workers may have no folder of tests to import this module from.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

ERROR, KILL = "error", "kill"
_HEART = "kip848-lease"
"""The name of the thread that sends heartbeats, at times that no test can choose."""


class Killed(BaseException):
    """The driver was killed. It is no Exception, so no code can go on after it."""


@dataclass(frozen=True)
class StorageFaults:
    """Faults at the point number ``at`` (from 1; 0 for none), counted in ``folder``."""

    folder: Path
    at: int = 0
    kind: str = ERROR

    def reached(self) -> list[str]:
        """The points so far, in order."""
        path = self.folder / "points"
        return path.read_text().splitlines() if path.exists() else []

    def point(self, name: str, worker: bool = False) -> None:
        """A point. Raises OSError or `Killed` if it is the chosen one."""
        dead = self.folder / "dead"
        if dead.exists():
            self._end(worker)
        if threading.current_thread().name == _HEART:
            return
        with (self.folder / "points").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(name + "\n")
            file.flush()
            number = len(self.reached())
        if number != self.at:
            return
        if self.kind == KILL:
            dead.touch()
            self._end(worker)
        raise OSError(errno.EIO, f"injected at {name}")

    def _end(self, worker: bool) -> None:
        if worker:
            os._exit(1)
        raise Killed

    @contextmanager
    def in_driver(self) -> Iterator[None]:
        """All operations of this process, and of the Python workers that it starts, are points."""
        with ExitStack() as stack:

            def wrap(owner: Any, name: str, label: str) -> None:
                original = owner.__dict__[name]
                is_class_method = isinstance(original, classmethod)
                function = original.__func__ if is_class_method else original

                def wrapped(*arguments: Any, **named: Any) -> Any:
                    self.point(f"before {label}")
                    result = function(*arguments, **named)
                    self.point(f"after {label}")
                    return result

                stack.enter_context(
                    patch.object(owner, name, classmethod(wrapped) if is_class_method else wrapped)
                )

            wrap(DeltaTable, "create", "creating a table")
            wrap(DeltaTable, "create_write_transaction", "a commit")
            wrap(DeltaTable, "restore", "restoring a table")
            wrap(DeltaTable, "vacuum", "vacuum")
            wrap(TableAlterer, "add_columns", "adding columns")
            wrap(TableAlterer, "set_table_properties", "setting properties")
            wrap(TableOptimizer, "compact", "compacting")
            wrap(folders.LocalFolder, "create", "creating a lease file")
            wrap(folders.LocalFolder, "replace", "replacing a lease file")
            wrap(folders.LocalFolder, "remove", "removing a lease file")
            for name in ("_run_job_function", "_table_writer"):
                original = getattr(worker_written, name)
                stack.enter_context(patch.object(worker_written, name, self._for_workers(original)))
            stack.enter_context(self._writing_files(worker=False))
            yield

    def _for_workers(self, original: Callable[..., BatchFunction]) -> Callable[..., BatchFunction]:
        def make(*arguments: Any, **named: Any) -> BatchFunction:
            return _InWorker(self, original(*arguments, **named))

        return make

    @contextmanager
    def _writing_files(self, worker: bool) -> Iterator[None]:
        """The Parquet files that this process writes are points: when a file gets rows, when it is
        finished, and when files are deleted after a fault."""
        with ExitStack() as stack:
            for name in ("write", "_finish", "discard"):
                original = getattr(arrow_files.TableWriter, name)

                def wrapped(
                    writer: Any, *arguments: Any, original: Any = original, name: str = name
                ) -> Any:
                    is_open = writer._open is not None
                    if is_open or name == "write":
                        self.point(f"before {name} {writer.target.table}", worker)
                    result = original(writer, *arguments)
                    if is_open and name == "_finish":
                        self.point(f"after {name} {writer.target.table}", worker)
                    return result

                stack.enter_context(patch.object(arrow_files.TableWriter, name, wrapped))
            yield


@dataclass(frozen=True)
class _InWorker:
    """A function of a Python worker, in which the files are points."""

    faults: StorageFaults
    function: BatchFunction

    def __call__(self, batches: Batches) -> Batches:
        with self.faults._writing_files(worker=True):
            yield from self.function(batches)
