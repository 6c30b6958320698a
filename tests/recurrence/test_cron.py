# ruff: noqa: RUF001 (ranges in messages are written with an en dash)
from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.cron.fields import Fields, read_fields
from scheduled_actions.recurrence.cron.rule import matching_times, parse_cron

DEBIAN = json.loads((Path(__file__).parents[1] / "vectors/recurrence/debian_cron_dst.json").read_text())
NEW_YORK = "America/New_York"
ANCHOR = datetime(2026, 9, 1, tzinfo=UTC)


def a_rule(text, zone=NEW_YORK, anchor=ANCHOR):
    return parse_cron(text, zone=ZoneInfo(zone), anchor=anchor)


def occurrences(rule, after, count):
    """Return the first `count` occurrences strictly after a moment, which is a string with a UTC offset."""
    found = []
    moment = datetime.fromisoformat(after)
    for _ in range(count):
        found.append(rule.next_after(moment))
        moment = found[-1].at
    return found


def local_times(text, after, count, zone=NEW_YORK):
    rule = a_rule(text, zone)
    return [each.at.astimezone(rule.zone).strftime("%Y-%m-%d %H:%M%z") for each in occurrences(rule, after, count)]


def problem(text):
    """Return the problem of an invalid expression, without the text of the expression."""
    with pytest.raises(RecurrenceInvalid) as caught:
        a_rule(text)
    assert caught.value.rule == text
    return caught.value.problem


# Clock changes


@pytest.mark.parametrize("case", DEBIAN["cases"], ids=lambda case: f"{case['rule']} after {case['after']}")
def test_clock_changes_are_handled_as_by_debian_cron(case):
    rule = a_rule(case["rule"], DEBIAN["zone"])

    found = occurrences(rule, case["after"], len(case["at"]))

    assert [each.at.astimezone(rule.zone).isoformat() for each in found] == case["at"]


def test_a_time_that_occurs_twice_runs_the_first_time_with_a_remark():
    first, second = occurrences(a_rule("30 1 * * *"), "2026-11-01T00:00-04:00", 2)

    assert first.at == datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert first.remarks == ("01:30 occurs twice on 2026-11-01 in America/New_York: runs once, the first time",)
    assert second.at == datetime(2026, 11, 2, 6, 30, tzinfo=UTC)
    assert second.remarks == ()


@pytest.mark.parametrize("before", [timedelta(microseconds=1), timedelta(seconds=1), timedelta(minutes=61)])
def test_a_search_from_just_before_a_gap_finds_the_time_in_it(before):
    gap = datetime(2027, 3, 14, 7, tzinfo=UTC)

    assert a_rule("30 2 * * *").next_after(gap - before).at == gap
    assert a_rule("30 2 * * *").next_after(gap).at > gap


@pytest.mark.parametrize("minute", [0, 15, 29, 30, 31, 59])
def test_a_search_from_the_second_occurrence_of_an_hour_does_not_find_times_of_the_first(minute):
    moment = datetime(2026, 11, 1, 1, minute, fold=1, tzinfo=ZoneInfo(NEW_YORK))

    assert a_rule("30 1 * * *").next_after(moment).at == datetime(2026, 11, 2, 6, 30, tzinfo=UTC)


def test_a_time_that_does_not_exist_runs_at_the_first_minute_after_the_gap_with_a_remark():
    first, second = occurrences(a_rule("30 2 * * *"), "2027-03-14T00:00-05:00", 2)

    assert first.at == datetime(2027, 3, 14, 7, 0, tzinfo=UTC)
    assert first.remarks == ("02:30 does not exist on 2027-03-14 in America/New_York: runs at 03:00",)
    assert second.at == datetime(2027, 3, 15, 6, 30, tzinfo=UTC)
    assert second.remarks == ()


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("0,30 2 * * *", "02:00 and 02:30 do not exist on 2027-03-14 in America/New_York: run once, at 03:00"),
        (
            "0 1,2,3 * * *",
            (
                "02:00 does not exist on 2027-03-14 in America/New_York: runs at 03:00, "
                "together with the run due at that time"
            ),
        ),
        (
            "0-59 2 * * *",
            "02:00 and 59 later times do not exist on 2027-03-14 in America/New_York: run once, at 03:00",
        ),
    ],
)
def test_several_times_in_one_gap_run_once(text, remark):
    rule = a_rule(text)
    at_gap = rule.next_after(datetime(2027, 3, 14, 6, 59, 59, tzinfo=UTC))

    assert (at_gap.at, at_gap.remarks) == (datetime(2027, 3, 14, 7, 0, tzinfo=UTC), (remark,))
    assert rule.next_after(at_gap.at).at > at_gap.at


def test_a_skipped_day_runs_at_the_midnight_that_follows_it():
    found = a_rule("0 9 * * 5", "Pacific/Apia").next_after(datetime(2011, 12, 29, tzinfo=UTC))

    assert found.at == datetime(2011, 12, 30, 10, 0, tzinfo=UTC)
    assert found.remarks == ("09:00 does not exist on 2011-12-30 in Pacific/Apia: runs at 00:00 on 2011-12-31",)


def test_every_half_hour_is_every_thirty_real_minutes_through_both_changes():
    rule = a_rule("*/30 * * * *")

    for start in ("2026-10-31T12:00-04:00", "2027-03-13T12:00-05:00"):
        instants = [each.at for each in occurrences(rule, start, 60)]
        assert {later - earlier for earlier, later in pairwise(instants)} == {timedelta(minutes=30)}


def test_a_rule_in_real_time_has_no_remarks():
    found = occurrences(a_rule("0 * * * *"), "2026-11-01T00:30-04:00", 3)

    assert [each.at.hour for each in found] == [5, 6, 7]
    assert [each.remarks for each in found] == [(), (), ()]


def test_a_wildcard_rule_does_not_run_in_an_hour_that_its_day_skips():
    times = local_times("*/30 0 * * *", "2026-04-23T12:00+02:00", 2, zone="Africa/Cairo")

    assert times == ["2026-04-25 00:00+0300", "2026-04-25 00:30+0300"]


def test_a_wildcard_rule_runs_in_every_matching_minute_after_a_change_of_half_an_hour():
    times = local_times("*/15 1,2 * * *", "2027-04-04T01:40+11:00", 6, zone="Australia/Lord_Howe")

    assert [time[11:] for time in times] == [
        "01:45+1100", "01:30+1030", "01:45+1030", "02:00+1030", "02:15+1030", "02:30+1030",
    ]  # fmt: skip


def test_a_wildcard_rule_on_one_day_a_year_runs_in_an_hour_that_occurs_twice():
    times = local_times("*/30 1 1 11 *", "2026-06-01T00:00+00:00", 5)

    assert [time[:16] for time in times] == [*["2026-11-01 01:00", "2026-11-01 01:30"] * 2, "2027-11-01 01:00"]


# Days


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 9 * * MON", ["2026-09-07", "2026-09-14"]),
        ("0 9 * * 7", ["2026-09-06", "2026-09-13"]),
        ("0 9 * * 0", ["2026-09-06", "2026-09-13"]),
        ("0 9 * jan,JUN-jul mon", ["2027-01-04", "2027-01-11"]),
        ("0 9 L * *", ["2026-09-30", "2026-10-31", "2026-11-30", "2026-12-31", "2027-01-31", "2027-02-28"]),
        ("0 9 L,15 * *", ["2026-09-15", "2026-09-30", "2026-10-15"]),
        ("0 9 29-L 2 *", ["2028-02-29", "2032-02-29"]),
        ("0 9 * * L5", ["2026-09-25", "2026-10-30"]),
        ("0 9 * * Lfri", ["2026-09-25", "2026-10-30"]),
        ("0 9 * * L7", ["2026-09-27", "2026-10-25"]),
        ("0 9 * * FRI#2", ["2026-09-11", "2026-10-09"]),
        ("0 9 * * 7#1", ["2026-09-06", "2026-10-04"]),
        ("0 9 * * 1#5", ["2026-11-30", "2027-03-29"]),
        ("0 9 * * 1#1,L1", ["2026-09-07", "2026-09-28", "2026-10-05"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29"]),
        ("0 0 31 * *", ["2026-10-31", "2026-12-31"]),
        ("0 9 15 * ?", ["2026-09-15", "2026-10-15"]),
        ("0 9 * * 1/3", ["2026-09-03", "2026-09-06", "2026-09-07"]),
        ("0 9 * * MON-MON", ["2026-09-07", "2026-09-14"]),
        ("@weekly", ["2026-09-06", "2026-09-13"]),
        ("@YEARLY", ["2027-01-01", "2028-01-01"]),
        ("@annually", ["2027-01-01", "2028-01-01"]),
        ("@monthly", ["2026-10-01", "2026-11-01"]),
        ("@daily", ["2026-09-02", "2026-09-03"]),
        ("@midnight", ["2026-09-02", "2026-09-03"]),
        ("0 9 15 * MON", ["2026-09-07", "2026-09-14", "2026-09-15"]),
        ("0 9 */5 * MON", ["2026-09-21", "2026-10-26"]),
        ("0 9 5/5 * MON", ["2026-09-05", "2026-09-07", "2026-09-10"]),
        ("0 9 1-7 * */7", ["2026-09-06", "2026-10-04"]),
        ("0 0 30 2 1", ["2027-02-01", "2027-02-08"]),
    ],
)
def test_an_expression_matches_these_days(text, days):
    assert [time[:10] for time in local_times(text, "2026-09-01T12:00-04:00", len(days))] == days


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("5-5 * * * *", ["12:05", "13:05"]),
        ("59/15 * * * *", ["12:59", "13:59"]),
        ("40/15 * * * *", ["12:40", "12:55", "13:40"]),
        ("5-5/10 * * * *", ["12:05", "13:05"]),
        ("*/40 * * * *", ["12:40", "13:00", "13:40"]),
        ("  10-20/5,50\t13 * * *\n", ["13:10", "13:15", "13:20", "13:50", "13:10"]),
        ("5,* 12 * * *", ["12:01", "12:02"]),
        ("@hourly", ["13:00", "14:00"]),
    ],
)
def test_an_expression_matches_these_times(text, times):
    assert [time[11:16] for time in local_times(text, "2026-09-01T12:00-04:00", len(times))] == times


def test_a_search_excludes_its_own_moment_but_not_one_a_microsecond_later():
    rule = a_rule("0 9 * * *", "UTC")
    at = datetime(2026, 9, 1, 9, tzinfo=UTC)

    assert rule.next_after(at).at == at + timedelta(days=1)
    assert rule.next_after(at - timedelta(microseconds=1)).at == at
    assert rule.next_after(at.astimezone(ZoneInfo("Asia/Tokyo")) - timedelta(microseconds=1)).at == at


# Expressions that never occur, and invalid expressions


@pytest.mark.parametrize("text", ["0 0 30 2 *", "* * 30 2 *", "0 0 31 4,6,9,11 *", "0 0 */31 2 1#5", "0 0 */31 * L1"])
def test_an_expression_that_matches_no_day_is_rejected_within_a_tenth_of_a_second(text):
    rule = a_rule(text)
    began = time.process_time()

    with pytest.raises(NeverOccurs, match=r"matches no day from 2026 to 2056 \(day of month "):
        rule.next_after(ANCHOR)

    assert time.process_time() - began < 0.1


def test_the_end_of_the_calendar_raises_no_overflow_error():
    for text, zone in (("0 0 1 1 *", NEW_YORK), ("0 * * * *", "Asia/Tokyo"), ("* * 1 1 *", NEW_YORK)):
        rule = a_rule(text, zone, anchor=datetime.max.replace(tzinfo=UTC))
        with pytest.raises(NeverOccurs):
            rule.next_after(datetime.max.replace(tzinfo=UTC))
        assert isinstance(rule.warnings, tuple)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0 25 * * *", "field 2, hour: 25 is not in 0–23"),
        ("60 * * * *", "field 1, minute: 60 is not in 0–59"),
        ("0 0 0 * *", "field 3, day of month: 0 is not in 1–31"),
        ("0 0 * 13 *", "field 4, month: 13 is not in 1–12"),
        ("0 0 * * 8", "field 5, day of week: 8 is not in 0–7"),
        ("0 0 1,32 * *", "field 3, day of month: 32 is not in 1–31"),
        ("0 9-24 * * *", "field 2, hour: 24 is not in 0–23"),
        ("*/0 * * * *", "field 1, minute: */0: the step 0 is not in 1–60"),
        ("*/61 * * * *", "field 1, minute: */61: the step 61 is not in 1–60"),
        ("0 */25 * * *", "field 2, hour: */25: the step 25 is not in 1–24"),
        ("*/x * * * *", "field 1, minute: */x: the step after / is not a whole number"),
        ("5/5/5 * * * *", "field 1, minute: 5/5/5: the step after / is not a whole number"),
        ("5-1 * * * *", "field 1, minute: 5-1 runs backwards; write 5-59,0-1"),
        ("0 22-2/2 * * *", "field 2, hour: 22-2 runs backwards; write 22-23,0-2"),
        ("0 0 28-1 * *", "field 3, day of month: 28-1 runs backwards; write 28-31,1"),
        ("0 0 * NOV-feb *", "field 4, month: NOV-feb runs backwards; write 11-12,1-2"),
        ("0 0 * * FRI-MON", "field 5, day of week: FRI-MON runs backwards; write 5-7,1"),
        ("0 0 * * SAT-SUN", "field 5, day of week: SAT-SUN runs backwards; write 6-7"),
        ("-5 * * * *", "field 1, minute: -5 is a range without its start"),
        ("5- * * * *", "field 1, minute: 5- is a range without its end"),
        ("1-2-3 * * * *", "field 1, minute: 2-3 is not a number from 0 to 59"),
        ("1,,2 * * * *", "field 1, minute: an item of 1,,2 is empty"),
        ("H * * * *", "field 1, minute: H is not a number from 0 to 59"),
        ("? * * * *", "field 1, minute: ? is not a number from 0 to 59"),
        ("0 0 ?/2 * *", "field 3, day of month: ? is not a number from 1 to 31"),
        ("0 0 * * MOM", "field 5, day of week: MOM is not a number from 0 to 7 or a name; did you mean MON?"),
        ("0 0 * * Monday", "field 5, day of week: Monday is not a number from 0 to 7 or a name; did you mean MON?"),
        ("0 0 * Sept *", "field 4, month: Sept is not a number from 1 to 12 or a name; did you mean SEP?"),
        ("0 0 * ~ *", "field 4, month: ~ is not a number from 1 to 12 or a name (JAN to DEC)"),
        ("0 0 * * 5#6", "field 5, day of week: 5#6: # needs a number in 1–5; 5#2 is the second Friday of a month"),
        ("0 0 * * 1-5#1", "field 5, day of week: 1-5 is not a number from 0 to 7 or a name (SUN to SAT)"),
        ("0 0 * * L", "field 5, day of week: L needs a day: L5 is the last Friday of a month"),
        ("0 0 * * 5L", "field 5, day of week: 5L: the last such day of a month is written L5"),
        ("0 0 * * 1,2#3", "field 5, day of week: 1,2#3 mixes plain days with # or L: use two expressions"),
        ("0 0 * * 1,1#1", "field 5, day of week: 1,1#1 mixes plain days with # or L: use two expressions"),
        ("0 0 L/2 * *", "field 3, day of month: L is not a number from 1 to 31"),
        (
            "0 0 15W * *",
            ("field 3, day of month: 15W: W is not supported; "
            "use a business-day rule for the nth or last working day of a month"),
        ),
        (
            "0 0 LW * *",
            ("field 3, day of month: LW: W is not supported; "
            "use a business-day rule for the nth or last working day of a month"),
        ),
        (
            "0 0 * * * *",
            ("expected 5 fields (minute, hour, day of month, month, day of week), found 6; "
            "seconds and years are not supported"),
        ),
        ("", "expected 5 fields (minute, hour, day of month, month, day of week), found 0"),
        ("0 0 * *", "expected 5 fields (minute, hour, day of month, month, day of week), found 4"),
        ("0 0 ٣ * *", '"٣" is not allowed in a cron expression: use ASCII characters'),
        ("0 0 * * ſun", '"ſ" is not allowed in a cron expression: use ASCII characters'),
        ("@reboot", "@reboot is not supported: no process keeps running between ticks"),
        ("@dayly", 'unknown macro @dayly; did you mean "@daily"?'),
        (
            "@x",
            "unknown macro @x; use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually",
        ),
    ],
)  # fmt: skip
def test_an_invalid_expression_is_rejected_with_the_field_and_a_suggestion(text, wanted):
    assert problem(text) == wanted


@pytest.mark.parametrize("hint", ["5-59,0-1 * * * *", "0 22-23,0-2 * * *", "0 0 28-31,1 * *", "0 0 * 11-12,1-2 5-7,1"])
def test_the_suggestion_for_a_backward_range_is_valid(hint):
    assert a_rule(hint).next_after(ANCHOR) is not None


@pytest.mark.parametrize(
    "text",
    [
        "9" * 2_001,
        "9" * 1_900 + " * * * *",
        "0 0 * * " + "A" * 1_900,
        "*/" * 990,
        "@" + "daily" * 390,
        "0 0 * * " + "L" * 1_900,
        ",".join(["0-59"] * 390) + " * * * 8",
        "0 0 32 * " + ",".join(["MON#1"] * 320),
    ],
    ids=lambda text: text[:12],
)
def test_hostile_input_is_rejected_with_a_short_message_within_a_tenth_of_a_second(text):
    began = time.process_time()

    message = problem(text)

    assert time.process_time() - began < 0.1
    assert len(message) < 200


@pytest.mark.parametrize(
    "text", [",".join(["0-59"] * 390) + " * * * *", "0 0 * * " + ",".join(["MON#1"] * 320)], ids=lambda text: text[:12]
)
def test_a_repeated_item_costs_no_more_time(text):
    a_rule("* * * * *")  # imports croniter before the time is measured
    began = time.process_time()

    assert a_rule(text).next_after(ANCHOR) is not None

    assert time.process_time() - began < 0.1


def test_an_error_of_croniter_becomes_an_invalid_recurrence():
    impossible = Fields("99", "0", "*", "*", "*")

    with pytest.raises(RecurrenceInvalid, match="cannot be evaluated as a cron expression"):
        matching_times("99 0 * * *", impossible)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("5-5 * * * *", "5 * * * *"),
        ("5-5/10 * * * *", "5 * * * *"),
        ("0 0 * * MON-MON", "0 0 * * 1"),
        ("0 0 * * 7/2", "0 0 * * 7"),
        ("0 0 * * 1/2", "0 0 * * 1-7/2"),
        ("0 0 5/10 JAN-mar/2 *", "0 0 5-31/10 1-3/2 *"),
        ("1,1,*/1 * ? * ?", "0-59 * * * *"),
        ("*,5 * * * *", "* * * * *"),
        ("0 0 1-l * lFri", "0 0 1-31 * L5"),
    ],
)
def test_ambiguous_items_are_expanded_for_croniter(text, read):
    assert str(read_fields(text)) == read


# Descriptions and warnings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 9 * * 1", "At 09:00, only on Monday"),
        ("30 17 * * MON-FRI", "At 17:30, Monday through Friday"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("@daily", "At 00:00"),
        ("0 9 L * *", "At 09:00, on the last day of the month"),
        ("0 9 * * L5", "At 09:00, on the last Friday of the month"),
        ("0 9 * * FRI#2", "At 09:00, on the second Friday of the month"),
        ("0 9 * * 5#2,1#3", "At 09:00, on the second Friday of the month or on the third Monday of the month"),
        ("0 9 * 5 5#2", "At 09:00, on the second Friday of the month, only in May"),
        ("0 9 15 * 1", "At 09:00, on day 15 of the month, or on Monday"),
        ("0 9 15 1 5#2", "At 09:00, on day 15 of the month, or on the second Friday of the month, only in January"),
        ("0 9 */2 * 1", "At 09:00, every 2 days, and only on Monday"),
        ("0 9 * * 5/2", "At 09:00, only on Friday and Sunday"),
        ("0 9 * */6 *", "At 09:00, only in January and July"),
        ("5 6,*/13 * * *", "At minute 5, hour 6,*/13, day of month *, month *, day of week * (* is any)"),
    ],
)  # fmt: skip
def test_a_description_is_the_expression_in_words(text, words):
    assert a_rule(text).description == words


UTC_NINE = "09:00 is in UTC, not your local time: set a time zone if you mean local time"
SHORT_MONTHS = "February, April, June, September, November"
LAST_DAY = "L is the last day of every month"


@pytest.mark.parametrize(
    ("text", "zone", "wanted"),
    [
        ("0 9 * * 1", "Europe/Berlin", []),
        ("0 9 * * 1", "UTC", [UTC_NINE]),
        ("0 9,17 * * 1", "Etc/UTC", [UTC_NINE]),
        ("*/5 * * * *", "UTC", []),
        ("0 */2 * * *", "UTC", []),
        ("0 0 31 * *", NEW_YORK, [f"day 31: months without it are left out ({SHORT_MONTHS}); {LAST_DAY}"]),
        ("0 0 1,30 2,4 *", NEW_YORK, [f"day 30: months without it are left out (February); {LAST_DAY}"]),
        ("0 0 29 2 *", NEW_YORK, [f"day 29: February has it in leap years only; {LAST_DAY}"]),
        ("0 0 29 * *", NEW_YORK, [f"day 29: February has it in leap years only; {LAST_DAY}"]),
        ("0 0 31 1,3 *", NEW_YORK, []),
        ("0 0 28 * *", NEW_YORK, []),
        ("0 0 25-31 * *", NEW_YORK, []),
        ("0 0 15 * 1", NEW_YORK, [
            "day of month and day of week are both set: the rule occurs on days that match either, not only both",
        ]),
        ("0 0 */2 * 1", NEW_YORK, [
            "*/2 starts again on day 1 of each month, whatever the last day was",
            "day of month and day of week are both set, one with a leading *: the rule occurs on days that match both",
        ]),
        ("*/7 * * * *", NEW_YORK, [
            "*/7 starts again at minute 0 of each hour: the last step is 4 minutes long",
        ]),
        ("0/7 * * * *", NEW_YORK, [
            "0-59/7 starts again at minute 0 of each hour: the last step is 4 minutes long",
        ]),
        ("0 */5 * * *", NEW_YORK, ["*/5 starts again at 00:00 of each day: the last step is 4 hours long"]),
        ("0 0 1 */5 *", NEW_YORK, ["*/5 starts again in January of each year: the last step is 2 months long"]),
        ("0 0 * * */2", NEW_YORK, ["*/2 starts again on Sunday of each week: the last step is 1 day long"]),
        ("*/15 */6 * */3 *", NEW_YORK, []),
        ("* 9 * * *", NEW_YORK, [
            ("field 1, minute, is *: the rule occurs 60 times in each of these hours; "
             "for one occurrence in each hour, write 0 9 * * *"),
        ]),
        ("* */2 * * *", NEW_YORK, [
            ("field 1, minute, is *: the rule occurs 60 times in each of these hours; "
             "for one occurrence in each hour, write 0 */2 * * *"),
        ]),
        ("* * * * *", NEW_YORK, []),
        ("30 2 * * *", NEW_YORK, ["02:30 does not exist on 2027-03-14 in America/New_York: runs at 03:00"]),
        ("30 1 * * *", NEW_YORK, ["01:30 occurs twice on 2026-11-01 in America/New_York: runs once, the first time"]),
        ("30 1,2 * * *", NEW_YORK, [
            "01:30 occurs twice on 2026-11-01 in America/New_York: runs once, the first time",
            "02:30 does not exist on 2027-03-14 in America/New_York: runs at 03:00",
        ]),
        ("30 2 * * 1-5", NEW_YORK, []),
        ("30 2 * * *", "Asia/Tokyo", []),
        ("*/30 2 * * *", NEW_YORK, []),
    ],
)  # fmt: skip
def test_common_mistakes_have_warnings(text, zone, wanted):
    assert list(a_rule(text, zone).warnings) == wanted


def test_a_rule_has_its_kind_and_zone_and_is_hashed_by_identity():
    rule, same = a_rule("0 9 * * 1"), a_rule("0 9 * * 1")

    assert (rule.kind, rule.zone.key) == ("cron", NEW_YORK)
    assert len({rule, same, rule}) == 2


def test_croniter_and_cron_descriptor_are_imported_when_first_needed():
    code = (
        "import sys; import scheduled_actions.recurrence.cron.rule; "
        "sys.exit(any(name in sys.modules for name in ('croniter', 'cron_descriptor', 'dateutil')))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 * * 3-6/3,7,*/4", "At 00:00, only on Wednesday, Saturday, Sunday, and Thursday"),
        ("0 0 * * 0,7", "At 00:00, only on Sunday"),
        ("0 0 * * 1,1-3", "At 00:00, only on Monday, Tuesday, and Wednesday"),
        ("0 0 * 1,*/6 *", "At 00:00, only in January and July"),
        ("0 0 * * 5-7", "At 00:00, Friday through Sunday"),
    ],
)
def test_a_description_names_each_day_and_month_once(text, expected):
    rule = parse_cron(text, zone=ZoneInfo("UTC"), anchor=datetime(2026, 3, 1, tzinfo=UTC))
    assert rule.description == expected
