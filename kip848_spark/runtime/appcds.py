"""Spark's Java classes in the form the JVM has them in memory, kept for the next start.

To load and check its ten thousand classes takes half of the time that Spark needs to start. A JVM
that is asked to writes them to an archive when it ends (Java's class data sharing), and a later one
maps that in. What an archive was not made for the JVM refuses by itself, and loads as ever.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kip848_spark.runtime.cache import cache_folder

_WRITE_TIMEOUT_S, _UNUSED_S = 120, 30 * 24 * 3600
"""After so long a file without an end is a broken one, and a whole one is nobody's any more."""
# What the JVM says of an archive would go to the terminal; it is about classes left out.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


@dataclass(frozen=True)
class ClassArchive:
    """Where the archive is, or would be, and beside it the word that it is worth having."""

    path: Path

    @classmethod
    def of(cls, java: Path, spark_home: Path) -> ClassArchive | None:
        """The one for this ``java`` program and this Spark. None for a JVM that has not its own
        classes in such a form, on which ours would build."""
        base = java.resolve().parent.parent / "lib" / "server" / "classes.jsa"
        spark = spark_home / "jars"
        if not (base.is_file() and spark.is_dir()):
            return None
        made_for = [f"{path} {path.stat().st_mtime_ns}" for path in (base, spark)]
        digest = hashlib.sha256("\n".join(made_for).encode()).hexdigest()[:16]
        return cls(cache_folder() / "classes" / f"{digest}.jsa")

    def options(self, *, make: bool) -> list[str]:
        """JVM options to use the archive. With ``make``, where there is none: to write it when the
        JVM ends, which then lives on for some ten seconds when the program is done."""
        try:
            if self._is_complete() and self._marker.exists():
                with suppress(OSError):
                    for used in (self.path, self._marker):
                        used.touch()
                return [*_QUIET, f'"-XX:SharedArchiveFile={self.path}"']
            if not make or (self.path.exists() and _age(self.path) < _WRITE_TIMEOUT_S):
                return []
            self.path.parent.mkdir(parents=True, exist_ok=True)
            for old in self.path.parent.iterdir():
                if old.stem == self.path.stem or _age(old) > _UNUSED_S:
                    old.unlink()
        except OSError:  # a cache that can't be written, or another process was faster
            return []
        return [*_QUIET, f'"-XX:ArchiveClassesAtExit={self.path}"']

    def keep(self) -> None:
        """What this JVM has loaded, and writes when it ends, is worth having. After a command that
        failed it is little, and a later one tries again. A file that is there already is another
        JVM's, and says nothing of this one."""
        with suppress(OSError):
            if not self.path.exists():
                self._marker.touch()

    @property
    def _marker(self) -> Path:
        return self.path.with_suffix(".kept")

    def _is_complete(self) -> bool:
        """The JVM writes the head of the file last."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            return any(file.read(4))


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime
