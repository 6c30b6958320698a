"""Deadlines and schedules with invalid values written by SQL: the problem is shown, and no invalid value is used."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.core.errors import DeadlineUnusable
from scheduled_actions.deadlines import operations, reading
from scheduled_actions.schedules import store as schedule_store
from tests.deadlines.deadline_project import SENT, deadline_project
from tests.factories import NOW, set_clock
from tests.hostile_values import without_checks

DAY = timedelta(days=1)
TABLE = "scheduled_action_deadlines"


@pytest.fixture
def runtime(database_url, connection):
    """Return a project with deadlines, with the clock set to NOW, on tables without check constraints."""
    set_clock(connection, NOW)
    without_checks(connection, TABLE)
    without_checks(connection, "scheduled_action_schedules")
    with deadline_project(database_url) as made:
        yield made


@pytest.fixture
def broken(runtime, connection):
    """Return a function that creates a deadline with a reminder in a day, and sets a column to an invalid value."""

    def make(column="stages", change="jsonb_set(stages, '{0,repeat}', '7')"):
        given = {"target": {"type": "license", "id": "42"}, "due_at": NOW + 2 * DAY, "recipients": "ann@example.org"}
        made = runtime.deadlines.set(given | {"reminders": ["1 day before"]})[0]
        connection.execute(f"update {TABLE} set {column} = {change} where id = %s", [made.id])
        return made.id

    return make


@pytest.mark.parametrize(
    ("column", "change", "problem"),
    [
        ("stages", "jsonb_set(stages, '{0,repeat}', '7')", "stages[0].repeat: 7 is not a string"),
        ("stages", "jsonb_set(stages, '{1,at}', '\"infinity\"')", "stages[1].at: 'infinity' is not an instant"),
        ("stages", "stages || '[[]]'", "stages[2]: a list is not an object"),
        (
            "stages",
            "jsonb_set(stages, '{0,no}', '7')",
            "stages[0].no is an unknown field of a stage: remove or rename it",
        ),
        ("recipients", "'[5]'", "recipients: a list is not a list of addresses and people"),
        ("calendar", "'{\"hours\": 5}'", "calendar: an object is not a working calendar"),
        ("timezone", "'Europe/Nowhere'", "timezone: 'Europe/Nowhere' is not an IANA time zone"),
        ("history", "'[{}]'", "history: an entry has no `what`, or an invalid `at`"),
    ],
)
def test_a_deadline_describes_the_unusable_value_of_its_row(runtime, broken, column, change, problem):
    deadline_id = broken(column, change)

    assert runtime.deadlines.get(deadline_id).problem == problem
    assert [one.problem for one in reading.find(runtime.deadlines.database)] == [problem]


def test_a_schedule_describes_the_unusable_value_of_its_row_and_has_the_default_instead(runtime, connection):
    schedule_id = runtime.schedules.schedule_recurring("approval:start", {}, "daily").id
    connection.execute("update scheduled_action_schedules set jitter_seconds = 'NaN'")

    found = schedule_store.get(connection, schedule_id=schedule_id).schedule

    assert found.jitter_seconds == 0
    assert found.problem == "jitter_seconds: nan is not a number of seconds between 0 and a year"


def test_a_stage_of_an_invalid_deadline_fails_with_the_reason_and_sends_nothing(runtime, broken, connection):
    deadline_id = broken("recipients", "'[5]'")
    set_clock(connection, NOW + DAY)
    SENT.clear()

    runtime.processor.tick()

    assert connection.execute(
        "select status, error_message from scheduled_actions where deadline_id = %s order by scheduled_at limit 1",
        [deadline_id],
    ).fetchone() == (
        "failed",
        "the stored row of its deadline is invalid: recipients: a list is not a list of addresses and people",
    )
    assert SENT == []


@pytest.mark.parametrize(
    "change",
    [
        lambda deadlines, one: deadlines.move(one, NOW + 9 * DAY),
        operations.pause,
        operations.acknowledge,
        lambda deadlines, one: operations.reassign(deadlines, one, "bob@example.org"),
        lambda deadlines, one: deadlines.update(one, timezone="Europe/Berlin"),
    ],
    ids=["move", "pause", "acknowledge", "reassign", "update"],
)
def test_a_change_that_would_write_invalid_values_back_is_rejected(runtime, broken, connection, change):
    deadline_id = broken()
    before = connection.execute(f"select to_jsonb(d) from {TABLE} d").fetchone()

    with pytest.raises(DeadlineUnusable, match=r"stages\[0\].repeat: 7"):
        change(runtime.deadlines, deadline_id)

    assert connection.execute(f"select to_jsonb(d) from {TABLE} d").fetchone() == before


@pytest.mark.parametrize("end", [operations.complete, operations.cancel])
def test_an_invalid_deadline_can_be_completed_and_cancelled(runtime, broken, end):
    deadline_id = broken()

    assert end(runtime.deadlines, deadline_id).closed_at == NOW


def test_setting_an_invalid_deadline_again_by_its_name_repairs_it(runtime, connection):
    target = {"type": "license", "id": "42"}
    given = {"target": target, "due_at": NOW + 2 * DAY, "name": "renewal", "recipients": "ann@example.org"}
    runtime.deadlines.set(given | {"reminders": ["1 day before"]})
    connection.execute(f"update {TABLE} set stages = '[7]'")

    again, outcome = runtime.deadlines.set(given | {"reminders": ["1 day before"]})

    assert (outcome, again.problem, [one.key for one in again.stages]) == (
        "changed", None, ["reminder:1 day before", "due"],
    )  # fmt: skip
