"""Small files of a lake on any file system: the driver lists, reads, creates and replaces them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from kip848_spark.errors import LakeError, UsageError
from kip848_spark.runtime.replacing import replacing

LEASES = "_kip848_lease"
"""The folder of a lake's lease files (`lake.lease`)."""
NO_LAKE_HINT = "Check the path, or create a lake with `kip848 run`."
DAMAGED_HINT = (
    "If files are missing or damaged, restore the whole lake from a backup, or read the topic into "
    "a new lake."
)
_OLD_LOCK = ".kip848.lock"
"""The lock file of local lakes that earlier versions wrote."""


class Folder(Protocol):
    """A folder, which need not exist. Names are relative to it, parts joined by slashes.

    Every method raises OSError if the file system refuses.
    """

    def names(self, below: str = "") -> list[str]:
        """The names of all entries of the folder ``below``; empty if there is no such folder."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is no such file."""

    def create(self, name: str, content: bytes) -> bool:
        """Creates a file and its parent folders, unless the file exists. If several processes try,
        exactly one gets True. Another process may see the file before its content."""

    def replace(self, name: str, content: bytes) -> None:
        """Writes a file; an existing one is replaced atomically."""

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
        with replacing(path) as new:
            new.write_bytes(content)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


_FULL = ("No space left", "File too large", "Disk quota exceeded")
_DENIED = ("Permission denied", "Read-only file system", "Mkdirs")


def folder_fault(text: str, what: str) -> LakeError | None:
    """The error for an exception with ``text``, which a worker may have raised, if a disk is full
    or a folder can't be used. ``what`` says what can't be done. None for any other exception."""
    if sign := next((sign for sign in _FULL if sign in text), None):
        return LakeError(
            f"{what}: {sign.lower()}.",
            "Make room on the disk of the lake, and on that of Spark's temporary files "
            "(spark.local.dir). Then start the run again: it continues after the last run that "
            "has finished.",
        )
    if sign := next((sign for sign in _DENIED if sign in text), None):
        return LakeError(f"{what}: {sign.lower()}.", "Check the path and its permissions.")
    return None


def is_lake(files: Folder, path: str, tables: Iterable[str]) -> bool:
    """True if there is a lake in the folder ``files``; False if the folder is missing, empty, or
    has only some of ``tables``.

    ``path`` is the user's name for the folder, ``tables`` are none for a caller that only reads.
    Raises UsageError if the folder holds other files, and OSError if it can't be listed.
    """
    try:
        if "_delta_log" in files.names("runs"):
            return True
        names = files.names()
    except NotADirectoryError:
        raise UsageError(f"{path} is a file, not a lake.", "Pass a folder to --lake.") from None
    if any(name not in (*tables, LEASES, _OLD_LOCK) for name in names):
        hint = "Pass a new or empty folder to --lake."
        if "_delta_log" in names:
            hint = "It is a Delta table. If it is a table of a lake, pass the folder above it."
        elif not tables:
            hint = "Pass the folder to which `kip848 run` has written, as --lake."
        raise UsageError(f"{path} is not a lake: it holds other files and no table of runs.", hint)
    return False


def check_commits(lake: Path, tables: Iterable[str]) -> None:
    """Raises LakeError if a commit of one of the ``tables`` is an empty file, as a loss of power
    may leave. Readers of Delta would take it for a commit that changed nothing."""
    for table in tables:
        try:
            commits = sorted((lake / table / "_delta_log").glob("*.json"))
            empty = [commit.name for commit in commits if not commit.stat().st_size]
        except OSError:  # whoever opens the table says what is wrong
            continue
        if empty:
            raise LakeError(
                f"The table {table} of the lake {lake} is damaged: the commit "
                f"_delta_log/{empty[0]} is empty.",
                DAMAGED_HINT,
            )


def require_empty(files: Folder, path: str) -> None:
    """Raises UsageError unless the folder ``files`` is empty or missing. ``path`` is the user's
    name for it."""
    try:
        taken = bool(files.names())
    except NotADirectoryError:
        taken = True
    if taken:
        raise UsageError(f"{path} exists already.", "Pass a new or empty folder.")
