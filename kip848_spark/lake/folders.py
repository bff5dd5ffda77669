"""Small files of a lake, on any file system: listed, read, created and replaced by the driver."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from kip848_spark.errors import LakeError, UsageError

LEASES = "_kip848_lease"
"""The folder of a lake's leases, see `lease`."""
_OLD_LOCK = ".kip848.lock"
"""The lock file of local lakes that earlier versions wrote."""


class Folder(Protocol):
    """A folder, which need not exist. Names are relative to it, parts joined by slashes.

    Every method raises OSError if the file system refuses.
    """

    def names(self, below: str = "") -> list[str]:
        """The names of all entries of the folder ``below``; none if there is no such folder."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""

    def create(self, name: str, content: bytes) -> bool:
        """Makes a file, with the folders it needs, unless it exists: of several processes that
        try, one gets True. Another process may see the file before its content."""

    def replace(self, name: str, content: bytes) -> None:
        """Makes a file, or replaces it in one step."""

    def remove(self, name: str) -> None:
        """Removes a file if it exists."""


class LocalFolder:
    """A `Folder` of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self, below: str = "") -> list[str]:
        try:
            return [entry.name for entry in (self.folder / below).iterdir()]
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes | None:
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        aside.write_bytes(content)
        aside.replace(path)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def is_lake(files: Folder, path: str, tables: Iterable[str]) -> bool:
    """True if there is a lake in the folder ``files``, False if there could be one of ``tables``.

    ``path`` is what the user calls it. Raises LakeError if there is something else, OSError if
    nothing can be seen.
    """
    try:
        if "_delta_log" in files.names("runs"):
            return True
        names = files.names()
    except NotADirectoryError:
        raise LakeError(f"{path} is a file, not a lake.", "Name a folder with --lake.") from None
    if any(name not in (*tables, LEASES, _OLD_LOCK) for name in names):
        raise LakeError(
            f"{path} is not a lake: it holds other files and no table of runs.",
            "Name a new or empty folder with --lake.",
        )
    return False


def require_empty(files: Folder, path: str) -> None:
    """Raises UsageError unless the folder ``files``, which the user calls ``path``, is empty or
    does not exist."""
    try:
        taken = bool(files.names())
    except NotADirectoryError:
        taken = True
    if taken:
        raise UsageError(f"{path} is there already.", "Name a new or empty folder.")
