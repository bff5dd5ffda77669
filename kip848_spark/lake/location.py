"""Where a lake or a capture is: the one place that decides what a path means.

A path may be a folder (``/data/lake``, ``lake``), a ``file:`` URI of one, or a URI of another file
system (``s3a://bucket/lake``, ``hdfs://host/lake``, ``dbfs:/lake``). Hadoop's rules hold: what
comes before the first colon is a scheme unless a slash comes first, a path without a scheme belongs
to the default file system, and a percent sign is part of a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kip848_spark.errors import UsageError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_FILE = re.compile(r"file:(?://(?:localhost)?(?=/)|(?=/(?!/)))", re.IGNORECASE)

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


@dataclass(frozen=True)
class Location:
    """A place for files. ``text`` is what the user wrote, without slashes at its end; ``folder`` is
    set if it is on this machine, ``uri`` is how Hadoop names it."""

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
        """False if delta-rs would look elsewhere: it takes ``%20`` in a path for a blank."""
        return not _ESCAPE.search(str(self.folder or self.uri))

    def __str__(self) -> str:
        return self.text

    def child(self, name: str) -> str:
        """The URI of ``name`` below this place."""
        return f"{self.uri.rstrip('/')}/{name}"


def scheme_of(text: str) -> str | None:
    """The scheme of a path, in lower case; None if it has none."""
    match = _SCHEME.match(text)
    return match.group(1).lower() if match else None


def locate(text: str, default: str = "file:///") -> Location:
    """The place that ``text`` names, by the text alone: no JVM is asked.

    ``default`` is the URI of the file system that paths without a scheme belong to (Hadoop's
    ``fs.defaultFS``). Raises UsageError if ``text`` names no place.
    """
    trimmed = text.rstrip("/") or text[:1]
    scheme = scheme_of(trimmed)
    if scheme == "file":
        match = _FILE.match(trimmed)
        if match is None:
            raise UsageError(
                f"{text!r} names no folder of this machine.",
                "Write file:/FOLDER, or the folder alone.",
            )
        return Location.local(trimmed, Path(trimmed[match.end() :]))
    if scheme is not None:
        return Location(trimmed, trimmed)
    if not trimmed:
        raise UsageError("An empty path names no place.", "Name a folder or a URI.")
    if scheme_of(default) in (None, "file"):
        return Location.local(trimmed, Path(trimmed))
    if not trimmed.startswith("/"):
        raise UsageError(
            f"{text!r} is a relative path, and the default file system is {default}.",
            "Name it by its whole path or URI.",
        )
    parts = urlsplit(default)
    return Location(trimmed, f"{parts.scheme}://{parts.netloc}{trimmed}")
