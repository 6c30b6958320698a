"""Rules that take many steps: rejected as arguments, planned after the commit, or paused with the reason."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions import action
from scheduled_actions.core.errors import BudgetExceeded
from scheduled_actions.schedules.planner import transaction_budget
from scheduled_actions.schedules.store import ScheduleUpdate
from tests.factories import NOW, insert_many, projects, set_clock, statuses, wait_until

#: A search evaluates about ten thousand candidates: too many for a transaction, few enough for deferred planning.
SPARSE = "RRULE:FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0"
#: The same rule; finding its last occurrence takes more candidates than any evaluation may use.
ENDLESS = f"{SPARSE};COUNT=10000"


@pytest.fixture
def project(database_url, connection):
    """Return a project with one handler, with the clock set to NOW."""
    set_clock(connection, NOW)

    @action("test:run")
    def run(payload: dict) -> None:
        """Do nothing."""

    with projects(database_url) as make:
        yield make(run)


def schedule_with_due_occurrence(project, connection, rule):
    """Return an hourly schedule whose occurrence is due, and whose stored rule is replaced by `rule`."""
    made = project.schedules.schedule_recurring("test:run", {}, "every 1 hour")
    connection.execute(
        "update scheduled_action_schedules set recurrence = %s, kind = 'rrule' where id = %s", [rule, made.id]
    )
    at = NOW - timedelta(seconds=1)
    connection.execute("update scheduled_actions set scheduled_at = %s where schedule_id = %s", [at, made.id])
    return made


def state_of(connection, schedule):
    return connection.execute(
        "select status, status_reason, next_action_id is not null from scheduled_action_schedules where id = %s",
        [schedule.id],
    ).fetchone()


def test_a_rule_over_its_budget_is_not_stored(project, connection):
    with pytest.raises(BudgetExceeded, match="the recurrence needs more than 50,000 steps"):
        project.schedules.schedule_recurring("test:run", {}, ENDLESS)

    assert connection.execute("select count(*) from scheduled_action_schedules").fetchone() == (0,)


def test_a_stored_rule_over_its_budget_pauses_its_schedule_with_the_reason_and_delays_no_action(project, connection):
    hostile = schedule_with_due_occurrence(project, connection, ENDLESS)
    good = insert_many(connection, 5, action_type="test:run", scheduled_at=NOW)

    report = project.processor.tick()
    wait_until(lambda: state_of(connection, hostile)[0] == "paused")

    assert report.errors == []
    assert {statuses(connection)[one] for one in good} == {"completed"}
    assert "the recurrence needs more than 100,000 steps" in state_of(connection, hostile)[1]


def test_a_rule_that_takes_many_steps_is_planned_after_the_claim_has_committed(project, connection, caplog):
    caplog.set_level("INFO", logger="scheduled_actions")
    sparse = schedule_with_due_occurrence(project, connection, SPARSE)

    project.processor.tick()
    wait_until(lambda: state_of(connection, sparse)[2])

    assert state_of(connection, sparse) == ("active", None, True)
    assert f"schedule.left id={sparse.id}" in caplog.text


def test_ordinary_rules_of_a_whole_batch_are_planned_in_the_claim(project, connection, caplog):
    caplog.set_level("INFO", logger="scheduled_actions")
    made = [
        schedule_with_due_occurrence(project, connection, f"FREQ=DAILY;BYHOUR=9;BYMINUTE={n % 60}") for n in range(60)
    ]

    project.processor.tick()

    assert all(state_of(connection, one) == ("active", None, True) for one in made)
    assert "schedule.left" not in caplog.text


def test_rules_that_together_take_many_steps_are_planned_after_the_claim_has_committed(project, connection):
    # About 1,800 steps each: a transaction plans eleven of them.
    made = schedule_with_due_occurrence(project, connection, SPARSE.replace("10007", "1399"))
    schedule, planner, budget = project.schedules.get(made.id), project.schedules.hook.planner, transaction_budget()

    updates = [
        planner.complete_or_leave(ScheduleUpdate(schedule.id), schedule, NOW, budget, after=NOW) for _ in range(16)
    ]

    assert [update.occurrence_at is not None for update in updates] == [True] * 11 + [False] * 5
    assert len(planner.unplanned.take()) == 5
