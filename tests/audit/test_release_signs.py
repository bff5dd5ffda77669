"""The releases that the audit takes for possible, on logs whose release is known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kip848_spark.checks import release as releases
from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.operations import same_operation
from tests.audit.captured_logs import CHURNED, MOVING, churned

WITHOUT_TIMES = {"4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.2.2"}


def _operations(log: list[LogEntry]) -> Iterator[list[LogEntry]]:
    """The operations of each group of a log, from the group's first record on."""
    by_group: dict[tuple[int, str], list[LogEntry]] = {}
    for item in sorted(log, key=lambda item: (item.partition, item.offset)):
        own = by_group.setdefault((item.partition, item.group), [])
        if own and not same_operation(own[-1], item):
            yield own
            own = by_group[item.partition, item.group] = []
        own.append(item)
    yield from (own for own in by_group.values() if own)


@pytest.mark.parametrize("name", [*CHURNED, *MOVING])
def test_the_writer_of_a_log_stays_possible(name: str) -> None:
    """No operation of a broker may look as if another release had written it: legal records would
    then be findings. Targets without a time must show that no release from 4.3 on wrote them."""
    version = name.rpartition("-")[2]
    told = 0
    for operation in _operations(list(churned(name))):
        found = {r.name for r in releases.narrow(releases.ALL, operation, complete=True)}
        assert version in found, operation
        told += found <= WITHOUT_TIMES
    assert (told > 100) == (version in WITHOUT_TIMES)
