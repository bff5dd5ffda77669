"""Times as users write them: what is accepted, and what is refused with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip848_spark.config.times import parse_length, parse_time
from kip848_spark.errors import UsageError

NOW = datetime(2026, 11, 23, 9, 30, 15, 250, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T02:14:07", datetime(2026, 11, 20, 2, 14, 7, tzinfo=UTC)),
        ("2026-11-20 02:14:07", datetime(2026, 11, 20, 2, 14, 7, tzinfo=UTC)),
        ("2026-11-20 02:14:07 UTC", datetime(2026, 11, 20, 2, 14, 7, tzinfo=UTC)),
        ("2026-11-20T02:14:07Z", datetime(2026, 11, 20, 2, 14, 7, tzinfo=UTC)),
        ("2026-11-20T02:14+01:00", datetime(2026, 11, 20, 1, 14, tzinfo=UTC)),
        ("2026-11-20T02:14:07.123-05:30", datetime(2026, 11, 20, 7, 44, 7, 123000, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("now", NOW),
        ("today", datetime(2026, 11, 23, tzinfo=UTC)),
        ("Yesterday", datetime(2026, 11, 22, tzinfo=UTC)),
        ("yesterday 14:05", datetime(2026, 11, 22, 14, 5, tzinfo=UTC)),
        ("today 09:30:15", datetime(2026, 11, 23, 9, 30, 15, tzinfo=UTC)),
        ("90s ago", NOW - timedelta(seconds=90)),
        ("30m ago", NOW - timedelta(minutes=30)),
        ("30 min ago", NOW - timedelta(minutes=30)),
        ("2h ago", NOW - timedelta(hours=2)),
        (" 3  days ago ", NOW - timedelta(days=3)),
        ("1w ago", NOW - timedelta(weeks=1)),
    ],
)
def test_times_that_are_understood(text: str, expected: datetime) -> None:
    found = parse_time(text, now=NOW)
    assert found == expected
    assert found.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2h", "is a length of time"),
        ("5 apples ago", "apples is not a unit"),
        ("02:14", "names no day"),
        ("20.11.2026", "is not a time"),
        ("11/20/2026", "is not a time"),
        ("2026-13-01", "is not a time"),
        ("2026-11-20T02:14 CET", "is not a time"),
        ("2026-11-20T25:00", "is not a time"),
        ("soon", "is not a time"),
        ("", "is not a time"),
        ("99999999w ago", "before the year 1"),
        ("0001-01-01T00:00+14:00", "is not a time"),
        ("2026-11-23T09:30:16", "is in the future: it is 2026-11-23 09:30:15 UTC"),
        ("today 23:00", "is in the future"),
    ],
)
def test_times_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_time(text, "--since", now=NOW)
    assert raised.value.message.startswith(f"--since {text!r}")
    assert sentence in raised.value.message
    assert raised.value.hint


@given(
    st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2026, 11, 22)),
    st.integers(-14 * 60, 14 * 60),
)
def test_a_time_with_a_zone_is_converted(moment: datetime, minutes: int) -> None:
    sign, size = "-" if minutes < 0 else "+", abs(minutes)
    text = f"{moment.isoformat()}{sign}{size // 60:02}:{size % 60:02}"
    expected = (moment - timedelta(minutes=minutes)).replace(tzinfo=UTC)
    assert parse_time(text, now=NOW) == expected


@given(st.text(max_size=30))
def test_any_other_text_is_a_usage_error(text: str) -> None:
    found: datetime | None = None
    hint: str | None = "none needed"
    try:
        found = parse_time(text, now=NOW)
    except UsageError as error:
        hint = error.hint
    assert found is None or found <= NOW
    assert hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", timedelta(30)),
        ("2 Weeks", timedelta(14)),
        ("90m", timedelta(minutes=90)),
        ("34560000s", timedelta(400)),
    ],
)
def test_a_length(text: str, expected: timedelta) -> None:
    assert parse_length(text) == expected


@pytest.mark.parametrize("text", ["30d ago", "yesterday", "2026-11-20", "5 apples", "-3d", ""])
def test_what_is_no_length(text: str) -> None:
    with pytest.raises(UsageError, match=f"^--retain '{text}' is not a length of time"):
        parse_length(text, "--retain")


def test_a_length_beyond_the_calendar() -> None:
    with pytest.raises(UsageError, match="is longer than 200 years"):
        parse_length("99999999w", "--keep")
