"""Compares our decoder with others over the same records, on one core (`make bench-decode`).

Each decoder is a program that loads the records into memory, decodes them several times in one of
its modes, and reports the processor time of its fastest pass. In the mode ``kept`` it keeps all
decoded records until the pass ends, in ``dropped`` it does not. The programs run in turn, several
rounds, and the best figure of each counts. See `benchmarks/peers/README.md`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from benchmarks.mixes import COMMITS, CONTROL, Mix, make
from benchmarks.ours import DROPPED, FLAT, KEPT
from kip848_spark.errors import EnvironmentFault
from kip848_spark.runtime.cache import cache_folder
from kip848_spark.runtime.jars import broker_jars
from kip848_spark.runtime.java import find_java
from kip848_spark.wire.concat import ByteColumn, NumberColumn, VariableBytes, concat_rows

PEERS = Path(__file__).parent / "peers"
RELEASE = "4.3.1"
OLD = "-v3"
"""Suffix of the mixes whose commits all have value version 3, for decoders that know no later
one."""
NAMES = {COMMITS: "offset commits as in a real topic (95%)", CONTROL: "half control records"}
BATCHES = (200_000, 50_000)
"""Rows in a batch of ours. Others are compared with the larger, which is what Spark passes to its
Python workers."""
PASSES = 4
NOCOPY = "kept, strings not copied"
_JVM = ["-XX:+UseSerialGC", "-Xms4g", "-Xmx4g", "-Xmn3g", "-XX:-UsePerfData"]


@dataclass(frozen=True)
class DecoderProgram:
    """A program that takes FILE MODE PASSES, and its name for each of our modes."""

    name: str
    command: list[str]
    modes: Mapping[str, str]
    file: str = "bin"
    slow: bool = False
    old_commits: bool = False


@dataclass(frozen=True)
class Figure:
    """The result of one program in one mode: ``read`` records in ``seconds`` of processor time."""

    mix: str
    name: str
    mode: str
    read: int
    seconds: float
    peak_kib: int

    @property
    def rate(self) -> float:
        """Million records per second of processor time."""
        return self.read / self.seconds / 1e6


def ours(rows: int) -> str:
    """The name of our decoder with ``rows`` rows in a batch."""
    return f"ours, batches of {rows:,}"


class MissingError(Exception):
    """A decoder program is not available; the message says why."""


# -- find_programs -----------------------------------------------------------------------------


def find_programs(cache: Path) -> Iterator[DecoderProgram | tuple[str, str]]:
    """All decoder programs; for one that is not available, its name and the reason."""
    command = [sys.executable, "-m", "benchmarks.ours", "{}"]
    for rows in BATCHES:
        modes = {mode: mode for mode in (KEPT, FLAT, DROPPED)}
        yield DecoderProgram(ours(rows), [*command, str(rows)], modes, "arrow")
    both = {KEPT: "kept", DROPPED: "dropped"}
    for name, build, modes, old in (
        (f"Kafka {RELEASE}'s Java serde", _java, both, False),
        ("franz-go kmsg (keys 0-2)", _go, {**both, NOCOPY: "nocopy"}, False),
        ("konsumer_offsets (to value v3, keys 0-2)", _rust, both, True),
    ):
        try:
            yield DecoderProgram(name, [*build(cache), "{}"], modes, old_commits=old)
        except (MissingError, EnvironmentFault) as missing:
            yield name, str(missing)
    loop = [sys.executable, str(PEERS / "python" / "loop.py"), "{}"]
    yield DecoderProgram("Python, a struct loop", loop, both, slow=True)


def _java(_: Path) -> list[str]:
    jars = ":".join(str(jar) for jar in broker_jars(RELEASE))
    return [str(find_java()), *_JVM, "-cp", jars, str(PEERS / "java" / "Bench.java")]


def _go(cache: Path) -> list[str]:
    folder = _copy_sources("go", cache)
    _build("go", ["go", "build", "-o", "bench", "."], folder)
    return [str(folder / "bench")]


def _rust(cache: Path) -> list[str]:
    folder = _copy_sources("rust", cache)
    _build("cargo", ["cargo", "build", "--release", "--quiet"], folder)
    return [str(folder / "target" / "release" / "kip848-bench")]


def _copy_sources(name: str, cache: Path) -> Path:
    """A copy of the sources, in a folder in which they can be built."""
    return Path(shutil.copytree(PEERS / name, cache / name, dirs_exist_ok=True))


def _build(tool: str, command: list[str], folder: Path) -> None:
    if shutil.which(tool) is None:
        raise MissingError(f"{tool} is not on PATH")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it did not say why"])[-1]
        raise MissingError(f"it does not build here: {last[:120]}")


# -- measuring -------------------------------------------------------------------------------


def write(mix: Mix, folder: Path, name: str) -> None:
    """Writes the records for our decoder (.arrow) and the others (.bin, see peers/README.md)."""
    batch = pa.record_batch([mix.keys, mix.values], ["key", "value"])
    arrow = str(folder / f"{name}.arrow")
    with pa.OSFile(arrow, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with (folder / f"{name}.bin").open("wb") as file:
        for first in range(0, len(mix.keys), 100_000):
            keys, values = (half.slice(first, 100_000) for half in (mix.keys, mix.values))
            columns: list[ByteColumn] = []
            for half in (keys, values):
                size = pc.binary_length(half).fill_null(-1).to_numpy()
                columns += [NumberColumn("<i4", size), VariableBytes(half.fill_null(b""))]
            file.write(concat_rows(columns, len(keys)).buffers()[2])


def run(one: DecoderProgram, mode: str, mix: str, folder: Path) -> Figure:
    """Runs one program in one mode."""
    name = mix + OLD if one.old_commits else mix
    passes = 1 if one.slow else PASSES
    arguments = [str(folder / f"{name}.{one.file}"), one.modes[mode], str(passes)]
    command = [word for part in one.command for word in (arguments if part == "{}" else [part])]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    )
    os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
    output, _ = process.communicate()
    if process.returncode:
        raise MissingError(f"it ended with code {process.returncode}")
    answer: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return Figure(mix, one.name, mode, answer["read"], answer["seconds"], answer["peak_kib"])


def memcpy(octets: int) -> float:
    """The seconds of processor time that copying ``octets`` bytes takes."""
    source = np.ones(octets, np.uint8)
    target = np.zeros_like(source)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        np.copyto(target, source)
        best = min(best, time.process_time() - start)
    return best


def measure(
    mixes: Mapping[str, Mix],
    running: list[DecoderProgram],
    rounds: int,
    folder: Path,
    console: Console,
) -> list[Figure]:
    """The best figure of each program in each mode."""
    best: dict[tuple[str, str, str], Figure] = {}
    for number in range(rounds):
        for mix in mixes:
            for one in running:
                if one.slow and number:
                    continue
                for mode in one.modes:
                    console.print(f"  round {number + 1}: {mix}, {one.name}, {mode}", style="dim")
                    figure = run(one, mode, mix, folder)
                    place = (mix, one.name, mode)
                    if place not in best or figure.seconds < best[place].seconds:
                        best[place] = figure
    return list(best.values())


# -- the table -------------------------------------------------------------------------------


def table(mix: str, figures: list[Figure], records: int, copied: float) -> Table:
    of_mix = [figure for figure in figures if figure.mix == mix]
    best = {figure.mode: figure.rate for figure in of_mix if figure.name == ours(BATCHES[0])}
    shown = Table(title=f"{NAMES[mix]}: {records:,} records", title_justify="left")
    shown.add_column("decoder")
    shown.add_column("mode")
    for name in ("M records/CPU s", "ours is", "of memcpy", "peak MiB", "read"):
        shown.add_column(name, justify="right")
    for figure in of_mix:
        against = best[DROPPED if figure.mode == DROPPED else KEPT]
        shown.add_row(
            figure.name,
            figure.mode,
            f"{figure.rate:.2f}",
            "" if figure.name.startswith("ours") else f"{against / figure.rate:.1f} x",
            f"{copied / figure.seconds * figure.read / records:.1%}",
            f"{figure.peak_kib / 1024:,.0f}",
            f"{figure.read / records:.0%}",
        )
    shown.add_row(
        "memcpy of the same bytes", "", f"{records / copied / 1e6:.1f}", "", "100.0%", "", ""
    )
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "decode.json")
    options = parser.parse_args()
    console = Console()
    cache = cache_folder() / "bench-decode"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        console.print("making the records and building the peers", style="dim")
        mixes = {name: make(name, options.records) for name in (COMMITS, CONTROL)}
        for name, mix in mixes.items():
            write(mix, folder, name)
            write(make(name, options.records, version=3), folder, name + OLD)
        every = list(find_programs(cache))
        running = [one for one in every if isinstance(one, DecoderProgram)]
        missing = [one for one in every if not isinstance(one, DecoderProgram)]
        figures = measure(mixes, running, options.rounds, folder, console)
    copied = {name: memcpy(mix.octets) for name, mix in mixes.items()}
    for name in mixes:
        console.print(table(name, figures, options.records, copied[name]))
    for peer, why in missing:
        console.print(f"{peer} is not in the tables: {why}.")
    written = {
        "records": options.records,
        "memcpy_seconds": copied,
        "figures": [{**asdict(figure), "rate": figure.rate} for figure in figures],
        "missing": dict(missing),
    }
    options.json.write_text(json.dumps(written, indent=1) + "\n")
    console.print(f"written to {options.json}", style="dim")


if __name__ == "__main__":
    main()
