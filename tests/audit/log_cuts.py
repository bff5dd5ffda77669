"""What time does to a log: cleaned up to an offset, begun in mid-history, cut in mid-operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kip848_spark.checks.coverage import Coverage
from kip848_spark.checks.log_entries import LogEntry


def ends_of(log: Iterable[LogEntry]) -> dict[int, int]:
    """The last offset of each partition."""
    ends: dict[int, int] = {}
    for item in log:
        ends[item.partition] = max(ends.get(item.partition, 0), item.offset)
    return ends


def cleaned(
    log: list[LogEntry], upto: Mapping[int, int], *, tombstones: bool = True
) -> tuple[list[LogEntry], Coverage]:
    """The log as the cleaner leaves it: below ``upto`` the last record of each key (and the last
    tombstones, until they are deleted, too). Every hole is listed, as the gaps of a lake are."""
    last = {
        (e.partition, e.group, e.key): e.offset for e in log if e.offset < upto.get(e.partition, 0)
    }
    kept, holes = [], []
    for item in log:
        below = item.offset < upto.get(item.partition, 0)
        if not below or (
            last[item.partition, item.group, item.key] == item.offset
            and (tombstones or item.value is not None)
        ):
            kept.append(item)
        else:
            holes.append((item.partition, item.offset))
    return kept, Coverage.of(holes, ends_of(log))


def read_twice(
    log: list[LogEntry],
    first: Mapping[int, int],
    upto: Mapping[int, int],
    *,
    tombstones: bool = True,
) -> tuple[list[LogEntry], Coverage]:
    """The log as read up to ``first`` before the cleaner came, and from there on after it had been
    up to ``upto``."""
    later, _ = cleaned(log, upto, tombstones=tombstones)
    kept = [e for e in log if e.offset < first.get(e.partition, 0)]
    kept += [e for e in later if e.offset >= first.get(e.partition, 0)]
    there = {(e.partition, e.offset) for e in kept}
    holes = [(e.partition, e.offset) for e in log if (e.partition, e.offset) not in there]
    return kept, Coverage.of(holes, ends_of(log), first.items())


def begun_at(log: list[LogEntry], first: Mapping[int, int]) -> tuple[list[LogEntry], Coverage]:
    """The log from an offset of each partition on."""
    kept = [e for e in log if e.offset >= first.get(e.partition, 0)]
    holes = [(p, offset - 1) for p, offset in first.items() if offset > 0]
    return kept, Coverage.of(holes, ends_of(log))


def cut_at(log: list[LogEntry], last: Mapping[int, int]) -> tuple[list[LogEntry], Coverage]:
    """The log up to an offset of each partition, wherever in an operation that is."""
    kept = [e for e in log if e.offset <= last.get(e.partition, -1)]
    return kept, Coverage.of((), ends_of(kept))
