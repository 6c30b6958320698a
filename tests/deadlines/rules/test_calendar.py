"""Offsets and working calendars: parsing, DST changes and business days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.deadlines.rules.calendar import Offset, WorkingCalendar, parse_calendar, parse_offset

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
#: A Friday.
DUE = "2027-01-15T17:00"


def instant(words, due=DUE, zone=BERLIN, calendar=None, default="before"):
    """Return the instant of an offset as an ISO 8601 string in the time zone."""
    where = ZoneInfo(zone)
    due_at = datetime.fromisoformat(due).replace(tzinfo=where)
    at = parse_offset(words, name="offset", default=default).instant(
        due_at, zone=where, calendar=parse_calendar(calendar), budget=EvaluationBudget("test")
    )
    assert at.tzinfo is UTC
    return at.astimezone(where).isoformat(timespec="minutes")


@pytest.mark.parametrize(
    ("words", "at"),
    [
        ("60 days before", "2026-11-16T17:00+01:00"),
        ("30 days before", "2026-12-16T17:00+01:00"),
        ("14 days before at 09:00", "2027-01-01T09:00+01:00"),
        ("1 week before", "2027-01-08T17:00+01:00"),
        ("two weeks before", "2027-01-01T17:00+01:00"),
        ("the day before at 9:00", "2027-01-14T09:00+01:00"),
        ("a month before", "2026-12-15T17:00+01:00"),
        ("1 quarter before", "2026-10-15T17:00+02:00"),
        ("1 year after", "2028-01-15T17:00+01:00"),
        ("7 days after", "2027-01-22T17:00+01:00"),
        ("3 business days before", "2027-01-12T17:00+01:00"),
        ("5 Business Days Before at 08:30", "2027-01-08T08:30+01:00"),
        ("1 working day after", "2027-01-18T17:00+01:00"),
        ("90 minutes before", "2027-01-15T15:30+01:00"),
        ("36 hours after", "2027-01-17T05:00+01:00"),
        ("when due", "2027-01-15T17:00+01:00"),
        ("at 09:00", "2027-01-15T09:00+01:00"),
        ("on the day at 09:00", "2027-01-15T09:00+01:00"),
        ("PT12H before", "2027-01-15T05:00+01:00"),
        ("P60D before", "2026-11-16T17:00+01:00"),
        ("60d", "2026-11-16T17:00+01:00"),
        ("1d12h after", "2027-01-17T05:00+01:00"),
        (timedelta(days=30), "2026-12-16T17:00+01:00"),
        (timedelta(hours=2), "2027-01-15T15:00+01:00"),
    ],
)
def test_offsets_follow_the_wall_clock_of_the_deadline(words, at):
    assert instant(words) == at


@pytest.mark.parametrize(
    ("words", "due", "zone", "at"),
    [
        # Days keep the time of day across a DST change; hours are elapsed time.
        ("1 day before", "2026-03-29T12:00", BERLIN, "2026-03-28T12:00+01:00"),
        ("24 hours before", "2026-03-29T12:00", BERLIN, "2026-03-28T11:00+01:00"),
        ("1 day after", "2026-10-24T12:00", BERLIN, "2026-10-25T12:00+01:00"),
        ("24 hours after", "2026-10-24T12:00", BERLIN, "2026-10-25T11:00+01:00"),
        ("1d12h before", "2026-03-30T12:00", BERLIN, "2026-03-28T23:00+01:00"),
        (1, "2026-03-29T12:00", BERLIN, "2026-03-28T12:00+01:00"),
        # 02:30 is in a DST gap on 29 March (moved by the gap) and ambiguous on 25 October (first occurrence).
        ("1 day before", "2026-03-30T02:30", BERLIN, "2026-03-29T03:30+02:00"),
        ("at 02:30", "2026-03-29T12:00", BERLIN, "2026-03-29T03:30+02:00"),
        ("1 day before", "2026-10-26T02:30", BERLIN, "2026-10-25T02:30+02:00"),
        ("at 01:30", "2026-11-01T12:00", NEW_YORK, "2026-11-01T01:30-04:00"),
        # A month that is too short: its last day.
        ("1 month before", "2027-03-31T09:00", NEW_YORK, "2027-02-28T09:00-05:00"),
        ("1 month after", "2028-01-31T09:00", NEW_YORK, "2028-02-29T09:00-05:00"),
        ("1 year after", "2028-02-29T09:00", NEW_YORK, "2029-02-28T09:00-05:00"),
    ],
)
def test_offsets_across_dst_changes_and_short_months(words, due, zone, at):
    assert instant(words, due, zone) == at


@pytest.mark.parametrize(
    ("days", "default", "text"),
    [
        (60, "before", "60 days before"),
        ("60", "before", "60 days before"),
        ("7 at 09:00", "before", "7 days before at 09:00"),
        (0, "before", "when due"),
        (1, "after", "1 day after"),
        (-14, "after", "14 days before"),
        (-30, None, "30 days before"),
        ("-30", None, "30 days before"),
        (7, None, "7 days after"),
        (36_525, "before", "36525 days before"),
    ],
)
def test_an_integer_is_a_number_of_days(days, default, text):
    assert parse_offset(days, name="offset", default=default).text == text


@pytest.mark.parametrize(
    ("words", "calendar", "at"),
    [
        ("1 business day before", None, "2027-01-14T17:00+01:00"),
        ("1 business day before", {"dates": ["2027-01-14"]}, "2027-01-13T17:00+01:00"),
        ("10 business days before", {"ranges": [{"from": "2026-12-24", "to": "2027-01-06"}]}, "2026-12-18T17:00+01:00"),
        ("10 business days before", {"holidays": "US"}, "2026-12-31T17:00+01:00"),
        # A stage on a Saturday is moved only if the calendar has an `adjustment`.
        ("13 days before", {"weekends": True}, "2027-01-02T17:00+01:00"),
        ("13 days before", {"weekends": True, "adjustment": "preceding"}, "2027-01-01T17:00+01:00"),
        ("13 days before at 09:00", {"weekends": True, "adjustment": "following"}, "2027-01-04T09:00+01:00"),
        ("13 days before", {"holidays": "US", "adjustment": "preceding"}, "2026-12-31T17:00+01:00"),
        ("30 hours before", {"weekends": True, "adjustment": "following"}, "2027-01-14T11:00+01:00"),
    ],
)
def test_the_calendar_defines_the_business_days(words, calendar, at):
    assert instant(words, calendar=calendar) == at


def test_a_due_instant_in_a_repeated_hour_keeps_its_occurrence():
    due_at = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)

    for words in ("when due", "0 days before", "at 02:30"):
        at = parse_offset(words, name="offset").instant(
            due_at, zone=ZoneInfo(BERLIN), calendar=WorkingCalendar(), budget=EvaluationBudget("test")
        )
        assert at == due_at, words


@pytest.mark.parametrize(
    ("value", "default", "message"),
    [
        ("sixty days before", "before", "60 days before"),
        ("60 days befor", "before", "60 days before"),
        ("soon", "before", "when due"),
        ("", "before", "when due"),
        (True, "before", "True is not an offset .* or a whole number of days such as 60"),
        (60.0, "before", "60.0 is not an offset .* or a whole number of days such as 60"),
        (-60, "before", '-60 is not a number of days before the due instant: write 60, or "60 days after"'),
        ("-60", "before", 'write 60, or "60 days after"'),
        (36_526, "before", "hundred years"),
        pytest.param(-(10**5000), "before", "4,300 digits is not an offset of at most a hundred years", id="huge"),
        (None, "before", "offset"),
        ("7 days", None, "with a direction"),
        ("P1D", None, "with a direction"),
        (timedelta(days=1), None, "with a direction"),
        ("1 day before at 25:00", "before", "time of day"),
        ("3 hours before at 09:00", "before", "days, weeks or months"),
        ("PT3H before at 09:00", "before", "days, weeks or months"),
        ("200 years before", "before", "hundred years"),
        ("9999999 days before", "before", "hundred years"),
        ("P1M before", "before", "60 days before"),
        ("1 day before " * 20, "before", "offset"),
    ],
)
def test_the_error_for_an_invalid_offset_contains_an_example(value, default, message):
    with pytest.raises(InvalidArgument, match=f"^offset: .*{message}"):
        parse_offset(value, name="offset", default=default)


@pytest.mark.parametrize(
    "calendar", [{"weekend": True}, {"hours": "9-17"}, {"hours": {"from": "17:00", "to": "9:00"}}, 7]
)
def test_an_invalid_calendar_is_rejected(calendar):
    with pytest.raises(RequestError, match="calendar"):
        parse_calendar(calendar)


def test_a_calendar_survives_a_round_trip_through_json():
    given = {"dates": ["2027-01-14"], "hours": {"from": "09:00", "to": "17:00"}, "adjustment": "preceding"}

    assert parse_calendar(given).as_json() == given
    assert parse_calendar(None).as_json() is None


@given(
    st.one_of(
        st.builds(
            Offset,
            business_days=st.integers(-900, 900),
            at=st.none() | st.times().map(lambda t: t.replace(microsecond=0)),
        ),
        st.builds(
            Offset, days=st.integers(-900, 900), at=st.none() | st.times().map(lambda t: t.replace(microsecond=0))
        ),
        st.builds(Offset, months=st.integers(-90, 90)),
        st.builds(Offset, elapsed=st.timedeltas(timedelta(days=-90), timedelta(days=90))),
        st.builds(
            lambda d, e: Offset(days=d, elapsed=e), st.integers(1, 9), st.timedeltas(timedelta(0), timedelta(hours=23))
        ),
    )
)
def test_the_text_of_an_offset_parses_to_the_same_offset(offset):
    assert parse_offset(offset.text, name="offset") == offset


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        ("2027-01-15T12:00", "2027-01-15T15:00", 3),
        ("2027-01-15T16:00", "2027-01-18T10:00", 2),
        ("2027-01-15T18:00", "2027-01-18T08:00", 0),
        ("2027-01-11T00:00", "2027-01-18T00:00", 40),
        ("2027-01-16T10:00", "2027-01-17T10:00", 0),
        ("2027-01-15T15:00", "2027-01-15T12:00", 0),
    ],
)
def test_working_time_counts_only_business_days_and_hours(start, end, hours):
    zone = ZoneInfo(BERLIN)
    calendar = parse_calendar({"weekends": True, "hours": {"from": "09:00", "to": "17:00"}})

    worked = calendar.worked(
        datetime.fromisoformat(start).replace(tzinfo=zone),
        datetime.fromisoformat(end).replace(tzinfo=zone),
        zone=zone,
        budget=EvaluationBudget("test"),
    )

    assert worked == timedelta(hours=hours)


@given(st.integers(0, 700 * 24 * 60), st.timedeltas(timedelta(seconds=1), timedelta(hours=300)))
def test_after_working_is_the_inverse_of_worked(minutes, length):
    zone = ZoneInfo(BERLIN)
    calendar = parse_calendar({"holidays": "DE", "hours": {"from": "09:00", "to": "17:00"}})
    begins = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)

    ends = calendar.after_working(begins, length, zone=zone, budget=EvaluationBudget("test"))

    assert calendar.worked(begins, ends, zone=zone, budget=EvaluationBudget("test")) == length
