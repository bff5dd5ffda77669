"""Maintenance: merges small files, and deletes files that only old versions of tables need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kip848_spark.errors import LakeError
from kip848_spark.lake.ledger import VACUUM
from kip848_spark.lake.tables import TABLES
from kip848_spark.spark.jobs.saved_audits import remove_superseded
from kip848_spark.spark.steps import Steps
from kip848_spark.spark.storage.tables import LakeTables

_BY_DAY = ("offset_activity",)
"""Tables of which a run replaces whole files, each with one value."""
COMPACTED = tuple(name for name in TABLES if name not in _BY_DAY)
"""The tables whose files are merged."""

_LOG_FILE = re.compile(r"\.?(\d{20})\.")


@dataclass(frozen=True)
class UpkeepResult:
    """By table: the number of files that were merged and deleted (None if it is not known), and of
    rows that were ``removed`` because of their age, or ``erased`` or changed because of a name.
    ``present`` groups and members of the state had such a name: their later records have it."""

    merged: Mapping[str, int]
    deleted: Mapping[str, int | None]
    removed: Mapping[str, int] = field(default_factory=dict)
    erased: Mapping[str, int] = field(default_factory=dict)
    present: int = 0


def compact_tables(lake: LakeTables, steps: Steps) -> dict[str, int]:
    """Merges the small files of `COMPACTED`, and returns how many were merged by table."""
    with steps.step("compact", "merging small files"):
        remove_superseded(lake)
        return {name: lake.compact(name) for name in COMPACTED}


def vacuum_tables(
    lake: LakeTables, hours: int, kept: Sequence[Mapping[str, int]], steps: Steps
) -> dict[str, int | None]:
    """Deletes the files that only versions need which are older than ``hours``. The versions
    ``kept`` of each table stay readable."""
    deleted = {}
    with steps.step(VACUUM, "deleting files that no kept version needs"):
        for name in TABLES:
            versions = sorted({versions[name] for versions in kept if name in versions})
            deleted[name] = lake.vacuum(name, hours, versions)
    return deleted


def delete_old_log(lake: LakeTables, table: str, version: int) -> None:
    """Deletes the entries and checkpoints of Delta's log before ``version``, which has a checkpoint
    (see `Upkeep.forget_versions`): no older version can be read any more. Raises LakeError."""
    try:
        for name in lake.files.names(f"{table}/_delta_log"):
            found = _LOG_FILE.match(name)
            if found is not None and int(found[1]) < version:
                lake.files.remove(f"{table}/_delta_log/{name}")
    except OSError as cause:
        raise LakeError(
            f"The old log of the table {table} of the lake {lake.path} can't be deleted: {cause}.",
            "Repeat the command: until it has succeeded, the log may name what was erased.",
        ) from None
