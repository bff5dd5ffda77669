"""Where the program's own files are: message schemas, default settings, the list of jars.

A checkout has them at its top (``conf/``, ``schemas/``), an installed wheel inside the package
(``_resources/``); callers name them the same way in both.
"""

from __future__ import annotations

from pathlib import Path

from kip848_spark.errors import EnvironmentFault

_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (_PACKAGE / "_resources", _PACKAGE.parent)


def resource(name: str) -> Path:
    """The file or folder ``name``, such as ``conf/ivy.xml`` or ``schemas``."""
    for root in _ROOTS:
        path = root / name
        if path.exists():
            return path
    raise EnvironmentFault(
        f"The program's own file {name} is missing from this installation.",
        mend="Install the package again.",
    )
