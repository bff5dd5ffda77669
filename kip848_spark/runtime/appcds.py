"""An AppCDS archive of Spark's classes, which makes later JVMs start faster.

Half of the time that Spark takes to start goes to loading and verifying some 10,000 classes. With
application class-data sharing (AppCDS), a JVM writes its loaded classes to an archive when it ends,
and later JVMs map that into memory. A JVM ignores an archive that does not fit it."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kip848_spark.runtime.cache import cache_folder

_WRITE_TIMEOUT_S, _UNUSED_S = 120, 30 * 24 * 3600
"""An archive that is incomplete after so many seconds is never completed; a complete archive that
has not been used for 30 days is deleted."""
# The JVM would print warnings about classes that it leaves out of the archive.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one Java and one Spark, and beside it a marker file: the archive is
    complete."""

    path: Path

    @classmethod
    def of(cls, java: Path, spark_home: Path) -> ClassArchive | None:
        """The archive for this ``java`` program and this Spark. None for a JVM without an archive
        of its own classes, on which ours would build."""
        base = java.resolve().parent.parent / "lib" / "server" / "classes.jsa"
        spark = spark_home / "jars"
        if not (base.is_file() and spark.is_dir()):
            return None
        made_for = [f"{path} {path.stat().st_mtime_ns}" for path in (base, spark)]
        digest = hashlib.sha256("\n".join(made_for).encode()).hexdigest()[:16]
        return cls(cache_folder() / "classes" / f"{digest}.jsa")

    def options(self, *, create: bool) -> list[str]:
        """The JVM options that use the archive. If there is none, and with ``create``: those that
        write it when the JVM ends, which takes some ten seconds longer then."""
        try:
            if self._is_complete() and self._marker.exists():
                with suppress(OSError):
                    for used in (self.path, self._marker):
                        used.touch()
                return [*_QUIET, f'"-XX:SharedArchiveFile={self.path}"']
            if not create or (self.path.exists() and _age(self.path) < _WRITE_TIMEOUT_S):
                return []
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for old in self.path.parent.iterdir():
                if old.stem == self.path.stem or _age(old) > _UNUSED_S:
                    old.unlink()
        except OSError:  # the cache cannot be written, or another process was faster
            return []
        return [*_QUIET, f'"-XX:ArchiveClassesAtExit={self.path}"']

    def mark_complete(self) -> None:
        """Writes the marker file, for the archive that this JVM writes when it ends. To be called
        after a command that succeeded: one that failed has loaded too few classes. If the archive
        exists already, another JVM wrote it, and nothing is done."""
        with suppress(OSError):
            if not self.path.exists():
                self._marker.touch()

    @property
    def _marker(self) -> Path:
        return self.path.with_suffix(".complete")

    def _is_complete(self) -> bool:
        """Whether the archive was written to its end: the JVM writes its header last."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            return any(file.read(4))


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime
