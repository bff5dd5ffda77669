"""``make model``: checks every model of this folder with TLC, and prints what was found.

The first line of a configuration may name the property that its model violates
(``\\* violates: NAME``): these models show what an assumption is for (docs/model.md). A line
``\\* Module NAME.`` names the module of a model that is not one of module Models.
"""

from __future__ import annotations

import argparse
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spec.tlc import FOLDER, Outcome, check

_MODULE = re.compile(r"^\\\* Module (\w+)\.$", re.MULTILINE)
_VIOLATES = re.compile(r"^\\\* violates: (\w+)$", re.MULTILINE)


def configurations(large: bool = False) -> list[Path]:
    """The models: those that violate a property first. ``large``: those of the folder large/, which
    take longer."""
    folder = FOLDER / "large" if large else FOLDER
    return sorted(folder.glob("*.cfg"), key=lambda path: (violates(path) is None, path.name))


def violates(config: Path) -> str | None:
    """The property that this model is to violate, if any."""
    found = _VIOLATES.search(config.read_text(encoding="utf-8"))
    return found[1] if found else None


def module(config: Path) -> str:
    """The TLA+ module of a model."""
    found = _MODULE.search(config.read_text(encoding="utf-8"))
    return found[1] if found else "Models"


def verdict(config: Path, outcome: Outcome) -> str | None:
    """What is wrong with an outcome, or ``None``."""
    expected = violates(config)
    if not outcome.finished:
        return "the time limit was reached"
    if outcome.violated != expected:
        found = outcome.violated or "nothing"
        return f"expected a violation of {expected or 'nothing'}, found {found}"
    return None


def main(arguments: list[str] | None = None) -> int:
    """Check the models; the exit code is 1 if one of them is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m spec.run", description=__doc__)
    parser.add_argument("models", nargs="*", help="names of .cfg files; default: all")
    parser.add_argument("--workers", type=int, default=1, help="threads of TLC")
    parser.add_argument("--large", action="store_true", help="the models that take longer")
    parser.add_argument("--side-by-side", type=int, default=2, help="models at the same time")
    parser.add_argument("--seconds", type=float, default=900, help="time limit for each model")
    options = parser.parse_args(arguments)
    found = configurations(options.large)
    chosen = [c for c in found if not options.models or c.stem in options.models]

    def run(config: Path) -> Outcome:
        return check(
            config, module=module(config), seconds=options.seconds, workers=options.workers
        )

    wrong = 0
    with ThreadPoolExecutor(options.side_by_side) as pool:  # each waits for a process of TLC
        for config, outcome in zip(chosen, pool.map(run, chosen), strict=True):
            bad = verdict(config, outcome)
            wrong += bad is not None
            shown = f"violates {outcome.violated}" if outcome.violated else "holds"
            print(
                f"{config.stem:16} {outcome.states:>9,} states  depth {outcome.depth or '-':>3}  "
                f"{outcome.seconds:5.0f} s  {bad or shown}",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
