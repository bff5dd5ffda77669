"""A simulated capture against its expected results, against the coordinator, and by itself."""

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
from kip848_spark.simulation.partition import TraceEntry
from kip848_spark.simulation.plan import partition_of
from kip848_spark.simulation.simulate import run
from tests.simulation.read_capture import decoded, partitions, state, truth
from tests.simulation.simulated_partitions import RELEASES, plan_small

KINDS = [
    ("chaos", "4.3"),
    ("chaos", "4.0"),
    ("migration", "4.2"),
    ("churn", "4.1"),
    ("steady", "4.3"),
    ("types", "4.4"),
    ("types", "4.2"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "release"), KINDS)
def test_log_gives_the_expected_results(profile: str, release: str, tmp_path: Path) -> None:
    for seed in range(3):
        out = tmp_path / str(seed)
        outcome = simulate(plan_cluster(profile, 12_000, seed, release=release, groups=5), out)
        tables = partitions(out)
        assert sum(table.num_rows for table in tables.values()) == outcome.records
        for partition, table in tables.items():
            assert table.schema.remove_metadata() == SCHEMA
            assert (np.diff(table["offset"].to_numpy()) > 0).all(), "offsets increase"
            assert (np.diff(table["timestamp"].to_numpy()).astype(int) >= 0).all(), (
                "times do not decrease"
            )
            read = decoded(table)
            assert not np.count_nonzero(read.reason)
            assert not read.unknown_tags.any()
            for part in read.keys:
                name = "group" if part.plan.key_type <= 2 else "group_id"
                for group in set(part.field(name).to_pylist()):
                    assert partition_of(group, 50) == partition, (
                        "a group is in the partition that Kafka chooses"
                    )
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
    if table == "groups":  # a group whose last offset was deleted is in no record
        rows = [row for row in rows if row["members"] or row["epoch"] or row["state"] != "Empty"]
    return sorted(repr([row[name] for name in _COLUMNS[table]]) for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("profile", ["chaos", "churn", "migration", "types"])
def test_bulk_commits_equal_single_requests(profile: str, release: str, tmp_path: Path) -> None:
    for seed in range(3):
        _compare_with_single_requests(
            plan_small(profile, seed, release), tmp_path / f"{seed}.parquet"
        )


def _compare_with_single_requests(plan: Any, path: Path) -> None:
    """Send every request of a simulation, bulk commits included, to a second coordinator."""
    trace: list[TraceEntry] = []
    partition, _ = run(plan, 0, path, trace=trace)
    other = Coordinator(plan.release, partition.config, partition.coordinator_seed)
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
    visible = visible[: table.num_rows]  # the log ends within the last request
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


def test_same_seed_gives_same_bytes(tmp_path: Path) -> None:
    for name, workers in (("a", 1), ("b", 2)):
        plan = plan_cluster("chaos", 50_000, 5, groups=6)
        simulate(plan, tmp_path / name, workers=workers)
    assert _digest(tmp_path / "a") == _digest(tmp_path / "b")
    simulate(plan_cluster("chaos", 50_000, 6, groups=6), tmp_path / "c")
    assert _digest(tmp_path / "a") != _digest(tmp_path / "c")


@pytest.mark.parametrize("records", [500, 3_000, 40_000])
@pytest.mark.parametrize("profile", ["steady", "churn"])
def test_number_of_records(profile: str, records: int, tmp_path: Path) -> None:
    outcome = simulate(plan_cluster(profile, records, 1), tmp_path / "c")
    assert records <= outcome.records <= records * 1.01  # more where only transactions commit


def test_compaction_removes_what_the_log_cleaner_removes(tmp_path: Path) -> None:
    full, cleaned = tmp_path / "full", tmp_path / "cleaned"
    plan = plan_cluster("chaos", 30_000, 3, groups=4)
    simulate(plan, full)
    outcome = simulate(plan, cleaned, compact=True)
    after = partitions(cleaned)
    assert outcome.records == sum(table.num_rows for table in after.values()) < 20_000
    for partition, table in partitions(full).items():
        assert after[partition].to_pylist() == _cleaned(table.to_pylist())
    found = state(cleaned)
    for name in ("members", "assignments", "offsets"):
        assert _rows(name, found[name]) == _rows(name, truth(full, name)), name


def _cleaned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rule of compaction, applied record by record."""
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


def test_rebalances_have_causes(tmp_path: Path) -> None:
    simulate(plan_cluster("chaos", 40_000, 1, groups=4), tmp_path / "c")
    rows = truth(tmp_path / "c", "rebalances")
    causes = {cause for row in rows for cause in row["causes"]}
    assert {"member_joined", "member_left", "session_timeout", "topics_changed"} <= causes
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
    ("changes", "message"),
    [
        ({"profile": "calm"}, "no profile calm"),
        ({"release": "3.9"}, "no release"),
        ({"release": "kip"}, "shipped dialect"),
        ({"records": 100, "groups": 3}, "too few"),
        ({"partitions": 0}, "at least one partition"),
    ],
)
def test_invalid_plans_are_refused(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"profile": "steady", "records": 10_000, "seed": 0} | changes
    with pytest.raises(UsageError, match=message):
        plan_cluster(**arguments)


def test_capture_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("something")
    with pytest.raises(UsageError, match="already exists"):
        simulate(plan_cluster("steady", 1_000, 0), tmp_path)
