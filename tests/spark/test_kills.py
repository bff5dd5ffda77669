"""Commands that write to a lake, killed at random moments: readers see the last finished run, and
the repeated command leaves the tables of one that was not disturbed.

SIGKILL ends the driver, its JVM or a Python worker. The moments are uniform over the work of a
command, from the opening of the lake to the end. `KIP848_KILLS` is the number of kills for each
place (8), and `KIP848_KILLS_SEED` the seed (0). With `KIP848_KILLS_PHASE`, all moments are in the
phase that the commands show by these words: "reading and decoding the topic", for example, is so
short that few of the other moments are in it.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest

from kip848_spark.lake.location import locate
from kip848_spark.lake.snapshot import LakeSnapshot
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.spark.lakes import DATA_TABLES, halves, rows_of_files, rows_of_table, write_part
from tests.spark.s3 import S3Server
from tests.spark.warm_commands import DRIVER, JVM, WORKER, Phase, WarmCommands

pytestmark = [pytest.mark.long, pytest.mark.timeout(6 * 3600)]

CAPTURE = DATA / "kafka-4.3.1" / COMMITTED
KILLS = int(os.environ.get("KIP848_KILLS", "8"))
SEED = int(os.environ.get("KIP848_KILLS_SEED", "0"))
PHASE = os.environ.get("KIP848_KILLS_PHASE")
OF_THE_RUN = ("run_id", "cluster_id", "finding_id")
Rows = dict[str, list[str]]

NIGHT, REBUILD, AUDIT, MAINTAIN = "run", "replay --from-scratch", "audit", "maintain"
VICTIMS = {
    NIGHT: (DRIVER, JVM, WORKER),
    REBUILD: (DRIVER, JVM, WORKER),
    AUDIT: (DRIVER, JVM, WORKER),
    MAINTAIN: (DRIVER, JVM),  # delta-rs does it, in the driver
}
RUNS_OF_THEIR_OWN = (REBUILD, AUDIT)
"""Commands that add verdicts or counts of their own whenever they run: once finished, they are not
repeated."""
ORDER = (NIGHT, AUDIT, NIGHT, REBUILD, NIGHT, MAINTAIN)
"""The commands in turn: the nightly run, which has every step but maintenance, more often."""


@dataclass
class Place:
    """Where lakes are: a folder, or a bucket of ``server``."""

    base: str
    server: S3Server | None = None

    @property
    def options(self) -> dict[str, str]:
        return self.server.storage_options if self.server else {}

    def start(self) -> WarmCommands:
        return WarmCommands(self.options, self.server.spark if self.server else {})

    def copy(self, lake: str, to: str) -> None:
        """Copies the files of a lake as they are."""
        if self.server is None:
            shutil.copytree(f"{self.base}/{lake}", f"{self.base}/{to}")
            return
        for key in self._keys(lake):
            source = {"Bucket": self.server.bucket, "Key": key}
            target = key.replace(f"/{lake}/", f"/{to}/")
            self._client().copy_object(Bucket=self.server.bucket, Key=target, CopySource=source)

    def remove(self, lake: str) -> None:
        if self.server is None:
            shutil.rmtree(f"{self.base}/{lake}")
            return
        for key in self._keys(lake):
            self._client().delete_object(Bucket=self.server.bucket, Key=key)

    def _keys(self, lake: str) -> list[str]:
        assert self.server is not None
        prefix = f"{urlsplit(self.base).path.lstrip('/')}/{lake}/"
        pages = self._client().get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.server.bucket, Prefix=prefix)
        return [entry["Key"] for page in found for entry in page.get("Contents", ())]

    def _client(self) -> boto3.client:
        assert self.server is not None
        options = self.server.storage_options
        return boto3.client(
            "s3",
            endpoint_url=self.server.endpoint,
            region_name=options["AWS_REGION"],
            aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        )

    def newest(self, lake: str) -> Rows:
        """The rows of each table at its newest version."""
        folder = f"{self.base}/{lake}".replace("s3a://", "s3://")
        return {n: rows_of_files(f"{folder}/{n}", self.options, OF_THE_RUN) for n in DATA_TABLES}

    def seen(self, lake: str) -> tuple[int, Rows]:
        """The number of finished runs that a reader sees, and the rows of each table."""
        snapshot = LakeSnapshot(locate(f"{self.base}/{lake}"), storage=self.options)
        rows = {n: rows_of_table(snapshot.table(n), OF_THE_RUN) for n in DATA_TABLES}
        return snapshot.table("runs").num_rows, rows


@dataclass
class Undisturbed:
    """A command that was not disturbed: the lake that it began with, and what it left."""

    base: str
    runs: int
    before: Rows
    after: Rows
    phases: list[Phase]

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """The beginning and end of each phase in which kills may be (`PHASE`)."""
        return [
            (one.start, following.start)
            for one, following in itertools.pairwise(self.phases)
            if PHASE in (None, one.name)
        ]

    def moment(self, chance: random.Random) -> tuple[Phase, float]:
        """A moment of the command: a phase, and seconds after its start."""
        at = chance.uniform(self.intervals[0][0], self.intervals[-1][1])
        phase = max((one for one in self.phases if one.start <= at), key=lambda one: one.start)
        return phase, at - phase.start


@dataclass(frozen=True)
class Kill:
    """A command that was killed: what it did, what was killed when, and its exit code."""

    command: str
    phase: str
    kind: str
    after: float
    code: int

    def __str__(self) -> str:
        return f"{self.command} | {self.phase} | {self.kind} | {self.after:.2f} s | {self.code}"


def arguments(command: str, lake: str, capture: Path = CAPTURE) -> list[str]:
    source = ["--source", f"parquet:{capture}"] if command == NIGHT else []
    return [*command.split(), *source, "--lake", lake]


def differing(found: Mapping[str, list[str]], expected: Mapping[str, list[str]]) -> list[str]:
    return [name for name in DATA_TABLES if found[name] != expected[name]]


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "local":
        yield Place(str(tmp_path))
        return
    server: S3Server = request.getfixturevalue("s3")
    yield Place(server.path("kills"), server)


def measured(place: Place, command: str, base: str) -> Undisturbed:
    """The command on a copy of the lake ``base``, in a session that has just started, as those that
    will be killed. The copy is ``after-COMMAND``."""
    commands = place.start()
    try:
        lake = f"after-{command.split(maxsplit=1)[0]}"
        place.copy(base, lake)
        runs, before = place.seen(lake)
        phases = commands.completed(arguments(command, f"{place.base}/{lake}"))
        return Undisturbed(base, runs, before, place.newest(lake), phases)
    finally:
        commands.close()


def kill_one(
    victim: WarmCommands, command: str, lake: str, usual: Undisturbed, chance: random.Random
) -> Kill | None:
    """Kills a command at a random moment; None if it has ended before that."""
    kind, (phase, after) = chance.choice(VICTIMS[command]), usual.moment(chance)
    victim.send(arguments(command, lake))
    if not victim.wait_until(phase, after):
        assert victim.wait() == 0, victim.text()
        return None
    at_work = victim.phases()[-1].name
    kind = victim.kill(kind, chance)
    code = victim.wait()
    kill = Kill(command, at_work, kind, after, code)
    assert "Traceback" not in victim.text(), f"{kill}: {victim.text()}"
    assert code in (0, 3, -signal.SIGKILL), f"{kill}: {victim.text()}"
    return kill


def judge(kill: Kill, place: Place, usual: Undisturbed, steady: WarmCommands) -> bool:
    """Compares what readers see, repeats the command, and compares again. Returns whether the
    killed command had finished its run."""
    runs, rows = place.seen("lake")
    finished = runs - usual.runs
    assert finished == 1 if kill.code == 0 else finished in (0, 1), kill
    found = differing(rows, usual.after if finished else usual.before)
    assert not found, f"{kill}: readers see other rows of {found}"
    if kill.command not in RUNS_OF_THEIR_OWN or not finished:
        steady.completed(arguments(kill.command, f"{place.base}/lake"))
    found = differing(place.newest("lake"), usual.after)
    assert not found, f"{kill}: {found}"
    found = differing(place.seen("lake")[1], usual.after)
    assert not found, f"{kill}: readers see other rows of {found}"
    return bool(finished)


def test_kills(place: Place, tmp_path: Path) -> None:
    """Each round begins with a copy of a lake: of one night for a run, of two nights for the other
    commands."""
    chance = random.Random(SEED)
    first = write_part(CAPTURE, tmp_path / "first.parquet", halves(CAPTURE))
    with ExitStack() as stack:
        steady = stack.enter_context(closing(place.start()))
        steady.completed(arguments(NIGHT, f"{place.base}/first", first))
        wanted = {NIGHT: measured(place, NIGHT, "first")}
        for command in (REBUILD, AUDIT, MAINTAIN):
            wanted[command] = measured(place, command, "after-run")
        order = [command for command in ORDER if wanted[command].intervals]
        assert order, f"no command has a phase {PHASE}"
        killed: list[Kill] = []
        late = 0
        victim = stack.enter_context(closing(place.start()))
        for command in itertools.cycle(order):
            if len(killed) == KILLS:
                break
            usual = wanted[command]
            place.copy(usual.base, "lake")
            kill = kill_one(victim, command, f"{place.base}/lake", usual, chance)
            if kill is None:
                late += 1
                assert late <= 5 * KILLS, "almost all commands end before the chosen moment"
            else:
                if kill.kind != WORKER:
                    victim.close()
                    victim = stack.enter_context(closing(place.start()))
                finished = judge(kill, place, usual, steady)
                killed.append(kill)
                print(f"{len(killed)}: {kill}{' | finished' * finished}", flush=True)
            place.remove("lake")
    print(f"{late} more commands ended before the chosen moment")
    for (phase, kind), number in sorted(Counter((k.phase, k.kind) for k in killed).items()):
        print(f"{phase} | {kind} | {number}")
