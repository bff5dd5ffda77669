"""The folder of a Delta table, as the driver and Spark's Python workers reach it without Spark.

Files and commits go through the same library and the same credentials: Arrow writes the files by
the file system of delta-rs, and delta-rs commits them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from kip848_spark.errors import LakeError
from kip848_spark.lake.location import Location, scheme_of

STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl")
"""Schemes of the object stores that delta-rs reads and writes."""
_OUTSIDE = r"^/|^[A-Za-z][A-Za-z0-9+.-]*:|^%2[fF]|(^|/|%2[fF])(\.|%2[eE]){2}($|/|%2[fF])"
"""Matches a path in a Delta log that does not lead to a file below the table's folder: an absolute
path, a URI, or one with a step up. Percent signs are escapes there."""


@dataclass(frozen=True)
class DeltaFolder:
    """A folder of this machine (an absolute path), or a URI of an object store. ``options`` are the
    storage options of delta-rs; they have secrets, and are not shown."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, lake: Location, table: str, options: Mapping[str, str]) -> DeltaFolder:
        """The folder of ``table`` in a lake."""
        if lake.folder is not None:
            return cls(str(lake.folder / table))
        return cls(lake.child(table), dict(options))

    @classmethod
    def at(cls, place: TableFolder) -> DeltaFolder:
        """``place``, of which a text is a folder of this machine."""
        return cls(place) if isinstance(place, str) else place

    @property
    def folder(self) -> Path | None:
        """The folder, if it is one of a file system that is mounted."""
        return None if scheme_of(self.uri) else Path(self.uri)

    def open(self, version: int | None = None) -> DeltaTable:
        """The table at its newest version, or at ``version``. Raises DeltaError or OSError, and
        LakeError if its log names files outside of the folder."""
        found = DeltaTable(self.uri, version=version, storage_options=dict(self.options) or None)
        require_own_files(found, self.uri)
        return found

    def files(self) -> fs.FileSystem:
        """The files of the folder, by their names in it."""
        if self.folder is not None:
            return fs.SubTreeFileSystem(str(self.folder), fs.LocalFileSystem())
        return fs.PyFileSystem(DeltaStorageHandler(self.uri, options=dict(self.options) or None))

    def spark_path(self, name: str) -> str:
        """The URI by which Spark reads the file ``name``."""
        return f"{'' if self.folder is None else 'file:'}{self.uri}/{name}"


TableFolder = DeltaFolder | str
"""The folder of a Delta table; a text is a folder of this machine."""


def require_own_files(table: DeltaTable, place: str) -> None:
    """Raises LakeError if a version of the table in the folder ``place`` names a data file outside
    of that folder, which reading the table would show to the user."""
    names = pa.table(table.get_add_actions())["path"]
    outside = names.filter(pc.match_substring_regex(names, _OUTSIDE))
    if len(outside):
        raise foreign_file(place, outside[0].as_py())


def foreign_file(place: str, name: str) -> LakeError:
    """The error about a table in the folder ``place`` that names the file ``name``."""
    return LakeError(
        f"The Delta log of {place} names a file outside of that folder: {name[:200]}.",
        "Only read lakes and captures that you trust. If this is a shallow clone, make a deep one.",
    )
