"""Keeps a small lake of this version of the program, for later versions to read and continue.

    python -m tests.keep_lake tests/data/lake-VERSION.tar.xz

The lake has the first half of a capture of a real broker, in one complete run.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from kip848_spark.spark.pipeline import run_ingest
from kip848_spark.spark.session import local_session
from kip848_spark.spark.storage.opening import open_lake
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import halves, source, write_part

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED


def first_half(folder: Path) -> Path:
    """A capture of the records that kept lakes have."""
    return write_part(CAPTURE, folder / "first.parquet", halves(CAPTURE))


def keep(archive: Path) -> None:
    """Writes a lake and packs it."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        spark = local_session()
        capture = first_half(Path(folder))
        run_ingest(source(capture), open_lake(spark, str(lake)), then_replay=True, then_audit=True)
        spark.stop()
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(lake, "lake", filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without names of this machine; None for lease files, which have them as well."""
    if "_kip848_lease" in entry.name:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
