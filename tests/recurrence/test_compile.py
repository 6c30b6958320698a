from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from scheduled_actions.core.errors import InvalidArgument, NeverOccurs, RecurrenceInvalid, RequestError
from scheduled_actions.recurrence.compiling import add_jitter, compile_recurrence
from scheduled_actions.recurrence.custom import Functions
from scheduled_actions.recurrence.model import Kind
from scheduled_actions.recurrence.skips.model import Skips

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference/recurrence.md").read_text(encoding="utf-8")
NEW_YORK = "America/New_York"
#: A Friday, 09:00 in New York.
ANCHOR = datetime(2026, 10, 30, 13, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def compiled(text="daily", anchor=ANCHOR, timezone=NEW_YORK, **options):
    return compile_recurrence(text, timezone=timezone, anchor=anchor, **options)


def problem(text, **options):
    """Return the problem of an invalid rule, without the text of the rule."""
    with pytest.raises(RecurrenceInvalid) as caught:
        compiled(text, **options)
    return caught.value.problem


#: A rule of each kind; rules with a time of day have another one than the anchor.
OF_EACH_KIND = (
    "daily",
    "every 3 weeks at 10:00",
    "P1M2DT3H",
    "PT7H",
    "0 9 * * MON-FRI",
    "FREQ=DAILY;INTERVAL=3",
    "DTSTART:20251030T090000\nRRULE:FREQ=WEEKLY;COUNT=80",
    "last business day of the month",
    "custom:payday",
)


@pytest.mark.parametrize("text", OF_EACH_KIND)
@given(st.timedeltas(timedelta(0), timedelta(days=2000)))
@settings(max_examples=20, derandomize=True, deadline=None)
def test_an_earlier_since_does_not_change_the_occurrences_from_the_anchor_on(text, earlier):
    functions = Functions(next={"payday": lambda moment: moment.replace(hour=9, minute=0) + timedelta(days=1)})
    since = ANCHOR - earlier
    rule = compiled(text, functions=functions)
    begun_earlier = compiled(text, since=since, functions=functions)

    before = begun_earlier.between(since - MICROSECOND, ANCHOR - MICROSECOND, limit=10_000)

    assert all(since <= one.at < ANCHOR for one in before)
    assert first(begun_earlier, ANCHOR - MICROSECOND) == first(rule, ANCHOR - MICROSECOND)
    if text in {"daily", "last business day of the month"}:
        assert {one.at.astimezone(ZoneInfo(NEW_YORK)).hour for one in before} <= {9}


def first(rule, moment):
    found = [rule.next_after(moment)]
    while len(found) < 10:
        found.append(rule.next_after(found[-1].at))
    return found


def test_there_is_a_text_of_each_kind():
    functions = Functions(next={"payday": lambda moment: moment + timedelta(days=1)})

    assert {compiled(text, functions=functions).kind for text in OF_EACH_KIND} == set(get_args(Kind))


# The kinds of rules


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("every 30 minutes", "interval"),
        ("Daily", "interval"),
        ("pt10m", "interval"),
        ("0 9 * * MON-FRI", "cron"),
        ("*/15 * * * *", "cron"),
        ("@daily", "cron"),
        ("FREQ=DAILY;COUNT=3", "rrule"),
        ("RRULE:FREQ=MONTHLY;BYMONTHDAY=-1", "rrule"),
        ("DTSTART:20261030T090000\nRRULE:FREQ=WEEKLY", "rrule"),
        ("interval=2;freq=weekly", "rrule"),
        ("Every weekday at 09:00", "rrule"),
        ("last Friday of the month", "rrule"),
        ("r5/2026-12-01T09:00:00Z/P1D", "rrule"),
        ("last business day of the month", "business_day"),
        ("Second WORKING day of the quarter at 09:00", "business_day"),
        ("custom:payday", "custom"),
    ],
)
def test_the_kind_follows_from_the_text(text, kind):
    functions = Functions(next={"payday": lambda moment: moment + timedelta(days=1)})

    recurrence = compiled(f"  {text}\n", functions=functions)

    assert (recurrence.kind, recurrence.text, recurrence.zone) == (kind, text, ZoneInfo(NEW_YORK))
    assert recurrence.next_after(ANCHOR).at > ANCHOR


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (
            "dayly",
            'is not a recurrence; did you mean "daily"? Write an interval ("every 30 minutes", "daily", "PT10M")',
        ),
        ("ever 10 minutes", 'is not a recurrence; did you mean "every 10 minutes"?'),
        ("30 minutes", 'is not a recurrence; did you mean "every 30 minutes"?'),
        ("day", 'is not a recurrence; did you mean "every day"?'),
        ("10m", 'is not a recurrence; did you mean "PT10M"?'),
        ("TEN_MINS", 'is not a recurrence; did you mean "every 10 minutes"?'),
        ("30_SECS", 'is not a recurrence; did you mean "every 30 seconds"?'),
        ("EVERY_SIX_HRS", 'is not a recurrence; did you mean "every 6 hours"?'),
        ("ONE_DAY", 'is not a recurrence; did you mean "every day"?'),
        ("EVERY_DAY", 'is not a recurrence; did you mean "every day"?'),
        ("DAILY_9AM", 'is not a recurrence; did you mean "daily at 09:00"?'),
        ("WEEKLY_12PM", 'is not a recurrence; did you mean "weekly at 12:00"?'),
        ("DAILY_25", 'is not a recurrence; did you mean "daily"?'),
        ("10", 'has no unit: write, for example, "every 10 minutes"'),
        (" 0 ", "has no unit"),
        ("", "is not a recurrence: write an interval"),
        ("now and then", "is not a recurrence: write an interval"),
        ("BYDAY=MO", "FREQ"),
        ("x" * 2001, "has 2,001 characters; the maximum is 2,000"),
        ("FREQ=DAILY;" + "X" * 2000, "has 2,011 characters; the maximum is 2,000"),
        ("0 9 * *", "expected 5 fields (minute, hour, day of month, month, day of week), found 4"),
        ("every 10 minuts", '"minuts" is not a unit of time; did you mean "every 10 minutes"?'),
        ("custom:payday", 'no function is registered as "payday"; declare one in handlers/ with @next_occurrence'),
    ],
)
def test_a_text_that_is_not_a_rule_is_rejected_with_a_suggestion(text, begins):
    assert problem(text).startswith(begins)


@given(st.text(max_size=80) | st.text("0123456789*/,-PTDMWYfreq=;: every last business day", max_size=80))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_every_text_is_a_rule_or_raises_an_error_of_this_package(text):
    try:
        recurrence = compiled(text)
    except RequestError:
        return
    assert recurrence.next_after(ANCHOR - MICROSECOND) is not None


# Occurrences


def test_no_occurrence_is_before_the_anchor_and_the_anchor_may_be_the_first():
    for text in ("daily", "0 9 * * *", "FREQ=DAILY", "last business day of the month"):
        assert compiled(text).next_after(ANCHOR - timedelta(days=999)).at == ANCHOR
        assert compiled(text).next_after(ANCHOR).at > ANCHOR


def test_between_excludes_its_start_and_includes_its_end():
    recurrence = compiled("hourly")

    found = recurrence.between(ANCHOR, ANCHOR + timedelta(hours=3), limit=10)

    assert [one.at - ANCHOR for one in found] == [timedelta(hours=n) for n in (1, 2, 3)]
    assert recurrence.between(ANCHOR, ANCHOR + timedelta(hours=3), limit=2) == found[:2]
    assert recurrence.between(ANCHOR, ANCHOR + timedelta(hours=3), limit=0) == []
    assert recurrence.between(ANCHOR, ANCHOR, limit=10) == []


def test_until_is_the_last_instant_that_may_be_an_occurrence():
    until = datetime(2026, 11, 1, 14, tzinfo=UTC)

    recurrence = compiled(until=until)

    assert [one.at for one in recurrence.between(ANCHOR, until + timedelta(days=9), limit=9)][-1] == until
    assert recurrence.next_after(until) is None
    assert recurrence.next_after(until + timedelta(days=20000)) is None
    assert recurrence.description == "Every day at 09:00 in America/New_York, until 2026-11-01 09:00"


def test_until_applies_to_the_moved_occurrence():
    until = datetime(2026, 11, 1, 14, tzinfo=UTC)
    skips = Skips(weekends=True, adjustment="following")

    recurrence = compiled("P2D", until=until, skips=skips)

    assert recurrence.next_after(ANCHOR) is None


def test_a_recurrence_whose_remaining_occurrences_are_all_skipped_has_ended_without_an_error():
    skips = Skips.parse({"ranges": [{"from": "2026-11-02", "to": "2120-01-01"}]})

    recurrence = compiled(skips=skips, until=datetime(2027, 1, 1, tzinfo=UTC))

    assert recurrence.next_after(datetime(2026, 11, 1, 20, tzinfo=UTC)) is None


def test_a_rule_that_never_occurs_is_rejected_quickly():
    with pytest.raises(NeverOccurs):
        compiled("0 0 30 2 *")
    with pytest.raises(NeverOccurs):
        compiled("0 0 30 2 *", until=datetime(2027, 1, 1, tzinfo=UTC))


def test_a_rule_that_ends_before_its_start_is_rejected_but_not_one_that_has_ended_since():
    ended = "DTSTART:20200101T090000\nRRULE:FREQ=DAILY;COUNT=3"

    assert problem(ended) == "has no occurrence at or after its start at 2026-10-30T13:00:00+00:00"
    assert problem("weekly", anchor=ANCHOR, until=ANCHOR - MICROSECOND) == (
        "ends at 2026-10-30T12:59:59.999999+00:00, before its first occurrence at 2026-10-30T13:00:00+00:00"
    )
    long_ago = compiled(ended, anchor=ANCHOR.replace(year=2019))
    assert long_ago.next_after(ANCHOR) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": 7}, "recurrence 7 has no unit: write, for example"),
        ({"timezone": "Mars/Olympus"}, "timezone: 'Mars/Olympus' is not an IANA time zone"),
        ({"timezone": 7}, "timezone: 7 is not an IANA time zone"),
        ({"anchor": datetime(2026, 1, 1)}, "anchor: 2026-01-01 00:00:00 is not an aware datetime"),  # noqa: DTZ001
        ({"anchor": "2026-01-01"}, "anchor: '2026-01-01' is not an aware datetime"),
        ({"anchor": datetime.min.replace(tzinfo=UTC)}, "is not an instant between the years 2 and 9998"),
        ({"until": datetime.max.replace(tzinfo=UTC)}, "until: 9999-12-31 23:59:59"),
        ({"skips": {"weekend": True}}, "skip: 'weekend' is not a key of skip"),
    ],
)
def test_an_invalid_argument_is_rejected_by_name(options, message):
    with pytest.raises(InvalidArgument) as caught:
        compiled(**options)

    assert message in str(caught.value)


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "2026-01-01", None])  # noqa: DTZ001
def test_a_moment_must_be_aware(moment):
    with pytest.raises(InvalidArgument, match="is not an aware datetime"):
        compiled().next_after(moment)


def test_the_end_of_the_calendar_is_the_end_of_the_rule():
    skips = Skips(weekends=True, adjustment="following")

    assert compiled().next_after(datetime.max.replace(tzinfo=UTC)) is None
    assert compiled(skips=skips).next_after(datetime.max.replace(tzinfo=UTC)) is None


def test_the_description_includes_zone_skips_and_until():
    skips = Skips.parse(
        {"weekends": True, "holidays": "US", "windows": [{"from": "22:00", "to": "02:00"}], "adjustment": "following"}
    )

    recurrence = compiled("monthly", skips=skips, until=datetime(2027, 3, 31, 12, tzinfo=UTC))

    assert recurrence.description == (
        "Every month on day 30 (or the last) at 09:00 in America/New_York, moved from weekends, holidays (US) and "
        "22:00-02:00 to the following business day or the end of the window, until 2027-03-31 08:00"
    )
    assert recurrence.warnings == ("In months without day 30, the rule occurs on the last day",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FREQ=DAILY;COUNT=3", "Every day in America/New_York, 3 times"),
        ("FREQ=DAILY;UNTIL=20270105", "Every day in America/New_York until 5 January 2027"),
        (
            "DTSTART:20261030T090000\nRRULE:FREQ=WEEKLY;COUNT=9\nEXDATE:20261106T090000",
            "Every week on Friday at 09:00 in America/New_York, 9 times, except on 6 November 2026 at 09:00",
        ),
    ],
)
def test_the_description_has_the_zone_after_the_times_and_before_the_ending(text, words):
    assert compiled(text).description == words


def test_skips_use_the_schedules_zone_even_if_an_rrule_has_its_own():
    rule = "DTSTART;TZID=Asia/Tokyo:20261030T220000\nRRULE:FREQ=DAILY"
    skips = Skips.parse({"windows": [{"from": "09:00", "to": "09:01"}], "adjustment": "following"})

    recurrence = compiled(rule, skips=skips)

    assert recurrence.zone == ZoneInfo(NEW_YORK)
    assert recurrence.description.startswith("Every day at 22:00 in Asia/Tokyo, moved from 09:00-09:01")
    assert recurrence.next_after(ANCHOR).at == ANCHOR + timedelta(minutes=1)


def test_long_lists_of_skips_are_counted_in_the_description():
    skips = Skips.parse({"dates": [f"2027-01-{day:02}" for day in range(1, 5)], "function": "quiet"})

    described = compiled(skips=skips, functions=Functions(skip={"quiet": lambda _: False})).description

    assert described.endswith(', except 4 dates and instants that the function "quiet" skips')


# Sharing


def test_equal_arguments_share_one_recurrence():
    skips = {"weekends": True, "dates": ["2026-12-24"]}

    assert compiled(skips=Skips.parse(skips)) is compiled(
        anchor=ANCHOR.astimezone(ZoneInfo(NEW_YORK)), skips=Skips.parse(skips)
    )
    assert compiled() is not compiled(timezone="Europe/Berlin")
    assert compiled() is not compiled(until=ANCHOR + timedelta(days=9))


def test_a_result_is_cached():
    asked = []
    functions = Functions(next={"counted": lambda moment: asked.append(moment) or moment + timedelta(days=1)})
    recurrence = compiled("custom:counted", functions=functions)
    asked.clear()

    answers = {recurrence.next_after(ANCHOR) for _ in range(10)} | {
        recurrence.next_after(ANCHOR.astimezone(ZoneInfo("Asia/Tokyo")))
    }

    assert len(answers) == len(asked) == 1


# Functions of the project


def test_a_function_gets_local_time_and_returns_an_aware_or_a_local_time():
    asked = []

    def payday(moment):
        asked.append(moment)
        return moment.replace(day=28, hour=9, tzinfo=None) if moment.day < 28 else moment + timedelta(days=20)

    recurrence = compiled("custom:payday", functions=Functions(next={"payday": payday}))

    assert asked[0].tzinfo == ZoneInfo(NEW_YORK)
    assert recurrence.next_after(datetime(2026, 11, 20, 12, tzinfo=UTC)).at == datetime(2026, 11, 28, 14, tzinfo=UTC)
    assert recurrence.description == 'At the instants that the function "payday" returns in America/New_York'


def test_a_function_may_return_a_local_time_that_does_not_exist():
    functions = Functions(next={"gap": lambda moment: None if moment.month > 3 else datetime(2027, 3, 14, 2, 30)})  # noqa: DTZ001

    (found,) = compiled("custom:gap", anchor=datetime(2027, 3, 1, tzinfo=UTC), functions=functions).between(
        datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 3, 14, 7, 30, tzinfo=UTC), limit=1
    )

    assert found.at == datetime(2027, 3, 14, 7, 30, tzinfo=UTC)
    assert found.remarks[0].startswith("02:30 does not exist on 2027-03-14")


def test_a_function_may_end_a_rule():
    functions = Functions(next={"once": lambda moment: ANCHOR if moment < ANCHOR else None})

    assert compiled("custom:once", functions=functions).next_after(ANCHOR) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("tomorrow", "returned 'tomorrow' for 2026-10-30T08:59:59.999999-04:00: expected a datetime or None"),
        (ANCHOR - MICROSECOND, "expected a later instant"),
        (datetime(9999, 12, 31, 23), "expected an instant between the years 1 and 9999"),  # noqa: DTZ001
    ],
)  # fmt: skip
def test_an_invalid_result_is_an_error_with_the_function_and_the_result(answer, expected):
    functions = Functions(next={"wrong": lambda _: answer})

    assert expected in problem("custom:wrong", functions=functions)


def test_a_function_result_beyond_thirty_years_never_occurs():
    functions = Functions(next={"far": lambda moment: moment + timedelta(days=31 * 366)})

    with pytest.raises(NeverOccurs, match="more than 30 years away"):
        compiled("custom:far", functions=functions)


def test_a_function_that_fails_is_named_with_its_error():
    def broken(_):
        raise KeyError("payroll")

    functions = Functions(next={"broken": broken}, skip={"broken": broken})

    with pytest.raises(RecurrenceInvalid) as rule_error:
        compiled("custom:broken", functions=functions)
    with pytest.raises(RecurrenceInvalid) as skip_error:
        compiled("daily", functions=functions, skips=Skips(function="broken"))

    failed = "the function failed for 2026-10-30T"
    assert str(rule_error.value).startswith(f'recurrence "custom:broken": {failed}08:59:59')
    assert str(skip_error.value) == f"skip.function \"broken\": {failed}09:00:00-04:00: KeyError: 'payroll'"


@pytest.mark.parametrize("answer", [None, 1, "", ["why"]])
def test_an_invalid_result_of_a_skip_function_is_an_error(answer):
    functions = Functions(skip={"odd": lambda _: answer})

    with pytest.raises(RecurrenceInvalid) as caught:
        compiled("daily", functions=functions, skips=Skips(function="odd"))

    assert str(caught.value) == (
        f'skip.function "odd": the function returned {answer!r} for 2026-10-30T09:00:00-04:00: '
        "expected True, False or a reason (a non-empty string)"
    )


def test_an_unknown_function_is_rejected_with_the_most_similar_name():
    functions = Functions(next={"payday": lambda _: None}, skip={"stock-taking": lambda _: True})

    assert (
        problem("custom:pay-day", functions=functions)
        == 'no function is registered as "pay-day"; did you mean "payday"?'
    )
    assert problem("custom:x", functions=functions) == 'no function is registered as "x"; known functions: payday'
    with pytest.raises(RecurrenceInvalid) as caught:
        compiled("daily", functions=functions, skips=Skips(function="stocktaking"))
    assert str(caught.value) == (
        'skip.function "stocktaking": no function is registered as "stocktaking"; did you mean "stock-taking"?'
    )


# Jitter


@given(st.text(max_size=20), st.integers(0, 10**9), st.floats(0, 86400))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_jitter_delays_by_less_than_its_limit_and_always_by_the_same_amount(key, minutes, seconds):
    at = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes % 10**7)

    put_off = add_jitter(at, key=key, seconds=seconds)

    assert at <= put_off
    assert put_off < at + timedelta(seconds=seconds) or put_off == at
    assert add_jitter(at.astimezone(ZoneInfo("Asia/Tokyo")), key=key, seconds=seconds) == put_off


def test_jitter_spreads_keys_and_occurrences():
    spread = {add_jitter(ANCHOR, key=str(n), seconds=60) - ANCHOR for n in range(1000)}
    thirds = [
        sum(timedelta(seconds=20 * n) <= delay < timedelta(seconds=20 * (n + 1)) for delay in spread) for n in range(3)
    ]

    assert all(280 < third < 390 for third in thirds)
    assert add_jitter(ANCHOR, key="a", seconds=60) - ANCHOR != add_jitter(
        ANCHOR + timedelta(days=1), key="a", seconds=60
    ) - ANCHOR - timedelta(days=1)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 400 * 86400])
def test_jitter_out_of_range_is_rejected(seconds):
    with pytest.raises(InvalidArgument, match="a number of seconds between 0 and a year"):
        add_jitter(ANCHOR, key="a", seconds=seconds)


# The examples of the documentation


def test_every_example_of_the_reference_is_valid_and_of_its_kind():
    table = re.search(r"\| kind .*?\n\n", REFERENCE, re.DOTALL)[0]
    functions = Functions(next={"payday": lambda moment: moment + timedelta(days=1)})

    examples = [
        (kind, text) for kind, rest in re.findall(r"\| `(\w+)` \| (.*)", table) for text in re.findall("`(.+?)`", rest)
    ]

    assert {kind for kind, _ in examples} == set(get_args(Kind))
    assert [compiled(text, functions=functions).kind for _, text in examples] == [kind for kind, _ in examples]


def test_the_example_of_skips_in_the_reference_is_valid():
    example = json.loads(re.search(r"```json\n(.*?)```", REFERENCE, re.DOTALL)[1])

    assert Skips.parse(example).adjustment == "following"
    assert set(example) == {field.name for field in fields(Skips) if field.init}


# Imports


def test_a_rule_imports_only_the_modules_of_its_kind():
    ask = (
        "import sys; from datetime import datetime, UTC; "
        "from scheduled_actions.recurrence.compiling import compile_recurrence;"
        "compile_recurrence('daily', anchor=datetime(2026, 1, 1, tzinfo=UTC));"
        "print(sorted({'croniter', 'dateutil', 'holidays', 'cron_descriptor'} & set(sys.modules)))"
    )

    told = subprocess.run(
        [sys.executable, "-c", ask], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )

    assert told.stdout == "[]\n"
