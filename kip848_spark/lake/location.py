"""Resolves the path of a lake or a capture to a folder or a URI.

A path may be a folder (``/data/lake``, ``lake``), a ``file:`` URI of one, or a URI of another file
system (``s3a://bucket/lake``, ``hdfs://host/lake``, ``dbfs:/lake``). Hadoop's rules apply: the text
before the first colon is a scheme unless a slash precedes it, a path without a scheme belongs to
the default file system, and a percent sign is an ordinary character.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kip848_spark.errors import UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?=/(?!/)))", re.IGNORECASE)
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_SCHEMA = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)


@dataclass(frozen=True)
class Location:
    """A location of files. ``text`` is the user's path without trailing slashes, ``uri`` is
    Hadoop's URI, and ``folder`` is set if the location is on this machine."""

    text: str
    uri: str
    folder: Path | None = None

    @classmethod
    def local(cls, text: str, folder: Path) -> Location:
        """A file or folder of this machine."""
        absolute = folder.absolute()
        return cls(text, f"file:{absolute}", absolute)

    @property
    def suits_delta_rs(self) -> bool:
        """False if delta-rs would use another folder: it decodes ``%20`` in a path as a blank."""
        return self.escape is None

    @property
    def escape(self) -> str | None:
        """The first percent sign of the path with two hexadecimal digits, such as ``%20``; None if
        there is none."""
        found = _ESCAPE.search(str(self.folder or self.uri))
        return found.group() if found else None

    def __str__(self) -> str:
        return self.text

    def child(self, name: str) -> str:
        """The URI of ``name`` in this location."""
        return f"{self.uri.rstrip('/')}/{name}"


def scheme_of(text: str) -> str | None:
    """The scheme of a path, in lower case; None if it has none."""
    match = _SCHEME.match(text)
    return match.group(1).lower() if match else None


def schema_names(text: str, is_set: Callable[[str], bool]) -> tuple[str, str] | None:
    """The catalog and the schema that ``text`` (``CATALOG.SCHEMA``) names; None if it is a path.

    It names a schema if Spark has such a catalog: ``is_set`` says whether a setting of Spark is
    set. Write ``./NAME`` for a folder whose name looks like a schema of a catalog.
    """
    match = _SCHEMA.fullmatch(text)
    if match is None:
        return None
    catalog, schema = match.groups()
    known = catalog == "spark_catalog" or is_set(f"spark.sql.catalog.{catalog}")
    return (catalog, schema) if known else None


def locate(text: str, default: str = "file:///") -> Location:
    """The location that ``text`` names, without a JVM.

    ``default`` is the URI of the file system that paths without a scheme belong to (Hadoop's
    ``fs.defaultFS``). Raises UsageError if ``text`` names no location.
    """
    trimmed = text.rstrip("/") or text[:1]
    scheme = scheme_of(trimmed)
    if scheme == "file":
        match = _FILE.match(trimmed)
        if match is None:
            raise UsageError(
                f"{text!r} does not name a folder of this machine.",
                "Write file:/FOLDER or the folder alone.",
            )
        return Location.local(trimmed, Path(trimmed[match.end() :]))
    if scheme is not None:
        return Location(trimmed, trimmed)
    if not trimmed:
        raise UsageError("The path is empty.", "Pass a folder or a URI.")
    if scheme_of(default) in (None, "file"):
        return Location.local(trimmed, Path(trimmed))
    if not trimmed.startswith("/"):
        raise UsageError(
            f"{text!r} is a relative path, and the default file system is {default}.",
            "Pass an absolute path or a URI.",
        )
    parts = urlsplit(default)
    return Location(trimmed, f"{parts.scheme}://{parts.netloc}{trimmed}")
