"""A run is refused if the source, the decoder and the table count different numbers of records."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kip848_spark.config.client_settings import ClientSettings
from kip848_spark.errors import SourceError
from kip848_spark.kafka.admin import OFFSETS_TOPIC
from kip848_spark.kafka.topic import OffsetRange, TopicIdentity
from kip848_spark.lake.ledger import Run
from kip848_spark.spark.jobs.ingest import _check_and_count, _trailing_gaps
from kip848_spark.spark.sources import KafkaSource
from kip848_spark.wire.offset_gaps import TRANSACTION, UNDECIDED
from tests.spark.lakes import source

KAFKA = KafkaSource("localhost:1", OFFSETS_TOPIC, ClientSettings())
RUN = Run(
    "run", "test", TopicIdentity("t", None, None), "shipped", (OffsetRange(0, 0, 12),), {},
    datetime.now(UTC),
)  # fmt: skip


def counted(records: int, *, tombstone: bool = False, reason: str | None = None) -> dict[str, Any]:
    return {
        "partition": 0, "kind": "offset_commit", "tombstone": tombstone, "reason": reason,
        "records": records, "tags": 0, "last": 11,
    }  # fmt: skip


TALLY = [counted(6), counted(3, tombstone=True), counted(1, reason="truncated")]


def test_equal_numbers_are_accepted() -> None:
    counts = _check_and_count(KAFKA, TALLY, RUN, read=10, written=10)
    assert (counts.records_read, counts.missing) == (10, 2)
    assert (counts.decoded, counts.tombstones, counts.quarantined, counts.unknown) == (6, 3, 1, 0)


@pytest.mark.parametrize("read", [9, 11])
def test_a_topic_that_returned_another_number_is_refused(read: int) -> None:
    with pytest.raises(SourceError, match=f"returned {read} records, but the table has 10"):
        _check_and_count(KAFKA, TALLY, RUN, read=read, written=10)


def test_a_capture_may_repeat_records_but_not_have_fewer(tmp_path: Path) -> None:
    capture = source(tmp_path)
    assert _check_and_count(capture, TALLY, RUN, read=11, written=10).records_read == 10
    with pytest.raises(SourceError, match="returned 9 records, but the table has 10"):
        _check_and_count(capture, TALLY, RUN, read=9, written=10)


def test_files_with_another_number_of_rows_are_refused() -> None:
    with pytest.raises(SourceError, match="10 records were decoded, but 9 written"):
        _check_and_count(KAFKA, TALLY, RUN, read=10, written=9)


@pytest.mark.parametrize(
    ("end", "cause"), [(16, TRANSACTION), (111, TRANSACTION), (112, UNDECIDED)]
)
def test_many_offsets_without_a_record_at_the_end_may_be_the_log_cleaners(
    end: int, cause: str
) -> None:
    """It may remove a record as soon as there is a newer one, which the run does not read."""
    run = replace(RUN, ranges=(OffsetRange(0, 0, end),))
    assert _trailing_gaps(run, run.ranges, TALLY) == [(0, 12, end - 1, cause)]
    busy = [counted(6), counted(1_000)]
    assert _trailing_gaps(run, run.ranges, busy) == [(0, 12, end - 1, TRANSACTION)]
