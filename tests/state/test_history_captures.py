"""The history of real and simulated logs, compared with a replay of their records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kip848_spark.simulation import plan_cluster, simulate
from kip848_spark.simulation.cleaner import clean
from kip848_spark.state import fold as fold_module
from kip848_spark.state import kinds
from tests.capture_churn import FIRST
from tests.captures import COMMITTED, RECORDS
from tests.conftest import DATA
from tests.state.control_logs import (
    all_rows,
    at_offset,
    at_time,
    fill,
    history_of,
    logs_of,
    open_rows,
    read_logs,
    replayed,
    sample_rows,
    times_of,
)

OTHER_LAYOUTS = {"early-3.7.2"}
WHOLE = sorted(
    f"{path.parent.name}/{path.name}"
    for path in DATA.glob("*/records*.parquet")
    if not path.parent.name.startswith("cleaned-")
    and path.parent.name not in OTHER_LAYOUTS
    and path.name == (COMMITTED if (path.parent / COMMITTED).exists() else RECORDS)
)
CLEANED = sorted(path.name for path in DATA.glob("cleaned-*"))
PROFILES = ("steady", "churn", "migration", "chaos", "types")
RELEASES = dict(zip(PROFILES, ("4.0", "4.1", "4.2", "4.3", "4.4"), strict=True))


@pytest.fixture(autouse=True)
def _fold_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk that a test gives is folded, however small it is."""
    monkeypatch.setattr(fold_module, "MIN_BUFFER", 1)


@cache
def _simulated(profile: str, folder: Path) -> pa.Table:
    """The raw records of a small simulated partition."""
    plan = plan_cluster(profile, 4_000, 11, release=RELEASES[profile], partitions=1, groups=3)
    simulate(plan, folder, workers=1)
    return pq.read_table(next(folder.glob("partition-*.parquet")))


@pytest.fixture(scope="module", params=PROFILES)
def simulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    return _simulated(request.param, tmp_path_factory.mktemp("simulated") / "cluster")


def _check(log: pa.Table, rows: int) -> None:
    """History at some offsets and times, and at the end, is the replay up to there."""
    history = history_of(log)
    for row in sample_rows(log, rows):
        assert at_offset(history, log["offset"][row].as_py()) == replayed(log, row + 1), row
    times = times_of(log)
    for row in sample_rows(log, rows, seed=8):
        time = times[row]
        if time is not None:
            upto = sum(other is None or other <= time for other in times)
            assert at_time(history, time) == replayed(log, upto), time
    assert open_rows(history) == replayed(log, log.num_rows)


@pytest.mark.slow
@pytest.mark.parametrize("capture", WHOLE)
def test_history_of_a_real_log_is_the_replay_up_to_a_moment(capture: str) -> None:
    """Up to the first gap: a single missing offset may be the marker of a transaction."""
    for log in read_logs(DATA / capture).values():
        gaps = pc.indices_nonzero(pc.equal(log["kind"], kinds.GAP)).to_pylist()
        known = log.slice(0, gaps[0]) if gaps else log
        if known.num_rows:
            _check(known, 4)


def test_history_of_a_simulated_log_is_the_replay_up_to_a_moment(simulated: pa.Table) -> None:
    for log in logs_of(simulated).values():
        _check(log, 12)


def test_chunks_and_runs_of_a_simulated_log_make_no_difference(simulated: pa.Table) -> None:
    """The history is closed chunk by chunk, and carried from run to run."""
    for log in logs_of(simulated).values():
        whole = all_rows(history_of(log))
        rng = np.random.default_rng(5)
        for _ in range(3):
            cuts, runs = (rng.integers(0, log.num_rows, 4).tolist() for _ in range(2))
            assert all_rows(history_of(log, cuts, runs)) == whole


def test_only_commits_that_create_a_group_make_a_difference(simulated: pa.Table) -> None:
    """A replay is not given every commit, and which ones depends on the runs."""
    for log in logs_of(simulated).values():
        commit = pc.equal(log["kind"], kinds.COMMIT).to_numpy()
        ends = pc.or_(
            pc.equal(log["kind"], kinds.CLASSIC),
            pc.and_(pc.is_in(log["kind"], pa.array(kinds.GROUP_EPOCHS)), log["tombstone"]),
        ).to_numpy()
        stays, seen = np.ones(log.num_rows, bool), set()
        for row, group in enumerate(log["group_id"].to_pylist()):
            if ends[row]:
                seen.discard(group)
            elif commit[row]:
                stays[row] = group not in seen
                seen.add(group)
        some = log.filter(pa.array(stays))
        assert some.num_rows < log.num_rows
        assert all_rows(history_of(some)) == all_rows(history_of(log))


def _claims(found: Mapping[str, Any], true: Mapping[str, Any]) -> bool:
    return all(found[name] <= true[name] for name in found)


@pytest.mark.slow
@pytest.mark.parametrize("share", [None, 0.2, 0.5])
def test_a_cleaned_log_never_claims_what_is_not_true(
    simulated: pa.Table, tmp_path: Path, share: float | None
) -> None:
    """Read after the cleaner came; or up to a ``share`` of it before, the rest afterwards."""
    runs: tuple[int, ...] = ()
    whole = next(iter(logs_of(simulated).values()))
    if share is None:
        path = tmp_path / "cleaned.parquet"
        pq.write_table(simulated, path)
        clean(path)
        log = _with_known_point(pq.read_table(path))
    else:
        upto = simulated["offset"][int(simulated.num_rows * share)].as_py()
        partition = simulated["partition"][0].as_py()
        rest = _compacted(simulated).filter(pc.field("offset") > upto)
        first = logs_of(simulated.filter(pc.field("offset") <= upto))[partition]
        log = pa.concat_tables([first, logs_of(rest, {partition: upto + 1})[partition]])
        runs = (first.num_rows,)
    history, true = history_of(log, (), runs), history_of(whole)
    offsets = log["offset"].to_pylist()
    for row in sample_rows(log, 40):
        assert _claims(at_offset(history, offsets[row]), at_offset(true, offsets[row])), row
    times = [time for time in times_of(whole) if time is not None]
    for time in (times[i] for i in range(0, len(times), max(1, len(times) // 40))):
        assert _claims(at_time(history, time), at_time(true, time)), time
    if any(open_rows(history).values()):
        assert open_rows(history) == replayed(log, log.num_rows)
    assert share is not None or any(open_rows(history).values())


def _compacted(records: pa.Table) -> pa.Table:
    """The last record of each key among the first 80% of the records, and all later ones. The
    tombstones are younger than the time after which the cleaner removes them."""
    keys = records["key"].to_pylist()
    active = len(keys) * 4 // 5
    last = {key: row for row, key in enumerate(keys[:active])}
    return records.filter(
        pa.array([row >= active or last[key] == row for row, key in enumerate(keys)])
    )


def _with_known_point(records: pa.Table) -> pa.Table:
    """The log of a cleaned partition, and a row that names its first record with a repeated key."""
    seen: set[bytes] = set()
    log = next(iter(logs_of(records).values()))
    for row in records.select(["offset", "timestamp", "key"]).to_pylist():
        if row["key"] in seen:
            known = {name: [row[name]] for name in ("offset", "timestamp")}
            known |= {"partition": [log["partition"][0].as_py()], "kind": [kinds.KNOWN]}
            return pa.concat_tables([log, fill(known, 1)]).sort_by("offset")
        seen.add(row["key"])
    raise AssertionError("no key occurs twice")


def test_a_log_whose_beginning_was_cut_off_claims_only_what_was_seen(
    simulated: pa.Table,
) -> None:
    whole = next(iter(logs_of(simulated).values()))
    true = history_of(whole)
    for share in (0.2, 0.5):
        rest = whole.slice(int(whole.num_rows * share))
        gap = fill({"partition": [0], "offset": [rest["offset"][0].as_py() - 1]}, 1)
        gap = gap.set_column(gap.column_names.index("kind"), "kind", pa.array([kinds.GAP]))
        history = history_of(pa.concat_tables([gap, rest]))
        for row in sample_rows(rest, 30):
            offset = rest["offset"][row].as_py()
            found, expected = at_offset(history, offset), at_offset(true, offset)
            for name in ("member_history", "assignment_history"):
                assert found[name] <= expected[name], (name, offset)
        assert any(at_offset(history, rest["offset"][-1].as_py()).values())


@pytest.mark.slow
@pytest.mark.parametrize("capture", CLEANED)
def test_two_readings_of_a_cleaned_log_do_not_contradict(capture: str) -> None:
    """What was read before the broker's cleaner came, and what it left."""
    first, later = (read_logs(DATA / capture / name) for name in (FIRST, COMMITTED))
    claims = 0
    for partition in first.keys() & later.keys():
        histories = [history_of(logs[partition]) for logs in (first, later)]
        for offset in first[partition]["offset"].to_pylist():
            found = [at_offset(history, offset) for history in histories]
            if all(any(rows.values()) for rows in found):
                assert found[0] == found[1], (partition, offset)
        for logs, history in zip((first, later), histories, strict=True):
            found = open_rows(history)
            if any(found.values()):
                claims += 1
                assert found == replayed(logs[partition], logs[partition].num_rows)
    assert claims


def test_known_from_is_where_the_state_of_a_cleaned_log_is_known() -> None:
    """Rows that begin at a known point say so; those that begin later don't."""
    for log in read_logs(DATA / CLEANED[-1] / COMMITTED).values():
        history = history_of(log)
        begins = [
            row
            for table in history.values()
            for row in table.select(["from_offset", "valid_from", "known_from"]).to_pylist()
        ]
        if not begins:
            continue
        first = min(row["from_offset"] for row in begins)
        for row in begins:
            expected = row["valid_from"] if row["from_offset"] == first else None
            assert row["known_from"] == expected
