"""The history, compared with a replay of the records up to a moment.

The logs are random ones that break every habit of a coordinator; real ones are in
`test_history_captures.py`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kip848_spark.state import fold as fold_module
from kip848_spark.state import history_assignments, kinds
from kip848_spark.state.history_fields import INTERVAL_FIELDS
from tests.state.control_logs import (
    Counts,
    all_rows,
    at_offset,
    at_time,
    fill,
    history_of,
    open_rows,
    replayed,
    times_of,
    unseen_ends,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = ("t1", "t2")
MEMBER_IDS = ("a", "b")


@pytest.fixture(autouse=True)
def _fold_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk that a test gives is folded, however small it is."""
    monkeypatch.setattr(fold_module, "MIN_BUFFER", 1)


def record(kind: str, group: str = "g", member: str | None = None, **value: Any) -> dict[str, Any]:
    """A control record; a tombstone if there is no ``value``."""
    row = {"kind": kind, "group_id": group, "member_id": member, "tombstone": not value}
    return row | ({kind: value} if value else {})


def log_of(rows: list[dict[str, Any]], seconds: list[int] | None = None) -> pa.Table:
    """A log at every second offset, with one record a second or at the given ``seconds``."""
    times = list(range(len(rows))) if seconds is None else seconds
    columns: dict[str, Any] = {
        "partition": [3] * len(rows),
        "offset": [2 * i for i in range(len(rows))],
        "timestamp": [
            None if row["kind"] == kinds.GAP else START + timedelta(seconds=at)
            for at, row in zip(times, rows, strict=True)
        ],
    }
    for name in {name for row in rows for name in row}:
        columns[name] = [row.get(name) for row in rows]
    columns["tombstone"] = [row.get("tombstone", False) for row in rows]
    return fill(columns, len(rows))


_group = st.sampled_from("gh")
_member = st.sampled_from(MEMBER_IDS)
_epoch = st.integers(0, 3)
_partitions = st.lists(st.integers(0, 2), max_size=3)


def _topics(epochs: bool = False) -> st.SearchStrategy[list[dict[str, Any]]]:
    topic = {"topic_id": st.sampled_from(TOPICS), "partitions": _partitions}
    if epochs:
        topic["assignment_epochs"] = st.none() | st.lists(st.integers(0, 2), max_size=3)
    return st.lists(st.fixed_dictionaries(topic), max_size=2)


def _record(
    kinds_: tuple[str, ...],
    value: dict[str, st.SearchStrategy[Any]],
    member: st.SearchStrategy[str | None] | None = None,
) -> st.SearchStrategy[dict[str, Any]]:
    member = st.none() if member is None else member
    kind = st.sampled_from(kinds_)
    full = st.tuples(kind, _group, member, st.fixed_dictionaries(value)).map(
        lambda r: record(r[0], r[1], r[2], **r[3])
    )
    return st.one_of(full, full, full, st.builds(record, kind, _group, member))


_names = st.none() | st.lists(st.sampled_from(TOPICS), max_size=2)
_classic_members = st.lists(
    st.fixed_dictionaries(
        {
            "member_id": _member,
            "client_id": st.sampled_from(("c", "d")),
            "consumer_subscription": st.none() | st.fixed_dictionaries({"topics": _names}),
            "consumer_assignment": st.none()
            | st.fixed_dictionaries(
                {
                    "assigned_partitions": st.lists(
                        st.fixed_dictionaries(
                            {"topic": st.sampled_from(TOPICS), "partitions": _partitions}
                        ),
                        max_size=2,
                    )
                }
            ),
        }
    ),
    max_size=2,
)
_records = st.one_of(
    _record(kinds.GROUP_EPOCHS, {"epoch": _epoch, "metadata_hash": st.none() | _epoch}),
    _record(kinds.TARGET_EPOCHS, {"assignment_epoch": _epoch}),
    _record(
        (kinds.MEMBER,),
        {
            "client_id": st.sampled_from(("c", "d")),
            "subscribed_topic_names": _names,
            "server_assignor": st.sampled_from((None, "range", "uniform", "other")),
        },
        _member,
    ),
    _record((kinds.SHARE_MEMBER,), {"subscribed_topic_names": _names}, _member),
    _record((kinds.STREAMS_MEMBER,), {"client_id": st.sampled_from(("c", "d"))}, _member),
    _record(
        (kinds.CURRENT,),
        {
            "member_epoch": _epoch,
            "state": st.integers(0, 2),
            "assigned_partitions": _topics(epochs=True),
            "partitions_pending_revocation": _topics(epochs=True),
        },
        _member,
    ),
    _record(
        (kinds.SHARE_CURRENT,),
        {"member_epoch": _epoch, "state": st.integers(0, 2), "assigned_partitions": _topics()},
        _member,
    ),
    _record(
        (kinds.STREAMS_CURRENT,), {"member_epoch": _epoch, "state": st.integers(1, 3)}, _member
    ),
    _record((kinds.TARGET, kinds.SHARE_TARGET), {"topic_partitions": _topics()}, _member),
    _record(
        (kinds.CLASSIC,),
        {
            "protocol_type": st.sampled_from(("consumer", "connect")),
            "generation": _epoch,
            "protocol": st.none() | st.just("range"),
            "members": _classic_members,
        },
    ),
    st.builds(lambda group: {"kind": kinds.COMMIT, "group_id": group}, _group),
)
logs = st.lists(_records, min_size=1, max_size=20)
one_type = st.lists(
    _records.filter(lambda row: not row["kind"].startswith(("share", "streams"))),
    min_size=1,
    max_size=30,
)
some_logs = logs | one_type
cuts = st.lists(st.integers(0, 30), max_size=3)


@settings(deadline=None, max_examples=40)
@given(some_logs, cuts)
def test_history_at_each_offset_is_the_replay_up_to_there(
    rows: list[dict[str, Any]], chunks: list[int]
) -> None:
    log = log_of(rows)
    history = history_of(log, chunks)
    for number, offset in enumerate(log["offset"].to_pylist()):
        true = replayed(log, number + 1)
        assert at_offset(history, offset) == true, offset
        assert at_offset(history, offset + 1) == true, offset


@settings(deadline=None, max_examples=40)
@given(some_logs, st.data())
def test_history_at_each_time_is_the_replay_of_the_records_until_then(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Timestamps repeat and go backwards."""
    steps = data.draw(
        st.lists(st.integers(-2, 2), min_size=len(rows), max_size=len(rows)), "seconds"
    )
    log = log_of(rows, list(accumulate(steps)))
    history = history_of(log)
    times = times_of(log)
    for second in data.draw(st.sets(st.integers(-20, 60), min_size=3, max_size=10), "moments"):
        moment = START + timedelta(seconds=second / 2)
        upto = sum(time is None or time <= moment for time in times)
        if upto and times[upto - 1] is None:
            upto = 0
        assert at_time(history, moment) == replayed(log, upto), moment


@settings(deadline=None, max_examples=40)
@given(some_logs, cuts, cuts, st.lists(st.integers(0, 30), max_size=2))
def test_chunks_and_runs_make_no_difference(
    rows: list[dict[str, Any]], chunks: list[int], runs: list[int], gaps: list[int]
) -> None:
    for at in gaps:
        rows = [*rows[:at], {"kind": kinds.GAP}, *rows[at:]]
    log = log_of(rows, [row * 7 % 5 for row in range(len(rows))])
    assert all_rows(history_of(log, chunks, runs)) == all_rows(history_of(log))


@settings(deadline=None, max_examples=25)
@given(some_logs)
def test_exploding_a_few_groups_at_a_time_makes_no_difference(rows: list[dict[str, Any]]) -> None:
    log = log_of(rows)
    whole = all_rows(history_of(log))
    with mock.patch.object(history_assignments, "MAX_PARTITIONS", 1):
        assert all_rows(history_of(log)) == whole


@settings(deadline=None, max_examples=40)
@given(one_type)
def test_an_interval_begins_and_ends_only_where_its_columns_change(
    rows: list[dict[str, Any]],
) -> None:
    """No two rows with the same columns touch each other."""
    for name, table in history_of(log_of(rows)).items():
        columns = [
            c
            for c in table.column_names
            if c not in INTERVAL_FIELDS or c in ("from_offset", "to_offset")
        ]
        ends: dict[str, list[int]] = {}
        begins: dict[str, list[int]] = {}
        for row in table.select(columns).to_pylist():
            start, end = row.pop("from_offset"), row.pop("to_offset")
            assert end is None or start < end
            begins.setdefault(str(row), []).append(start)
            ends.setdefault(str(row), []).append(end)
        for key, starts in begins.items():
            assert not set(starts) & set(ends[key]), (name, key)


def _claims(found: Counts, true: Counts) -> bool:
    """Whether everything that was found is true."""
    return all(found[name] <= true[name] for name in found)


@settings(deadline=None, max_examples=40)
@given(some_logs, st.integers(0, 30), cuts)
def test_a_gap_ends_all_claims_until_a_key_repeats(
    rows: list[dict[str, Any]], at: int, runs: list[int]
) -> None:
    """The claims end behind the last record before the gap. A commit that changes no state is not
    such a record: how many of those are among the rows depends on the runs that read them."""
    at = min(at, len(rows))
    log = log_of([*rows[:at], {"kind": kinds.GAP}, *rows[at:]])
    history = history_of(log, (), runs)
    states = [replayed(log, number) for number in range(log.num_rows + 1)]
    end = at
    while end and rows[end - 1]["kind"] == kinds.COMMIT and states[end - 1] == states[end]:
        end -= 1
    known, seen = True, set()
    for number, row in enumerate(log.to_pylist()):
        if number == end:
            known = False
        if row["kind"] == kinds.GAP:
            seen = set()
        elif row["kind"] != kinds.COMMIT:
            key = (row["kind"], row["group_id"], row["member_id"])
            known = known or key in seen
            seen.add(key)
        found, true = at_offset(history, row["offset"]), states[number + 1]
        if not known:
            assert not any(found.values())
        elif at:  # the beginning of the log was read
            assert found == true
        else:
            assert _claims(found, true)
    if known and at:
        assert open_rows(history) == replayed(log, log.num_rows)
    assert unseen_ends(history) == (states[end] if at else states[0])
    for table in history.values():
        unseen = table.filter(pc.field("known_to").is_valid())
        assert unseen["known_to"] == unseen["valid_to"]
