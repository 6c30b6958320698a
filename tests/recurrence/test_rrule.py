"""iCalendar recurrence rules: valid and invalid texts, starts and ends, clock changes, and choices of RFC 5545."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.rrule.rule import parse_rrule
from tests.recurrence.canonical_text import canonical_text

#: A Saturday.
ANCHOR = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
ONE_MICROSECOND = timedelta(microseconds=1)


def parsed(text, zone="America/New_York", anchor=ANCHOR):
    return parse_rrule(text, zone=ZoneInfo(zone), anchor=anchor)


def occurrences(rule, count, since=None):
    """Return the first `count` occurrences from the anchor or from `since` on; fewer if the rule ends."""
    found = []
    moment = (since or rule.opens_at) - ONE_MICROSECOND
    while len(found) < count and (occurrence := rule.next_after(moment)) is not None:
        moment = occurrence.at
        found.append(occurrence)
    return found


def local(text, count, zone="America/New_York", since=None, anchor=ANCHOR):
    """Return the local times of the first occurrences, each with its UTC offset."""
    rule = parsed(text, zone, anchor)
    since = since and datetime.fromisoformat(since).replace(tzinfo=rule.zone)
    return [f"{one.at.astimezone(rule.zone):%Y-%m-%d %H:%M:%S%z}" for one in occurrences(rule, count, since)]


def test_the_last_weekday_of_each_month():
    rule = parsed("RRULE:FREQ=MONTHLY;BYDAY=MO..FR;BYSETPOS=-1")

    days = [one.at.date().isoformat() for one in occurrences(rule, 8)]

    assert rule.kind == "rrule"
    assert canonical_text(rule.written) == "RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"
    assert rule.description == "Every month on the last weekday (Monday to Friday)"
    assert rule.warnings == ()
    assert days == [
        "2026-11-30", "2026-12-31", "2027-01-29", "2027-02-26", "2027-03-31", "2027-04-30", "2027-05-31", "2027-06-30",
    ]  # fmt: skip


# -- valid and invalid texts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("FREQ=DAILY", "RRULE:FREQ=DAILY"),
        ("  rrule:freq=daily;interval=1;wkst=mo  ", "RRULE:FREQ=DAILY"),
        ("COUNT=3;FREQ=WEEKLY;BYDAY=we,mo,WE", "RRULE:FREQ=WEEKLY;COUNT=3;BYDAY=MO,WE"),
        ("FREQ=WEEKLY;BYDAY=SA..MO", "RRULE:FREQ=WEEKLY;BYDAY=MO,SA,SU"),
        ("FREQ=MONTHLY;BYDAY=+1FR,-1FR,FR", "RRULE:FREQ=MONTHLY;BYDAY=-1FR,FR,1FR"),
        ("FREQ=MONTHLY;BYMONTHDAY=15,-1,+2", "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1,2,15"),
        ("FREQ=DAILY;BYSECOND=60", "RRULE:FREQ=DAILY;BYSECOND=59"),
        ("FREQ=DAILY;UNTIL=99991231T235959Z", "RRULE:FREQ=DAILY;UNTIL=99991231T235959Z"),
        (
            "DTSTART;TZID=Europe/Berlin:20270101T090000 RRULE:FREQ=DAILY",
            "DTSTART;TZID=Europe/Berlin:20270101T090000\nRRULE:FREQ=DAILY",
        ),
        (
            'RRULE:FREQ=DAILY\r\nDTSTART;X-NOTE="a:b";TZID="Europe/Berlin":20270101T090000',
            "DTSTART;TZID=Europe/Berlin:20270101T090000\nRRULE:FREQ=DAILY",
        ),
        ("DTSTART:20270101T090000Z\n  RRULE:FREQ=DAILY\n", "DTSTART:20270101T090000Z\nRRULE:FREQ=DAILY"),
        ("DTSTART;VALUE=DATE:20270101\nFREQ=DAILY", "DTSTART;VALUE=DATE:20270101\nRRULE:FREQ=DAILY"),
        ("RRULE:FREQ=DAILY\n    DTSTART:20270101T235960Z", "DTSTART:20270101T235959Z\nRRULE:FREQ=DAILY"),
        ("RRULE:FREQ=WEEKLY;BYDAY=MO,\n TU;COU\r\n\tNT=3", "RRULE:FREQ=WEEKLY;COUNT=3;BYDAY=MO,TU"),
        (
            "RRULE:FREQ=DAILY\nRDATE:20270105T120000Z,20270106T120000Z\nEXDATE;VALUE=DATE:20270107",
            "RRULE:FREQ=DAILY\nRDATE:20270105T120000Z\nRDATE:20270106T120000Z\nEXDATE;VALUE=DATE:20270107",
        ),
    ],
)
def test_every_spelling_of_a_rule_is_accepted(text, canonical):
    assert canonical_text(parsed(text).written) == canonical


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty: write a rule, such as FREQ=DAILY"),
        ("FREQ=DAÏLY", '"Ï" is not allowed in a rule'),
        ("RRULE", '"RRULE" is not one of the properties DTSTART, RRULE, RDATE, EXDATE; did you mean "RRULE"?'),
        ("SUMMARY:Stand-up", "is not one of the properties DTSTART, RRULE, RDATE, EXDATE"),
        ("FREQ=DAILY; INTERVAL=2", 'has a space before "INTERVAL=2": a rule contains no spaces'),
        (r"DTSTART:20270101T090000Z\nRRULE:FREQ=DAILY", r"contains the two characters \n instead of a line break"),
        ("DTSTART:20270101T090000Z", "has no RRULE: add one"),
        ("RRULE:FREQ=DAILY RRULE:FREQ=WEEKLY", "has more than one RRULE, which RFC 5545 leaves undefined"),
        ("RRULE:FREQ=DAILY EXRULE:FREQ=WEEKLY", "EXRULE is no longer part of iCalendar (RFC 5545): list the dates in"),
        (
            "DTSTART:20270101T090000Z DTEND:20270101T100000Z FREQ=DAILY",
            "DTEND is not supported, because an action has no duration",
        ),
        # Single parts.
        ("RRULE:INTERVAL=2", "FREQ is missing: begin with FREQ=YEARLY, MONTHLY"),
        ("FREQ=FORTNIGHTLY", 'FREQ: "FORTNIGHTLY" is not a frequency'),
        ("FREQ=MONTLY", 'FREQ: "MONTLY" is not a frequency; did you mean "MONTHLY"?'),
        ("FREQ=DAILY;FREQ=DAILY", "FREQ is given twice"),
        ("FREQ=DAILY;", "part 2 is empty: remove one ;"),
        ("FREQ=DAILY;INTERVAL", 'part 2, "INTERVAL": expected NAME=VALUE'),
        ("FREQ=DAILY;COUNT=", "COUNT has no value"),
        ("FREQ=DAILY;BYWEEKDAY=MO", '"BYWEEKDAY" is not a part of a rule; did you mean'),
        ("FREQ=DAILY;BYEASTER=0", "BYEASTER: this part is not in RFC 5545: list the days in RDATE"),
        ("FREQ=DAILY;RSCALE=HEBREW", "calendars other than the Gregorian (RFC 7529) are not supported"),
        ("FREQ=DAILY;INTERVAL=0", 'INTERVAL: "0" is not a whole number from 1 to 1,000,000,000'),
        ("FREQ=DAILY;INTERVAL=-1", 'INTERVAL: "-1" is not a whole number'),
        ("FREQ=DAILY;INTERVAL=1.5", 'INTERVAL: "1.5" is not a whole number'),
        ("FREQ=DAILY;INTERVAL=99999999999", "INTERVAL: "),
        ("FREQ=DAILY;COUNT=0", 'COUNT: "0" is not a whole number from 1 to 10,000'),
        ("FREQ=DAILY;COUNT=10001", 'COUNT: "10001" is not a whole number from 1 to 10,000'),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101", "COUNT and UNTIL cannot both end a rule"),
        ("FREQ=DAILY;UNTIL=2027-01-01", 'UNTIL: "2027-01-01" is not an iCalendar date or time, such as 20270131'),
        ("FREQ=DAILY;UNTIL=20270230", "UNTIL: 20270230 has a date or time of day that does not exist"),
        (
            "FREQ=DAILY;UNTIL=20270101T250000Z",
            "UNTIL: 20270101T250000Z has a date or time of day that does not exist",
        ),
        ("FREQ=DAILY;UNTIL=18991231", "UNTIL: the year of 18991231 is not between 1900 and 9999"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR: 24 is not a number from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=-1", "BYHOUR: -1 is not a number from 0 to 23"),
        ("FREQ=DAILY;BYHOUR=9..17", 'BYHOUR: "9..17": only BYDAY accepts ranges; list each number'),
        ("FREQ=DAILY;BYHOUR=9,,10", 'BYHOUR: "" is not a whole number from 0 to 23'),
        ("FREQ=DAILY;BYMINUTE=60", "BYMINUTE: 60 is not a number from 0 to 59"),
        ("FREQ=DAILY;BYSECOND=61", "BYSECOND: 61 is not a number from 0 to 60"),
        ("FREQ=DAILY;BYMONTH=13", "BYMONTH: 13 is not a number from 1 to 12"),
        ("FREQ=DAILY;BYMONTH=JAN", 'BYMONTH: "JAN" is not a whole number from 1 to 12'),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY: 0 is not a number from 1 to 31, or -31 to -1"),
        ("FREQ=MONTHLY;BYMONTHDAY=-32", "BYMONTHDAY: -32 is not a number from 1 to 31, or -31 to -1"),
        ("FREQ=YEARLY;BYYEARDAY=367", "BYYEARDAY: 367 is not a number from 1 to 366, or -366 to -1"),
        ("FREQ=YEARLY;BYWEEKNO=54", "BYWEEKNO: 54 is not a number from 1 to 53, or -53 to -1"),
        ("FREQ=WEEKLY;BYDAY=MONDAY", 'BYDAY: "MONDAY" is not a day: use MO, TU, WE, TH, FR, SA, SU'),
        ("FREQ=WEEKLY;BYDAY=XX", 'BYDAY: "XX" is not a day of the week'),
        ("FREQ=WEEKLY;BYDAY=MO..XX", 'BYDAY: "XX" is not a day of the week'),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY: 0MO: 0 is not a number from 1 to 53, or -53 to -1"),
        ("FREQ=WEEKLY;WKST=1", 'WKST: "1" is not a day of the week'),
        # Combinations of parts.
        ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO needs FREQ=YEARLY, not MONTHLY"),
        ("FREQ=DAILY;BYYEARDAY=1", "BYYEARDAY is not allowed with FREQ=DAILY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY is not allowed with FREQ=WEEKLY: use MONTHLY"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY: 1MO: the nth day needs FREQ=MONTHLY or YEARLY, not WEEKLY"),
        ("FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO", "BYDAY: 1MO: the nth day is not allowed with BYWEEKNO"),
        ("FREQ=MONTHLY;BYDAY=6MO", "BYDAY: 6MO: a month has at most 5 of each weekday"),
        ("FREQ=YEARLY;BYMONTH=1;BYDAY=6MO", "BYDAY: 6MO: a month has at most 5 of each weekday"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS selects from the dates of another BY part: add one"),
        (
            "FREQ=HOURLY;BYMINUTE=0,30;BYSETPOS=3",
            "BYSETPOS: 3 selects nothing: a period of FREQ=HOURLY has at most 2 instants",
        ),
        (
            "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=-8",
            "BYSETPOS: -8 selects nothing: a period of FREQ=WEEKLY has at most 7 instants",
        ),
        (
            f"FREQ=DAILY;BYHOUR=0,1;BYMINUTE={','.join(map(str, range(60)))};BYSECOND={','.join(map(str, range(60)))}",
            "has 7,200 times a day, but FREQ=DAILY allows at most 1,440: use FREQ=MINUTELY or SECONDLY",
        ),
        # DTSTART, RDATE, EXDATE.
        ("DTSTART:20270101T090000Z,20270102T090000Z FREQ=DAILY", "DTSTART has more than one value"),
        ("DTSTART:20270101T090000Z DTSTART:20270102T090000Z FREQ=DAILY", "DTSTART has more than one value"),
        (
            "DTSTART;TZID=Europe/Berlim:20270101T090000 FREQ=DAILY",
            "DTSTART: TZID=Europe/Berlim is not an IANA time zone",
        ),
        (
            "DTSTART;TZID=../../etc/passwd:20270101T090000 FREQ=DAILY",
            "DTSTART: TZID=../../etc/passwd is not an IANA time",
        ),
        ("DTSTART;TZID=Europe/Berlin:20270101T090000Z FREQ=DAILY", "is in UTC (Z) and also has a TZID"),
        ("DTSTART;VALUE=PERIOD:20270101T090000Z/PT1H FREQ=DAILY", "VALUE=PERIOD has an end"),
        ("DTSTART;VALUE=TEXT:20270101 FREQ=DAILY", "VALUE=TEXT is not DATE or DATE-TIME"),
        ("DTSTART;VALUE=DATE:20270101T090000 FREQ=DAILY", "VALUE=DATE, but 20270101T090000 is a time"),
        ("DTSTART;VALUE=DATE-TIME:20270101 FREQ=DAILY", "VALUE=DATE-TIME, but 20270101 is a date"),
        ("DTSTART;RANGE=ALL:20270101 FREQ=DAILY", 'DTSTART: unknown parameter "RANGE"'),
        ("DTSTART:99980101T000000Z FREQ=DAILY", "DTSTART: the year of 99980101T000000Z is not between 1900 and 9990"),
        (
            "DTSTART;VALUE=DATE:20270101 FREQ=DAILY;BYHOUR=9",
            "BYHOUR, BYMINUTE and BYSECOND need a DTSTART with a time",
        ),
        (
            "DTSTART;VALUE=DATE:20270101 FREQ=DAILY;UNTIL=20270201T000000Z",
            "is a time, but DTSTART is a date: write UNTIL=",
        ),
        (
            "DTSTART;TZID=Europe/Berlin:20270101T090000 FREQ=DAILY;UNTIL=20270201T090000",
            (
                "must be in UTC because DTSTART is in Europe/Berlin: "
                "if it is local time in that zone, write UNTIL=20270201T080000Z"
            ),
        ),
    ],
)
def test_a_malformed_rule_is_rejected_with_the_part_and_the_problem(text, problem):
    with pytest.raises(RecurrenceInvalid) as refused:
        parsed(text)

    assert problem in refused.value.problem
    assert refused.value.rule == text
    assert not isinstance(refused.value, NeverOccurs)


# -- start and end -----------------------------------------------------------------------------------------------------


def test_without_dtstart_the_start_of_the_schedule_is_the_first_occurrence():
    assert local("FREQ=DAILY", 2) == ["2026-11-21 09:00:00-0500", "2026-11-22 09:00:00-0500"]


def test_the_start_keeps_its_seconds_but_not_its_fraction_and_no_earlier_occurrence_is_counted():
    anchor = ANCHOR + timedelta(seconds=9, microseconds=700_000)

    assert local("FREQ=DAILY;COUNT=2", 3, anchor=anchor) == ["2026-11-22 09:00:09-0500", "2026-11-23 09:00:09-0500"]
    assert parsed("FREQ=DAILY", anchor=anchor).next_after(ANCHOR - timedelta(days=1)).at > anchor
    assert local("FREQ=HOURLY;COUNT=2", 3, anchor=anchor) == ["2026-11-21 10:00:09-0500", "2026-11-21 11:00:09-0500"]


@pytest.mark.parametrize(
    ("line", "zone", "first"),
    [
        ("DTSTART;TZID=Europe/Berlin:20270101T090000", "Europe/Berlin", "2027-01-01 09:00:00+0100"),
        ("DTSTART:20270101T090000Z", "UTC", "2027-01-01 09:00:00+0000"),
        ("DTSTART:20270101T090000", "America/New_York", "2027-01-01 09:00:00-0500"),
        ("DTSTART;VALUE=DATE:20270101", "America/New_York", "2027-01-01 00:00:00-0500"),
        ("DTSTART;VALUE=DATE;TZID=Europe/Berlin:20270101", "Europe/Berlin", "2027-01-01 00:00:00+0100"),
    ],
)
def test_a_dtstart_sets_the_start_and_the_zone(line, zone, first):
    text = f"{line}\nRRULE:FREQ=DAILY"

    assert parsed(text).zone.key == zone
    assert local(text, 1) == [first]


def test_a_start_that_does_not_match_the_rule_is_not_an_occurrence():
    text = "DTSTART;TZID=America/New_York:20270101T090000 RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=2"

    assert local(text, 3) == ["2027-01-04 09:00:00-0500", "2027-01-11 09:00:00-0500"]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20261123T140000Z", "2026-11-23"),
        ("20261123T135959Z", "2026-11-22"),
        ("20261123T090000", "2026-11-23"),
        ("20261123T085959", "2026-11-22"),
        ("20261123", "2026-11-23"),
        ("20261120", None),
    ],
)
def test_until_is_inclusive_in_each_of_its_forms(until, last):
    found = local(f"FREQ=DAILY;UNTIL={until}", 10)

    assert (found[-1][:10] if found else None) == last


def test_until_as_a_date_ends_with_the_last_second_of_that_day():
    assert local("FREQ=HOURLY;INTERVAL=5;UNTIL=20261121", 9)[-1] == "2026-11-21 19:00:00-0500"
    assert local("FREQ=DAILY;BYHOUR=0;UNTIL=20261122", 9) == ["2026-11-22 00:00:00-0500"]


def test_an_ended_rule_returns_none_and_an_empty_one_never_occurs():
    assert parsed("FREQ=DAILY;COUNT=1").next_after(ANCHOR) is None
    assert parsed("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;UNTIL=20300101").next_after(ANCHOR) is None
    with pytest.raises(NeverOccurs, match="has no occurrence within 30 years after 2026-11-21"):
        parsed("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30").next_after(ANCHOR)
    with pytest.raises(NeverOccurs):
        parsed("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;COUNT=3").next_after(ANCHOR)


def test_an_occurrence_more_than_thirty_years_ahead_is_rejected():
    rule = parsed("DTSTART:20600101T000000Z RRULE:FREQ=YEARLY")

    for unreachable in (
        rule,
        parsed("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;UNTIL=20700101"),
        parsed("RRULE:FREQ=DAILY;COUNT=1 RDATE:20700101T000000Z"),
    ):
        with pytest.raises(NeverOccurs):
            unreachable.next_after(ANCHOR)
    assert rule.next_after(datetime(2040, 1, 1, tzinfo=UTC)).at == datetime(2060, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00", "1899-12-31T00:00:00", "9999-12-31T23:59:59.999999"])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Niue", "UTC"])
def test_the_ends_of_the_calendar_raise_no_overflow_error(moment, zone):
    asked = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone))

    for text in ("FREQ=DAILY", "FREQ=HOURLY;BYHOUR=3", "FREQ=YEARLY;BYWEEKNO=1;BYSETPOS=1"):
        rule = parsed(text, zone)
        if asked < ANCHOR:
            assert rule.next_after(asked) == rule.next_after(ANCHOR - timedelta(microseconds=1))
        else:
            with pytest.raises(NeverOccurs):
                rule.next_after(asked)


@pytest.mark.parametrize("anchor", ["0001-01-01T00:00:00", "9999-12-31T23:59:59"])
def test_a_start_at_the_ends_of_the_calendar_raises_no_overflow_error(anchor):
    start = datetime.fromisoformat(anchor).replace(tzinfo=ZoneInfo("Pacific/Kiritimati"))

    for text in ("FREQ=DAILY;COUNT=3", "FREQ=HOURLY;BYHOUR=3;COUNT=3"):
        rule = parsed(text, anchor=start)

        assert rule.description
        assert rule.warnings == ()


def test_a_count_that_ends_beyond_the_calendar_does_not_end_the_rule():
    assert parsed("FREQ=YEARLY;INTERVAL=20;COUNT=10000").next_after(ANCHOR).at.year == 2046


# -- RDATE and EXDATE --------------------------------------------------------------------------------------------------


def test_rdate_adds_instants_in_order_and_without_duplicates():
    text = (
        "RRULE:FREQ=DAILY;COUNT=2 RDATE:20261121T200000Z,20261122T140000Z RDATE;TZID=Asia/Tokyo:20261201T090000 "
        "RDATE;VALUE=DATE:20261224"
    )

    assert local(text, 9) == [
        "2026-11-21 09:00:00-0500",
        "2026-11-21 15:00:00-0500",
        "2026-11-22 09:00:00-0500",
        "2026-11-30 19:00:00-0500",
        "2026-12-24 09:00:00-0500",
    ]


def test_an_rdate_that_a_clock_change_moves_has_a_remark():
    rule = parsed("FREQ=YEARLY RDATE:20270314T023000,20270314T033000")

    found = occurrences(rule, 2)[1]

    assert found.at == datetime(2027, 3, 14, 7, 30, tzinfo=UTC)
    assert found.remarks == ("02:30 does not exist on 2027-03-14 in America/New_York: moved to 03:30",)


def test_exdate_leaves_out_instants_and_whole_days_and_does_not_lengthen_a_count():
    text = (
        "RRULE:FREQ=HOURLY;INTERVAL=6;COUNT=8 EXDATE:20261121T140000Z EXDATE;TZID=Asia/Tokyo:20261122T110000 "
        "EXDATE;VALUE=DATE:20261122"
    )

    assert local(text, 9) == ["2026-11-21 15:00:00-0500", "2026-11-23 03:00:00-0500"]


def test_a_rule_whose_every_occurrence_is_an_exception_has_none():
    assert parsed("RRULE:FREQ=DAILY;COUNT=1 EXDATE:20261121T140000Z").next_after(ANCHOR - ONE_MICROSECOND) is None


# -- clock changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "text", "since", "expected"),
    [
        pytest.param(
            "America/New_York", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;COUNT=500", "2027-03-13",
            ["2027-03-13 02:30:00-0500", "2027-03-14 03:30:00-0400", "2027-03-15 02:30:00-0400"],
            id="a time in a gap moves later by the gap",
        ),
        pytest.param(
            "America/New_York", "FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,30", "2027-03-14",
            ["2027-03-14 03:00:00-0400", "2027-03-14 03:30:00-0400", "2027-03-15 02:00:00-0400"],
            id="two wall times at the same instant are one occurrence",
        ),
        pytest.param(
            "America/New_York", "FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,45", "2027-03-14",
            ["2027-03-14 03:00:00-0400", "2027-03-14 03:45:00-0400", "2027-03-15 02:00:00-0400"],
            id="moved times stay in order",
        ),
        pytest.param(
            "America/New_York", "FREQ=DAILY;BYHOUR=1;BYMINUTE=30", "2027-11-06",
            ["2027-11-06 01:30:00-0400", "2027-11-07 01:30:00-0400", "2027-11-08 01:30:00-0500"],
            id="a time that occurs twice means the first",
        ),
        pytest.param(
            "Australia/Lord_Howe", "FREQ=DAILY;BYHOUR=2;BYMINUTE=10", "2027-10-02",
            ["2027-10-02 02:10:00+1030", "2027-10-03 02:40:00+1100", "2027-10-04 02:10:00+1100"],
            id="a gap of half an hour",
        ),
        pytest.param(
            "Australia/Lord_Howe", "FREQ=DAILY;BYHOUR=2;BYMINUTE=10,35", "2027-10-03",
            ["2027-10-03 02:35:00+1100", "2027-10-03 02:40:00+1100", "2027-10-04 02:10:00+1100"],
            id="a time that moves past another is after it",
        ),
        pytest.param(
            "Pacific/Apia", "FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "2011-12-29",
            ["2011-12-29 09:00:00-1000", "2011-12-31 09:00:00+1400", "2012-01-01 09:00:00+1400"],
            id="a day that is skipped",
        ),
        pytest.param(
            "America/New_York", "FREQ=HOURLY", "2027-03-14T01:00",
            ["2027-03-14 01:00:00-0500", "2027-03-14 03:00:00-0400", "2027-03-14 04:00:00-0400"],
            id="each hour of real time in spring",
        ),
        pytest.param(
            "America/New_York", "FREQ=HOURLY", "2027-11-07T00:00",
            ["2027-11-07 00:00:00-0400", "2027-11-07 01:00:00-0400", "2027-11-07 01:00:00-0500",
             "2027-11-07 02:00:00-0500"],
            id="each hour of real time in autumn",
        ),
        pytest.param(
            "America/New_York", "FREQ=HOURLY;BYHOUR=2", "2027-03-13",
            ["2027-03-13 02:00:00-0500", "2027-03-15 02:00:00-0400"],
            id="an hour that is skipped has no instant",
        ),
        pytest.param(
            "America/New_York", "FREQ=MINUTELY;INTERVAL=30;BYHOUR=1", "2027-11-07",
            ["2027-11-07 01:00:00-0400", "2027-11-07 01:30:00-0400", "2027-11-07 01:00:00-0500",
             "2027-11-07 01:30:00-0500", "2027-11-08 01:00:00-0500"],
            id="an hour that occurs twice has its instants twice",
        ),
        pytest.param(
            "Australia/Lord_Howe", "FREQ=HOURLY", "2027-04-04T01:00",
            ["2027-04-04 01:00:00+1100", "2027-04-04 01:30:00+1030", "2027-04-04 02:30:00+1030"],
            id="hours of real time through a change of half an hour",
        ),
        pytest.param(
            "Australia/Lord_Howe", "FREQ=HOURLY;BYMINUTE=0,30", "2027-10-03T01:00",
            ["2027-10-03 01:00:00+1030", "2027-10-03 01:30:00+1030", "2027-10-03 02:30:00+1100",
             "2027-10-03 03:00:00+1100"],
            id="BYMINUTE means the minutes of the clock",
        ),
        pytest.param(
            "Australia/Lord_Howe", "FREQ=HOURLY;BYMINUTE=0", "2027-10-03T01:00",
            ["2027-10-03 01:00:00+1030", "2027-10-03 03:00:00+1100", "2027-10-03 04:00:00+1100"],
            id="a minute of BYMINUTE that is skipped has no instant",
        ),
        pytest.param(
            "Australia/Lord_Howe", "FREQ=HOURLY;BYMINUTE=45", "2027-04-04T01:00",
            ["2027-04-04 01:45:00+1100", "2027-04-04 01:45:00+1030", "2027-04-04 02:45:00+1030"],
            id="a minute of BYMINUTE that occurs twice has two instants",
        ),
        pytest.param(
            "Pacific/Apia", "FREQ=HOURLY;INTERVAL=6", "2011-12-29T18:00",
            ["2011-12-29 19:00:00-1000", "2011-12-31 01:00:00+1400", "2011-12-31 07:00:00+1400"],
            id="hours of real time through a skipped day",
        ),
        pytest.param(
            "America/St_Johns", "FREQ=MINUTELY;INTERVAL=20;BYDAY=SA;BYHOUR=23", "2006-10-28T23:30",
            ["2006-10-28 23:40:00-0230", "2006-10-28 23:20:00-0330", "2006-10-28 23:40:00-0330",
             "2006-11-04 23:00:00-0330"],
            id="a clock that goes back to the day before",
        ),
        pytest.param(
            "America/St_Johns", "FREQ=MINUTELY;INTERVAL=20;BYDAY=SU", "2006-10-28T23:30",
            ["2006-10-29 00:00:00-0230", "2006-10-29 00:00:00-0330", "2006-10-29 00:20:00-0330"],
            id="a day that begins twice",
        ),
        pytest.param(
            "America/St_Johns", "FREQ=MINUTELY;INTERVAL=20;BYDAY=SU;BYHOUR=3", "2006-10-28T23:30",
            ["2006-10-29 03:00:00-0330", "2006-10-29 03:20:00-0330"],
            id="a later hour of a day that begins twice",
        ),
    ],
)  # fmt: skip
def test_occurrences_at_clock_changes(zone, text, since, expected):
    anchor = datetime(2006, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    start = f"DTSTART;TZID={zone}:{anchor.astimezone(ZoneInfo(zone)):%Y%m%dT%H%M%S}"
    if "COUNT" in text:
        start = f"DTSTART;TZID={zone}:20270101T000000"

    assert local(f"{start}\n{text}", len(expected), zone, since) == expected


def test_occurrences_affected_by_a_clock_change_have_remarks():
    moved = parsed("FREQ=DAILY;BYHOUR=2;BYMINUTE=30").next_after(datetime(2027, 3, 14, 5, tzinfo=UTC))
    joined = parsed("FREQ=DAILY;BYHOUR=2,3;BYMINUTE=30").next_after(datetime(2027, 3, 14, 5, tzinfo=UTC))
    twice = parsed("FREQ=DAILY;BYHOUR=1;BYMINUTE=30").next_after(datetime(2027, 11, 7, 4, tzinfo=UTC))
    first, second = occurrences(parsed("FREQ=HOURLY"), 2, datetime(2027, 11, 7, 5, tzinfo=UTC))

    assert moved.remarks == ("02:30 does not exist on 2027-03-14 in America/New_York: moved to 03:30",)
    assert joined == moved
    assert twice.remarks == ("01:30 occurs twice on 2027-11-07 in America/New_York: this is the first",)
    assert first.remarks == ("01:00 occurs twice on 2027-11-07 in America/New_York: this is the first",)
    assert second.remarks == ("01:00 occurs twice on 2027-11-07 in America/New_York: this is the second",)
    assert parsed("FREQ=DAILY").next_after(ANCHOR).remarks == ()


def test_an_occurrence_that_a_gap_moves_is_counted():
    text = "DTSTART;TZID=America/New_York:20270313T023000 RRULE:FREQ=DAILY;COUNT=3"

    assert [found[5:16] for found in local(text, 9)] == ["03-13 02:30", "03-14 03:30", "03-15 02:30"]


def test_a_wall_time_before_the_start_is_not_an_occurrence_even_if_a_gap_moves_it_past_the_start():
    text = "DTSTART;TZID=Australia/Lord_Howe:20271003T023500 RRULE:FREQ=DAILY;BYHOUR=2;BYMINUTE=10,35;COUNT=2"

    assert local(text, 3) == ["2027-10-03 02:35:00+1100", "2027-10-04 02:10:00+1100"]


def test_a_day_that_does_not_exist_is_left_out_and_not_counted():
    text = "DTSTART;TZID=America/New_York:20270131T090000 RRULE:FREQ=MONTHLY;COUNT=4"

    assert [found[:10] for found in local(text, 9)] == ["2027-01-31", "2027-03-31", "2027-05-31", "2027-07-31"]


# -- choices that RFC 5545 leaves open ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "days"),
    [
        pytest.param(
            "FREQ=YEARLY;BYWEEKNO=20", ["2027-05-22", "2028-05-20"], id="BYWEEKNO alone takes the start's weekday"
        ),
        pytest.param(
            "FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO", ["2027-01-04", "2028-01-03", "2029-01-01", "2029-12-31"],
            id="week 1 may begin in the year before",
        ),
        pytest.param(
            "FREQ=YEARLY;BYMONTHDAY=15;COUNT=3", ["2026-12-15", "2027-01-15", "2027-02-15"],
            id="YEARLY with BYMONTHDAY alone means every month",
        ),
        pytest.param(
            "FREQ=MONTHLY;BYDAY=1MO,TU;BYMONTH=12;COUNT=6",
            ["2026-12-01", "2026-12-07", "2026-12-08", "2026-12-15", "2026-12-22", "2026-12-29"],
            id="plain and nth weekdays are both included",
        ),
        pytest.param(
            "FREQ=WEEKLY;BYDAY=MO..SU;BYSETPOS=-1;COUNT=2", ["2026-11-22", "2026-11-29"],
            id="BYSETPOS counts from the first day of the week, not from the start",
        ),
        pytest.param(
            "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU,-1SU", ["2027-03-14", "2027-03-28", "2028-03-12"],
            id="BYMONTH makes the nth weekday one of the month, not of the year",
        ),
        pytest.param("FREQ=YEARLY;BYDAY=53FR", ["2027-12-31", "2032-12-31"], id="few years have a 53rd Friday"),
    ],
)  # fmt: skip
def test_choices_that_the_rfc_leaves_open(text, days):
    assert [found[:10] for found in local(text, len(days))] == days
