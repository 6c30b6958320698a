from datetime import UTC, datetime

import pytest

from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.recurrence.compiling import compile_recurrence
from scheduled_actions.recurrence.rrule.conversion import as_rrule
from scheduled_actions.recurrence.skips.model import Skips

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


def form(text, *, timezone="UTC", skip=None, until=None, remaining=None, start=START):
    skips = None if skip is None else Skips.parse(skip)
    recurrence = compile_recurrence(text, timezone=timezone, anchor=start, skips=skips, until=until)
    first = recurrence.next_after(start.replace(year=start.year - 1))
    return as_rrule(recurrence, first.at, remaining=remaining)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("daily", "FREQ=DAILY"),
        ("every 2 weeks at 09:00", "FREQ=WEEKLY;INTERVAL=2"),
        ("quarterly", "FREQ=MONTHLY;INTERVAL=3"),
        ("yearly", "FREQ=YEARLY"),
        ("every 6 hours", "FREQ=HOURLY;INTERVAL=6"),
        ("0 9 * * 1-5", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0"),
        ("30 8,17 * * *", "FREQ=DAILY;BYHOUR=8,17;BYMINUTE=30"),
        ("0 6 1,15 * *", "FREQ=MONTHLY;BYMONTHDAY=1,15;BYHOUR=6;BYMINUTE=0"),
        ("0 6 L * *", "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=6;BYMINUTE=0"),
        ("0 6 * * 5#2", "FREQ=MONTHLY;BYDAY=2FR;BYHOUR=6;BYMINUTE=0"),
        ("0 6 * * L5", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=6;BYMINUTE=0"),
        ("0 0 1 1 *", "FREQ=MONTHLY;BYMONTH=1;BYMONTHDAY=1;BYHOUR=0;BYMINUTE=0"),
        ("0 9 * * 0", "FREQ=WEEKLY;BYDAY=SU;BYHOUR=9;BYMINUTE=0"),
        ("Last friday of the month", "FREQ=MONTHLY;BYDAY=-1FR"),
        ("R/2026-01-05T09:00:00Z/PT36H", "FREQ=HOURLY;INTERVAL=36"),
        ("RRULE:FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"),
    ],
)
def test_an_equivalent_rrule_is_found(text, rule):
    assert form(text).rule == rule


def test_the_start_is_in_the_zone_that_the_rule_follows():
    found = form("0 9 * * 1", timezone="Europe/Berlin")

    assert found.start.isoformat() == "2026-01-12T09:00:00+01:00"


@pytest.mark.parametrize(
    ("text", "timezone"),
    [
        ("0 0 13 * 5", "UTC"),  # either day field may match: this needs two RRULEs
        ("30 2 * * *", "America/New_York"),  # in the gap in March, cron runs at 03:00, a calendar at 03:30
        ("last business day of the month", "UTC"),
        ("every 90 minutes", "UTC"),
    ],
)
def test_a_recurrence_without_an_equivalent_has_no_rrule(text, timezone):
    assert form(text, timezone=timezone) is None


def test_a_month_end_that_moves_in_shorter_months_has_no_rrule():
    assert form("monthly", start=datetime(2026, 1, 31, 9, tzinfo=UTC)) is None


def test_skipped_occurrences_become_exceptions():
    found = form("daily", skip={"dates": ["2026-01-07", "2026-02-01"]})

    assert [at.date().isoformat() for at in found.exceptions] == ["2026-01-07", "2026-02-01"]


def test_a_rule_with_too_many_exceptions_has_no_rrule():
    assert form("daily", skip={"weekends": True}) is None


def test_the_end_becomes_count_or_until():
    assert form("daily", until=datetime(2026, 2, 1, 9, tzinfo=UTC)).rule == "FREQ=DAILY;UNTIL=20260201T090000Z"
    assert form("daily", remaining=3).rule == "FREQ=DAILY;COUNT=3"


def test_a_rule_with_skips_ends_with_its_last_listed_exception():
    found = form("daily", skip={"dates": ["2026-01-07", "2026-06-30", "2027-01-07"]})

    assert found.rule == "FREQ=DAILY;UNTIL=20260714T090000Z"
    assert [at.date().isoformat() for at in found.exceptions] == ["2026-01-07", "2026-06-30"]


def test_a_dense_rule_is_compared_in_few_steps():
    budget = EvaluationBudget("the feed")
    recurrence = compile_recurrence("30 9 * * *", timezone="Europe/Berlin", anchor=START, budget=budget)

    assert as_rrule(recurrence, recurrence.next_after(START).at) is not None
    assert budget.steps_left > STEPS - 1_000
