"""The state at an offset in between: two programs say the same of it, and a wrong row is found."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.checks.audit_rows import AUDIT_ROWS, GROUP_RECORDS, STATE_AT_POINT_IN_TIME
from kip848_spark.checks.context import BUCKETS, AuditContext
from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.group_task import COMPARED_AT_POINT_IN_TIME, DISAGREED, audit_groups
from kip848_spark.checks.results import STATE
from kip848_spark.spark.jobs.point_in_time import pack_state
from tests.audit.captured_logs import CHURNED, RELEASES, churned_topics, topics
from tests.audit.raw_records import entry_of, raw_control, rows_of
from tests.captures import COMMITTED
from tests.conftest import DATA

Row = dict[str, Any]
CAPTURES = [*(f"kafka-{release}" for release in RELEASES), *CHURNED]
TINY = "churn-4.3.1-odd"
"""Two groups, of which nothing may be there at an offset."""
PLACE = ("partition", "offset")


def rows_for_a_task(capture: str, points_in_time: dict[int, int]) -> list[Row]:
    """What a task would get: of each group the state at the cut, then its records."""
    raw = raw_control(pq.read_table(DATA / capture / COMMITTED))
    places = zip(*(raw[name].to_pylist() for name in PLACE), strict=True)
    upto = raw.filter(
        pa.array([offset <= points_in_time[partition] for partition, offset in places])
    )
    upto = upto.append_column("dialect", pa.repeat(pa.scalar("shipped"), len(upto)))
    rows: list[Row] = []
    for batch in pack_state(iter(upto.to_batches())):
        rows += [
            {**row, "value": row["value"].encode(), "stage": STATE_AT_POINT_IN_TIME}
            for row in batch.to_pylist()
        ]
    columns = (raw["raw_key"].to_pylist(), raw["raw_value"].to_pylist())
    for row, key, value in zip(rows_of(raw), *columns, strict=True):
        if (item := entry_of(row)) is not None:
            found = {name: row[name] for name in (*PLACE, "group_id", "kind", "dialect")}
            found |= {"millis": item.timestamp, "key": key, "value": value}
            rows.append({**found, "stage": GROUP_RECORDS})
    return sorted(rows, key=lambda row: (row["group_id"], row["stage"], row.get("offset", 0)))


def state_verdicts(
    rows: list[Row], capture: str, points_in_time: dict[int, int]
) -> tuple[int, int]:
    """Rows that were compared in between, and those that disagree. The tables of the end are not
    given here, so their absence is found: that many are left out."""
    known = churned_topics(capture) if capture in CHURNED else topics(capture[len("kafka-") :])

    def verdicts(share: int) -> list[Row]:
        context = AuditContext(
            Coverage(), known, points_in_time=points_in_time, sampled_buckets=share
        )
        task = audit_groups(context)(iter([pa.RecordBatch.from_pylist(rows, AUDIT_ROWS)]))
        return [line for batch in task for line in batch.to_pylist()]

    def wrong(lines: list[Row]) -> int:
        reported = [
            line for line in lines if (line["verdict"], line["check"]) == (DISAGREED, STATE)
        ]
        return sum(line["number"] for line in reported)

    lines = verdicts(BUCKETS)
    compared = sum(line["number"] for line in lines if line["reason"] == COMPARED_AT_POINT_IN_TIME)
    return compared, wrong(lines) - wrong(verdicts(0))


@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES)
def test_both_programs_say_the_same_in_between(capture: str) -> None:
    table = pq.read_table(DATA / capture / COMMITTED, columns=list(PLACE))
    ends: dict[int, int] = {}
    for partition, offset in zip(*(table[name].to_pylist() for name in PLACE), strict=True):
        ends[partition] = max(ends.get(partition, 0), offset)
    total = 0
    for seed in range(2):
        rng = random.Random(seed)
        points_in_time = {partition: rng.randint(0, end) for partition, end in ends.items()}
        rows = rows_for_a_task(capture, points_in_time)
        compared, wrong = state_verdicts(rows, capture, points_in_time)
        assert wrong == 0, seed
        total += compared
    assert total > 20 or capture == TINY


@pytest.mark.parametrize("capture", CAPTURES[: len(RELEASES)])
def test_a_row_that_is_not_there_in_between_is_found(capture: str) -> None:
    found = 0
    for seed in range(2):
        rng = random.Random(seed)
        points_in_time = {partition: rng.randint(20, 60) for partition in range(50)}
        rows = rows_for_a_task(capture, points_in_time)
        then = [at for at, row in enumerate(rows) if row["stage"] == STATE_AT_POINT_IN_TIME]
        at = rng.choice([at for at in then if rows[at]["kind"] != "groups"])
        reported = orjson.loads(rows[at]["value"])
        reported.pop(rng.randrange(len(reported)))
        less = {**rows[at], "value": orjson.dumps(reported)}
        compared, _ = state_verdicts(rows, capture, points_in_time)
        left, wrong = state_verdicts([*rows[:at], less, *rows[at + 1 :]], capture, points_in_time)
        assert (compared - left, wrong) in ((1, 1), (0, 0))  # its group is at the cut right now
        found += wrong
    assert found
