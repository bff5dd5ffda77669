"""Which dialect a topic is written in: told from which one reads its records to the last byte.

Dialects use the same key types (3 to 8) and the same version number for other bytes, so nothing
in a record names its dialect. But a record read by the wrong layout seldom comes out even.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kip848_spark.errors import UsageError
from kip848_spark.wire.decode import DecodePlan, decode
from kip848_spark.wire.definitions import SHIPPED, dialects, load_dialect

AUTO = "auto"
DISTINCTIVE_KEY_TYPES = range(3, 9)
"""Key types whose layouts differ between dialects."""
MIN_SHARE_READ = 0.99
"""Share of the records that a dialect must read to be chosen."""


@dataclass(frozen=True)
class DialectChoice:
    """A variant of a dialect (the name of its folder), and the reason for it in a sentence."""

    variant: str
    evidence: str


def check_dialect(name: str) -> None:
    """Raises UsageError unless there is a dialect ``name``; ``auto`` is none, but will do."""
    if name != AUTO and name not in dialects():
        known = ", ".join([*dialects(), AUTO])
        raise UsageError(f"There is no dialect {name}.", f"There are {known}.")


def candidate_plans(name: str) -> dict[str, DecodePlan]:
    """The plans to choose from, by variant: one dialect's, or for ``auto`` all."""
    names = dialects() if name == AUTO else [name]
    return {v.name: DecodePlan.of(v) for one in names for v in load_dialect(one)}


def load_plan(variant: str) -> DecodePlan:
    """The plan of a variant."""
    return candidate_plans(AUTO)[variant]


def count_readable(
    plans: Mapping[str, DecodePlan], keys: pa.Array, values: pa.Array
) -> dict[str, int]:
    """How many of the records (key types 3 to 8, with a value) each variant reads to the end."""
    return {
        name: int(np.count_nonzero(decode(plan, keys, values).reason == 0))
        for name, plan in plans.items()
    }


def choose_dialect(read: Mapping[str, int], total: int) -> DialectChoice:
    """The variant that reads the records best. ``read``: how many of ``total`` each one reads.

    With nothing to tell them apart by, the shipped one. Raises UsageError if several read all
    that can be read, or if none reads nearly all.
    """
    if not total:
        first = SHIPPED if SHIPPED in read else min(read)
        return DialectChoice(first, "there is no record in which the dialects differ")
    said = ", ".join(f"{name} {count:,}" for name, count in sorted(read.items()))
    evidence = f"of {total:,} records of key types 3 to 8 each reads to the last byte: {said}"
    most = max(read.values())
    best = [name for name, count in read.items() if count == most]
    if len(best) > 1 and len(_dialects_of(best)) > 1:
        raise UsageError(
            f"The dialect can't be told: {evidence}.", f"Name one of {_listed(best)} (--dialect)."
        )
    if most < MIN_SHARE_READ * total:
        raise UsageError(
            f"No dialect fits: {evidence}.",
            "Most records are of another layout, or damaged; --dialect shipped reads what it can.",
        )
    return DialectChoice(min(best), evidence)


def _dialects_of(variants: Iterable[str]) -> set[str]:
    return {name for name in dialects() for v in load_dialect(name) if v.name in set(variants)}


def _listed(variants: Iterable[str]) -> str:
    return ", ".join(sorted(_dialects_of(variants)))
