from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.business import parse_business_day
from scheduled_actions.recurrence.skips.model import Skips

FEDERAL = json.loads((Path(__file__).parents[1] / "vectors/recurrence/us_federal_holidays.json").read_text())
NEW_YORK = ZoneInfo("America/New_York")
#: 09:00 in New York.
ANCHOR = datetime(2026, 10, 30, 13, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
US = {"holidays": "US"}


def a_rule(text, anchor=ANCHOR, **skips):
    return parse_business_day(text, zone=NEW_YORK, anchor=anchor, since=anchor, calendar=Skips.parse(skips))


def first(rule, count, after=ANCHOR):
    found = []
    for _ in range(count):
        found.append(rule.next_after(found[-1].at if found else after))
    return found


def days(rule, count, after=ANCHOR):
    return [one.at.astimezone(NEW_YORK).date().isoformat() for one in first(rule, count, after)]


@pytest.mark.parametrize(
    ("text", "description", "wanted"),
    [
        ("last business day of the month", "Last business day of the month at 09:00", ["2026-11-30", "2026-12-31"]),
        ("Last Business Day of each month", "Last business day of the month at 09:00", ["2026-11-30", "2026-12-31"]),
        ("first business day of month", "First business day of the month at 09:00", ["2026-11-02", "2026-12-01"]),
        ("1st working day of the month", "First business day of the month at 09:00", ["2026-11-02", "2026-12-01"]),
        ("2nd business day of the quarter", "2nd business day of the quarter at 09:00", ["2027-01-04", "2027-04-02"]),
        ("second business day of a quarter", "2nd business day of the quarter at 09:00", ["2027-01-04", "2027-04-02"]),
        ("3rd last business day of the month", "3rd last business day of the month at 09:00", ["2026-11-26"]),
        ("third-to-last business day of the month", "3rd last business day of the month at 09:00", ["2026-11-26"]),
        ("every last business day of the month", "Last business day of the month at 09:00", ["2026-11-30"]),
        ("last business day of the quarter", "Last business day of the quarter at 09:00", ["2026-12-31", "2027-03-31"]),
        ("last business day of the year", "Last business day of the year at 09:00", ["2026-12-31", "2027-12-31"]),
        ("23rd business day of the month", "23rd business day of the month at 09:00", ["2026-12-31", "2027-03-31"]),
    ],
)  # fmt: skip
def test_a_business_day_of_a_period_is_found(text, description, wanted):
    rule = a_rule(text)

    assert (rule.kind, rule.description) == ("business_day", description)
    assert days(rule, len(wanted)) == wanted


def test_the_time_of_day_is_that_of_the_anchor_unless_the_rule_sets_one():
    (at_the_anchors,) = first(a_rule("last business day of the month"), 1)
    (at_its_own,) = first(a_rule("last business day of the month at 17:30"), 1)

    assert at_the_anchors.at.astimezone(NEW_YORK) == datetime(2026, 11, 30, 9, tzinfo=NEW_YORK)
    assert at_its_own.at.astimezone(NEW_YORK) == datetime(2026, 10, 30, 17, 30, tzinfo=NEW_YORK)


def test_a_holiday_is_not_a_business_day_and_is_named_in_the_remarks():
    anchor = datetime(2027, 12, 1, tzinfo=UTC)

    (found,) = first(a_rule("last business day of the quarter at 09:00", anchor, **US), 1, anchor)

    assert found.at.astimezone(NEW_YORK).date() == date(2027, 12, 30)
    assert found.remarks == ("Friday 2027-12-31 is a holiday (New Year's Day (observed), US): not a business day",)


@pytest.mark.parametrize("year", ["2026", "2027"])
def test_holidays_are_the_published_federal_holidays(year):
    anchor = datetime(int(year), 1, 1, tzinfo=UTC)
    weekdays = [date(int(year), 1, 1) + timedelta(days=n) for n in range(365)]
    published = set(FEDERAL[year])

    calendar = Skips.parse(US)

    passed = {day.isoformat() for day in weekdays if day.weekday() < 5 and not calendar.is_business_day(day)}
    assert passed == published
    assert days(a_rule("first business day of the year", anchor, **US), 1, anchor) == [
        f"{year}-01-0{2 if year == '2026' else 4}"
    ]


def test_named_dates_and_ranges_are_not_business_days():
    rule = a_rule(
        "last business day of the month", dates=["2026-11-30"], ranges=[{"from": "2026-12-24", "to": "2027-01-02"}]
    )

    found = first(rule, 3)

    assert [one.at.astimezone(NEW_YORK).date().isoformat() for one in found] == [
        "2026-11-27",
        "2026-12-23",
        "2027-01-29",
    ]
    assert found[0].remarks == ("Monday 2026-11-30 is skipped (a named date): not a business day",)
    # Six weekdays: some are listed, the others counted.
    assert found[1].remarks[0].startswith("Thursday 2026-12-31 is skipped (2026-12-24 to 2027-01-02)")
    assert found[1].remarks[-1] == "… and 2 more like these"


def test_a_period_with_fewer_business_days_has_none():
    rule = a_rule("22nd business day of the month", **US)

    assert rule.warnings == ("A month with fewer than 22 business days has no occurrence",)
    assert days(rule, 3) == ["2026-12-31", "2027-03-30", "2027-04-30"]


def test_the_anchor_may_be_the_first_occurrence_and_none_is_before_it():
    rule = a_rule("last business day of the month")

    assert rule.next_after(ANCHOR - MICROSECOND).at == ANCHOR
    assert rule.next_after(ANCHOR - timedelta(days=400)).at == ANCHOR


def test_a_calendar_without_business_days_never_occurs():
    rule = a_rule("last business day of the quarter", ranges=[{"from": "2000-01-01", "to": "2100-01-01"}])

    with pytest.raises(NeverOccurs, match="no quarter of the next 30 years has such a day"):
        rule.next_after(ANCHOR)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("24th business day of the month", "a month has no 24th business day; use 1st to 23rd"),
        ("0th business day of the month", "a month has no 0th business day; use 1st to 23rd"),
        ("67th business day of the quarter", "a quarter has no 67th business day"),
        ("last business day of the monht", '"monht" is not a period; did you mean "month"?'),
        ("last business day of the week", '"week" is not a period; use month, quarter or year'),
        ("secnd business day of the month", '"secnd" is not a position; did you mean "second"?'),
        ("some business day of the month", '"some" is not a position; use first, 2nd, last or 2nd last'),
        ("last business day", 'write "last business day of the month"'),
        ("every business day", 'for every business day, use "daily" and skip weekends and holidays'),
        ("last business day of the month at 9", '"9" is not a time of day, such as 09:00'),
        ("last business day of the month at 25:00", '"25:00" is not a time of day'),
    ],
)
def test_an_invalid_business_day_is_rejected_with_a_suggestion(text, problem):
    with pytest.raises(RecurrenceInvalid) as caught:
        a_rule(text)

    assert caught.value.rule == text
    assert problem in caught.value.problem


@given(
    st.integers(1, 23),
    st.booleans(),
    st.sampled_from([("month", 1), ("quarter", 3), ("year", 12)]),
    st.sets(st.integers(0, 730), max_size=60),
    st.integers(-10, 700),
)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_a_search_gives_the_same_days_as_counting_through_each_period(number, is_from_end, period, off, distance):
    start = date(2026, 1, 1)
    named = [(start + timedelta(days=n)).isoformat() for n in off]
    words, months = period
    anchor = datetime(2026, 1, 1, 14, tzinfo=UTC)
    rule = a_rule(f"{number}th{' last' if is_from_end else ''} business day of the {words}", anchor, dates=named)
    by_period = {}
    for day in (start + timedelta(days=n) for n in range(4 * 365 + 1)):
        if day.weekday() < 5 and day.isoformat() not in named:
            by_period.setdefault((day.year * 12 + day.month - 1) // months, []).append(day)
    listed = [(-number if is_from_end else number - 1, in_period) for in_period in by_period.values()]
    wanted = [in_period[index] for index, in_period in listed if len(in_period) >= number]
    moment = anchor + timedelta(days=distance)

    found = rule.next_after(moment)

    instants = [datetime(day.year, day.month, day.day, 9, tzinfo=NEW_YORK) for day in wanted]
    assert found.at == next(at for at in instants if at > moment)
    assert rule.next_after(found.at).at > found.at
