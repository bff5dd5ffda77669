"""Finds a Java that is new enough: the same one that Spark will use."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from kip848_spark.errors import EnvironmentFault

MINIMUM = 17
_HINT = (
    f"Install Java {MINIMUM} or later (a headless JRE is enough), "
    "and put it on PATH or name its folder in JAVA_HOME."
)


def find_java() -> Path:
    """The ``java`` program in JAVA_HOME if that is set, else the first one on PATH.

    Raises EnvironmentFault if there is none, or if it is too old. A wrong JAVA_HOME is an error
    too: Spark would use it, and would fail later with a message that is harder to understand."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise EnvironmentFault(
                f"JAVA_HOME is {home}, but {home}/bin/java does not exist.", _HINT
            )
    else:
        found = shutil.which("java")
        if found is None:
            raise EnvironmentFault("There is no Java on PATH.", _HINT)
        java = Path(found)
    version = java_version(java)
    if version < MINIMUM:
        raise EnvironmentFault(
            f"{java} is Java {version}, but {MINIMUM} or later is needed.", _HINT
        )
    return java


@functools.cache
def java_version(java: Path) -> int:
    """The major version of a ``java`` program (8 for "1.8"). Raises EnvironmentFault."""
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise EnvironmentFault(f"{java} does not run: {cause}.", _HINT) from cause
    match = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    if output.returncode or match is None:
        raise EnvironmentFault(f"{java} does not report its version.", _HINT)
    return int(match.group(1))
