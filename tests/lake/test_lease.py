"""The lease of a lake: one owner at a time, whatever becomes of the others."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import orjson
import pytest

from kip848_spark.errors import LakeError
from kip848_spark.lake import lease
from kip848_spark.lake.folders import LEASES, LocalFolder
from kip848_spark.lake.lease import Lease

HOLDER = """
import sys, time
from pathlib import Path
from kip848_spark.lake.folders import LocalFolder
from kip848_spark.lake.lease import Lease
with Lease.hold(LocalFolder(Path(sys.argv[1])), "it"):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that expire within a second."""
    monkeypatch.setattr(lease, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(lease, "EXPIRY_S", 0.6)
    monkeypatch.setattr(lease, "OBSERVATION_S", 0.4)


def newest(folder: Path) -> Path:
    return max((folder / LEASES).glob("*.json"))


def edit(file: Path, **fields: object) -> None:
    file.write_bytes(orjson.dumps(orjson.loads(file.read_bytes()) | fields))


def test_one_at_a_time_and_one_after_another(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    for _ in range(3):
        with (
            Lease.hold(folder, "the lake"),
            pytest.raises(LakeError, match=rf"Another run .* process {os.getpid()} on"),
        ):
            Lease._acquire(folder, "the lake")
    assert len(list((tmp_path / LEASES).iterdir())) == 1, "old leases are removed"


@pytest.mark.parametrize("zombie", [False, True])
def test_a_killed_owner_on_this_machine_is_noticed_at_once(tmp_path: Path, zombie: bool) -> None:
    """Also if its parent does not ask how it ended, as process 1 of many containers."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LakeError, match=f"process {holder.pid}"):
            Lease._acquire(LocalFolder(tmp_path), "it")
        holder.kill()
        if zombie:
            os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        else:
            holder.wait()
        started = time.monotonic()
        with Lease.hold(LocalFolder(tmp_path), "it"):
            assert time.monotonic() - started < lease.HEARTBEAT_S


def test_an_owner_elsewhere_is_given_time(tmp_path: Path, quick: None) -> None:
    """An owner on another machine can't be looked at: its lease has to expire."""
    folder = LocalFolder(tmp_path)
    Lease._acquire(folder, "it")  # without heartbeats
    owner = orjson.loads(newest(tmp_path).read_bytes())["owner"]
    edit(newest(tmp_path), owner=owner | {"machine": "another", "host": "far"})
    with pytest.raises(LakeError, match="on far"), Lease.hold(folder, "it"):
        pass
    time.sleep(lease.EXPIRY_S)
    with Lease.hold(folder, "it"):
        pass


def test_a_clock_that_is_behind_loses_no_lease(tmp_path: Path, quick: None) -> None:
    """The owner's heartbeats look an hour old, but they come."""
    folder = LocalFolder(tmp_path)
    Lease._acquire(folder, "it")
    file, stop = newest(tmp_path), threading.Event()
    owner = orjson.loads(file.read_bytes())["owner"] | {"machine": "another"}

    def beat() -> None:
        while not stop.wait(lease.HEARTBEAT_S):
            folder.replace(
                f"{LEASES}/{file.name}",
                orjson.dumps(
                    {"owner": owner, "acquired": 0.0, "heartbeat": time.time() - 3600,
                     "released": False}
                ),
            )  # fmt: skip

    edit(file, owner=owner, heartbeat=time.time() - 3600)
    beating = threading.Thread(target=beat)
    beating.start()
    try:
        with pytest.raises(LakeError, match="Another run"), Lease.hold(folder, "it"):
            pass
    finally:
        stop.set()
        beating.join()


def test_a_suspended_owner_stops_when_it_wakes(tmp_path: Path, quick: None) -> None:
    folder = LocalFolder(tmp_path)
    suspended = Lease._acquire(folder, "the lake")
    suspended.check()
    edit(newest(tmp_path), heartbeat=time.time() - 3600)
    with Lease.hold(folder, "the lake") as other:
        with pytest.raises(LakeError, match="no longer holds the lease of the lake the lake"):
            suspended.check()
        suspended._release()  # its own file, which counts no more
        other.check()


def test_half_a_lease_file_blocks_nobody_for_long(tmp_path: Path, quick: None) -> None:
    """The owner was killed between creating the file and writing it."""
    (tmp_path / LEASES).mkdir()
    (tmp_path / LEASES / f"{7:020}.json").write_bytes(b'{"owner"')
    with Lease.hold(LocalFolder(tmp_path), "it"):
        assert newest(tmp_path).name == f"{8:020}.json"


def _contend(folder: Path, together: object, winners: object) -> None:
    """Tries to get the lease. Who gets it holds it until all others have tried."""
    together.wait()  # type: ignore[attr-defined]
    try:
        with Lease.hold(LocalFolder(folder), "it"):
            winners.append(os.getpid())  # type: ignore[attr-defined]
            together.wait()  # type: ignore[attr-defined]
    except LakeError:
        together.wait()  # type: ignore[attr-defined]


def test_of_many_at_once_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        together, winners = manager.Barrier(6), manager.list()
        processes = [
            context.Process(target=_contend, args=(tmp_path, together, winners)) for _ in range(6)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert len(winners) == 1


def test_a_stopped_process_does_not_beat(tmp_path: Path) -> None:
    """What `SIGSTOP` does to an owner is what a suspended laptop does."""
    script = HOLDER.replace("with Lease", "import kip848_spark.lake.lease as l\n"
                            "l.HEARTBEAT_S = 0.05\nwith Lease")  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        first = newest(tmp_path).read_bytes()
        deadline = time.monotonic() + 30
        while newest(tmp_path).read_bytes() == first:
            assert time.monotonic() < deadline, "no heartbeat came"
            time.sleep(0.05)
        holder.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        quiet = newest(tmp_path).read_bytes()
        time.sleep(0.5)
        assert newest(tmp_path).read_bytes() == quiet
        holder.kill()
