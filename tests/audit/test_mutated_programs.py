"""Both programs broken on purpose, in many ways each: check 1 sees every one of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip848_spark.checks.results import STATE, Tally
from kip848_spark.coordinator import replay as reference
from kip848_spark.state import assignments, fold, groups, kinds, members
from tests.audit.captured_logs import topics
from tests.audit.test_state import compare_by_group, control_rows, referenced, vectorized

RELEASE = "4.3.1"
Patch = pytest.MonkeyPatch


def disagreed() -> int:
    """How much the two say differently, somewhere along the log."""
    table = control_rows(RELEASE)
    rows = table.num_rows
    found = 0
    for share in (1, 0.6, 0.3):
        part = table.slice(0, round(rows * share))
        tally = Tally()
        compare_by_group(tally, vectorized(part), referenced(topics(RELEASE), part))
        found += tally.disagreed[STATE]
    return found


def test_unbroken_they_agree() -> None:
    assert disagreed() == 0


# The vectorized replay


def edited_fold(patch: Patch, edit: Callable[[pa.Table], pa.Table]) -> None:
    original = fold.find_live_records
    patch.setattr(fold, "find_live_records", lambda table: original(edit(table)))


def without_tombstones(kind: str) -> Callable[[Patch], None]:
    def edit(table: pa.Table) -> pa.Table:
        dead = pc.and_(table["tombstone"], pc.not_equal(table["kind"], kind))
        return table.set_column(table.column_names.index("tombstone"), "tombstone", dead)

    return lambda patch: edited_fold(patch, edit)


def one_key_for_all(kind: str) -> Callable[[Patch], None]:
    def edit(table: pa.Table) -> pa.Table:
        name = pc.if_else(pc.equal(table["kind"], kind), "", table["member_id"])
        return table.set_column(table.column_names.index("member_id"), "member_id", name)

    return lambda patch: edited_fold(patch, edit)


def first_record_stays(patch: Patch) -> None:
    def first_of(code: Any, rows: Any) -> Any:
        first = np.full(int(code.max()) + 1 if len(code) else 0, -1, np.int64)
        first[code[rows[::-1]]] = rows[::-1]
        return first

    patch.setattr(fold, "last_rows", first_of)


def newest_record_lost(patch: Patch) -> None:
    original = fold.find_live_records

    def find_live_records(table: pa.Table) -> Any:
        mask = original(table).copy()
        mask[np.flatnonzero(mask)[-1:]] = False
        return mask

    patch.setattr(fold, "find_live_records", find_live_records)


def states_mixed_up(patch: Patch) -> None:
    names = {0: "stable", 1: "unreleased_partitions", 2: "unrevoked_partitions"}
    patch.setattr(members, "MEMBER_STATES", names)


def no_hash(patch: Patch) -> None:
    patch.setattr(groups, "_metadata_hash", lambda _, rows: pa.nulls(len(rows[0]), "int64"))


def no_votes(patch: Patch) -> None:
    def assignors(carried: Any) -> pa.Array:
        return pa.array(["uniform"] * carried.group_count)

    patch.setattr(groups, "_assignors", assignors)


def empty_is_something(patch: Patch) -> None:
    patch.setattr(members, "_none_if_empty", lambda text: text)


def pending_is_nothing(patch: Patch) -> None:
    original = assignments.explode

    def explode(carried: Any, each: Any, rows: Any) -> Any:
        return original(carried, each, rows[:0] if each.role == "pending_revocation" else rows)

    patch.setattr(assignments, "explode", explode)


def epochs_shifted(patch: Patch) -> None:
    original = assignments._epochs
    patch.setattr(assignments, "_epochs", lambda *of: pc.add(original(*of), pa.scalar(1, "int32")))


VECTORIZED: dict[str, Callable[[Patch], None]] = {
    "groups never end": without_tombstones(kinds.GROUP),
    "classic groups never end": without_tombstones(kinds.CLASSIC),
    "one target a group": one_key_for_all(kinds.TARGET),
    "one assignment a group": one_key_for_all(kinds.CURRENT),
    "the first record stays": first_record_stays,
    "the newest record is lost": newest_record_lost,
    "states are mixed up": states_mixed_up,
    "no hash": no_hash,
    "no votes": no_votes,
    "empty is something": empty_is_something,
    "pending is nothing": pending_is_nothing,
    "assignment epochs are shifted": epochs_shifted,
}


@pytest.mark.parametrize("way", VECTORIZED)
def test_a_broken_replay_is_seen(way: str, monkeypatch: Patch) -> None:
    VECTORIZED[way](monkeypatch)
    assert disagreed() > 0


# The reference


def edited_value(kind: str, edit: Callable[[dict[str, Any]], None]) -> Callable[[Patch], None]:
    original = reference._APPLIERS[kind]

    def apply(shard: Any, key: Any, value: Any) -> None:
        if value is not None:
            value = copy.deepcopy(value)
            edit(value)
        original(shard, key, value)

    return lambda patch: patch.setitem(reference._APPLIERS, kind, apply)


def deaf(kind: str, *, tombstones: bool) -> Callable[[Patch], None]:
    original = reference._APPLIERS[kind]

    def apply(shard: Any, key: Any, value: Any) -> None:
        if (value is None) != tombstones:
            original(shard, key, value)

    return lambda patch: patch.setitem(reference._APPLIERS, kind, apply)


def a_partition_less(value: dict[str, Any], field: str) -> None:
    for row in value[field][:1]:
        row["partitions"] = row["partitions"][1:]


REFERENCE: dict[str, Callable[[Patch], None]] = {
    "previous epoch": edited_value("8", lambda v: v.update(previousMemberEpoch=v["memberEpoch"])),
    "member epoch": edited_value("8", lambda v: v.update(memberEpoch=v["memberEpoch"] + 1)),
    "member state": edited_value("8", lambda v: v.update(state=0)),
    "pending dropped": edited_value("8", lambda v: v.update(partitionsPendingRevocation=[])),
    "an assigned partition lost": edited_value(
        "8", lambda v: a_partition_less(v, "assignedPartitions")
    ),
    "a target partition lost": edited_value("7", lambda v: a_partition_less(v, "topicPartitions")),
    "no targets": deaf("7", tombstones=False),
    "group epoch": edited_value("3", lambda v: v.update(epoch=v["epoch"] + 1)),
    "hash forgotten": edited_value("3", lambda v: v.update(metadataHash=0)),
    "target epoch": edited_value("6", lambda v: v.update(assignmentEpoch=0)),
    "rack forgotten": edited_value("5", lambda v: v.update(rackId=None)),
    "subscription forgotten": edited_value("5", lambda v: v.update(subscribedTopicNames=[])),
    "generation": edited_value("2", lambda v: v.update(generation=0)),
    "a classic member lost": edited_value("2", lambda v: v.update(members=v["members"][1:])),
    "classic groups never end": deaf("2", tombstones=True),
}


@pytest.mark.parametrize("way", REFERENCE)
def test_a_broken_reference_is_seen(way: str, monkeypatch: Patch) -> None:
    REFERENCE[way](monkeypatch)
    assert disagreed() > 0
