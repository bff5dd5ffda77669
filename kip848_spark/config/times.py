"""Times as a user writes them: ISO 8601, dates, and times relative to the present.

The grammar is small and strict, because a time that is misread gives a wrong answer that looks
right. A time without a zone is UTC, and names of zones other than UTC are refused: during the hour
that a change of the clocks repeats, such a time would be ambiguous.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kip848_spark.errors import UsageError

EXAMPLES = "Write it as 2026-11-21T10:00 (UTC), 2026-11-21T10:00+01:00, 2h ago or yesterday."

_UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
    **dict.fromkeys(("w", "week", "weeks"), timedelta(weeks=1)),
}
_LONGEST = timedelta(days=200 * 366)
_AGO = re.compile(r"(\d{1,8}) ?([a-z]+)( ago)?")
_DAY = re.compile(r"(today|yesterday)(?:[ t](\d\d:\d\d(?::\d\d)?))?")
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?")
_YEAR_FIRST = re.compile(r"\d{4}")


def parse_time(text: str, what: str = "", *, now: datetime | None = None) -> datetime:
    """The time that ``text`` names, in UTC.

    ``what`` is the name of the option or argument, for the messages. ``now`` is the present, for
    tests. Accepted are ISO 8601 (a time without a zone is UTC, a date is its first moment),
    ``now``, ``today``, ``yesterday``, ``yesterday 14:00``, and a length of time before the present
    such as ``90s ago``, ``30m ago``, ``2h ago``, ``3 days ago`` or ``1w ago``.

    Raises UsageError if the text is not a time, could mean several times, or is in the future.
    """
    present = (now or datetime.now(UTC)).astimezone(UTC)
    quoted = f"{what} {text!r}".strip()
    words = " ".join(text.lower().split())
    found = _relative(words, quoted, present) or _absolute(text.strip(), words, quoted)
    if found > present:
        raise UsageError(
            f"{quoted} is in the future: it is {present:%Y-%m-%d %H:%M:%S} UTC.",
            "A time without a zone is UTC. Add the zone of a local time: 2026-11-21T10:00+01:00.",
        )
    return found


def parse_length(text: str, what: str = "") -> timedelta:
    """The length of time that ``text`` names, such as ``30d``, ``2 weeks`` or ``12h``. ``what`` is
    as for `parse_time`. Raises UsageError if the text is no length of time, or more than 200
    years."""
    quoted = f"{what} {text!r}".strip()
    found = _AGO.fullmatch(" ".join(text.lower().split()))
    if found is None or found[3] or found[2] not in _UNITS:
        raise UsageError(
            f"{quoted} is not a length of time.", "Write it as 30d, 2w or 12h (s, m, h, d, w)."
        )
    length = int(found[1]) * _UNITS[found[2]]
    if length > _LONGEST:
        raise UsageError(f"{quoted} is longer than 200 years.", "Write it as 30d, 2w or 12h.")
    return length


def _relative(words: str, quoted: str, now: datetime) -> datetime | None:
    """The time, if it is relative to ``now``."""
    if words == "now":
        return now
    if day := _DAY.fullmatch(words):
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        midnight -= timedelta(days=day[1] == "yesterday")
        if day[2] is None:
            return midnight
        return _iso(f"{midnight:%Y-%m-%d}T{day[2]}", quoted)
    ago = _AGO.fullmatch(words)
    if ago is None:
        return None
    number, unit, past = ago.groups()
    if unit not in _UNITS:
        raise UsageError(
            f"{quoted} is not a time: {unit} is not a unit.",
            "The units are s, m (minutes), h, d and w, as in 30m ago.",
        )
    if not past:
        raise UsageError(
            f"{quoted} is a length of time.",
            f"Write it as {number}{unit} ago for a time in the past.",
        )
    try:
        return now - int(number) * _UNITS[unit]
    except OverflowError:
        raise UsageError(f"{quoted} is before the year 1.", EXAMPLES) from None


def _absolute(text: str, words: str, quoted: str) -> datetime:
    """The time, which must be in ISO 8601. A following UTC is allowed, as in this program's
    output."""
    if _CLOCK.fullmatch(words):
        raise UsageError(
            f"{quoted} names no day.", f"Write it as today {text}, yesterday {text} or with a date."
        )
    if not _YEAR_FIRST.match(text):
        raise UsageError(f"{quoted} is not a time.", EXAMPLES)
    return _iso(re.sub(r"\s*(utc|gmt)$", "Z", text, flags=re.IGNORECASE), quoted)


def _iso(text: str, quoted: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{quoted} is not a time.", EXAMPLES) from None
