"""Recorded groups held against the model: real ones conform, ones with injected faults do not."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.checks.log_entries import LogEntry
from spec.conform import ModelLog, NotModelledError, conform, model_log
from tests.audit.captured_logs import RELEASES, entries
from tests.audit.faults import FAULTS
from tests.audit.faults.injection import NoPlaceError

NOT_SEEN = {
    "duplicate_partition_in_target": "targets are sets",
    "wrong_metadata_hash": "the model has no hash",
    "epoch_bump_without_cause": "the sizes of topics are not recorded",
    "lost_leave_tombstones": "what remains is a bump without a cause",
    "split_operation": "the model has no time",
    "duplicate_instance_id": "of a member's metadata, only its id is compared",
    "static_rejoin_with_another_instance_id": "of a member's metadata, only its id is compared",
}
"""Faults that the model cannot see, and why. The audit finds them."""


def groups_of(log: Iterable[LogEntry]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for entry in log:
        groups.setdefault(entry.group, []).append(entry.record)
    return groups


def modelled(groups: dict[str, list[Any]]) -> dict[str, ModelLog]:
    """The groups that the model can express."""
    logs = {}
    for group, records in groups.items():
        try:
            logs[group] = model_log(records)
        except NotModelledError:
            continue
    return {group: log for group, log in logs.items() if log.records}


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_captured_groups_conform(tmp_path: Path, release: str) -> None:
    logs = modelled(groups_of(entries(release)))
    assert len(logs) >= 7
    read = conform(list(logs.values()), release[:3], tmp_path)
    assert read == [len(log.records) for log in logs.values()]


@pytest.mark.long
def test_injected_faults_do_not_conform(tmp_path: Path) -> None:
    own = set(modelled(groups_of(entries("4.3.1"))))
    whole = [entry for entry in entries("4.3.1") if entry.group in own]
    logs: list[tuple[str, ModelLog]] = []
    for name in FAULTS.keys() - NOT_SEEN:
        for seed in range(3):
            try:
                injected = FAULTS[name](copy.deepcopy(whole), random.Random(seed))
                records = groups_of(injected.log)[injected.group]
                logs.append((name, model_log(records)))
            except (NoPlaceError, NotModelledError):
                continue
    assert len({name for name, _ in logs}) >= 40
    read = conform([log for _, log in logs], "4.3", tmp_path)
    conforming = {
        name for (name, log), at in zip(logs, read, strict=True) if at == len(log.records)
    }
    assert conforming == set()


def test_groups_beyond_the_model_are_named() -> None:
    classic = {"key": {"type": "2", "data": {"group": "g"}}, "value": None}
    with pytest.raises(NotModelledError, match="key type 2"):
        model_log([classic])
