"""The cost of occurrences in a tick compared with plain actions, and behaviour that optimisations must preserve."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from scheduled_actions import action
from scheduled_actions.schedules import operations, store
from scheduled_actions.schedules.model import PLANNING_FIELDS, PlanningState, planning_state
from scheduled_actions.ticks.attempts import attempt_runner
from tests.factories import NOW, PATIENCE, a_claimed, insert_many, projects, row, set_clock, wait_until
from tests.statements import statement

MINUTE = timedelta(minutes=1)
#: The statements that a tick runs only for series.
_OF_SERIES = ("take_occurrences", "planned_among", "advance_schedules", "lock_schedules_that_watch")


@pytest.fixture
def a_project(database_url, connection):
    """Return a function that creates a project on the test's database, with the clock set to NOW."""
    set_clock(connection, NOW)
    with projects(database_url) as make:
        yield make


@pytest.fixture
def executed_statements(monkeypatch):
    """Return a counter of the executed statements, by their texts."""
    counts = Counter()
    execute = psycopg.Cursor.execute

    def counting(cursor, query, *arguments, **options):
        counts[query if isinstance(query, str) else "composed"] += 1
        return execute(cursor, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", counting)
    return counts


class Gate:
    """A handler without a context argument that runs until `leave` is set."""

    def __init__(self):
        self.entered, self.leave = threading.Semaphore(0), threading.Event()

        @action("test:run", timeout_seconds=15)
        def handle(payload: dict):
            self.entered.release()
            self.leave.wait(PATIENCE)

        self.handler = handle


@action("test:quick")
def quick(payload: dict):
    """Do nothing."""


def test_the_statements_for_occurrences_do_not_grow_with_their_number(a_project, connection, executed_statements):
    project = a_project(quick)
    insert_many(connection, 20, action_type="test:quick", scheduled_at=NOW)
    project.processor.tick()
    counts = []
    for number, moment in ((3, MINUTE), (60, 11 * MINUTE)):
        for _ in range(number):
            project.schedules.schedule_recurring("test:quick", {}, "every 10 minutes", scheduled_at=NOW + moment)
        set_clock(connection, NOW + moment)
        executed_statements.clear()
        assert project.processor.tick().succeeded >= number
        counts.append([executed_statements[statement(name)] for name in _OF_SERIES])

    # One statement takes all occurrences and one plans the next ones; then they are completed like any action.
    assert counts == [[1, 0, 1, 0]] * 2


def test_the_ids_of_occurrences_planned_together_count_up_from_one_new_id(a_project, connection):
    project = a_project(quick)
    for _ in range(3):
        project.schedules.schedule_recurring("test:quick", {}, "hourly", scheduled_at=NOW + MINUTE)
    set_clock(connection, NOW + MINUTE)

    project.processor.tick()

    rows = connection.execute("select next_action_id from scheduled_action_schedules").fetchall()
    ids = sorted(row[0].int for row in rows)
    assert [one - ids[0] for one in ids] == [0, 1, 2]
    assert {UUID(int=one).version for one in ids} == {7}


def test_only_the_last_32_bits_of_the_ids_that_follow_an_id_differ():
    first = UUID("0197a000-0000-7000-bfff-ffffffffffff")

    assert store.ids_from(first, 2) == "{0197a00000007000bfffffffffffffff,0197a00000007000bfffffff00000000}"


def test_a_planning_state_of_a_row_equals_a_constructed_one():
    values = [f"value of {name}" for name in PLANNING_FIELDS]

    state = planning_state(*values)

    assert state == PlanningState(**dict(zip(PLANNING_FIELDS, values, strict=True)))
    with pytest.raises(ValueError, match="shorter"):
        planning_state(*values[1:])


def test_a_completed_occurrence_has_the_same_columns_as_any_action(a_project, connection):
    project = a_project(quick)
    schedule = project.schedules.schedule_recurring("test:quick", {}, "hourly", scheduled_at=NOW + MINUTE)
    set_clock(connection, NOW + MINUTE)

    project.processor.tick()

    done = row(connection, schedule.next_action_id)
    assert (done["status"], done["attempts"], done["claim_token"], done["history"]) == ("completed", 1, None, [])
    assert done["started_at"] <= done["completed_at"]


@pytest.mark.parametrize(
    ("change", "then"),
    [({"recurrence_type": "rolling"}, 20), ({"pause_after_failures": 1}, 20), ({"recurrence": "every 5 minutes"}, 15)],
)
def test_a_schedule_changed_during_a_run_continues_with_its_new_arguments(a_project, connection, change, then):
    gate = Gate()
    project = a_project(gate.handler)
    schedule = project.schedules.schedule_recurring("test:run", {}, "PT10M")
    set_clock(connection, NOW + 10 * MINUTE)
    tick = threading.Thread(target=project.processor.tick)
    tick.start()
    assert gate.entered.acquire(timeout=PATIENCE)

    project.schedules.update(schedule.id, **change)
    connection.execute("update scheduled_action_schedules set consecutive_failures = 3")
    gate.leave.set()
    tick.join(PATIENCE)

    found = project.schedules.get(schedule.id)
    assert row(connection, schedule.next_action_id)["status"] == "completed"
    assert found.next_occurrence_at == NOW + then * MINUTE
    assert row(connection, found.next_action_id)["status"] == "pending"
    # Only a schedule that pauses after failures waits for this end, and resets its count.
    assert (found.consecutive_failures == 0) is ("recurrence" not in change)


def test_an_occurrence_returned_to_pending_runs_in_the_same_tick_after_the_previous_one_has_ended(
    a_project, connection, executed_statements
):
    gate = Gate()
    project = a_project(gate.handler)
    project.schedules.schedule_recurring("test:run", {}, "every minute", misfire="catch_up")
    set_clock(connection, NOW + 3 * MINUTE)
    reports = []
    tick = threading.Thread(target=lambda: reports.append(project.processor.tick()))
    tick.start()
    assert gate.entered.acquire(timeout=PATIENCE)

    # It is claimed and returned repeatedly; only the end of the first lets it run.
    wait_until(lambda: executed_statements[statement("unclaim")] > 2)
    gate.leave.set()
    tick.join(PATIENCE)

    assert (reports[0].succeeded, reports[0].remaining) == (3, 0)


def test_a_status_reason_may_contain_any_text(a_project, connection):
    project = a_project(quick)
    schedule = project.schedules.schedule_recurring("test:quick", {}, "daily")
    note = 'a "note", {of} \\ NULL'

    operations.pause(project.schedules, schedule.id, reason=note, by="NULL")

    found = project.schedules.get(schedule.id)
    assert (found.status, found.status_reason, found.status_by) == ("paused", note, "NULL")


@pytest.mark.parametrize("anchor", ["-infinity", "infinity", "10000-01-01"])
def test_a_start_outside_the_calendar_pauses_only_its_own_schedule(a_project, connection, anchor):
    project = a_project(quick)
    broken, sound = (project.schedules.schedule_recurring("test:quick", {}, "PT10M") for _ in range(2))
    # A row that was stored before the table had its check constraint.
    connection.execute(
        "alter table scheduled_action_schedules drop constraint scheduled_action_schedules_instants_are_in_the_calendar"
    )
    connection.execute("update scheduled_action_schedules set anchor_at = %s where id = %s", [anchor, broken.id])
    set_clock(connection, NOW + 10 * MINUTE)

    assert project.processor.tick().succeeded == 2

    assert project.schedules.get(sound.id).next_occurrence_at == NOW + 20 * MINUTE
    status = connection.execute("select status from scheduled_action_schedules where id = %s", [broken.id]).fetchone()
    assert status == ("paused",)


def test_only_the_id_the_name_and_the_definition_of_a_schedule_are_indexed(connection):
    indexed = connection.execute(
        "select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)"
        " where i.indrelid = 'scheduled_action_schedules'::regclass"
    ).fetchall()

    assert {name for (name,) in indexed} == {"id", "name", "definition"}


@pytest.mark.parametrize(
    ("epochs", "is_plain"),
    [
        ({}, True),
        ({"previous_epoch": None}, True),
        ({"occurrence_epoch": float("inf")}, False),
        ({"previous_epoch": -1.0}, False),
    ],
)
def test_an_occurrence_with_readable_instants_needs_no_query_for_its_context(epochs, is_plain):
    claimed = a_claimed(**{"occurrence_epoch": 1.8e9, "previous_epoch": 1.7e9} | epochs)

    assert attempt_runner.needs_no_context(claimed) is is_plain
