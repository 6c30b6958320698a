from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import process_time
from timeit import timeit
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given, settings, strategies as st

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.intervals import parse_interval
from scheduled_actions.recurrence.model import resolve

NEW_YORK = ZoneInfo("America/New_York")
#: A Friday, 09:00 in New York.
ANCHOR = datetime(2026, 10, 30, 13, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

zones = st.sampled_from(
    [
        "UTC",
        "America/New_York",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "America/St_Johns",
        "Asia/Tokyo",
    ]
).map(ZoneInfo)
anchors = st.integers(0, 21 * 365 * 86400).map(
    lambda seconds: datetime(2009, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
#: A rule, and the length of one step as arguments of `relativedelta`.
steps = st.one_of(
    st.integers(1, 5000).map(lambda n: (f"PT{n}M", {"minutes": n})),
    st.integers(1, 40).map(lambda n: (f"every {n} hours", {"hours": n})),
    st.integers(1, 40).map(lambda n: (f"every {n} days", {"days": n})),
    st.integers(1, 9).map(lambda n: (f"P{n}W", {"weeks": n})),
    st.integers(1, 30).map(lambda n: (f"every {n} months", {"months": n})),
    st.integers(1, 5).map(lambda n: (f"P{n}Y", {"years": n})),
    st.tuples(st.integers(1, 14), st.integers(1, 40), st.integers(1, 60)).map(
        lambda n: (f"P{n[0]}M{n[1]}DT{n[2]}H", {"months": n[0], "days": n[1], "hours": n[2]})
    ),
)


def a_rule(text, zone=NEW_YORK, anchor=ANCHOR):
    return parse_interval(text, zone=zone, anchor=anchor, since=anchor)


def first(rule, count, after=ANCHOR):
    found = []
    for _ in range(count):
        found.append(rule.next_after(found[-1].at if found else after))
    return found


def local(rule, count, after=ANCHOR):
    return [f"{one.at.astimezone(rule.zone):%Y-%m-%d %H:%M%z}" for one in first(rule, count, after)]


@pytest.mark.parametrize(
    ("text", "description", "second"),
    [
        ("every 30 minutes", "Every 30 minutes", "2026-10-30 10:00-0400"),
        ("every minute", "Every minute", "2026-10-30 09:02-0400"),
        ("Every 2 Hours", "Every 2 hours", "2026-10-30 13:00-0400"),
        ("hourly", "Every hour", "2026-10-30 11:00-0400"),
        ("every 90 seconds", "Every 90 seconds", "2026-10-30 09:03-0400"),
        ("PT10M", "Every 10 minutes", "2026-10-30 09:20-0400"),
        ("pt1h30m", "Every 1 hour and 30 minutes", "2026-10-30 12:00-0400"),
        ("PT1.5S", "Every 1.5 seconds", "2026-10-30 09:00-0400"),
        ("daily", "Every day at 09:00", "2026-11-01 09:00-0500"),
        ("  every   day ", "Every day at 09:00", "2026-11-01 09:00-0500"),
        ("P1D", "Every day at 09:00", "2026-11-01 09:00-0500"),
        ("every day at 7:30", "Every day at 07:30", "2026-11-01 07:30-0500"),
        ("daily at 09:00:30", "Every day at 09:00:30", "2026-10-31 09:00-0400"),
        ("P10D", "Every 10 days at 09:00", "2026-11-19 09:00-0500"),
        ("weekly", "Every week on Friday at 09:00", "2026-11-13 09:00-0500"),
        ("every other week", "Every 2 weeks on Friday at 09:00", "2026-11-27 09:00-0500"),
        ("P1W", "Every week on Friday at 09:00", "2026-11-13 09:00-0500"),
        ("every second day", "Every 2 days at 09:00", "2026-11-03 09:00-0500"),
        ("monthly", "Every month on day 30 (or the last) at 09:00", "2026-12-30 09:00-0500"),
        ("P1M", "Every month on day 30 (or the last) at 09:00", "2026-12-30 09:00-0500"),
        ("quarterly", "Every quarter on day 30 (or the last) at 09:00", "2027-04-30 09:00-0400"),
        ("every 3 months at 00:00", "Every 3 months on day 30 (or the last) at 00:00", "2027-04-30 00:00-0400"),
        ("yearly", "Every year on 30 October at 09:00", "2028-10-30 09:00-0400"),
        ("annually", "Every year on 30 October at 09:00", "2028-10-30 09:00-0400"),
        ("P1Y2M", "Every 1 year and 2 months on day 30 (or the last) at 09:00", "2029-02-28 09:00-0500"),
        ("P1DT12H", "Every 1 day and 12 hours at 09:00", "2026-11-02 09:00-0500"),
    ],
)
def test_an_interval_is_parsed_and_described(text, description, second):
    rule = a_rule(text)

    assert (rule.kind, rule.zone, rule.description) == ("interval", NEW_YORK, description)
    assert local(rule, 2)[1] == second


def test_days_keep_their_wall_time_when_the_clocks_change_and_hours_do_not():
    assert local(a_rule("daily"), 3) == ["2026-10-31 09:00-0400", "2026-11-01 09:00-0500", "2026-11-02 09:00-0500"]
    assert local(a_rule("PT24H"), 3) == ["2026-10-31 09:00-0400", "2026-11-01 08:00-0500", "2026-11-02 08:00-0500"]


def test_a_wall_time_in_a_gap_moves_later_once_with_a_remark():
    anchor = datetime(2026, 3, 7, 7, 30, tzinfo=UTC)

    found = first(a_rule("daily", anchor=anchor), 2, after=anchor)

    assert [one.at for one in found] == [
        datetime(2026, 3, 8, 7, 30, tzinfo=UTC),
        datetime(2026, 3, 9, 6, 30, tzinfo=UTC),
    ]
    assert found[0].remarks == ("02:30 does not exist on 2026-03-08 in America/New_York: moved to 03:30",)
    assert found[1].remarks == ()


def test_a_wall_time_that_occurs_twice_means_the_first_time_with_a_remark():
    anchor = datetime(2026, 10, 31, 5, 30, tzinfo=UTC)
    rule = a_rule("daily", anchor=anchor)

    twice, after = first(rule, 2, after=anchor)

    assert twice.at == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert twice.remarks == ("01:30 occurs twice on 2026-11-01 in America/New_York: this is the first",)
    assert after.at == datetime(2026, 11, 2, 6, 30, tzinfo=UTC)
    assert rule.next_after(datetime(2026, 11, 1, 1, 15, tzinfo=NEW_YORK, fold=1)) == after


def test_months_from_the_31st_use_the_last_day_of_shorter_months_and_return_to_the_31st():
    anchor = datetime(2027, 10, 31, 13, tzinfo=UTC)
    rule = a_rule("monthly", anchor=anchor)

    days = [text[:10] for text in local(rule, 6, after=anchor)]

    assert days == ["2027-11-30", "2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30"]
    assert rule.description == "Every month on day 31 (or the last) at 09:00"
    assert rule.warnings == ("In months without day 31, the rule occurs on the last day",)


def test_years_from_a_leap_day_use_the_28th_and_return_to_the_29th():
    anchor = datetime(2024, 2, 29, 14, tzinfo=UTC)
    rule = a_rule("yearly", anchor=anchor)

    assert [text[:10] for text in local(rule, 4, after=anchor)] == [
        "2025-02-28",
        "2026-02-28",
        "2027-02-28",
        "2028-02-29",
    ]
    assert rule.description == "Every year on 29 February (or the last) at 09:00"
    assert rule.warnings == ("In years without 29 February, the rule occurs on the 28th",)


def test_the_anchor_is_the_first_occurrence_and_none_is_before_it():
    for text in ("PT10M", "daily", "monthly"):
        assert a_rule(text).next_after(ANCHOR - MICROSECOND).at == ANCHOR
        assert a_rule(text).next_after(ANCHOR - timedelta(days=4000)).at == ANCHOR
    earlier_that_day = a_rule("every month at 08:59").next_after(ANCHOR - timedelta(days=4000))
    assert earlier_that_day.at == datetime(2026, 11, 30, 13, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "warning"),
    [
        ("PT24H", "America/New_York", 'New_York change, so does the time of day; "daily" keeps the time of day'),
        ("every 48 hours", "Europe/Berlin", '"every 2 days" keeps the time of day'),
        ("P5M", "UTC", "P5M counts months; minutes come after a T: PT5M"),
        ("P1DT12H", "UTC", "Hours are real time and add up: when the clocks change, so does the time of day"),
    ],
)  # fmt: skip
def test_common_mistakes_have_warnings(text, zone, warning):
    assert warning in a_rule(text, ZoneInfo(zone), ANCHOR.replace(day=5)).warnings[-1]


@pytest.mark.parametrize(("text", "zone"), [("PT24H", "UTC"), ("PT24H", "Asia/Tokyo"), ("PT10M", "Europe/Berlin")])
def test_an_unambiguous_interval_has_no_warnings(text, zone):
    assert a_rule(text, ZoneInfo(zone)).warnings == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("every 0 minutes", "the minimum interval is one second"),
        ("PT0S", "the minimum interval is one second"),
        ("P0D", "the minimum interval is one second"),
        ("PT0.5S", "the minimum interval is one second"),
        ("every -5 minutes", "an interval cannot be negative"),
        ("-P1D", "an interval cannot be negative"),
        ("P-1D", "an interval cannot be negative"),
        ("PT-5M", "an interval cannot be negative"),
        ("every 1.5 hours", "only seconds may have a fraction: write 1.5 hours in smaller units"),
        ("P0.5D", "only seconds may have a fraction: write 0.5 days in smaller units"),
        ("PT1.1234567S", "1.1234567 seconds has more than 6 decimal places"),
        ("every ten hours", '"ten" is not a number in digits: write, for example, "every 10 hours"'),
        ("every few hours", '"few" is not a number in digits: write, for example, "every 2 hours"'),
        ("every 10 minuts", '"minuts" is not a unit of time; did you mean "every 10 minutes"?'),
        ("every dai", '"dai" is not a unit of time; did you mean "every day"?'),
        ("every fortnight", '"fortnight" is not a unit of time: use seconds, minutes, hours'),
        ("every mondey", '"mondey" is not a unit of time; did you mean "every monday"?'),
        ("every workday", '"workday" is not a unit of time; did you mean "every weekday"?'),
        ("biweekly", 'is ambiguous: write "every 2 weeks", for example'),
        ("hourly at 09:00", '"at" needs days, weeks, months or years'),
        ("daily at 24:00", '"24:00" is not a time of day, such as 09:00'),
        ("daily at nine", '"nine" is not a time of day'),
        ("daily at ", "is not an interval"),
        ("every", "is not an interval: write"),
        ("P", "is not an interval"),
        ("PT", "is not an interval"),
        ("P1", "is not an interval"),
        ("P1DT", "is not an interval"),
        ("P1S", "is not an interval"),
        ("P1D2W", "is not an interval"),
        ("soon", 'is not an interval: write "every 30 minutes", "daily"'),
    ],
)
def test_an_invalid_interval_is_rejected_with_a_suggestion(text, problem):
    with pytest.raises(RecurrenceInvalid) as caught:
        a_rule(text)

    assert caught.value.rule == text
    assert problem in caught.value.problem


@pytest.mark.parametrize("text", ["P31Y", "P361M", "every 12000 days", "PT999999999999S", f"every {'9' * 1900} years"])
def test_an_interval_beyond_thirty_years_never_occurs(text):
    with pytest.raises(NeverOccurs, match="is longer than 30 years"):
        a_rule(text)


def test_an_interval_of_thirty_years_occurs():
    assert a_rule("P30Y").next_after(ANCHOR).at == datetime(2056, 10, 30, 13, tzinfo=UTC)


@pytest.mark.parametrize("text", ["PT10M", "daily", "monthly", "P30Y"])
def test_the_rule_ends_with_the_calendar(text):
    assert a_rule(text).next_after(datetime.max.replace(tzinfo=UTC)) is None


@given(steps, zones, anchors, st.integers(0, 150), st.timedeltas(timedelta(0), timedelta(days=2)))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_the_closed_form_gives_the_same_instants_as_counting_steps_from_the_anchor(step, zone, anchor, count, offset):
    text, length = step
    rule = a_rule(text, zone, anchor)
    listed = [counted_instant(anchor, zone, length, number) for number in range(count + 60)]
    moment = listed[count] - offset

    found = rule.next_after(moment)

    assert found.at == next(at for at in listed if at > moment)


@given(steps, zones, anchors, st.integers(1, 60), st.timedeltas(timedelta(0), timedelta(days=2)))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_before_the_anchor_the_steps_are_counted_back_from_it(step, zone, anchor, count, offset):
    text, length = step
    listed = [counted_instant(anchor, zone, length, number) for number in range(-count - 5, 4)]
    since = max(listed[5] - offset, listed[0])
    rule = parse_interval(text, zone=zone, anchor=anchor, since=since)

    found = first(rule, count + 3, after=since - timedelta(days=400))

    assert [one.at for one in found] == [at for at in listed if at >= since][: count + 3]


def counted_instant(anchor, zone, length, number):
    """Return the instant of a step: date units are added by dateutil, then hours and minutes in real time."""
    exact = {"hours": length.get("hours", 0) * number, "minutes": length.get("minutes", 0) * number}
    dates = {unit: count * number for unit, count in length.items() if unit not in exact}
    if not dates:
        return anchor + timedelta(**exact)
    wall = anchor.astimezone(zone).replace(tzinfo=None)
    return resolve(wall + relativedelta(**dates), zone).at + timedelta(**exact)


@given(steps, zones, anchors, st.timedeltas(timedelta(days=-800), timedelta(days=12000)))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_occurrences_increase_strictly_and_keep_their_wall_time_unless_they_have_a_remark(step, zone, anchor, distance):
    text, length = step
    rule = a_rule(text, zone, anchor)
    moment = anchor + distance

    found = first(rule, 4, after=moment)

    assert moment < found[0].at < found[1].at < found[2].at < found[3].at
    assert all(one.at >= anchor for one in found)
    assert [rule.next_after(one.at - MICROSECOND) for one in found] == found
    if not {"hours", "minutes"} & length.keys():
        wall = anchor.astimezone(zone).time()
        assert all(one.remarks or one.at.astimezone(zone).time() == wall for one in found)


@given(st.text(max_size=60) | st.from_regex(r"(?i)(every |p|pt|daily at )[-0-9a-z.,: ]{0,30}", fullmatch=True))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_every_text_is_an_interval_or_is_rejected(text):
    try:
        assert a_rule(text).next_after(ANCHOR).at > ANCHOR
    except RecurrenceInvalid:
        return


@pytest.mark.parametrize("text", ["PT10M", "daily", "monthly", "yearly", "P1DT12H"])
@pytest.mark.parametrize("year", [1726, 2026])
def test_an_anchor_centuries_ago_costs_no_more_than_a_recent_one(text, year):
    rule = a_rule(text, anchor=ANCHOR.replace(year=year))
    moment = datetime(2026, 12, 24, 3, tzinfo=UTC)

    # A search takes about ten microseconds; the limit allows for a busy machine. Stepping from the anchor would take a
    # second.
    assert timeit(lambda: rule.next_after(moment), timer=process_time, number=100) / 100 < 0.001
