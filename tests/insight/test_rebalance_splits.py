"""Rebalances do not depend on how a log is split into chunks and runs."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kip848_spark.insight import rebalance_spans
from kip848_spark.state import kinds
from tests.insight.fold_captures import fold
from tests.insight.test_rebalances import Row, found
from tests.insight.written_records import (
    Log,
    classic,
    current,
    epoch,
    member,
    no_member,
    regex,
    stable_group,
    target,
    target_epoch,
)


def test_a_group_that_never_becomes_stable_is_closed_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebalance_spans, "MAX_EPOCHS", 3)
    log = stable_group()
    for number in range(3, 12):
        log.write(10_000 * number, epoch(number, hash_=number))
    rows = found(log)[2:]
    assert [row["to_offset"] is not None for row in rows] == [True] * 6 + [False] * 3
    assert [row["outcome"] for row in rows] == ["superseded"] * 8 + ["open"]
    assert not any(row["complete"] or row["converged_at"] for row in rows)
    assert len({row["episode_id"] for row in rows}) == 3


def rows_however_split(records: pa.Table) -> list[Row]:
    """The rebalances of a log, which are the same if a run ends after any record."""
    whole: list[Row] = fold(records).to_pylist()
    for run in range(len(records)):
        assert fold(records, (), [run]).to_pylist() == whole
    return whole


def test_a_member_whose_return_was_not_read_has_not_joined() -> None:
    """Its records from before it left are no longer in effect, even if they are in the same
    chunk."""
    log = stable_group()
    log.write(10_000, [member("m3", (), subscribed_topic_regex="a.*"), current("m3", 2, ())])
    log.write(11_000, [*no_member("m3"), epoch(3)])
    log.gap()  # here it came back
    log.write(12_000, [current("m3", 3, ())])
    log.write(13_000, [regex("a.*", ["a"]), epoch(4)])
    log.gap()
    records = log.write(14_000, member("m4")).table()
    whole = rows_however_split(records)
    assert whole[-1]["joined"] == []


def test_a_subscription_is_compared_with_the_one_in_effect() -> None:
    log = stable_group()
    log.write(10_000, [member("m3"), epoch(3)])
    log.write(11_000, [*no_member("m3"), epoch(4)])
    log.write(12_000, current("m3", 4, ()))  # the record with which it came back was not read
    log.write(13_000, [member("m3", ("b",)), epoch(5)])
    log.gap()
    records = log.write(14_000, member("m4")).table()
    whole = rows_however_split(records)
    assert (whole[-1]["epoch"], whole[-1]["causes"]) == (5, ["unknown"])


def test_who_has_left_has_no_vote_for_an_assignor() -> None:
    log = stable_group()
    log.write(10_000, [member("m3", server_assignor="range"), epoch(3)])
    log.write(11_000, [*no_member("m3"), epoch(4)])
    log.write(12_000, [member("m1", server_assignor="uniform"), epoch(5)])
    log.write(13_000, epoch(6))
    log.gap()
    records = log.write(14_000, member("m4")).table()
    whole = rows_however_split(records)
    assert (whole[-1]["epoch"], whole[-1]["causes"]) == (6, ["unknown"])


def test_a_target_that_was_not_deleted_with_its_member() -> None:
    """The member is gone, and what it was to get counts no more."""
    log = stable_group()
    current_, _, member_ = no_member("m2")
    log.write(10_000, [current_, member_, epoch(3)])
    log.write(11_000, [target("m1", (0, 1, 2)), target_epoch(3)])
    log.write(12_000, current("m1", 3, (0, 1, 2)))
    log.write(20_000, [member("m3"), epoch(4)])
    log.write(21_000, [target("m1", (0, 2)), target("m3", (1,)), target_epoch(4)])
    log.gap()
    records = log.write(30_000, member("m4")).table()
    whole = rows_however_split(records)
    assert whole[-1]["partitions_moved"] == 1


def test_a_member_of_which_only_assignments_were_read() -> None:
    """With the tombstone of its assignment it is gone, as in the state tables."""
    log = stable_group()
    log.gap()
    log.write(10_000, current("m3", 3, ()))
    log.write(11_000, no_member("m3")[0])
    log.write(12_000, [member("m1"), epoch(5)])
    log.write(13_000, [target("m1", (0, 1)), target("m2", (2, 3)), target_epoch(5)])
    log.write(14_000, current("m1", 5, (0, 1)))
    log.write(15_000, current("m2", 5, (2, 3)))
    records = log.write(16_000, member("x", group="h")).table()
    whole = rows_however_split(records)
    assert (whole[-1]["outcome"], whole[-1]["members"]) == ("converged", 2)
    assert whole[-1]["to_offset"] is not None


STEPS = st.lists(
    st.sampled_from(
        (
            ("join", "m3"),
            ("join", "m4"),
            ("ask", "m3"),
            ("ask", "m5"),
            ("change", "m1"),
            ("change", "m2"),
            ("forget", ""),
            ("resolve", ""),
            ("resolve b", ""),
            ("gone", "m1"),
            ("gone", "m3"),
            ("topics", ""),
            ("target", ""),
            ("ready", "m1"),
            ("ready", "m2"),
            ("ready", "m3"),
            ("revoke", "m1"),
            ("revoke", "m2"),
            ("classic", "c"),
            ("close", "m2"),
            ("replace", "m4"),
            ("delete", ""),
            ("make", ""),
            ("gap", ""),
            ("lost", "m1"),
            ("clean", ""),
            ("other", ""),
        )
    ),
    max_size=25,
)


def _records(step: str, name: str, number: int) -> list[Row]:
    """The records of one of the `STEPS`. ``number`` is the group epoch."""
    targets = [target("m1", (0, number % 4)), target("m3", (1,)), target_epoch(number)]
    asks = [member(name, (), subscribed_topic_regex="a.*"), current(name, number, ())]
    other = [member(name, (), subscribed_topic_regex="b.*"), current(name, number, (), before=1)]
    return {
        "join": [member(name), epoch(number)],
        "ask": asks,
        "change": other,
        "forget": [regex("b.*", None)],
        "resolve": [regex("a.*", ["a"]), epoch(number)],
        "resolve b": [regex("a.*", ["a"]), regex("b.*", ["b"]), epoch(number)],
        "gone": [*no_member(name), epoch(number)],
        "topics": [epoch(number, hash_=number)],
        "target": targets,
        "ready": [current(name, number, (number % 4,))],
        "revoke": [current(name, number - 1, (0,), (1,), state=1)],
        "classic": [classic(number, {name: {"partitions": (0,)}}, group="k")],
        "close": [current(name, -2, (2, 3), before=number)],
        "replace": [
            *no_member("m2"),
            member(name, group_instance_id="i"),
            target(name, (2, 3)),
            current(name, number, (2, 3)),
        ],
        "delete": [epoch(None)],
        "make": [
            member("m1"),
            epoch(number),
            target("m1", range(4)),
            target_epoch(number),
            current("m1", number, range(4)),
        ],
        "other": [member("x", group="h"), epoch(number, group="h")],
    }[step]


def any_log(steps: list[tuple[str, str]], close: list[bool]) -> pa.Table:
    """A log of any steps, sensible or not; some follow in the same millisecond."""
    log, number, at = stable_group(), 2, 10_000
    for (step, name), same in zip(steps, close, strict=False):
        adjacent = same and log.rows[-1]["kind"] != kinds.GAP
        at += 0 if same else 700
        log.offset -= 1 if adjacent else 0
        if step in ("join", "gone", "topics", "resolve", "resolve b", "make"):
            number += 1
        if step == "gap":
            log.gap()
        elif step == "lost":
            infer(log, at, no_member(name))
        elif step == "clean":
            clean(log)
        else:
            log.write(at, _records(step, name, number))
    return log.table()


def infer(log: Log, at: int, tombstones: list[Row]) -> None:
    """Writes inferred tombstones: there is a gap before and after them."""
    log.rows.append({"offset": log.offset - 1, "timestamp": None, "kind": kinds.GAP})
    log.write(at, tombstones)
    log.rows.append({"offset": log.offset - 2, "timestamp": None, "kind": kinds.GAP})


def clean(log: Log) -> None:
    """Removes what the log cleaner removes: tombstones, and all but the newest record of a key."""
    newest = {_key(row): row["offset"] for row in log.rows}
    kept: list[Row] = []
    for row in log.rows:
        if row["kind"] == kinds.GAP or (
            newest[_key(row)] == row["offset"] and not row["tombstone"]
        ):
            kept.append(row)
        else:
            if kept and kept[-1]["kind"] == kinds.GAP:
                kept.pop()
            kept.append({"offset": row["offset"], "timestamp": None, "kind": kinds.GAP})
    log.rows = kept


def _key(row: Row) -> tuple[object, ...]:
    return tuple(row.get(name) for name in ("kind", "group_id", "member_id", "regular_expression"))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    STEPS,
    st.lists(st.booleans(), min_size=25, max_size=25),
    st.lists(st.integers(0, 120), max_size=6),
    st.lists(st.integers(0, 120), max_size=3),
    st.sampled_from((1_000, 2)),
)
def test_chunks_and_runs_change_nothing(
    steps: list[tuple[str, str]], close: list[bool], cuts: list[int], runs: list[int], most: int
) -> None:
    records = any_log(steps, close)
    within = [[min(cut, len(records)) for cut in some] for some in (cuts, runs)]
    before = rebalance_spans.MAX_EPOCHS
    try:
        rebalance_spans.MAX_EPOCHS = most
        whole = fold(records)
        for column in ("duration_ms", "slowest_ms", "unowned_ms"):
            assert (pc.min(whole[column]).as_py() or 0) >= 0
        assert fold(records, *within).to_pylist() == whole.to_pylist()
    finally:
        rebalance_spans.MAX_EPOCHS = before
