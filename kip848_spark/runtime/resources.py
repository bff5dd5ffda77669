"""The program's own files: message schemas, default settings, the list of jars.

A checkout has them in its root (``conf/``, ``schemas/``), a wheel in the package (``_resources/``).
They are not unpacked, because the package may be imported from a zip file, as Spark's executors do
with ``--py-files``. Their names are the same everywhere."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from kip848_spark.errors import EnvironmentFault

_UNPACKED = ExitStack()
atexit.register(_UNPACKED.close)


def resource(name: str) -> Traversable:
    """The file or folder ``name``, such as ``conf/ivy.xml`` or ``schemas``.

    Raises EnvironmentFault if there is no such file.
    """
    parts = name.split("/")
    checkout: Traversable = Path(__file__).resolve().parents[2]
    for root in (files("kip848_spark").joinpath("_resources"), checkout):
        found = root.joinpath(*parts)
        if found.is_file() or found.is_dir():
            return found
    raise EnvironmentFault(
        f"The program's own file {name} is missing from this installation.",
        hint="Install the package again; as a zip file, use its wheel (docs/clusters.md).",
    )


def resource_path(name: str) -> Path:
    """The path of a file, for other programs. A file in a zip is copied to a temporary path that
    lasts as long as this process. Raises EnvironmentFault if there is no such file."""
    return _UNPACKED.enter_context(as_file(resource(name)))
