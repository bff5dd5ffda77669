"""The lease of a lake: the right of one process to write to it.

A lease is a numbered file in the lake's folder `LEASES`; the highest number counts. It names its
owner, and the owner rewrites it every `HEARTBEAT_S` seconds. To acquire a lease is to create the
next file, which a file system lets only one process do. A process may do so if the last lease was
released, if the last heartbeat is older than `EXPIRY_S` seconds, or if the owner was a process of
this machine that has ended.

The clocks of two machines may differ, so a process observes a lease that looks expired for some
heartbeats before it takes over. An owner that was suspended finds a lease with a higher number when
it next writes, and stops.
"""

from __future__ import annotations

import platform
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import orjson
import psutil

from kip848_spark.errors import LakeError
from kip848_spark.lake.folders import LEASES, Folder

HEARTBEAT_S = 10.0
"""Seconds between two heartbeats of an owner."""
EXPIRY_S = 60.0
"""Seconds without a heartbeat after which a lease may be taken over."""
_START_TOLERANCE_S = 5.0
"""Seconds by which the start time of a process can change when the machine's clock is set."""
OBSERVATION_S = 3 * HEARTBEAT_S
"""Seconds for which a process waits for a heartbeat of a lease that looks expired."""
_FILE = re.compile(r"\d{20}\.json")


@dataclass(frozen=True)
class Owner:
    """The process that owns a lease. ``machine`` identifies its machine or container (see
    `_machine_id`), ``token`` is unique to the lease."""

    host: str
    machine: str
    pid: int
    process_started: float
    token: str

    @classmethod
    def this_process(cls) -> Owner:
        """This process, with a new token."""
        process = psutil.Process()
        return cls(
            platform.node(),
            _machine_id(),
            process.pid,
            process.create_time(),
            secrets.token_hex(16),
        )

    @property
    def has_ended(self) -> bool:
        """True if the owner was a process of this machine and has ended."""
        if self.machine != _machine_id():
            return False
        try:
            process = psutil.Process(self.pid)
            other = abs(process.create_time() - self.process_started) > _START_TOLERANCE_S
            # Its parent may never ask how it ended: in many containers, process 1 does not.
            return other or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True


def _machine_id() -> str:
    """Identifies the machine's boot and process id namespace: equal if two processes see each
    other's process ids."""
    boot, numbers = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    parts = [platform.node()]
    parts += [boot.read_text().strip()] if boot.exists() else []
    parts += [str(numbers.readlink())] if numbers.is_symlink() else []
    return "/".join(parts)


@dataclass(frozen=True)
class _LeaseRecord:
    """The content of a lease file; times are seconds since 1970 by the owner's clock."""

    owner: Owner
    acquired: float
    heartbeat: float
    released: bool = False

    def content(self) -> bytes:
        return orjson.dumps(asdict(self))

    @classmethod
    def of(cls, content: bytes) -> _LeaseRecord | None:
        """The record in a file's content; None if it is not, or not yet, a complete one."""
        try:
            fields = orjson.loads(content)
            return cls(**{**fields, "owner": Owner(**fields["owner"])})
        except (ValueError, TypeError, KeyError):
            return None


class Lease:
    """The lease that this process holds."""

    def __init__(self, folder: Folder, lake: str, number: int, record: _LeaseRecord) -> None:
        self._folder = folder
        self._lake = lake
        self._number = number
        self._record = record
        self._ended = threading.Event()

    @classmethod
    @contextmanager
    def hold(cls, folder: Folder, lake: str) -> Iterator[Lease]:
        """Acquires the lease of ``lake``, whose files are in ``folder``, sends heartbeats from a
        thread, and releases the lease at the end. Raises LakeError if another process holds it."""
        lease = cls._acquire(folder, lake)
        heart = threading.Thread(target=lease._beat, name="kip848-lease", daemon=True)
        heart.start()
        try:
            yield lease
        finally:
            lease._ended.set()
            heart.join()
            lease._release()

    def check(self) -> None:
        """Raises LakeError if another process has taken over the lease."""
        number, record = _newest(self._folder)
        if number != self._number or record is None or record.owner != self._record.owner:
            raise LakeError(
                f"This run no longer holds the lease of the lake {self._lake}: it sent no "
                f"heartbeat for {EXPIRY_S:.0f} s, and {_describe_owner(record)} took over.",
                "This run has stopped writing. Start it again when the other run has finished.",
            )

    @classmethod
    def _acquire(cls, folder: Folder, lake: str) -> Lease:
        while True:
            number, last = _newest(folder)
            if number and not _may_take_over(folder, lake, number, last):
                continue
            now = time.time()
            own = _LeaseRecord(Owner.this_process(), now, now)
            if folder.create(_path(number + 1), own.content()):
                for old in sorted(_numbers(folder))[:-1]:
                    folder.remove(_path(old))
                return cls(folder, lake, number + 1, own)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            record = replace(self._record, heartbeat=time.time())
            try:
                self._folder.replace(_path(self._number), record.content())
            except OSError:  # the store does not answer; `check` finds out if the lease was lost
                continue

    def _release(self) -> None:
        record = replace(self._record, heartbeat=time.time(), released=True)
        try:
            self._folder.replace(_path(self._number), record.content())
        except OSError:  # the lease expires instead
            return


def _path(number: int) -> str:
    return f"{LEASES}/{number:020}.json"


def _numbers(folder: Folder) -> list[int]:
    return [int(name[:20]) for name in folder.names(LEASES) if _FILE.fullmatch(name)]


def _newest(folder: Folder) -> tuple[int, _LeaseRecord | None]:
    """The highest lease number (0 if there is none) and the record in that file, if it is
    readable."""
    number = max(_numbers(folder), default=0)
    content = folder.read(_path(number)) if number else None
    return number, None if content is None else _LeaseRecord.of(content)


def _may_take_over(folder: Folder, lake: str, number: int, last: _LeaseRecord | None) -> bool:
    """True if the lease ``number`` may be taken over, False if it has changed since it was read.

    Raises LakeError if its owner is alive. If the lease has expired by this machine's clock, or
    can't be read (its owner may be writing it), it is observed first.
    """
    if last is not None:
        if last.released or last.owner.has_ended:
            return True
        if time.time() - last.heartbeat <= EXPIRY_S:
            raise _in_use_error(lake, last)
    watched = time.monotonic() + (EXPIRY_S if last is None else OBSERVATION_S)
    while time.monotonic() < watched:
        time.sleep(min(1.0, HEARTBEAT_S))
        number_now, now = _newest(folder)
        if (number_now, now) == (number, last):
            continue
        if number_now == number and last is not None and now is not None and not now.released:
            raise _in_use_error(lake, now)  # a heartbeat: the two clocks differ
        return False
    return True


def _in_use_error(lake: str, record: _LeaseRecord) -> LakeError:
    since = datetime.fromtimestamp(record.acquired, UTC)
    silent = max(0.0, time.time() - record.heartbeat)
    return LakeError(
        f"Another run is writing to the lake {lake}: {_describe_owner(record)}, since "
        f"{since:%Y-%m-%d %H:%M:%S} UTC, with its last heartbeat {silent:.0f} s ago.",
        f"Wait until it has finished. A run that was killed on another machine blocks the lake for "
        f"{EXPIRY_S:.0f} s; the next one then waits {OBSERVATION_S:.0f} s more for a heartbeat.",
    )


def _describe_owner(record: _LeaseRecord | None) -> str:
    if record is None:
        return "another process"
    return f"process {record.owner.pid} on {record.owner.host}"
