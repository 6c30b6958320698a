"""The budget of steps that the stages of a deadline share."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.core.errors import BudgetExceeded
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.deadlines.model import Stage
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.calendar import parse_calendar

DUE = datetime(2027, 1, 15, 17, tzinfo=UTC)
RANGES = [
    {"from": f"{date(2000, 1, 1) + timedelta(days=14 * n)}", "to": f"{date(2000, 1, 3) + timedelta(days=14 * n)}"}
    for n in range(1000)
]


def clock_of(**calendar):
    return planning.DeadlineClock(
        ZoneInfo("Europe/Berlin"), parse_calendar(calendar), EvaluationBudget("the deadline's calendar")
    )


def stages(count, business_days):
    offset = f"{business_days} business days before"
    return [
        Stage(key=f"reminder:{n}", kind="reminder", offset=offset, action_type="reminder:send") for n in range(count)
    ]


def test_planning_spends_one_step_per_day():
    clock = clock_of(ranges=RANGES)

    planning.plan(stages(20, 10), due_at=DUE, clock=clock, now=DUE - timedelta(days=365))

    assert STEPS - 20 * 30 < clock.budget.steps_left < STEPS - 20 * 10


def test_too_many_business_days_exceed_the_budget_of_the_calendar():
    clock = clock_of(ranges=RANGES)

    with pytest.raises(BudgetExceeded, match="the deadline's calendar needs more than 100,000 steps"):
        planning.plan(stages(100, 5000), due_at=DUE, clock=clock, now=DUE - timedelta(days=365))


def test_counting_working_time_over_years_exceeds_the_budget():
    calendar = parse_calendar({"hours": {"from": "09:00", "to": "09:01"}})
    budget = EvaluationBudget("the deadline's calendar", steps=1000)

    with pytest.raises(BudgetExceeded):
        calendar.after_working(DUE, timedelta(days=10), zone=ZoneInfo("UTC"), budget=budget)
