"""The state of real brokers' groups at random times equals a replay of the records until then."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kip848_spark import Lake
from kip848_spark.errors import NotFoundError
from kip848_spark.insight.chronicle import GONE, JOINED
from tests.captures import COMMITTED
from tests.conftest import DATA
from tests.lake.replayed_lake import STATE, control_bytes, state_after, write_replayed_lake

CAPTURE = DATA / "churn-4.3.1" / COMMITTED
NEWEST_RECORD = ("last_offset", "updated_at", "cluster_id")
"""Columns of `groups` that an interval does not have, or that the capture does not give."""


@pytest.fixture(scope="module")
def records() -> pa.Table:
    return control_bytes(CAPTURE)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, records: pa.Table) -> Lake:
    path = tmp_path_factory.mktemp("captured") / "lake"
    write_replayed_lake(path, records)
    return Lake(path)


def until(records: pa.Table, time: datetime) -> pa.Table:
    """The records before the first later one of their partition: time never goes backwards."""
    parts = []
    for partition in pc.unique(records["partition"]).to_pylist():
        mine = records.filter(pc.equal(records["partition"], partition))
        clock = np.maximum.accumulate(mine["timestamp"].cast(pa.int64()).to_numpy())
        parts.append(mine.filter(pa.array(clock <= round(time.timestamp() * 1_000_000))))
    return pa.concat_tables(parts)


def texts(rows: list[Mapping[str, Any]]) -> list[str]:
    return sorted(
        repr({name: value for name, value in row.items() if name not in NEWEST_RECORD})
        for row in rows
    )


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(place=st.floats(0, 1), between=st.booleans())
def test_any_moment_equals_a_replay_until_then(
    lake: Lake, records: pa.Table, place: float, between: bool
) -> None:
    times = sorted(set(records["timestamp"].cast(pa.int64()).to_pylist()))
    number = int(place * (len(times) - 1))
    micros = times[number]
    if between and number + 1 < len(times):
        micros = (micros + times[number + 1]) // 2
    time = datetime.fromtimestamp(micros / 1_000_000, UTC)
    expected = state_after(until(records, time))
    try:
        found = {name: lake.table(name, as_of=time).to_pylist() for name in STATE}
    except NotFoundError:
        found = {}
        assert micros < min(lake.table("group_history")["valid_from"].cast(pa.int64()).to_pylist())
    for name in STATE:
        before = expected[name].to_pylist() if name in expected else []
        assert texts(found.get(name, [])) == texts(before), f"{name} at {time}"


def test_every_group_of_real_brokers_can_be_explained(lake: Lake) -> None:
    """Every rebalance has a headline and a cause, and says nothing of an unknown cause."""
    groups = set(lake.rebalances()["group_id"].to_pylist())
    assert len(groups) > 3
    for group in groups:
        reported = lake.explain(group, since="2020-01-01")
        assert reported["rebalances_in_time"] >= len(reported["rebalances"]) > 0
        for row in reported["rebalances"]:
            assert row["headline"].startswith(f"{group} rebalanced at "), row["headline"]
            assert any(line["label"] == "cause" for line in row["lines"]), row


def test_who_joined_and_left_are_the_members_of_the_history(lake: Lake) -> None:
    """After the events of a group, those are there that joined and are not gone."""
    members = lake.members().to_pylist()
    for group in set(lake.table("group_history")["group_id"].to_pylist()):
        there: set[str] = set()
        for event in lake.history(group):
            if event["event"] == JOINED:
                assert event["member_id"] not in there
                there.add(event["member_id"])
            elif event["event"] == GONE:
                there.remove(event["member_id"])
        assert there == {row["member_id"] for row in members if row["group_id"] == group}
