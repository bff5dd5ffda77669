"""A standalone Spark cluster on this machine: a master and a worker that cannot import the package.

Both are started as an administrator would, in another folder and without this environment on PATH,
so that a job gets from the cluster only what its spark-submit ships or names.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from kip848_spark.runtime.java import find_java

SPARK_HOME = Path(pyspark.__file__).parent
_STARTED = {
    "Master": re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)"),
    "Worker": re.compile(r"Successfully registered with master (spark://\S+)"),
}


@dataclass(frozen=True)
class Standalone:
    """A running cluster; ``folder`` is where its processes run, ``master`` its URL."""

    master: str
    folder: Path

    def submit(
        self, *arguments: str, environment: Mapping[str, str], timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``spark-submit`` on this cluster, in its folder. ``environment`` is added to one
        that names Java and nothing else."""
        return subprocess.run(
            [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, *arguments],
            cwd=self.folder,
            env={**_environment(), **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def said_by_executors(self) -> str:
        """What the executors of all applications wrote to standard error."""
        logs = sorted(self.folder.glob("work/app-*/*/stderr"))
        return "\n".join(log.read_text(errors="replace") for log in logs)


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """Starts a master and a worker with two cores; stops them at the end."""
    with ExitStack() as running:
        master = running.enter_context(_daemon("Master", folder, ()))
        options = ["--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work"), master]
        running.enter_context(_daemon("Worker", folder, options))
        yield Standalone(master, folder)


@contextmanager
def _daemon(name: str, folder: Path, options: Sequence[str]) -> Iterator[str]:
    """A process of the cluster; gives the URL of the master as soon as the process has started."""
    package = f"org.apache.spark.deploy.{name.lower()}.{name}"
    where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    log = folder / f"{name.lower()}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), package, *where, *options],
            cwd=folder,
            env=_environment(),
            stdout=output,
            stderr=output,
        )
    try:
        yield _started(name, process, log)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _started(name: str, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if match := _STARTED[name].search(log.read_text(errors="replace")):
            return match.group(1)
        time.sleep(0.1)
    raise RuntimeError(f"the {name.lower()} did not start: {log.read_text(errors='replace')}")


def _environment() -> dict[str, str]:
    java = find_java().resolve()
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/"),
        "JAVA_HOME": str(java.parent.parent),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
