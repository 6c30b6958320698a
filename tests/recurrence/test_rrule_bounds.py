"""No rule takes long; calls are counted instead of time, so that the result does not depend on the machine."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.core.errors import BudgetExceeded, NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.rrule.rule import parse_rrule
from scheduled_actions.recurrence.rrule.text import read_text
from scheduled_actions.recurrence.rrule.wall import matching_days

ANCHOR = datetime(2026, 11, 21, 14, 7, 10, tzinfo=UTC)
FAR = "DTSTART:19000101T000000Z RRULE:"
#: A call takes 0.2 to 0.4 µs on two slow cores: 200 ms at most
CALLS_MOST = 500_000
MINUTES = ",".join(map(str, range(60)))
HOURS = ",".join(map(str, range(24)))


class Calls:
    """A context manager that counts function calls, including calls of built-in functions."""

    def __init__(self):
        self.count = 0

    def __enter__(self):
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_):
        sys.setprofile(self._before)

    def _note(self, frame, event, argument):
        self.count += event in {"call", "c_call"}


def answer_and_calls(text, zone="America/New_York", moment=ANCHOR):
    """Return the next instant of a rule, or its error, and the number of calls for parsing and searching."""
    for cached in (read_text, matching_days):
        cached.cache_clear()
    with Calls() as calls:
        try:
            occurrence = parse_rrule(text, zone=ZoneInfo(zone), anchor=ANCHOR).next_after(moment)
            answer = occurrence and occurrence.at
        except (RecurrenceInvalid, BudgetExceeded) as refused:
            answer = refused
    return answer, calls.count


@pytest.mark.parametrize("zone", ["UTC", "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    "text",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;BYMONTH=4;BYMONTHDAY=31;COUNT=10000",
        "FREQ=YEARLY;BYWEEKNO=1;BYMONTH=6;BYDAY=MO",
        "FREQ=YEARLY;BYYEARDAY=200;BYMONTH=1;BYSETPOS=300",
        "FREQ=WEEKLY;INTERVAL=1000000000;BYDAY=FR",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTH=3",
        "FREQ=DAILY;INTERVAL=1000;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "FREQ=HOURLY;INTERVAL=24;BYHOUR=8;BYMINUTE=7",
        "FREQ=HOURLY;INTERVAL=8766;BYHOUR=8;BYMONTH=1;BYMONTHDAY=1;BYDAY=MO",
        "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=8",
        "FREQ=MINUTELY;INTERVAL=2;BYMINUTE=0,2,4",
        "FREQ=MINUTELY;INTERVAL=90;BYMINUTE=31;BYDAY=MO,WE,TU",
        "FREQ=SECONDLY;INTERVAL=2;BYSECOND=1",
        "FREQ=SECONDLY;INTERVAL=3600;BYMINUTE=8;BYSECOND=10",
        "FREQ=SECONDLY;INTERVAL=86400;BYSECOND=11",
        "FREQ=SECONDLY;INTERVAL=604800;BYDAY=MO",
        "FREQ=SECONDLY;INTERVAL=999999937;BYSECOND=59;BYMINUTE=59;BYHOUR=23;BYDAY=SU;BYMONTH=1",
    ],
)
def test_a_rule_that_never_occurs_is_detected_in_bounded_steps(text, zone):
    answer, calls = answer_and_calls(text, zone)

    assert isinstance(answer, NeverOccurs)
    # This allows a few calls for each day of thirty years.
    assert calls < 25 * 30 * 366


@pytest.mark.parametrize(
    "text",
    [
        f"{FAR}FREQ=SECONDLY",
        f"{FAR}FREQ=SECONDLY;INTERVAL=7919;BYHOUR=3",
        f"{FAR}FREQ=MINUTELY;INTERVAL=7;BYDAY=MO..FR",
        f"{FAR}FREQ=MINUTELY;BYSECOND={MINUTES};BYSETPOS=-1",
        f"{FAR}FREQ=HOURLY;BYMINUTE={MINUTES};BYSECOND={MINUTES};BYSETPOS=-1,366",
        f"{FAR}FREQ=HOURLY;BYMINUTE={MINUTES};BYSECOND={MINUTES};BYMONTH=2;BYMONTHDAY=29",
        f"{FAR}FREQ=DAILY;BYHOUR={HOURS};BYMINUTE={MINUTES}",
        f"{FAR}FREQ=WEEKLY;BYDAY=MO..SU;BYHOUR={HOURS};BYMINUTE={MINUTES};BYSETPOS=-366",
        f"{FAR}FREQ=YEARLY;BYDAY=MO..SU;BYHOUR={HOURS};BYMINUTE={MINUTES};BYSETPOS=366,-1",
        f"{FAR}FREQ=YEARLY;BYDAY={','.join(f'{n}MO,-{n}FR' for n in range(1, 54))};BYSETPOS=-1",
        f"{FAR}FREQ=YEARLY;BYWEEKNO={','.join(map(str, range(1, 54)))};BYDAY=SU;BYYEARDAY=-366,366,1",
        "FREQ=DAILY;COUNT=10000",
        f"FREQ=DAILY;COUNT=10000;BYHOUR={HOURS};BYMINUTE={MINUTES}",
        "FREQ=WEEKLY;COUNT=10000",
        "FREQ=MONTHLY;COUNT=10000;BYMONTHDAY=31",
        "FREQ=YEARLY;COUNT=10000",
        "FREQ=HOURLY;COUNT=10000;BYHOUR=1",
        f"FREQ=HOURLY;COUNT=10000;BYMINUTE={MINUTES};BYSECOND={MINUTES}",
        "FREQ=MINUTELY;COUNT=10000;BYDAY=MO..FR",
        "FREQ=SECONDLY;COUNT=10000",
        "FREQ=SECONDLY RDATE:" + ",".join(f"2027{month:02}{day:02}" for month in range(1, 13) for day in range(1, 16)),
        "FREQ=SECONDLY EXDATE:" + ",".join(f"202611{day:02}" for day in range(21, 31)),
    ],
)
def test_an_occurrence_is_found_in_bounded_steps(text):
    answer, calls = answer_and_calls(text)

    assert isinstance(answer, datetime)
    assert calls < CALLS_MOST


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=SECONDLY;INTERVAL=997;BYMINUTE=0;BYSECOND=0;COUNT=10000",
        "FREQ=SECONDLY;INTERVAL=61;BYSECOND=0;COUNT=10000",
    ],
)
def test_a_count_that_takes_too_many_candidates_is_rejected(text):
    answer, calls = answer_and_calls(text)

    assert isinstance(answer, BudgetExceeded)
    assert calls < 2 * CALLS_MOST


def test_a_search_with_too_many_candidates_stops():
    # No candidate matches: a week has a multiple of seven seconds, so every seventh second meets the same seconds of
    # each Monday, and the rule selects others.
    minutes, seconds = range(0, 60, 7), (second for second in range(60) if second % 7 != 5)
    rule = (
        f"FREQ=SECONDLY;INTERVAL=7;BYDAY=MO;BYHOUR=0,7,14,21;"
        f"BYMINUTE={','.join(map(str, minutes))};BYSECOND={','.join(map(str, seconds))}"
    )

    answer, calls = answer_and_calls(rule, "UTC")
    warnings = parse_rrule(f"DTSTART:{ANCHOR:%Y%m%dT%H%M%SZ} {rule}", zone=ZoneInfo("UTC"), anchor=ANCHOR).warnings

    assert isinstance(answer, BudgetExceeded)
    assert calls < 2 * CALLS_MOST
    assert warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=DAILY;" * 180,
        "FREQ=DAILY" + ";BYDAY=MO" + ",MO" * 660,
        "\n " * 999,
        "FREQ=" + "A" * 1990,
        "A" * 1999,
        "DTSTART" + ";X-A=B" * 330,
        'DTSTART;TZID="' + "a" * 1980,
        "RDATE:" + "20270131," * 220,
    ],
)
def test_invalid_rules_are_rejected_in_bounded_steps(text):
    answer, calls = answer_and_calls(text)

    assert isinstance(answer, RecurrenceInvalid) or answer is not None
    assert calls < 50_000


def test_a_search_far_from_the_start_takes_no_longer():
    for text in (
        "FREQ=DAILY",
        "FREQ=WEEKLY;BYDAY=MO",
        "FREQ=HOURLY",
        "FREQ=MINUTELY;INTERVAL=7;BYHOUR=9",
        "FREQ=SECONDLY",
    ):
        _, near = answer_and_calls(text)
        _, far = answer_and_calls(text, moment=ANCHOR + timedelta(days=36500))

        assert far < 2 * near
