"""Rules for days of the week in words."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.core.errors import RecurrenceInvalid
from scheduled_actions.recurrence.compiling import compile_recurrence
from scheduled_actions.recurrence.rrule.text import read_text

#: A Friday, 09:00 in New York.
ANCHOR = datetime(2026, 10, 30, 13, tzinfo=UTC)


def compiled(text):
    return compile_recurrence(text, timezone="America/New_York", anchor=ANCHOR)


@pytest.mark.parametrize(
    ("text", "rrule"),
    [
        ("every weekday", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("Weekdays", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("on weekdays", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("mon-fri", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("every weekend", "FREQ=WEEKLY;BYDAY=SA,SU"),
        ("every monday and friday", "FREQ=WEEKLY;BYDAY=MO,FR"),
        ("Every  Mon, Wed, and Fri", "FREQ=WEEKLY;BYDAY=MO,WE,FR"),
        ("every mon,wed", "FREQ=WEEKLY;BYDAY=MO,WE"),
        ("each Thursday", "FREQ=WEEKLY;BYDAY=TH"),
        ("on Thurs", "FREQ=WEEKLY;BYDAY=TH"),
        ("weekly on Tuesdays", "FREQ=WEEKLY;BYDAY=TU"),
        ("monday to wednesday and saturday", "FREQ=WEEKLY;BYDAY=MO,TU,WE,SA"),
        ("friday to monday", "FREQ=WEEKLY;BYDAY=MO,FR,SA,SU"),
        ("every weekday and monday", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("first monday of the month", "FREQ=MONTHLY;BYDAY=1MO"),
        ("on the 1st Monday of each month", "FREQ=MONTHLY;BYDAY=1MO"),
        ("every last fri in the month", "FREQ=MONTHLY;BYDAY=-1FR"),
        ("2nd last friday of the month", "FREQ=MONTHLY;BYDAY=-2FR"),
        ("last sunday of the year", "FREQ=YEARLY;BYDAY=-1SU"),
        ("53rd sunday of the year", "FREQ=YEARLY;BYDAY=53SU"),
    ],
)
def test_days_of_the_week_are_an_rrule(text, rrule):
    assert read_text(text, ZoneInfo("UTC")).parts.text == rrule


@pytest.mark.parametrize(
    ("text", "description", "first"),
    [
        ("every weekday", "Every week on Monday to Friday in America/New_York", "2026-11-02 09:00"),
        ("every weekday at 09:30", "Every week on Monday to Friday at 09:30 in America/New_York", "2026-10-30 09:30"),
        (
            "last friday of the month at 17:00",
            "Every month on the last Friday at 17:00 in America/New_York",
            "2026-10-30 17:00",
        ),
        ("on mondays at 9:00:30", "Every week on Monday at 09:00:30 in America/New_York", "2026-11-02 09:00"),
    ],
)
def test_a_rule_for_days_of_the_week_is_described_and_has_its_time_of_day(text, description, first):
    rule = compiled(text)

    assert (rule.kind, rule.text, rule.description) == ("rrule", text, description)
    assert f"{rule.next_after(ANCHOR).at.astimezone(ZoneInfo('America/New_York')):%Y-%m-%d %H:%M}" == first


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("every monday and fryday", '"fryday" is not a day of the week; did you mean "friday"?'),
        ("first friday", '"first friday" is not a day of the week; write "every weekday", "every monday and friday at'),
        ("every monday at 9", '"9" is not a time of day, such as 09:00 or 23:59:30'),
        ("frist monday of the month", '"frist" is not a position; did you mean "first"?'),
        ("6th monday of the month", "a month has no 6th monday; use 1st to 5th"),
        ("0th monday of the month", "a month has no 0th monday; use 1st to 5th"),
        ("first monday of the quarter", '"quarter" is not a period; use month or year'),
        ("first monday of the mnth", '"mnth" is not a period; did you mean "month"?'),
        ("last weekday of the month", '"weekday" is several days: write "last business day of the month", or name one'),
        (
            "weekday to saturday",
            '"weekday to saturday" is not a range: write it from one day to another, such as monday',
        ),
        ("every other monday", 'does not define the first week: write "every 2 weeks", with a start on a Monday'),
        ("every 2nd friday", 'does not define the first week: write "every 2 weeks", with a start on a Friday'),
    ],
)
def test_an_invalid_rule_for_days_of_the_week_is_refused_with_a_suggestion(text, problem):
    with pytest.raises(RecurrenceInvalid) as caught:
        compiled(text)

    assert caught.value.rule == text
    assert caught.value.problem.startswith(problem)


@pytest.mark.parametrize("text", ["0 9 * * mon", "*/5 9 * * mon-fri"])
def test_names_of_days_in_a_cron_expression_are_not_a_rule_in_words(text):
    assert compiled(text).kind == "cron"


def test_names_of_days_in_an_rrule_are_not_a_rule_in_words():
    with pytest.raises(RecurrenceInvalid, match='BYDAY: "SUN" is not a day'):
        compiled("FREQ=WEEKLY;BYDAY=SUN")
