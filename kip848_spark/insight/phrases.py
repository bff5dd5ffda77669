"""Phrases of the stories about rebalances: durations, times, partitions and lists of things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

MOST_NAMED = 3
"""The largest number of things of one kind that a sentence names; it counts the others."""
MOST_CAUSES = 4
"""The largest number of causes that a summary of rebalances names."""


def duration(ms: float) -> str:
    """A duration: ``120 ms``, ``38.2 s``, ``45 s``, ``12 min 30 s``, ``3 h 5 min``, ``2 d 4 h``."""
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s".replace(".0 ", " ")
    seconds = round(ms / 1000)
    if seconds < 3600:
        return _two(seconds, "min", "s", 60, 1)
    if seconds < 86_400:
        return _two(seconds, "h", "min", 3600, 60)
    return _two(seconds, "d", "h", 86_400, 3600)


def _two(seconds: int, large: str, small: str, size: int, part: int) -> str:
    whole, rest = seconds // size, seconds % size // part
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"


def between(start: datetime, end: datetime) -> float:
    """The time from ``start`` to ``end`` in ms."""
    return (end - start) / timedelta(milliseconds=1)


def moment(time: datetime) -> str:
    """A time with its date: ``2026-11-20 02:14:07``. The text around it names UTC."""
    return f"{time:%Y-%m-%d %H:%M:%S}"


def clock(time: datetime, beside: datetime) -> str:
    """A time as `moment`, without the date if it is that of ``beside``."""
    return f"{time:%H:%M:%S}" if time.date() == beside.date() else moment(time)


def shift(time: datetime, by: timedelta) -> datetime:
    """``time`` (UTC) plus ``by``, but no time that Python can't represent."""
    try:
        return time + by
    except OverflowError:
        return (datetime.max if by > timedelta() else datetime.min).replace(tzinfo=UTC)


def listing(things: Iterable[str], most: int = MOST_NAMED) -> str:
    """``a``, ``a and b``, ``a, b and c``, ``a, b, c and 4 others``."""
    named = list(things)
    if len(named) > most + 1:
        return f"{', '.join(named[:most])} and {len(named) - most:,} others"
    return " and ".join((", ".join(named[:-1]), named[-1])) if len(named) > 1 else "".join(named)


def counts_of_causes(
    counts: Mapping[str, int], times: str = "", words: Callable[[str], str] = str
) -> str:
    """How often there was each cause, the most frequent ones by name: ``107 member_joined, 79
    left_or_expired and 17 of 5 other causes``. ``times`` is a sign after the named counts, and
    ``words`` gives what stands for a cause."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    named = [f"{number:,} {times}{words(cause)}" for cause, number in ordered]
    if len(named) > MOST_CAUSES + 1:
        rest = ordered[MOST_CAUSES:]
        sum_ = sum(number for _, number in rest)
        return f"{', '.join(named[:MOST_CAUSES])} and {sum_:,} of {len(rest):,} other causes"
    return listing(named, MOST_CAUSES)


def offsets_without_record(number: int) -> str:
    """``1 offset holds no record``, ``24 offsets hold no record``."""
    return f"{count(number, 'offset')} {'holds' if number == 1 else 'hold'} no record"


def count(number: int, thing: str, things: str | None = None) -> str:
    """``1 partition``, ``24 partitions``."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def ordinal(number: int) -> str:
    """``first``, ``second``, ``third``, ``11th``, ``22nd``."""
    words = ("first", "second", "third", "fourth", "fifth", "sixth")
    if 1 <= number <= len(words):
        return words[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def ranges(numbers: Iterable[int]) -> str:
    """Partition numbers, shortened: ``0-24,30``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def partitions(places: Sequence[tuple[str, int]]) -> str:
    """Partitions of topics (name, number): ``orders-7 and orders-9`` if they are few, else
    ``orders(0-24,30) and payments(3)``."""
    ordered = sorted(set(places))
    if len(ordered) <= MOST_NAMED:
        return listing(f"{topic}-{number}" for topic, number in ordered)
    topics: dict[str, list[int]] = {}
    for topic, number in ordered:
        topics.setdefault(topic, []).append(number)
    return listing(f"{topic}({ranges(numbers)})" for topic, numbers in topics.items())
