"""`make fuzz`: millions of damaged records through the codec, with every result checked.

    python -m tests.wire.fuzz --records 5000000 --seed 1

Each batch is decoded twice: as it is, and shuffled among other records, with other room to begin
with. Every row must give the same in both, and a record that was left as it was must read as it
does among its own. One row in some is also compared with the scalar codec: same values, same
reason, same byte. The other ways in take a part of each batch: tables, control columns, dump,
anonymizing, explain, embedded metadata.

On a failure the records that are needed for it are written out as a line for ``failures.jsonl``
(beside this file), which the suite replays, and the program ends with code 1."""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

from kip848_spark.wire.decode import Decoded, decode
from kip848_spark.wire.faults import Reason
from tests.wire.mutations import FOLDERS, Mutator, arrays, corpus
from tests.wire.other_readers import check_other_readers
from tests.wire.scalar_comparison import Pair, by_columns, by_scalar, plan

FAILURES = Path(__file__).parent / "failures.jsonl"
ROWS = 20_000
GROWTH_MIB = 200
COPIES = 12
"""After the first batches, the memory may grow by this many bytes plus this many times the bytes of
the largest batch, of which this program holds several copies."""
WARM = 8
"""The number of batches after which every case has occurred."""
SHRINKING = 60
"""The time limit (s) for reducing a failure to a few records."""
HELD = 0.04
"""The share of rows of a large batch that is compared with the scalar codec ..."""
FEW = 200
"""... and the number of rows of a small one."""


class Difference(AssertionError):
    """Two results that should be equal differ; the record, if it is known."""

    def __init__(self, output: str, pair: Pair | None = None) -> None:
        super().__init__(output)
        self.pair = pair


@dataclass
class Tally:
    """Counts of what occurred."""

    records: int = 0
    held: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, decoded: Decoded, held: int) -> None:
        self.records += decoded.count
        self.held += held
        counts = np.bincount(decoded.reason, minlength=len(Reason)).tolist()
        self.reasons.update({reason.text: counts[reason] for reason in Reason if counts[reason]})


# --- one batch -------------------------------------------------------------------------------


def check(pairs: list[Pair], seed: int, folder: str, intact: set[Pair]) -> tuple[Decoded, int]:
    """The decoded records, and how many rows were compared with the scalar codec. Raises
    Difference, or whatever the codec raises."""
    draw = random.Random(seed)
    first = decode(plan(folder), *arrays(pairs))
    for row, pair in enumerate(pairs):
        if first.reason[row] and pair in intact:
            raise Difference(f"a good record is {Reason(int(first.reason[row])).text}", pair)
    _check_shuffled(pairs, first, draw, folder)
    some = draw.sample(range(len(pairs)), min(len(pairs), max(FEW, int(len(pairs) * HELD))))
    _check_scalar(pairs, first, some, folder)
    check_other_readers(plan(folder), [pairs[row] for row in some])
    return first, len(some)


def _check_shuffled(pairs: list[Pair], first: Decoded, draw: random.Random, folder: str) -> None:
    """The same rows in another order, among other records, in another form of array."""
    count = len(pairs)
    others: list[Pair] = [*corpus(folder)[: count // 10], (None, None), (b"\0", b"\0" * 9)]
    order = np.array(draw.sample(range(count + len(others)), count + len(others)))
    every = [*pairs, *others]
    type_ = draw.choice([pa.binary(), pa.binary(), pa.large_binary()])
    head: list[Pair] = [(b"\0\3\0\1", b"\xff" * 40)] * draw.randrange(3)
    keys, vals = arrays([*head, *(every[row] for row in order.tolist())], type_)
    for programs in (plan(folder).key_programs, plan(folder).value_programs):
        for program in filter(None, programs.programs):
            program.usage[:] = [draw.choice([0.0, 1.0, 1000.0])] * len(program.usage)
    second = decode(plan(folder), keys.slice(len(head)), vals.slice(len(head)))
    differing(first, second, order)


def _check_scalar(pairs: list[Pair], first: Decoded, some: list[int], folder: str) -> None:
    """Some rows by themselves, and by the scalar codec."""
    alone = [pairs[row] for row in some]
    third = decode(plan(folder), *arrays(alone))
    differing(first, third, np.array(some))
    for pair, row in zip(alone, by_columns(third), strict=True):
        right = by_scalar(pair, folder)
        if repr(row) != repr(right):
            raise Difference(f"{row} is not {right}", pair)


def differing(first: Decoded, second: Decoded, order: np.ndarray) -> None:
    """Raises Difference unless row ``i`` of ``second`` says what row ``order[i]`` of ``first``
    says; rows that ``first`` does not have are passed over."""
    there = np.flatnonzero(order < first.count)
    rows = order[there]
    for name in ("reason", "reason_at", "in_key", "unknown_tags", "versions", "tombstone"):
        one, other = getattr(first, name)[rows], getattr(second, name)[there]
        if (one != other).any():
            raise Difference(f"{name} differs")
    of_second = np.full(second.count, -1)
    of_second[there] = rows
    of_first = np.full(first.count, -1)
    of_first[rows] = rows
    for half in (_values, _keys):
        one_half, other_half = half(first, of_first), half(second, of_second)
        if one_half.keys() != other_half.keys():
            raise Difference("kinds differ")
        for kind, (of_rows, array) in one_half.items():
            theirs, beside = other_half[kind]
            if not np.array_equal(of_rows, theirs):
                raise Difference(f"rows of {kind} differ")
            if not array.equals(beside):
                raise Difference(f"values of {kind} differ")


_Kinds = dict[tuple[int, int], tuple[np.ndarray, pa.StructArray]]


def _values(decoded: Decoded, place: np.ndarray) -> _Kinds:
    return _kinds((part.plan.key_type, part.version, place[part.rows], part.as_struct())
                  for part in decoded.values)  # fmt: skip


def _keys(decoded: Decoded, place: np.ndarray) -> _Kinds:
    def parts() -> Iterator[tuple[int, int, np.ndarray, pa.StructArray]]:
        for part in decoded.keys:
            at = np.full(decoded.distinct + 1, -1)
            at[part.rows] = np.arange(len(part.rows))
            of_row = at[decoded.key_of]
            rows = np.flatnonzero(of_row >= 0)
            yield part.plan.key_type, 0, place[rows], part.as_struct().take(pa.array(of_row[rows]))

    return _kinds(parts())


def _kinds(parts: Iterator[tuple[int, int, np.ndarray, pa.StructArray]]) -> _Kinds:
    """The rows of each kind and version, in their order, without those that have no place."""
    found: dict[tuple[int, int], list[tuple[np.ndarray, pa.StructArray]]] = {}
    for key_type, version, rows, array in parts:
        array.validate(full=True)
        wanted = rows >= 0
        if wanted.any():
            some = rows[wanted], array.filter(pa.array(wanted))
            found.setdefault((key_type, version), []).append(some)
    made: _Kinds = {}
    for kind, chunks in found.items():
        rows = np.concatenate([rows for rows, _ in chunks])
        order = np.argsort(rows)
        concatenated = pa.concat_arrays([array for _, array in chunks])
        made[kind] = rows[order], concatenated.take(pa.array(order))
    return made


# --- failures --------------------------------------------------------------------------------


def shrunk(pairs: list[Pair], fails: Callable[[list[Pair]], bool]) -> list[Pair]:
    """The smallest part of ``pairs`` that still fails, as far as it can be found in time."""
    until = time.monotonic() + SHRINKING
    step = len(pairs) // 2
    while step:
        first = 0
        while first < len(pairs) and time.monotonic() < until:
            fewer = [*pairs[:first], *pairs[first + step :]]
            if fewer and fails(fewer):
                pairs = fewer
            else:
                first += step
        step //= 2
    return pairs


def failure_line(pairs: Sequence[Pair], seed: int, folder: str, note: str) -> str:
    """What ``failures.jsonl`` has a line of."""
    halves = [[half if half is None else half.hex() for half in pair] for pair in pairs]
    return json.dumps({"note": note, "folder": folder, "seed": seed, "records": halves})


def stored_failures() -> list[tuple[str, str, int, list[Pair]]]:
    """Note, folder, seed and records of each line of ``failures.jsonl``."""
    found = []
    for line in FAILURES.read_text().splitlines():
        failure = json.loads(line)
        pairs: list[Pair] = [
            (None if key is None else bytes.fromhex(key), None if v is None else bytes.fromhex(v))
            for key, v in failure["records"]
        ]
        found.append((failure["note"], failure["folder"], failure["seed"], pairs))
    return found


# --- the run ---------------------------------------------------------------------------------


def batches(seed: int, records: int, rows: int = ROWS) -> Iterator[tuple[int, str, list[Pair]]]:
    """Seed, dialect and records of each batch; half are of the shipped dialect."""
    left, number = records, 0
    while left > 0:
        of_batch = seed * 1_000_003 + number
        folder = FOLDERS[0] if number % 2 == 0 else FOLDERS[1 + number // 2 % 3]
        yield of_batch, folder, Mutator(of_batch, folder).batch(min(rows, left))
        left -= rows
        number += 1


def run(seed: int, records: int, console: Console | None = None, rows: int = ROWS) -> Tally:
    """Raises SystemExit on the first failure, when it was shrunk and written out."""
    tally = Tally()
    intact = {folder: set(corpus(folder)) for folder in FOLDERS}
    warm = largest = 0
    with Progress(console=console, disable=console is None) as progress:
        task = progress.add_task("fuzzing", total=records)
        for number, (of_batch, folder, pairs) in enumerate(batches(seed, records, rows)):
            try:
                tally.add(*check(pairs, of_batch, folder, intact[folder]))
            except Exception as met:
                _report(pairs, of_batch, folder, intact[folder], met)
                raise SystemExit(1) from met
            progress.advance(task, len(pairs))
            largest = max(largest, sum(len(half or b"") for pair in pairs for half in pair))
            if number == WARM:
                warm = peak_mib()
            most = warm + GROWTH_MIB + COPIES * largest // (1 << 20)
            if warm and peak_mib() > most:
                print(f"more than {most} MiB of memory by batch {number}", file=sys.stderr)
                raise SystemExit(1)
    return tally


def _report(pairs: list[Pair], seed: int, folder: str, intact: set[Pair], met: Exception) -> None:
    def fails(fewer: list[Pair]) -> bool:
        try:
            check(fewer, seed, folder, intact)
        except Exception as again:
            return type(again) is type(met)
        return False

    note = f"{type(met).__name__}: {met}"[:400]
    print(f"seed {seed}, {folder}: {note}", file=sys.stderr)
    if isinstance(met, Difference) and met.pair and fails([met.pair]):
        pairs = [met.pair]
    line = failure_line(shrunk(pairs, fails), seed, folder, note)
    file = Path(tempfile.gettempdir()) / f"kip848-fuzz-{seed}.jsonl"
    file.write_text(line + "\n")
    print(f"the records: {file}" if len(line) > 4000 else line)


def peak_mib() -> int:
    """The peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.wire.fuzz", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    pa.set_cpu_count(1)
    console = Console()
    console.print(f"{options.records:,} records, seed {options.seed}")
    start = time.monotonic()
    tally = run(options.seed, options.records, console)
    took = time.monotonic() - start
    console.print(
        f"{tally.records:,} records in {took:,.0f} s ({tally.records / took:,.0f} a second), "
        f"{tally.held:,} compared with the scalar codec, peak {peak_mib()} MiB: no failure."
    )
    for reason, count in tally.reasons.most_common():
        console.print(f"  {reason:22} {count:>12,}")


if __name__ == "__main__":
    main()
