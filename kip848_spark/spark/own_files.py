"""Checks that a table or a capture which Spark reads consists of files in its own folder."""

from __future__ import annotations

import posixpath

from pyspark.sql import DataFrame

from kip848_spark.lake.delta_folder import foreign_file


def require_own_spark_files(frame: DataFrame, place: str, uri: str) -> None:
    """Raises LakeError if ``frame``, a Delta table, reads a file outside of the folder ``uri``.
    ``place`` is the user's name for the folder.

    Spark lists the files, which takes a small job. Like ``uri``, their names are Hadoop's, in which
    a percent sign is an ordinary character.
    """
    scheme, host, root = _split(uri)
    for name in frame.inputFiles():
        file_scheme, file_host, path = _split(name)
        elsewhere = file_scheme != scheme or (host and file_host != host)
        if elsewhere or not path.startswith(f"{root.rstrip('/')}/"):
            raise foreign_file(place, name)


def _split(name: str) -> tuple[str, str, str]:
    """The scheme, the host and the normal path of one of Hadoop's names."""
    scheme, _, rest = name.partition(":")
    host = ""
    if rest.startswith("//"):
        host, _, rest = rest[2:].partition("/")
        rest = f"/{rest}"
    return scheme.lower(), host, posixpath.normpath(rest)
