"""Detects the dialect of a topic: it is the one that reads the records up to their last byte.

Dialects use the same key types (3 to 8) and the same version number for different layouts, so no
record names its dialect. But a record that is read with the wrong layout rarely ends where the
layout does."""

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
"""The key types whose layouts differ between dialects."""
MIN_SHARE_READ = 0.99
"""A dialect must read at least this share of the records."""


@dataclass(frozen=True)
class DialectChoice:
    """A variant of a dialect (the name of its folder in `schemas/`), and why it was chosen."""

    variant: str
    evidence: str


def check_dialect(name: str) -> None:
    """Raises UsageError unless ``name`` is a dialect or ``auto``."""
    if name != AUTO and name not in dialects():
        known = ", ".join([*dialects(), AUTO])
        raise UsageError(f"There is no dialect {name}.", f"There are {known}.")


def candidate_plans(name: str) -> dict[str, DecodePlan]:
    """The plans of a dialect by variant; of all dialects for ``auto``."""
    names = dialects() if name == AUTO else [name]
    return {v.name: DecodePlan.of(v) for one in names for v in load_dialect(one)}


def load_plan(variant: str) -> DecodePlan:
    """The plan of a variant. Raises KeyError if there is no such variant."""
    return candidate_plans(AUTO)[variant]


def count_readable(
    plans: Mapping[str, DecodePlan], keys: pa.Array, values: pa.Array
) -> dict[str, int]:
    """For each variant, how many of the records (key types 3 to 8, with a value) it decodes."""
    return {
        name: int(np.count_nonzero(decode(plan, keys, values).reason == 0))
        for name, plan in plans.items()
    }


def choose_dialect(read: Mapping[str, int], total: int) -> DialectChoice:
    """Chooses the variant that decodes the most records. ``read``: how many of the ``total``
    records each variant decodes.

    Without records, it is the shipped one. Raises UsageError if several dialects decode the same
    number, or if none decodes nearly all."""
    if not total:
        first = SHIPPED if SHIPPED in read else min(read)
        return DialectChoice(first, "there is no record in which the dialects differ")
    counts = ", ".join(f"{name} {count:,}" for name, count in sorted(read.items()))
    evidence = f"decoded records of key types 3 to 8, out of {total:,}: {counts}"
    most = max(read.values())
    best = [name for name, count in read.items() if count == most]
    if len(best) > 1 and len(_dialects_of(best)) > 1:
        raise UsageError(
            f"The dialect cannot be detected ({evidence}).",
            f"Choose one with --dialect: {_listed(best)}.",
        )
    if most < MIN_SHARE_READ * total:
        raise UsageError(
            f"No dialect fits the records ({evidence}).",
            "Most records are damaged or have another layout. --dialect shipped decodes the rest.",
        )
    return DialectChoice(min(best), evidence)


def _dialects_of(variants: Iterable[str]) -> set[str]:
    return {name for name in dialects() for v in load_dialect(name) if v.name in set(variants)}


def _listed(variants: Iterable[str]) -> str:
    return ", ".join(sorted(_dialects_of(variants)))
