"""The folder for downloads and compiled code."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from kip848_spark.errors import EnvironmentFault


def cache_folder() -> Path:
    """The folder in ``KIP848_CACHE`` if that is set, else the user's cache folder for this
    program. Raises EnvironmentFault if this user has none, as one that only has a number."""
    if named := os.environ.get("KIP848_CACHE"):
        return Path(named).absolute()
    try:
        return platformdirs.user_cache_path("kip848-spark")
    except RuntimeError:
        raise EnvironmentFault(
            "This user has no home folder, in which the cache folder would be.",
            "Set KIP848_CACHE to a folder for it.",
        ) from None
