"""Where compiled kernels are kept: in a folder named after the sources that they were made of."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from kip848_spark.jars import cache_folder

SOURCES = ("memory", "distinct", "kernel", "blocks", "chunks", "program", "faults", "layout")
"""What a compiled kernel depends on."""
_COMPILE = "import kip848_spark.wire.chunks, kip848_spark.wire.distinct"


def folder() -> Path:
    """Where the kernels of this program are, or would be."""
    digest = hashlib.blake2b(digest_size=8)
    for name in SOURCES:
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return cache_folder() / "kernels" / digest.hexdigest()


def compile_meanwhile() -> None:
    """Where there are none yet and some can be kept, begins to compile them, in a process of its
    own. It takes some seconds, and whoever is about to start a JVM has them."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    here = folder()
    try:
        here.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(here, os.W_OK) and next(here.rglob("*.nbc"), None) is None:
        command = [sys.executable, "-c", _COMPILE]
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
