"""Finding a Java that is new enough: the one Spark will use too."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from kip848_spark.errors import EnvironmentFault

MINIMUM = 17
_MEND = (
    f"Install Java {MINIMUM} or later (a headless JRE is enough), "
    "and put it on PATH or name its folder in JAVA_HOME."
)


def find_java() -> Path:
    """The ``java`` program: JAVA_HOME's if that is set, else the first on PATH.

    A JAVA_HOME that is wrong is an error and not passed over in silence, because Spark would
    take it and fail later, and less clearly.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise EnvironmentFault(f"JAVA_HOME is {home}, and there is no bin/java in it.", _MEND)
    else:
        found = shutil.which("java")
        if found is None:
            raise EnvironmentFault("There is no Java on this machine's PATH.", _MEND)
        java = Path(found)
    version = java_version(java)
    if version < MINIMUM:
        raise EnvironmentFault(f"{java} is Java {version}, which is too old.", _MEND)
    return java


@functools.cache
def java_version(java: Path) -> int:
    """The major version that a ``java`` program says it is (8 for "1.8")."""
    try:
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise EnvironmentFault(f"{java} does not run: {cause}.", _MEND) from cause
    match = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    if output.returncode or match is None:
        raise EnvironmentFault(f"{java} does not say which Java it is.", _MEND)
    return int(match.group(1))
