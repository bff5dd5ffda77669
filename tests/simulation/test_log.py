"""The capture against the truth beside it, against the coordinator, and against itself."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kip848_spark.coordinator import Coordinator
from kip848_spark.errors import UsageError
from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.simulation.cleaner import ACTIVE, RETAINED
from kip848_spark.simulation.encoding import encode_records
from kip848_spark.simulation.log import SCHEMA
from kip848_spark.simulation.partition import Entry
from kip848_spark.simulation.plan import partition_of
from kip848_spark.simulation.simulate import run
from tests.simulation.read_capture import decoded, partitions, state, truth
from tests.simulation.simulated_partitions import RELEASES, small

KINDS = [
    ("chaos", "4.3"),
    ("chaos", "4.0"),
    ("migration", "4.2"),
    ("churn", "4.1"),
    ("steady", "4.3"),
]


@pytest.mark.parametrize(("profile", "release"), KINDS)
def test_the_log_gives_the_truth(profile: str, release: str, tmp_path: Path) -> None:
    for seed in range(3):
        out = tmp_path / str(seed)
        outcome = simulate(plan_cluster(profile, 12_000, seed, release=release, groups=5), out)
        tables = partitions(out)
        assert sum(table.num_rows for table in tables.values()) == outcome.records
        for partition, table in tables.items():
            assert table.schema.remove_metadata() == SCHEMA
            assert (np.diff(table["offset"].to_numpy()) > 0).all(), "offsets rise"
            assert (np.diff(table["timestamp"].to_numpy()).astype(int) >= 0).all(), "so do times"
            read = decoded(table)
            assert not np.count_nonzero(read.reason)
            assert not read.unknown_tags.any()
            for part in read.keys:
                name = "group" if part.plan.key_type <= 2 else "group_id"
                for group in set(part.field(name).to_pylist()):
                    assert partition_of(group, 50) == partition, "a group is where Kafka puts it"
        found = state(out)
        for name in ("groups", "members", "assignments", "offsets"):
            assert _rows(name, found[name]) == _rows(name, truth(out, name)), name


_COLUMNS = {
    "groups": (
        "group_id",
        "type",
        "state",
        "protocol_type",
        "epoch",
        "target_epoch",
        "metadata_hash",
        "members",
    ),
    "members": (
        *("group_id", "member_id", "instance_id", "rack_id", "client_id", "subscribed_topics"),
        *("subscribed_regex", "member_epoch", "previous_member_epoch", "member_state"),
        "is_classic",
    ),
    "assignments": ("group_id", "member_id", "topic_id", "topic_partition", "role"),
    "offsets": (
        *("group_id", "topic", "topic_partition", "committed_offset", "leader_epoch"),
        *("metadata", "commit_timestamp", "topic_id"),
    ),
}


def _rows(table: str, rows: list[dict[str, Any]]) -> list[str]:
    if table == "groups":  # a group whose last offset was deleted has nothing left to be known by
        rows = [row for row in rows if row["members"] or row["epoch"] or row["state"] != "Empty"]
    return sorted(repr([row[name] for name in _COLUMNS[table]]) for row in rows)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("profile", ["chaos", "churn", "migration"])
def test_commits_in_bulk_are_those_of_a_coordinator_asked_one_by_one(
    profile: str, release: str, tmp_path: Path
) -> None:
    for seed in range(3):
        _compare_with_one_by_one(small(profile, seed, release), tmp_path / f"{seed}.parquet")


def _compare_with_one_by_one(plan: Any, path: Path) -> None:
    """Every request of a simulation, the bulk commits too, to a coordinator of its own."""
    trace: list[Entry] = []
    life, _ = run(plan, 0, path, trace=trace)
    other = Coordinator(plan.release, life.config, life.coordinator_seed)
    rows: list[tuple[int, dict[str, Any] | None]] = []
    aborted: set[int] = set()
    committed = {e[4]["producerId"]: e[4]["committed"] for e in trace if e[3] == "EndTxn"}
    for at, _, _, api, request, sender, version in sorted(trace, key=lambda entry: entry[:3]):
        if api == "topic":
            steps = other.topic(at, request.name, request.topic_id, request.partitions)
        else:
            steps = other.run_until(at)
            rows += [(step.at, record) for step in steps for record in step.records]
            steps = other.request(at, api, request, sender, version=version)
        own = [(step.at, record) for step in steps for record in step.records]
        if api == "TxnOffsetCommit" and not committed[request["producerId"]]:
            aborted |= set(range(len(rows), len(rows) + len(own)))
        rows += own
        if api == "EndTxn":
            rows.append((at, None))
    table = pq.read_table(path)
    visible = [i for i, (_, record) in enumerate(rows) if record is not None and i not in aborted]
    visible = visible[: table.num_rows]  # the last request of all is cut off
    keys, values = encode_records([rows[i][1] for i in visible if rows[i][1] is not None])
    assert table["offset"].to_pylist() == visible
    assert [t.value // 10**6 for t in table["timestamp"].to_pandas()] == [
        rows[i][0] for i in visible
    ]
    assert table["key"].to_pylist() == keys.to_pylist()
    assert table["value"].to_pylist() == values.to_pylist()


def _digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_one_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, workers in (("a", 1), ("b", 2)):
        plan = plan_cluster("chaos", 50_000, 5, groups=6)
        simulate(plan, tmp_path / name, workers=workers)
    assert _digest(tmp_path / "a") == _digest(tmp_path / "b")
    simulate(plan_cluster("chaos", 50_000, 6, groups=6), tmp_path / "c")
    assert _digest(tmp_path / "a") != _digest(tmp_path / "c")


@pytest.mark.parametrize("records", [500, 3_000, 40_000])
@pytest.mark.parametrize("profile", ["steady", "churn"])
def test_as_many_records_as_asked_for(profile: str, records: int, tmp_path: Path) -> None:
    outcome = simulate(plan_cluster(profile, records, 1), tmp_path / "c")
    assert records <= outcome.records <= records * 1.01  # more where only transactions commit


def test_compacted_as_a_cleaner_does(tmp_path: Path) -> None:
    whole, cleaned = tmp_path / "whole", tmp_path / "cleaned"
    plan = plan_cluster("chaos", 30_000, 3, groups=4)
    simulate(plan, whole)
    outcome = simulate(plan, cleaned, compact=True)
    after = partitions(cleaned)
    assert outcome.records == sum(table.num_rows for table in after.values()) < 20_000
    for partition, table in partitions(whole).items():
        assert after[partition].to_pylist() == _cleaned(table.to_pylist())
    found = state(cleaned)
    for name in ("members", "assignments", "offsets"):
        assert _rows(name, found[name]) == _rows(name, truth(whole, name)), name


def _cleaned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rule of compaction, a record at a time."""
    active = len(rows) - max(1, int(len(rows) * ACTIVE))
    begin, end = rows[0]["timestamp"], rows[-1]["timestamp"]
    seen: set[bytes] = set()
    kept = []
    for i, row in reversed(list(enumerate(rows))):
        if i >= active:
            kept.append(row)
            continue
        newest = row["key"] not in seen
        seen.add(row["key"])
        if newest and (
            row["value"] is not None or end - row["timestamp"] <= (end - begin) * RETAINED
        ):
            kept.append(row)
    return kept[::-1]


def test_rebalances_are_told_with_their_cause(tmp_path: Path) -> None:
    simulate(plan_cluster("chaos", 40_000, 1, groups=4), tmp_path / "c")
    rows = truth(tmp_path / "c", "rebalances")
    told = {cause for row in rows for cause in row["causes"]}
    assert {"member_joined", "member_left", "session_timeout", "topics_changed"} <= told
    assert all(row["causes"] for row in rows)
    for row in rows:
        assert row["converged_at"] is None or row["converged_at"] >= row["started_at"]
    bumps = {(row["group_id"], row["started_at"], row["epoch"]) for row in rows}
    recorded = set()
    for table in partitions(tmp_path / "c").values():
        times = table["timestamp"].to_pylist()
        read = decoded(table)
        for part in read.values:
            if part.plan.key_type == 3:
                names = {
                    int(r): n
                    for k in read.keys
                    if k.plan.key_type == 3
                    for r, n in zip(k.rows, k.field("group_id").to_pylist(), strict=True)
                }
                for row, epoch in zip(part.rows, part.field("epoch").to_pylist(), strict=True):
                    at = round(times[row].timestamp() * 1_000)
                    recorded.add((names[int(read.key_of[row])], at, epoch))
    assert recorded == {
        b
        for b, r in zip(
            [(r["group_id"], r["started_at"], r["epoch"]) for r in rows], rows, strict=True
        )
        if r["type"] == "consumer"
    }
    assert bumps


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"profile": "calm"}, "no profile calm"),
        ({"release": "3.9"}, "no release"),
        ({"release": "kip"}, "shipped dialect"),
        ({"records": 100, "groups": 3}, "too few"),
        ({"partitions": 0}, "at least one partition"),
    ],
)
def test_what_cannot_be_simulated(changes: dict[str, Any], says: str) -> None:
    asked: dict[str, Any] = {"profile": "steady", "records": 10_000, "seed": 0} | changes
    with pytest.raises(UsageError, match=says):
        plan_cluster(**asked)


def test_a_capture_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("something")
    with pytest.raises(UsageError, match="is there already"):
        simulate(plan_cluster("steady", 1_000, 0), tmp_path)
