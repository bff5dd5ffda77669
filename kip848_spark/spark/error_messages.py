"""Turns Spark's exceptions into errors of one sentence: the root cause, with a hint if it is
known."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger

from kip848_spark.config.storage import store_fault
from kip848_spark.errors import EnvironmentFault, Kip848Error, SourceError, SparkFailure
from kip848_spark.kafka.acls import KafkaClient
from kip848_spark.runtime.cache import cache_folder

_QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def spark_log() -> Path:
    """The file that gets the terminal output of the JVM and its Python workers."""
    return _writable(cache_folder() / "logs") / f"spark-{os.getpid()}.log"


@cache
def _writable(folder: Path) -> Path:
    """``folder``, or a new temporary one if it can't be written: a cache may be part of an image,
    or have been filled by another user."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="kip848-logs-"))
    return folder


@contextmanager
def _without_query_log() -> Iterator[None]:
    """PySpark's loggers of failed queries are off until the block ends. They print every exception
    to the terminal with the whole Java stack, although it is raised as well."""
    loggers = [PySparkLogger.getLogger(name) for name in _QUERY_LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextmanager
def translate_spark_errors(client: KafkaClient | None = None) -> Iterator[None]:
    """Turns Spark's exceptions into errors of this program (`Kip848Error`), and writes their full
    text to the log. ``client`` is the Kafka client of the job, if it has one. Raises SparkFailure
    if Spark's JVM has ended."""
    try:
        with _without_query_log():
            yield
    except ConnectionError as cause:  # also of other connections than the one to the JVM
        _raise_interrupt(cause)
        if not jvm_has_ended(cause):
            raise
        raise jvm_ended() from cause
    except (PySparkException, Py4JError) as cause:
        _raise_interrupt(cause)
        if jvm_has_ended(cause):
            raise jvm_ended() from cause
        try:
            text = full_text(cause)
        except (Py4JError, OSError):  # the JVM that has the text has ended
            raise jvm_ended() from cause
        log = spark_log()
        with log.open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"\n{text}\n")
        raise translate_failure(text, log, client) from cause


def _raise_interrupt(cause: BaseException) -> None:
    """Raises the KeyboardInterrupt that ``cause`` has replaced, if there is one: py4j raises an
    error of its own if it is interrupted while its connection is closed."""
    before: BaseException | None = cause
    while before is not None:
        if isinstance(before, KeyboardInterrupt):
            raise before from None
        before = before.__context__


_EXIT_S = 5.0
"""How long a JVM may take to end after it has closed its connections, in seconds."""


def jvm_has_ended(cause: BaseException) -> bool:
    """Whether ``cause`` was raised because Spark's JVM has ended: killed by the kernel or by an
    operator, or crashed. A JVM that this process has not started can't be asked; then a lost
    connection to it counts."""
    if isinstance(cause, Py4JJavaError | PySparkException) and not _context_has_stopped():
        return False  # an answer of a JVM that works
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        network = isinstance(cause, Py4JNetworkError) or isinstance(
            cause.__cause__, Py4JNetworkError
        )
        return network or bool(_CALLING.match(str(cause)))
    try:
        process.wait(_EXIT_S)
    except subprocess.TimeoutExpired:  # Spark has stopped, and its JVM takes longer to end
        return isinstance(cause, Py4JJavaError | PySparkException)
    return True


def _context_has_stopped() -> bool:
    """Whether Spark has stopped, as it does before its JVM ends by itself. Jobs that still run then
    fail with various exceptions."""
    context = SparkContext._active_spark_context
    if context is None:
        return False
    try:
        return bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):  # the JVM does not answer any more
        return True


_OUT_OF_MEMORY = 52
"""The exit code of a JVM in which a Spark task has found no more memory."""


def jvm_ended() -> SparkFailure:
    """The error for a JVM that was killed, crashed, or ran out of memory."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.returncode == _OUT_OF_MEMORY:
        error = _no_memory()
        return SparkFailure(error.message, f"{error.hint} (Spark's log is {spark_log()}.)")
    return SparkFailure(
        "Spark's JVM ended in the middle of the work.",
        "Check that nobody stopped it and that this machine has enough memory: the kernel's log "
        "tells whether it killed a process. Then start the command again. "
        f"(Spark's log is {spark_log()}.)",
    )


def full_text(cause: BaseException) -> str:
    """The message, Java's stack, and the worker's Python traceback if there is one."""
    stack = getattr(cause, "_stackTrace", None)
    return f"{cause}\n{stack}" if stack else str(cause)


def translate_failure(text: str, log: Path, client: KafkaClient | None = None) -> Kip848Error:
    """The error for a Spark exception with the full ``text``, which is in the file ``log``."""
    known = (
        one.error(found, client or KafkaClient("HOST:PORT"))
        for one in _KNOWN
        if (found := one.pattern.search(text))
    )
    if error := next(known, None) or store_fault(text, "a path of this job"):
        hint = f"{error.hint} " if error.hint else ""
        return type(error)(error.message, f"{hint}(Spark's log is {log}.)")
    return SparkFailure(f"Spark failed: {root_cause(text)}", f"Its log is {log}.")


def root_cause(text: str) -> str:
    """The line of a Java stack or of a worker's traceback that names the root cause."""
    lines = text.splitlines()
    traces = [n for n, line in enumerate(lines) if line.startswith("Traceback (most recent call")]
    if traces:
        later = lines[traces[-1] + 1 :]
        line = next((line for line in later if line and not line.startswith((" ", "\t"))), None)
        if line:
            return _short(line)
    causes = [line for line in lines if line.lstrip().startswith("Caused by: ")]
    if causes:
        return _short(causes[-1].strip().removeprefix("Caused by: "))
    plain = (line.strip().removeprefix(": ") for line in lines)
    line = next((line for line in plain if line and not _CALLING.match(line)), None)
    return _short(line) if line else "no reason given"


def _short(line: str) -> str:
    """``line`` without the package of the exception class."""
    return re.sub(r"^(?:[a-z_][\w$]*\.)+(?=[A-Z])", "", line.strip())


_CALLING = re.compile(r"An error occurred while calling \S+$")


@dataclass(frozen=True)
class _Known:
    """A known cause and its error."""

    pattern: re.Pattern[str]
    error: Callable[[re.Match[str], KafkaClient], Kip848Error]


def _known(pattern: str, error: Callable[[re.Match[str], KafkaClient], Kip848Error]) -> _Known:
    return _Known(re.compile(pattern), error)


def _no_module(found: re.Match[str], _: KafkaClient) -> Kip848Error:
    return EnvironmentFault(
        f"Spark's Python workers can't import {found.group(1)}.",
        "Every executor needs the environment of kip848: ship it as an archive (--archives), or "
        "use an image that contains the package; see the README.",
    )


def _no_file_system(found: re.Match[str], _: KafkaClient) -> Kip848Error:
    return EnvironmentFault(
        f"Spark has no file system for {found.group(1)}: paths.",
        "Check the path, or add the jar of that file system to spark.jars.",
    )


def _no_s3(found: re.Match[str], _: KafkaClient) -> Kip848Error:
    return EnvironmentFault(
        "Spark lacks the classes of the S3 file system (S3AFileSystem).",
        'Pass the jars that `kip848 jars --s3` prints: spark-submit --jars "$(kip848 jars --s3)".',
    )


def _cluster_stopped(found: re.Match[str], client: KafkaClient) -> Kip848Error:
    return SourceError(
        f"The Kafka cluster at {client.bootstrap} stopped answering while Spark read the topic "
        f"({found.group(1)}).",
        "Check that its brokers run and that each partition of the topic has a leader. Then start "
        "the run again: it continues after the last run that has finished.",
    )


def _records_gone(found: re.Match[str], _: KafkaClient) -> Kip848Error:
    return SourceError(
        "Records were deleted from the topic while Spark read it.",
        "Start the run again: it reads what is there now, and notes the missing offsets in gaps.",
    )


def _no_memory(*_: object) -> SparkFailure:
    return SparkFailure(
        "Spark's JVM ran out of memory.",
        'Give it more in the settings, in the section [spark]: "spark.driver.memory" = "4g". A job '
        "of spark-submit has --driver-memory and --executor-memory. If this was a query of "
        "`kip848 sql`, it can also ask for fewer rows or columns.",
    )


_KNOWN = (
    _known(  # more memory would not help a JVM that gets no more threads
        r"java\.lang\.OutOfMemoryError(?!: unable to create)"
        rf"|exited with code {_OUT_OF_MEMORY}\b",
        _no_memory,
    ),
    _known(
        r"Not authorized to access topics: \[([^\]\n]+)\]",
        lambda found, client: client.denied("READ", "topic", found.group(1)),
    ),
    _known(
        r"Not authorized to access group: (\S+)",
        # Spark's consumer needs no more than DESCRIBE in its group.
        lambda found, client: client.denied("DESCRIBE", "group", found.group(1)),
    ),
    _known(
        r"(?:Sasl|Ssl)AuthenticationException: ([^\n]+?)\.?\n",
        lambda found, client: client.refused(found.group(1)),
    ),
    _known(
        r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|[Ss]ome data may have been lost", _records_gone
    ),
    _known(
        r"org\.apache\.kafka\.common\.errors\.(TimeoutException|DisconnectException|"
        r"NotLeaderOrFollowerException|LeaderNotAvailableException|NetworkException|"
        r"BrokerNotAvailableException|CoordinatorNotAvailableException)",
        _cluster_stopped,
    ),
    _known(r"ModuleNotFoundError: No module named '([\w.]+)'", _no_module),
    _known(r"ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a\.S3AFileSystem", _no_s3),
    _known(r"No FileSystem for scheme \"?([\w+.-]+)\"?", _no_file_system),
)
"""The first one that matches is used."""
