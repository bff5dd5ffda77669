"""Each number of a record is damaged to a huge one: no check lists or hashes all numbers below."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from kip848_spark.checks.log_entries import LogEntry
from kip848_spark.checks.topics import KnownTopics
from tests.audit.captured_logs import audit
from tests.audit.memory import bounded_memory
from tests.audit.raw_records import entries_of
from tests.captures import COMMITTED
from tests.conftest import DATA

CAPTURES = sorted(
    path.parent.name
    for path in DATA.glob(f"*/{COMMITTED}")
    if path.parent.name.startswith(("kafka-", "others-", "share", "streams-"))
)
HUGE = 2**31 - 2
RECORDS_OF_A_KIND = 4
Path = tuple[Any, ...]


def numbers_in(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of the integers in a value; of a list, only those in its last element."""
    match value:
        case bool():
            return
        case int():
            yield path
        case dict():
            for name, inner in value.items():
                yield from numbers_in(inner, (*path, name))
        case [*_, last]:
            yield from numbers_in(last, (*path, -1))


def damage(value: Any, path: Path) -> None:
    *outer, last = path
    for step in outer:
        value = value[step]
    value[last] = HUGE


def victims(log: list[LogEntry]) -> list[LogEntry]:
    """The last records of each kind that have a value, of different groups where there are any."""
    found: dict[str, dict[str, LogEntry]] = {}
    for item in log:
        if item.value is not None:
            found.setdefault(item.kind, {})[item.group] = item
    return [item for of in found.values() for item in [*of.values()][-RECORDS_OF_A_KIND:]]


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_huge_number(capture: str) -> None:
    log = entries_of(DATA / capture / COMMITTED)
    audits = 0
    for victim in victims(log):
        group = [item for item in log if item.group == victim.group]
        at = group.index(victim)
        for path in numbers_in(victim.value):
            damaged = copy.deepcopy(group)
            damage(damaged[at].record["value"]["data"], path)
            with bounded_memory():
                audit(damaged, KnownTopics())
            audits += 1
    assert audits > 10
