"""The cache of compiled kernels: a folder whose name is a digest of the kernels' source."""

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
"""The modules of `wire` that the compiled kernels depend on."""
_COMPILE = "import kip848_spark.wire.chunks, kip848_spark.wire.distinct"


def kernel_folder() -> Path:
    """The folder for the kernels of this version of the program: in ``NUMBA_CACHE_DIR`` if that is
    set, else in the cache folder. Raises OSError if the source cannot be read."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(named) if named else cache_folder() / "kernels") / _digest()


@functools.cache
def _digest() -> str:
    """A digest of the source, which may be in a zip file."""
    digest = hashlib.blake2b(digest_size=8)
    for name in SOURCES:
        digest.update(files("kip848_spark.wire").joinpath(f"{name}.py").read_bytes())
    return digest.hexdigest()


class KernelCacheLocator:
    """Makes Numba cache kernels in `kernel_folder`, wherever the package is.

    Numba's own locators put the cache beside the source file, or in a folder named after the path
    of the package. In a zip file there is no source file, and Spark unpacks packages to a different
    path for each application.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno
        self._py_file = function.__code__.co_filename  # Numba names it in warnings

    @classmethod
    def from_function(cls, function: Callable[..., Any], _: str) -> KernelCacheLocator:
        """The locator of a function. Raises OSError if `kernel_folder` cannot be written."""
        locator = cls(function)
        locator.ensure_cache_path()
        return locator

    def ensure_cache_path(self) -> None:
        kernel_folder().mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=kernel_folder()).close()

    def get_cache_path(self) -> str:
        return str(kernel_folder())

    def get_source_stamp(self) -> str:
        return _digest()

    def get_disambiguator(self) -> str:
        return str(self._line)


def compile_in_background() -> None:
    """Starts a process that compiles the kernels, if the cache has none and can be written.

    Compilation takes some seconds: about as long as the JVM that the caller is about to start.
    """
    try:
        folder = kernel_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(folder, os.W_OK) and next(folder.rglob("*.nbc"), None) is None:
        command = [sys.executable, "-c", _COMPILE]
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
