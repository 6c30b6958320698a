"""Descriptions of recurrence rules in English, and warnings about them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.recurrence.rrule.rule import parse_rrule

#: 09:07:10 on a Saturday in New York.
ANCHOR = datetime(2026, 11, 21, 14, 7, 10, tzinfo=UTC)
ON_THE_HOUR = datetime(2026, 11, 21, 14, tzinfo=UTC)
NINE = "BYHOUR=9;BYMINUTE=0;BYSECOND=0"
BERLIN = "DTSTART;TZID=Europe/Berlin:20260102T093000"


def parsed(text, anchor=ANCHOR, zone="America/New_York"):
    return parse_rrule(text, zone=ZoneInfo(zone), anchor=anchor)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FREQ=DAILY", "Every day"),
        ("FREQ=DAILY;INTERVAL=10", "Every 10 days"),
        (f"FREQ=DAILY;{NINE}", "Every day at 09:00"),
        (f"FREQ=DAILY;BYDAY=MO..FR;{NINE}", "Every day, only on Monday to Friday at 09:00"),
        ("FREQ=DAILY;BYDAY=MO..SU", "Every day"),
        ("FREQ=DAILY;BYMONTH=1", "Every day, only in January"),
        ("FREQ=DAILY;BYMONTHDAY=13;BYDAY=FR", "Every day, only on the 13th if that is a Friday"),
        ("FREQ=DAILY;BYHOUR=9", "Every day at 09:07:10"),
        ("FREQ=DAILY;BYHOUR=9,17;BYMINUTE=30;BYSECOND=0", "Every day at 09:30 and 17:30"),
        (
            "FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40;BYSECOND=0",
            "Every day at minutes 0, 20 and 40 of hours 9 to 16",
        ),
        (
            f"FREQ=DAILY;BYHOUR={','.join(map(str, range(24)))};BYMINUTE=5",
            "Every day at second 10 of minute 5 of every hour",
        ),
        (
            "FREQ=DAILY;BYHOUR=9,10,11;BYMINUTE=0;BYSECOND=0;BYSETPOS=1,-1",
            "Every day at 09:00, 10:00 and 11:00 (only the first and last of these each day)",
        ),
        ("FREQ=WEEKLY", "Every week on Saturday"),
        (
            f"FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,TH;{NINE};COUNT=10",
            "Every 2 weeks on Tuesday and Thursday at 09:00, 10 times",
        ),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
            "Every 2 weeks on Tuesday and Sunday, weeks beginning on Sunday",
        ),
        ("FREQ=WEEKLY;BYDAY=TU,SU;WKST=SU", "Every week on Tuesday and Sunday"),
        ("FREQ=WEEKLY;BYDAY=MO..SU;BYMONTH=7,8", "Every week in July and August on every day"),
        ("FREQ=WEEKLY;BYDAY=MO..FR;BYSETPOS=1", "Every week on the first weekday (Monday to Friday)"),
        ("FREQ=MONTHLY", "Every month on the 21st"),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", "Every month on the last day"),
        ("FREQ=MONTHLY;BYMONTHDAY=1,2,15,-1,-3", "Every month on the 1st, 2nd, 15th, third to last day and last day"),
        ("FREQ=MONTHLY;INTERVAL=2;BYDAY=TU", "Every 2 months on every Tuesday"),
        ("FREQ=MONTHLY;BYDAY=MO..SU", "Every month on every day"),
        ("FREQ=MONTHLY;BYDAY=1SU,-1SU", "Every month on the first and last Sunday"),
        ("FREQ=MONTHLY;BYDAY=-2MO,FR", "Every month on every Friday and the second to last Monday"),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "Every month on the 13th if that is a Friday"),
        (
            "FREQ=MONTHLY;BYDAY=SA,1SU;BYMONTHDAY=7,8,9,10",
            "Every month on the 7th to 10th if that is a Saturday or the first Sunday",
        ),
        ("FREQ=MONTHLY;BYDAY=MO..FR;BYSETPOS=-1", "Every month on the last weekday (Monday to Friday)"),
        (
            "FREQ=MONTHLY;BYDAY=SA,SU;BYSETPOS=1,-1",
            "Every month on the first and last weekend day (Saturday and Sunday)",
        ),
        ("FREQ=MONTHLY;BYDAY=MO..SU;BYSETPOS=-2", "Every month on the second to last day"),
        ("FREQ=MONTHLY;BYDAY=TU,WE,TH;BYSETPOS=3", "Every month on the third Tuesday, Wednesday or Thursday"),
        (
            "FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYSETPOS=-1",
            "Every month on the 28th to 31st (only the last of these each month)",
        ),
        (
            "FREQ=MONTHLY;BYDAY=FR;BYHOUR=9,10;BYMINUTE=0;BYSECOND=0;BYSETPOS=-1",
            "Every month on every Friday at 09:00 and 10:00 (only the last of these each month)",
        ),
        ("FREQ=YEARLY", "Every year on 21 November"),
        ("FREQ=YEARLY;BYMONTH=6,7", "Every year in June and July on the 21st"),
        (
            "FREQ=YEARLY;BYMONTH=6,7;BYDAY=TH;UNTIL=20271224",
            "Every year in June and July on Thursday until 24 December 2027",
        ),
        ("FREQ=YEARLY;BYMONTH=1,2,3,5;BYDAY=1MO", "Every year in January to March and May on the first Monday"),
        ("FREQ=YEARLY;BYMONTHDAY=15", "Every year on the 15th of every month"),
        ("FREQ=YEARLY;BYDAY=MO", "Every year on every Monday"),
        ("FREQ=YEARLY;BYDAY=20MO,-1FR", "Every year on the 20th Monday and the last Friday of the year"),
        ("FREQ=YEARLY;BYYEARDAY=1,100,-1", "Every year on the 1st, 100th and last day of the year"),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "Every year in week 20 of the year on Monday"),
        (
            "FREQ=YEARLY;BYWEEKNO=1,2,-1;BYDAY=MO;WKST=SU",
            "Every year in weeks 1 and 2 and the last week of the year on Monday, weeks beginning on Sunday",
        ),
        ("FREQ=YEARLY;BYDAY=MO..FR;BYSETPOS=-1", "Every year on the last weekday (Monday to Friday) of the year"),
        (
            "FREQ=YEARLY;BYDAY=MO..FR;BYMONTH=12;BYSETPOS=-1",
            "Every year in December on the last weekday (Monday to Friday)",
        ),
        (
            "FREQ=YEARLY;BYDAY=MO;BYMONTH=1,6;BYSETPOS=-1",
            "Every year in January and June on Monday (only the last of these each year)",
        ),
        ("FREQ=HOURLY", "Every hour"),
        ("FREQ=HOURLY;BYMINUTE=0,30", "Every hour at minutes 0 and 30"),
        (
            "FREQ=HOURLY;BYMINUTE=0,30;BYSECOND=5;BYSETPOS=-1",
            "Every hour at minutes 0 and 30 and second 5 (only the last of these each hour)",
        ),
        (
            "FREQ=HOURLY;INTERVAL=3;BYHOUR=9,10,11,14;BYDAY=MO..FR",
            "Every 3 hours, only on Monday to Friday during 09:00-11:59 and 14:00-14:59",
        ),
        ("FREQ=MINUTELY;BYSECOND=0,30", "Every minute at seconds 0 and 30"),
        (
            "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9;BYMINUTE=0,20",
            "Every 20 minutes, only during 09:00-09:59 in minutes 0 and 20",
        ),
        ("FREQ=SECONDLY;INTERVAL=5000;BYSECOND=10", "Every 5,000 seconds, only at second 10"),
        ("FREQ=SECONDLY;BYYEARDAY=100;COUNT=1", "Every second, only on the 100th day of the year, once"),
        (f"{BERLIN} RRULE:FREQ=DAILY", "Every day at 09:30"),
        (f"{BERLIN} RRULE:FREQ=HOURLY;INTERVAL=3", "Every 3 hours from 2 January 2026 at 09:30"),
        (
            f"{BERLIN} RRULE:FREQ=WEEKLY;UNTIL=20261224T110000Z",
            "Every week on Friday at 09:30 until 24 December 2026 at 12:00",
        ),
        ("FREQ=DAILY;UNTIL=20271224T120000", "Every day until 24 December 2027 at 12:00"),
        ("FREQ=DAILY;UNTIL=99991231T235959Z", "Every day"),
        (
            "RRULE:FREQ=DAILY RDATE:20270101T120000Z EXDATE;VALUE=DATE:20261224,20261225",
            "Every day, and on 1 January 2027 at 07:00, except on 24 December 2026 and 25 December 2026",
        ),
        ("RRULE:FREQ=DAILY EXDATE;VALUE=DATE:20261224,20261225,20261226", "Every day, except on 3 dates"),
    ],
)
def test_a_rule_has_this_description(text, words):
    assert parsed(text).description == words


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "FREQ=MONTHLY;BYMONTHDAY=31",
            (
                "day 31: months without it are left out (February, April, June, September, November); "
                "BYMONTHDAY=-1 is the last day of every month"
            ),
        ),
        (
            "FREQ=DAILY;BYMONTHDAY=30",
            "day 30: months without it are left out (February); BYMONTHDAY=-1 is the last day of every month",
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=29",
            "day 29: February has it in leap years only; BYMONTHDAY=-1 is the last day of every month",
        ),
        (
            "DTSTART;TZID=America/New_York:20280229T090000 RRULE:FREQ=YEARLY",
            "29 February exists in leap years only: other years are left out; BYMONTHDAY=-1 is always the last day",
        ),
        (
            "FREQ=YEARLY;BYYEARDAY=366",
            "BYYEARDAY=366 exists in leap years only; BYYEARDAY=-1 is the last day of every year",
        ),
        (
            "FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO",
            "BYWEEKNO=53: most years have 52 weeks and are left out; BYWEEKNO=-1 is the last week of every year",
        ),
        ("FREQ=MONTHLY;BYDAY=5FR", "BYDAY=5FR: months with 4 Fridays are left out; BYDAY=-1FR is the last one"),
        ("FREQ=YEARLY;BYDAY=53FR", "BYDAY=53FR: years with 52 Fridays are left out; BYDAY=-1FR is the last one"),
        ("FREQ=DAILY;UNTIL=20271224", "UNTIL=20271224 is a date: all of that day in America/New_York is included"),
        (
            "FREQ=DAILY;UNTIL=20271224T120000",
            "UNTIL=20271224T120000 has no Z: it is local time in America/New_York, not UTC",
        ),
        (
            "FREQ=HOURLY;INTERVAL=24",
            "24 hours of real time: the time of day moves when the clocks change; FREQ=DAILY keeps it",
        ),
        (
            "FREQ=MINUTELY;INTERVAL=2880",
            "48 hours of real time: the time of day moves when the clocks change; FREQ=DAILY;INTERVAL=2 keeps it",
        ),
        (
            "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0",
            "02:30 does not exist on 2027-03-14 in America/New_York: moved to 03:30",
        ),
        (
            "DTSTART;TZID=America/New_York:20270314T023000 RRULE:FREQ=DAILY",
            "02:30 does not exist on 2027-03-14 in America/New_York: moved to 03:30",
        ),
        (
            "DTSTART;TZID=America/New_York:20270101T090000 RRULE:FREQ=WEEKLY;BYDAY=MO",
            "DTSTART 2027-01-01 09:00 does not match the rule: the first occurrence is 2027-01-04 09:00",
        ),
        (
            "DTSTART:20270101T090000Z RRULE:FREQ=DAILY",
            "DTSTART is in UTC: the rule follows the clock of that zone, not of America/New_York",
        ),
        (
            "FREQ=DAILY;BYHOUR=9",
            (
                "BYHOUR without BYMINUTE and BYSECOND takes the missing part of the time from the start (09:07:10); "
                "add BYMINUTE=0;BYSECOND=0 to use zero instead"
            ),
        ),
        (
            "FREQ=WEEKLY;BYHOUR=9;BYMINUTE=0",
            (
                "BYHOUR without BYSECOND takes the missing part of the time from the start (09:07:10); "
                "add BYSECOND=0 to use zero instead"
            ),
        ),
    ],
)
def test_common_mistakes_have_warnings(text, warning):
    assert parsed(text).warnings == (warning,)


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY",
        "FREQ=DAILY;BYHOUR=9",
        "FREQ=MONTHLY;BYMONTHDAY=-1",
        "FREQ=MONTHLY;BYMONTHDAY=28,29,30,31;BYSETPOS=-1",
        "FREQ=YEARLY;BYMONTH=1,3;BYMONTHDAY=31",
        "FREQ=HOURLY;BYMINUTE=30",
        "FREQ=HOURLY;INTERVAL=12",
        "FREQ=DAILY;BYHOUR=1;BYMINUTE=30",
        "FREQ=DAILY;UNTIL=20271224T120000Z",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "DTSTART;TZID=America/New_York:20270101T090000 RRULE:FREQ=DAILY",
        "DTSTART:20270101T090000 RRULE:FREQ=DAILY;UNTIL=20280101T090000",
    ],
)
def test_an_unambiguous_rule_has_no_warnings(text):
    assert parsed(text, ON_THE_HOUR).warnings == ()


def test_a_rule_in_utc_has_no_warnings_about_zones():
    for text in ("FREQ=DAILY;UNTIL=20271224T120000", "FREQ=HOURLY;INTERVAL=24", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30"):
        assert parsed(text, ON_THE_HOUR, "UTC").warnings == ()
