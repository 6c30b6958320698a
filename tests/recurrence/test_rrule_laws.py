"""Properties of every rule, compared with dateutil and with a search of every minute."""

# ruff: noqa: DTZ001 (wall times)

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings, strategies as st

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.model import resolve
from scheduled_actions.recurrence.rrule.rule import parse_rrule
from tests.recurrence.canonical_text import canonical_text

UTC_ZONE = ZoneInfo("UTC")
#: A clock change of each kind: one hour, half an hour, a whole day skipped, just after midnight, at midnight.
CHANGES = [
    ("America/New_York", datetime(2027, 3, 14)),
    ("America/New_York", datetime(2027, 11, 7)),
    ("Australia/Lord_Howe", datetime(2027, 4, 4)),
    ("Australia/Lord_Howe", datetime(2027, 10, 3)),
    ("Pacific/Apia", datetime(2011, 12, 30)),
    ("America/St_Johns", datetime(2006, 10, 29)),
    ("America/Sao_Paulo", datetime(2017, 10, 15)),
    ("America/Havana", datetime(2027, 11, 7)),
]
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
ONE_MICROSECOND = timedelta(microseconds=1)
few = settings(max_examples=60, derandomize=True, deadline=None)


def numbers(low, high, most=4, *, signed=False):
    values = st.integers(low, high)
    values = values | values.map(lambda number: -number) if signed else values
    return st.lists(values, min_size=1, max_size=most, unique=True)


def weekdays():
    return st.lists(st.sampled_from(DAYS), min_size=1, max_size=5, unique=True)


def nth_weekdays(most):
    nth = st.integers(1, most) | st.integers(1, most).map(lambda number: -number)
    return st.lists(st.builds("{}{}".format, nth, st.sampled_from(DAYS)), min_size=1, max_size=4, unique=True)


@st.composite
def rules(draw, frequencies=("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")):
    """Generate rules that are valid in RFC 5545 and that dateutil interprets as the RFC does.

    Left out are rules that dateutil interprets differently. It requires both the plain and the nth weekdays of BYDAY
    rather than either. It applies BYSETPOS to the days of the first week after the start. With BYWEEKNO alone, it
    includes all days of the week. At the turn of some years, it confuses weeks 52 and 53 with other weeks.
    """
    frequency = draw(st.sampled_from(frequencies))
    parts = {"FREQ": frequency, "INTERVAL": draw(st.sampled_from([1, 1, 1, 2, 3, 5, 7, 13]))}

    def maybe(name, values, chance=3):
        if draw(st.integers(1, chance)) == 1:
            parts[name] = ",".join(map(str, draw(values)))

    maybe("BYMONTH", numbers(1, 12))
    if frequency == "YEARLY":
        maybe("BYWEEKNO", numbers(1, 51, signed=True), 4)
    if frequency not in {"DAILY", "WEEKLY", "MONTHLY"}:
        maybe("BYYEARDAY", numbers(1, 366, 9, signed=True), 5)
    if frequency != "WEEKLY":
        maybe("BYMONTHDAY", numbers(1, 31, 8, signed=True))
    if "BYWEEKNO" in parts:
        parts["BYDAY"] = ",".join(draw(weekdays()))
    elif frequency in {"YEARLY", "MONTHLY"} and draw(st.booleans()):
        maybe("BYDAY", nth_weekdays(5 if frequency == "MONTHLY" or "BYMONTH" in parts else 53), 2)
    else:
        maybe("BYDAY", weekdays(), 2)
    maybe("BYHOUR", numbers(0, 23))
    maybe("BYMINUTE", numbers(0, 59, 3))
    maybe("BYSECOND", numbers(0, 59, 2), 5)
    if len(parts) > 2 and frequency not in {"WEEKLY", "SECONDLY"}:
        maybe("BYSETPOS", st.sampled_from([[1], [-1], [1, -1], [2, 1], [-3, 1]]))
    maybe("WKST", st.sampled_from(DAYS).map(lambda day: [day]))
    return ";".join(f"{name}={value}" for name, value in parts.items())


starts = st.datetimes(datetime(1995, 1, 1), datetime(2030, 1, 1)).map(lambda wall: wall.replace(microsecond=0))
calendar_rules = rules(("YEARLY", "MONTHLY", "WEEKLY", "DAILY"))


#: How far dateutil can search quickly: it steps through every second of a SECONDLY rule.
AFFORDABLE = {"SECONDLY": timedelta(days=3), "MINUTELY": timedelta(days=90), "HOURLY": timedelta(days=2000)}


def after(rule, moment, count):
    """Return the next `count` instants; fewer if the rule ends or has no occurrence for thirty years."""
    found = []
    try:
        while len(found) < count and (occurrence := rule.next_after(moment)) is not None:
            moment = occurrence.at
            found.append(moment)
    except NeverOccurs:
        pass
    return found


def in_utc(text, start):
    return parse_rrule(text, zone=UTC_ZONE, anchor=start.replace(tzinfo=UTC))


def just_before(start, zone=UTC):
    return start.replace(tzinfo=zone).astimezone(UTC) - ONE_MICROSECOND


@few
@given(rules(), starts)
def test_occurrences_are_those_that_dateutil_finds(text, start):
    affordable = AFFORDABLE.get(text[5:].partition(";")[0], timedelta(days=100_000))
    found = [at.replace(tzinfo=None) for at in after(in_utc(text, start), just_before(start), 8)]
    found = [at for at in found if at - start < affordable]
    assume(found)

    assert found == list(islice(rrulestr(text, dtstart=start), len(found)))


@few
@given(rules(), starts, st.integers(0, 7), st.floats(0, 1))
def test_the_occurrences_do_not_depend_on_where_the_search_begins(text, start, place, part):
    rule = in_utc(text, start)
    found = after(rule, just_before(start), 9)
    assume(len(found) > place + 1)
    earlier, later = found[place : place + 2]

    assert rule.next_after(earlier + (later - earlier) * part * 0.99).at == later


@few
@given(rules(), st.sampled_from(CHANGES), st.integers(0, 4), st.integers(0, 86_399))
def test_occurrences_strictly_increase_through_clock_changes(text, change, days_before, second):
    key, day = change
    zone = ZoneInfo(key)
    start = day - timedelta(days=days_before) + timedelta(seconds=second)
    rule = parse_rrule(text, zone=zone, anchor=resolve(start, zone).at)

    found = after(rule, just_before(start - timedelta(days=1), zone), 12)

    assert all(earlier < later for earlier, later in pairwise(found))
    assert all(rule.next_after(earlier).at == later for earlier, later in pairwise(found))


@pytest.mark.parametrize("weeks", [(1,), (52,), (53,), (-1,), (-52,), (-53,), (20, -20)])
def test_week_numbers_are_those_of_iso_8601(weeks):
    start = datetime(2000, 1, 1)
    rule = in_utc(f"FREQ=YEARLY;BYWEEKNO={','.join(map(str, weeks))};BYDAY=MO..SU", start)

    def matches(day):
        iso_year, week, _ = day.isocalendar()
        weeks_of_year = datetime(iso_year, 12, 28).isocalendar().week
        return week in weeks or week - weeks_of_year - 1 in weeks

    days = [start + timedelta(days=ahead) for ahead in range(366 * 56)]
    wanted = [day for day in days if matches(day)]

    assert [at.replace(tzinfo=None) for at in after(rule, just_before(start), len(wanted))] == wanted


@few
@given(calendar_rules, st.sampled_from(CHANGES), st.integers(0, 4), st.integers(0, 86_399), st.integers(0, 96))
def test_calendar_rules_have_the_wall_times_of_dateutil_as_instants(text, change, days_before, second, hours):
    key, day = change
    zone = ZoneInfo(key)
    start = day - timedelta(days=days_before) + timedelta(seconds=second)
    rule = parse_rrule(text, zone=zone, anchor=resolve(start, zone).at)
    moment = max(just_before(start, zone), resolve(start + timedelta(hours=hours), zone).at)
    found = after(rule, moment, 6)
    assume(found)
    # Only a month is compared: if dateutil finds no occurrence, it searches up to the year 9999.
    month_end = day + timedelta(days=31)
    assume(found[-1].replace(tzinfo=None) < month_end)

    walls = rrulestr(text, dtstart=rule.start).between(start, month_end + timedelta(days=2), inc=True)
    instants = sorted({resolve(wall, zone).at for wall in walls})

    assert found == [at for at in instants if at > moment][: len(found)]


@few
@given(
    st.sampled_from([1, 1, 2, 3, 5, 7, 45, 90]),
    st.fixed_dictionaries(
        {},
        optional={
            "BYHOUR": numbers(0, 4, 3),
            "BYMINUTE": numbers(0, 59, 6) | st.just([0, 15, 30, 45]),
            "BYDAY": weekdays(),
        },
    ),
    st.sampled_from(["HOURLY", "MINUTELY"]),
    st.sampled_from(CHANGES),
    st.integers(0, 2880),
)
def test_exact_rules_have_the_instants_that_a_search_of_every_minute_finds(
    interval, parts, frequency, change, minutes_before
):
    key, day = change
    zone = ZoneInfo(key)
    start = resolve(day - timedelta(minutes=minutes_before), zone).at
    text = ";".join(
        [f"FREQ={frequency};INTERVAL={interval}", *(f"{k}={','.join(map(str, v))}" for k, v in parts.items())]
    )
    rule = parse_rrule(text, zone=zone, anchor=start)
    unit = 60 if frequency == "HOURLY" else 1
    into = start.astimezone(zone).minute % unit

    def matches(minute):
        """Whether the instant `minute` minutes after the start is an occurrence, according to the documentation."""
        wall = (start + timedelta(minutes=minute)).astimezone(zone)
        return (
            (minute + into) // unit % interval == 0
            and ("BYMINUTE" in parts or (minute + into) % unit == into)
            and wall.hour in parts.get("BYHOUR", range(24))
            and wall.minute in parts.get("BYMINUTE", range(60))
            and DAYS[wall.weekday()] in parts.get("BYDAY", DAYS)
        )

    wanted = [start + timedelta(minutes=minute) for minute in range(3 * 24 * 60) if matches(minute)][:40]

    assert after(rule, start - ONE_MICROSECOND, len(wanted)) == wanted


@few
@given(calendar_rules, st.sampled_from(CHANGES), st.integers(0, 4), st.integers(0, 86_399))
def test_a_time_of_day_is_one_of_the_rule_or_has_a_remark(text, change, days_before, second):
    key, day = change
    zone = ZoneInfo(key)
    start = resolve(day - timedelta(days=days_before) + timedelta(seconds=second), zone).at
    rule = parse_rrule(text, zone=zone, anchor=start)
    wall = start.astimezone(zone)
    hours, minutes, seconds = rule.parts.by_hour, rule.parts.by_minute, rule.parts.by_second

    for at in after(rule, start - ONE_MICROSECOND, 6):
        occurrence = rule.next_after(at - ONE_MICROSECOND)
        shown = at.astimezone(zone)
        is_named = (
            shown.hour in (hours or (wall.hour,))
            and shown.minute in (minutes or (wall.minute,))
            and shown.second in (seconds or (wall.second,))
        )
        assert is_named or "does not exist" in occurrence.remarks[0]


@few
@given(rules(), starts, st.integers(1, 12))
def test_a_count_yields_exactly_that_number(text, start, count):
    endless = after(in_utc(text, start), just_before(start), count)
    assume(len(endless) == count)

    assert after(in_utc(f"{text};COUNT={count}", start), just_before(start), count + 1) == endless


@few
@given(rules(), starts, st.integers(0, 11), st.integers(-1, 1))
def test_until_is_the_last_instant_and_is_included(text, start, place, seconds):
    endless = after(in_utc(text, start), just_before(start), 12)
    assume(len(endless) > place)
    until = endless[place] + timedelta(seconds=seconds)

    ended = in_utc(f"{text};UNTIL={until:%Y%m%dT%H%M%SZ}", start)

    assert after(ended, just_before(start), 13)[:12] == [at for at in endless if at <= until]


@few
@given(rules(), starts)
def test_the_canonical_text_is_parsed_as_the_same_rule(text, start):
    rule = in_utc(text, start)
    again = in_utc(canonical_text(rule.written), start)

    assert canonical_text(again.written) == canonical_text(rule.written)
    assert after(again, just_before(start), 3) == after(rule, just_before(start), 3)


@few
@given(rules(), starts)
def test_every_description_is_a_sentence_without_a_full_stop(text, start):
    rule = in_utc(text, start)

    assert rule.description.startswith("Every ")
    assert not rule.description.endswith((".", " "))
    assert "  " not in rule.description
    assert all(isinstance(warning, str) for warning in rule.warnings)


fragments = st.sampled_from(
    ["FREQ=DAILY", "RRULE:", "DTSTART", "RDATE", "EXDATE", ";", ":", ",", "=", " ", "\n", "\n ", "TZID=Europe/Berlin",
     "VALUE=DATE", "20270131", "T090000", "Z", "BYDAY", "BYSETPOS", "MO..FR", "..", "-1", "+1FR", "0", "366", "COUNT",
     "UNTIL", "INTERVAL=", "99999999999", "BYHOUR=9", "WKST=SU", "\x00", "\u0662", "FREQ=SECONDLY", "99991231"]
)  # fmt: skip


@settings(max_examples=400, derandomize=True, deadline=None)
@given(st.lists(fragments, max_size=14).map("".join) | st.text(max_size=60))
def test_every_text_is_a_rule_or_is_rejected(text):
    try:
        rule = in_utc(text, datetime(2027, 1, 31))
    except RecurrenceInvalid:
        return

    after(rule, just_before(datetime(2027, 1, 31)), 2)
    assert rule.description
    assert isinstance(rule.warnings, tuple)
