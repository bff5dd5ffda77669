"""Starts Spark's JVM: redirects its output to a log, and explains a failed start in one
sentence."""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kip848_spark.errors import EnvironmentFault
from kip848_spark.spark.error_messages import full_text, jvm_ended, jvm_has_ended, root_cause

_NOISE = re.compile(
    r"(WARNING|NOTE|Picked up|Using |Setting default|To adjust|Error occurred during init"
    r"|Error: (Could not create the Java|A fatal exception has))"
)


def require_user_name() -> None:
    """Raises EnvironmentFault if this process has a user without a name. Spark does not start for
    one: it looks for its cache in ``?``, and Hadoop for the name."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise EnvironmentFault(
            f"The user {os.geteuid()} has no name on this machine, and Spark needs one.",
            "Add a line for the user to /etc/passwd, for example when a container starts.",
        ) from None


@contextmanager
def spark_startup(log: Path | None) -> Iterator[None]:
    """Redirects standard output and error of processes that start in the block to the file ``log``,
    or to standard error without one. Raises EnvironmentFault if Spark can't be started, and
    SparkFailure if its JVM was killed."""
    before = log.stat().st_size if log is not None and log.exists() else 0
    try:
        with _output_to(log):
            yield
    except (PySparkException, Py4JError, ConnectionError) as cause:
        output = "" if log is None else log.read_text(errors="replace")[before:]
        if log is not None:
            with log.open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"\n{full_text(cause)}\n")
        reason = startup_error(output)
        silent = log is not None and "JAVA_GATEWAY_EXITED" in str(cause) and not reason
        if silent or jvm_has_ended(cause):  # one that does not start says why
            raise jvm_ended() from None
        if "JAVA_GATEWAY_EXITED" not in str(cause) or not reason:
            reason = root_cause(full_text(cause))
        raise EnvironmentFault(
            f"Spark can't be started: {reason.rstrip('.')}.",
            "Check the section [spark] of the settings, and JAVA_TOOL_OPTIONS."
            + (f" (Spark's log is {log}.)" if log else ""),
        ) from None


@contextmanager
def _output_to(log: Path | None) -> Iterator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    own = {number: os.dup(number) for number in (1, 2)}
    try:
        if log is None:
            os.dup2(2, 1)
        else:
            with log.open("ab") as file:
                for number in own:
                    os.dup2(file.fileno(), number)
        yield
    finally:
        for number, copy in own.items():
            os.dup2(copy, number)
            os.close(copy)


def startup_error(output: str) -> str:
    """The reason why a JVM or Spark's launcher ended, from its output; empty if there is none."""
    if found := re.search(r'Exception in thread "main" (.+)', output):
        causes = re.findall(r"\nCaused by: (.+)", output)
        return root_cause(causes[-1] if causes else found.group(1))
    lines = [line.strip() for line in output.split("\nUsage:", maxsplit=1)[0].splitlines()]
    messages = [line for line in lines if line and not _NOISE.match(line)]
    return re.sub(r" \(was .*\)", "", " ".join(messages[:2])).removeprefix("Error: ")
