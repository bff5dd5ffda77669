"""How far a running Spark job is: records done of records planned, reported twice a second.

Spark's own metrics say how many records a job's stages have read. They say nothing about what the
Python workers, which do most of the work of ingest and audit, have done with them: a local session
reads and sorts all of a task's records before the first one reaches Python. So the workers count.
A worker on the driver's machine writes its count to a file that the driver reads; any other worker
adds its count to an accumulator when its task ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import InheritableThread, TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from kip848_spark.wire.batches import Batches, BatchFunction

INTERVAL_SECONDS = 0.5

Measure = Callable[[pa.RecordBatch], int]
"""Takes the batches of a task one after the other; returns what is done after each, in all."""


@runtime_checkable
class RecordProgress(Protocol):
    """A `steps.Progress` that also shows how far the current step is."""

    def __call__(self, words: str) -> None: ...

    def records(self, done: int, planned: int | None, unit: str) -> None:
        """``done`` of ``planned`` units (None: not known yet) of the current step are done. Called
        from a thread of its own."""


class WorkerCount:
    """What the Python workers have done so far. Pickled into their functions; see `count`."""

    def __init__(self, spark: SparkSession) -> None:
        self._folder = tempfile.mkdtemp(prefix="kip848-progress-")
        context = spark.sparkContext
        local = (context.master or "").startswith("local")
        self._of_ended_tasks: Accumulator[int] | None = None if local else context.accumulator(0)

    def count(
        self, batches: Batches, measure: Measure | None = None, slice_rows: int = 0
    ) -> Batches:
        """``batches``, each of them counted when the next one is asked for; for a worker.

        Counts rows unless there is a ``measure``. ``slice_rows``: the largest number of rows that
        are passed on, and counted, at once; 0 for whole batches.
        """
        done = rows = 0
        with self._file() as write:
            for batch in batches:
                step = slice_rows or max(1, batch.num_rows)
                for start in range(0, batch.num_rows, step):
                    part = batch.slice(start, step)
                    yield part
                    rows += part.num_rows
                    done = rows if measure is None else measure(part)
                    write(done)
        if self._of_ended_tasks is not None:
            self._of_ended_tasks.add(done)

    @contextmanager
    def _file(self) -> Iterator[Callable[[int], None]]:
        """Writes to the count file of this task, if the worker sees the driver's folder. A second
        attempt at a task overwrites what the first one counted."""
        task = TaskContext.get()
        name = f"{task.stageId()}-{task.partitionId()}" if task else "0"
        try:
            file = os.open(f"{self._folder}/{name}", os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError:
            yield lambda _: None
            return
        try:
            yield lambda done: _write(file, done)
        finally:
            os.close(file)

    def done(self) -> int:
        """What all tasks have done so far; for the driver."""
        ended = 0 if self._of_ended_tasks is None else int(self._of_ended_tasks.value)
        return max(ended, sum(_count_in(file) for file in Path(self._folder).iterdir()))

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def counted(function: BatchFunction, count: WorkerCount | None, slice_rows: int) -> BatchFunction:
    """``function``; ``count``, if there is one, counts its input. See `WorkerCount.count`."""
    if count is None:
        return function
    return lambda batches: function(count.count(batches, slice_rows=slice_rows))


def _write(file: int, done: int) -> None:
    with suppress(OSError):  # a full disk is no reason to fail here
        os.pwrite(file, done.to_bytes(8), 0)


def _count_in(file: Path) -> int:
    with suppress(OSError):
        return int.from_bytes(file.read_bytes())
    return 0


class StageRecords:
    """Records that the stages which began after this object was made have read and shuffled, by
    Spark's status store: live for running tasks, as often as executors send heartbeats."""

    def __init__(self, spark: SparkSession) -> None:
        java: Any = spark.sparkContext._jvm
        gateway: Any = spark.sparkContext._gateway
        self._store: Any = spark.sparkContext._jsc.sc().statusStore()
        quantiles, statuses = gateway.new_array(java.double, 0), java.java.util.ArrayList()
        self._arguments = (None, False, False, quantiles, statuses)
        self._before = next((number for number, _ in self._stages(-1)), -1)
        self._ended: set[int] = set()
        self._read: dict[int, int] = {}
        self._shuffled: dict[int, int] = {}

    def refresh(self) -> None:
        """Asks Spark once more."""
        for number, stage in self._stages(self._before):
            if number in self._ended:
                continue
            self._read[number] = stage.inputRecords()
            if stage.status().toString() in ("COMPLETE", "FAILED", "SKIPPED"):
                self._ended.add(number)
                self._shuffled[number] = stage.shuffleWriteRecords()
        while self._before + 1 in self._ended:  # they need not be looked at again
            self._before += 1

    def _stages(self, after: int) -> Iterator[tuple[int, Any]]:
        """The stages with a higher number than ``after``, the highest first."""
        found = self._store.stageList(*self._arguments)
        for place in range(found.size()):
            stage = found.apply(place)
            number = stage.stageId()
            if number <= after:
                return
            yield number, stage

    @property
    def read(self) -> int:
        """Records read from files, tables and topics."""
        return sum(self._read.values())

    @property
    def shuffled(self) -> int | None:
        """Records of the largest shuffle that is written; None before the first one is."""
        return max(self._shuffled.values(), default=None)


@contextmanager
def show_worker_progress(
    spark: SparkSession,
    progress: object,
    unit: str,
    planned: int | None = None,
    *,
    shuffled: bool = False,
) -> Iterator[WorkerCount | None]:
    """Shows what the Python workers have done until the block ends, if ``progress`` is a
    `RecordProgress`: gives the count to pass to them.

    ``planned``: what they will have done in the end; if None, the number of rows that Spark
    shuffles. ``shuffled``: Spark reads and shuffles all records before the workers begin, so that
    this is the first half of the work.
    """
    if not isinstance(progress, RecordProgress):
        yield None
        return
    count, stages = WorkerCount(spark), StageRecords(spark)

    def report() -> None:
        done, total = count.done(), planned
        if shuffled or planned is None:
            stages.refresh()
        if planned is None:
            total = stages.shuffled
        elif shuffled:
            done = (min(stages.read, planned) + done) // 2
        progress.records(done, total, unit)

    try:
        with _repeated(report):
            yield count
    finally:
        count.close()


@contextmanager
def show_read_progress(
    spark: SparkSession, progress: object, unit: str, planned: Callable[[], int]
) -> Iterator[None]:
    """Shows how many records Spark has read until the block ends, if ``progress`` is a
    `RecordProgress`. The block reads ``planned()`` records."""
    if not isinstance(progress, RecordProgress):
        yield
        return
    stages, total = StageRecords(spark), planned()

    def report() -> None:
        stages.refresh()
        progress.records(min(total, stages.read), total, unit)

    with _repeated(report):
        yield


@contextmanager
def _repeated(report: Callable[[], None]) -> Iterator[None]:
    """Calls ``report`` twice a second from a thread until the block ends, and then once more."""
    ended = threading.Event()

    def run() -> None:
        with suppress(Py4JError, OSError):  # the session has ended: whoever uses it says so
            while not ended.wait(INTERVAL_SECONDS):
                report()
            report()

    # Unlike a plain thread it gives the JVM's thread back when it ends.
    thread = InheritableThread(run, name="kip848-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
