"""Instants: datetimes, days and ISO 8601 strings, with an offset or in a time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.core.checks import check_end, check_instant
from scheduled_actions.core.errors import InvalidArgument

BERLIN = timezone(timedelta(hours=1))
LOCAL = datetime(2026, 12, 1, 9)  # noqa: DTZ001 - a local time


@pytest.mark.parametrize(
    "value",
    [
        LOCAL.replace(tzinfo=BERLIN),
        datetime(2026, 12, 1, 8, tzinfo=UTC),
        "2026-12-01T09:00:00+01:00",
        "2026-12-01 08:00z",
        " 20261201T080000Z ",
        LOCAL,
        "2026-12-01T09:00",
    ],
)
def test_an_instant_is_the_same_in_each_form(value):
    expected = datetime(2026, 12, 1, 8, tzinfo=UTC)

    assert (
        check_instant("at", value, timezone="Europe/Berlin") == expected == check_end("at", value, timezone="Etc/GMT-1")
    )


@pytest.mark.parametrize(
    ("day", "zone", "first", "last"),
    [
        ("2026-12-31", None, "2026-12-31T00:00:00Z", "2026-12-31T23:59:59Z"),
        ("2026-12-31", "Europe/Berlin", "2026-12-30T23:00:00Z", "2026-12-31T22:59:59Z"),
        ("2026-10-25", "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T22:59:59Z"),
        # Clocks go forward from 00:00 to 01:00, and back from 01:00 to 00:00.
        ("2026-03-08", "America/Havana", "2026-03-08T05:00:00Z", "2026-03-09T03:59:59Z"),
        ("2026-11-01", "America/Havana", "2026-11-01T04:00:00Z", "2026-11-02T04:59:59Z"),
        # The last hour of the day does not exist, or exists twice.
        ("2026-03-28", "America/Nuuk", "2026-03-28T02:00:00Z", "2026-03-29T00:59:59Z"),
        ("2026-10-24", "America/Nuuk", "2026-10-24T01:00:00Z", "2026-10-25T01:59:59Z"),
    ],
)
def test_a_day_means_its_first_or_its_last_second(day, zone, first, last):
    for given_day in (day, date.fromisoformat(day), day.replace("-", "")):
        assert check_instant("at", given_day, timezone=zone) == datetime.fromisoformat(first)
        assert check_end("at", given_day, timezone=zone) == datetime.fromisoformat(last)


@given(st.dates(date(2, 1, 1), date(9998, 12, 31)), st.sampled_from(["UTC", "Europe/Berlin", "America/Nuuk"]))
def test_the_next_day_begins_a_second_after_the_end_of_a_day(day, zone):
    assert check_end("at", day, timezone=zone) + timedelta(seconds=1) == check_instant(
        "at", day + timedelta(days=1), timezone=zone
    )


@pytest.mark.parametrize(
    ("value", "zone", "expected"),
    [
        ("2026-12-01T09:00", False, 'is not a time with an offset: write it as "2026-12-01T09:00:00+01:00"'),
        (LOCAL, False, 'write it as datetime(2026, 12, 1, 9, tzinfo=ZoneInfo("Europe/Berlin"))'),
        (LOCAL, None, 'tzinfo=ZoneInfo("Europe/Berlin")), or set timezone, such as "Europe/Berlin"'),
        ("tomorrow", None, "at: 'tomorrow' is not an ISO 8601 time or day, such as"),
        ("2026-02-30", None, "at: '2026-02-30' is not an ISO 8601 time or day"),
        ("2026-12-01T09:00 01:00", None, "is not an ISO 8601 time or day"),
        ("", None, "at: '' is not an ISO 8601 time or day"),
        (1796112000, None, "at: 1796112000 is not a datetime, a date or an ISO 8601 string"),
        (time(9), None, "at: datetime.time(9, 0) is not a datetime"),
        ("0001-01-01T00:00", "Asia/Tokyo", "at: '0001-01-01T00:00' is not an instant between the years 1 and 9999"),
        (LOCAL, "Mars", "timezone: 'Mars' is not an IANA time zone"),
        (LOCAL, "", "timezone: '' is not an IANA time zone"),
    ],
)
def test_an_invalid_instant_is_rejected_with_the_text_to_write(value, zone, expected):
    for check in (check_instant, check_end):
        with pytest.raises(InvalidArgument) as refused:
            check("at", value, timezone=zone)

        assert expected in str(refused.value)


def test_without_an_argument_for_the_time_zone_the_error_proposes_none():
    with pytest.raises(InvalidArgument) as refused:
        check_instant("at", LOCAL)

    assert "timezone" not in str(refused.value)
