"""The folder for downloads and compiled code."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The folder in ``KIP848_CACHE`` if that is set, else the user's cache folder for this
    program."""
    named = os.environ.get("KIP848_CACHE")
    return Path(named).absolute() if named else platformdirs.user_cache_path("kip848-spark")
