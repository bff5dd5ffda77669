"""Which offsets a run reads after the run before it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kip848_spark.errors import UsageError
from kip848_spark.kafka.topic import OffsetRange, PartitionExtent, TopicIdentity
from kip848_spark.lake.ledger import DONE, Run, plan_ranges

LAST = Run(
    run_id="20261123T020000.000000Z-aaaa",
    source="kafka:broker:9092",
    identity=TopicIdentity("__consumer_offsets", "cluster", "topic"),
    dialect="shipped",
    ranges=(OffsetRange(0, 0, 12), OffsetRange(1, 0, 5)),
    table_versions={},
    started_at=datetime(2026, 11, 23, 2, tzinfo=UTC),
    outcome=DONE,
)


def test_a_run_reads_on_where_the_one_before_ended() -> None:
    extents = {0: PartitionExtent(3, 20), 2: PartitionExtent(0, 4)}
    assert plan_ranges(LAST, extents) == (
        OffsetRange(0, 12, 20),
        OffsetRange(1, 5, 5),
        OffsetRange(2, 0, 4),
    )


@pytest.mark.parametrize(
    ("is_live", "hint"),
    [(False, "The source is an older capture, or the topic was recreated."), (True, "unclean")],
)
def test_a_partition_that_ends_before_what_was_read(is_live: bool, hint: str) -> None:
    """An unclean leader election leaves the topic its id."""
    with pytest.raises(UsageError, match=r"ends at offset 11, .* up to offset 12") as fault:
        plan_ranges(LAST, {0: PartitionExtent(0, 11)}, is_live=is_live)
    assert fault.value.hint is not None
    assert hint in fault.value.hint


def test_a_capture_whose_last_offset_is_the_marker_of_a_transaction_is_not_older() -> None:
    """And where the capture of a whole ended, a part of it is not read to."""
    assert plan_ranges(LAST, {0: PartitionExtent(0, 11, captured_to=12)}) == (
        OffsetRange(0, 12, 12),
        OffsetRange(1, 5, 5),
    )
    assert plan_ranges(None, {0: PartitionExtent(0, 11, captured_to=20)}) == (
        OffsetRange(0, 0, 11),
    )
