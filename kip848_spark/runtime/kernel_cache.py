"""Where compiled kernels are kept: in a folder named after the sources that they were made of."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from kip848_spark.runtime.cache import cache_folder

SOURCES = ("memory", "distinct", "kernel", "blocks", "chunks", "program", "faults", "layout")
"""What a compiled kernel depends on."""
_COMPILE = "import kip848_spark.wire.chunks, kip848_spark.wire.distinct"


def folder() -> Path:
    """Where the kernels of this program are, or would be. Raises OSError without the sources."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(named) if named else cache_folder() / "kernels") / _digest()


@functools.cache
def _digest() -> str:
    """Of the sources, which may be in a zip file."""
    digest = hashlib.blake2b(digest_size=8)
    for name in SOURCES:
        digest.update(files("kip848_spark.wire").joinpath(f"{name}.py").read_bytes())
    return digest.hexdigest()


class Locator:
    """Tells Numba to keep kernels in `folder`, wherever the package is.

    Numba's own locators look for the source file next to the cache, or name a cache after the path
    of the package: in a zip file there is none, and Spark unpacks it to another path for each
    application.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno
        self._py_file = function.__code__.co_filename  # Numba names it in warnings

    @classmethod
    def from_function(cls, function: Callable[..., Any], _: str) -> Locator:
        """The locator of a function. Raises OSError if nothing can be written to `folder`."""
        made = cls(function)
        made.ensure_cache_path()
        return made

    def ensure_cache_path(self) -> None:
        folder().mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder()).close()

    def get_cache_path(self) -> str:
        return str(folder())

    def get_source_stamp(self) -> str:
        return _digest()

    def get_disambiguator(self) -> str:
        return str(self._line)


def compile_meanwhile() -> None:
    """Where there are none yet and some can be kept, begins to compile them, in a process of its
    own. It takes some seconds, and whoever is about to start a JVM has them."""
    try:
        here = folder()
        here.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(here, os.W_OK) and next(here.rglob("*.nbc"), None) is None:
        command = [sys.executable, "-c", _COMPILE]
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
