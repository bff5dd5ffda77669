"""Checks that a table or a capture which Spark reads consists of files in its own folder."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame

from kip848_spark.lake.delta_folder import foreign_file


def require_own_spark_files(frame: DataFrame, place: str, uri: str) -> None:
    """Raises LakeError if ``frame`` reads a file outside of the folder ``uri`` (Hadoop's URI, in
    which a percent sign is an ordinary character). ``place`` is the user's name for it.

    Spark lists the files, which takes a small job for a Delta table.
    """
    scheme, _, rest = uri.partition(":")
    parts = urlsplit(rest.replace("%", "%25"))
    root = posixpath.normpath(unquote(parts.path))
    for name in frame.inputFiles():
        file = urlsplit(name)
        path = posixpath.normpath(unquote(file.path))
        elsewhere = parts.netloc and file.netloc != parts.netloc
        other_kind = file.scheme.lower() != scheme.lower()
        if elsewhere or other_kind or not (path == root or path.startswith(f"{root.rstrip('/')}/")):
            raise foreign_file(place, name)
