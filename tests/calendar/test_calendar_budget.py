"""Calendars and simulations of costly schedules end within their budget and are marked as truncated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions import action
from tests.factories import NOW, projects, set_clock

DAY = timedelta(days=1)
#: A search for its next occurrence evaluates ten thousand candidates.
SPARSE = "RRULE:FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0"


@pytest.fixture
def project(database_url, connection):
    """Return a project with one handler, with the clock set to NOW."""
    set_clock(connection, NOW)

    @action("test:run")
    def run(payload: dict) -> None:
        """Do nothing."""

    with projects(database_url) as make:
        yield make(run)


@pytest.fixture
def hostile(project, connection):
    """Return the ids of schedules whose stored rules take many steps."""
    made = [project.schedules.schedule_recurring("test:run", {}, "every 1 hour", name=f"h{n}") for n in range(30)]
    connection.execute("update scheduled_action_schedules set recurrence = %s, kind = 'rrule'", [SPARSE])
    return {one.id for one in made}


def test_a_calendar_forecasts_other_schedules_and_lists_those_over_budget(project, hostile):
    project.schedules.schedule_recurring("test:run", {}, "daily", name="backup")

    page = project.calendar.page(end=NOW + 9 * DAY)

    assert [one.title for one in page.entries if one.is_forecast] == ["backup"] * 7
    assert set(page.truncated_schedules) >= hostile


def test_the_days_of_a_calendar_are_marked_as_truncated(project, hostile):
    project.schedules.schedule_recurring("test:run", {}, "daily", name="backup")

    found = project.calendar.days([NOW + n * DAY for n in range(10)])

    assert found.is_forecast_truncated
    assert sum(line.title == "backup" for day in found.days for line in day.items if line.kind == "forecast") == 7


def test_a_simulation_with_costly_schedules_is_truncated_and_counts_the_others(project, hostile):
    project.schedules.schedule_recurring("test:run", {}, "daily", name="backup")

    found = project.simulator.simulate(NOW, NOW + 9 * DAY)

    assert found.is_capped
    assert found.runs >= 8


def test_usual_schedules_are_not_truncated(project):
    for number in range(60):
        project.schedules.schedule_recurring("test:run", {}, f"{number} 9 * * MON-FRI", name=f"s{number}")

    page = project.calendar.page(end=NOW + 31 * DAY)

    assert len(page.entries) == 100
    assert page.truncated_schedules == []
