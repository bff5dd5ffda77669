"""Where the files beside the code are: `schemas/` and `conf/`, in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """The path of ``name`` (``schemas``, ``conf/ivy.xml``); an installed wheel carries its own."""
    bundled = _PACKAGE / "_resources"
    return (bundled if bundled.is_dir() else _PACKAGE.parent) / name
