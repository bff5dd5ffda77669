"""Spark's classes as the JVM keeps them for its next start."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kip848_spark.runtime.cache import cache_folder
from kip848_spark.runtime.java import find_java
from kip848_spark.spark.session import _class_archive

MADE_S = 200
"""By then an archive is whole, or never will be."""
SESSION = """
import psutil, sys
from pathlib import Path
from kip848_spark.spark.session import session
with session(keep_classes=True) as spark:
    rows = spark.range(10).collect()
    (jvm,) = (p for p in psutil.Process().children() if "java" in p.name())
    maps = Path(f"/proc/{jvm.pid}/maps").read_text()
    kept = sum(line.endswith(".jsa") and "/classes/" in line for line in maps.split())
    print(jvm.pid, len(rows), kept)
    assert sys.argv[1:]
"""


def asked(*, create: bool = True) -> str:
    archive = _class_archive(find_java())
    return " ".join(archive.options(create=create)) if archive else ""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache but for the jars, in a folder with a blank in its name."""
    folder = tmp_path / "a cache"
    folder.mkdir()
    (folder / "jars").symlink_to(cache_folder() / "jars")
    monkeypatch.setenv("KIP848_CACHE", str(folder))
    if _class_archive(find_java()) is None:
        pytest.skip("this Java does not keep its own classes in such a form")
    return folder


def started(*, ends_well: bool) -> tuple[int, int]:
    """A process with a session of its own, waited for until its JVM has ended as well: rows it
    counted, and parts of a kept archive that its JVM had mapped."""
    done = subprocess.run(
        [sys.executable, "-c", SESSION, *(["well"] if ends_well else [])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == ends_well, done.stderr
    jvm, rows, mapped = map(int, done.stdout.split())
    with suppress(psutil.NoSuchProcess):
        psutil.Process(jvm).wait(timeout=MADE_S)
    return rows, mapped


@pytest.mark.long
def test_the_first_session_that_ends_well_leaves_its_classes_to_the_next(cache: Path) -> None:
    assert started(ends_well=False) == (10, 0)
    (archive,) = (cache / "classes").iterdir()
    assert asked(create=False) == ""
    then = time.time() - MADE_S
    os.utime(archive, (then, then))
    assert started(ends_well=True) == (10, 0)
    assert "SharedArchiveFile" in asked(create=False)
    rows, mapped = started(ends_well=True)
    assert rows == 10
    assert mapped > 0


def test_a_file_without_an_end_is_waited_for_then_made_again(cache: Path) -> None:
    assert "ArchiveClassesAtExit" in asked()
    assert asked(create=False) == ""
    (folder,) = cache.glob("classes")
    name = asked().split("/")[-1].strip('"')
    (folder / name).write_bytes(bytes(4096))
    assert asked() == ""
    then = time.time() - MADE_S
    os.utime(folder / name, (then, then))
    assert asked(create=False) == ""
    assert "ArchiveClassesAtExit" in asked()
    assert not (folder / name).exists()


def test_a_command_that_ends_well_does_not_vouch_for_what_another_one_left(cache: Path) -> None:
    archive = _class_archive(find_java())
    assert archive is not None
    asked()
    archive.path.write_bytes(b"of a command that failed")
    archive.mark_complete()
    assert asked(create=False) == ""
    archive.path.unlink()
    archive.mark_complete()
    archive.path.write_bytes(b"of this one")
    assert "SharedArchiveFile" in asked(create=False)


def test_what_nobody_used_for_a_month_goes(cache: Path) -> None:
    folder = cache / "classes"
    folder.mkdir()
    for name, days in (("older", 31), ("newer", 29)):
        (folder / name).write_bytes(b"archive")
        then = time.time() - days * 86400
        os.utime(folder / name, (then, then))
    asked()
    assert [path.name for path in folder.iterdir()] == ["newer"]


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    (cache / "classes").write_text("a file where the folder would be")
    assert asked() == ""
