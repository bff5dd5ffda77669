"""Real logs that the broker's own cleaner has been over, some read before and after: no alarm."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.results import GAP, Tally
from tests.audit.captured_logs import audit
from tests.audit.raw_records import entries_in, holes_of, topics_of
from tests.capture_churn import FIRST
from tests.captures import COMMITTED, LIVE
from tests.conftest import DATA

CLEANED = sorted(path.name for path in DATA.glob("cleaned-*"))


def clean(tally: Tally) -> Tally:
    assert [f"{f.check} {f.group_id} {f.partition}/{f.offset}" for f in tally.findings] == []
    assert not tally.disagreed
    return tally


@pytest.mark.parametrize("capture", CLEANED)
def test_a_log_that_the_cleaner_was_over(capture: str) -> None:
    table = pq.read_table(DATA / capture / COMMITTED)
    holes, ends = holes_of(table)
    assert holes
    tally = clean(
        audit(entries_in(table), topics_of(DATA / capture / LIVE), Coverage.of(holes, ends))
    )
    assert sum(number for (_, reason), number in tally.unverifiable.items() if reason == GAP) > 20
    assert tally.verified.total()


@pytest.mark.parametrize("capture", CLEANED)
def test_read_before_the_cleaner_came_and_on_from_there(capture: str) -> None:
    first, later = (pq.read_table(DATA / capture / name) for name in (FIRST, COMMITTED))
    holes, ends = holes_of(first)
    starts = {partition: end + 1 for partition, end in ends.items()}
    places = zip(*(later[name].to_pylist() for name in ("partition", "offset")), strict=True)
    rest = later.filter(pa.array([offset >= starts.get(p, 0) for p, offset in places]))
    more, newer = holes_of(rest, starts)
    coverage = Coverage.of([*holes, *more], ends | newer, starts.items())
    log = entries_in(pa.concat_tables([first, rest]))
    tally = clean(audit(log, topics_of(DATA / capture / LIVE), coverage))
    assert tally.verified.total() > 20
