"""What tests of stores share: commands as a user runs them, and a folder that many write to."""

from __future__ import annotations

import os
import subprocess
import sys

FOLDER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from kip848_spark.spark.hadoop import HadoopFolder
from kip848_spark.spark.session import local_session
settings = dict(pair.split("=", 1) for pair in sys.argv[2:])
spark = local_session(settings, s3=sys.argv[1].startswith("s3a:"))
folder = HadoopFolder(spark, sys.argv[1])
assert folder.names() == [] and folder.names("below") == [] and folder.read("a") is None
with ThreadPoolExecutor(8) as pool:
    made = list(pool.map(lambda n: folder.create("below/a", b"%d" % n), range(8)))
assert made.count(True) == 1, made
assert folder.read("below/a") == b"%d" % made.index(True)
assert not folder.create("below/a", b"again")
folder.replace("below/a", b"other")
assert folder.read("below/a") == b"other" and folder.names("below") == ["a"]
def rewrite():
    for n in range(60):
        folder.replace("below/a", b"%d" % n)
with ThreadPoolExecutor(4) as pool:  # an owner rewrites its lease while others read it
    writing = pool.submit(rewrite)
    reading = [pool.submit(folder.read, "below/a") for _ in range(120)]
    assert writing.result() is None
    assert {future.result() for future in reading} <= {b"other", *(b"%d" % n for n in range(60))}
folder.remove("below/a"), folder.remove("below/a")
assert folder.names("below") == []
assert folder.create("below/a", b"again")
spark.stop()
"""
"""A script: of many that create a file, one does. Its arguments are the folder and settings of
Spark as NAME=VALUE."""


def check_folder(path: str, *settings: str) -> None:
    """Runs `FOLDER` on an empty folder of a store."""
    subprocess.run([sys.executable, "-c", FOLDER, path, *settings], check=True)


def kip848(*arguments: str, **environment: str) -> str:
    """What a command prints, in a process of its own."""
    done = ended(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that has ended, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "kip848_spark", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
