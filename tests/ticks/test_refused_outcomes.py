"""Outcomes that the database refuses: only their action fails, and the other outcomes are written."""

from __future__ import annotations

import threading
from datetime import timedelta

import psycopg
import pytest

from scheduled_actions import RetryAfter, action
from scheduled_actions.actions.model import NewAction
from tests.factories import PATIENCE, database_now, holds, insert, move_clock, projects, row, statuses


@pytest.fixture
def project(database_url):
    """Return a project whose handler returns the outcome named in its payload."""

    @action("test:run")
    def run(payload: dict):
        if "delay" in payload:
            raise RetryAfter(payload["delay"])
        return payload.get("result")

    with projects(database_url) as a_project:
        yield a_project(run)


def refuse(connection, when, event="update"):
    """Make the table refuse rows, as a user's trigger may."""
    connection.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'no such row here'; end $$;"
        f" create trigger refuse before {event} on scheduled_actions for each row when ({when})"
        " execute function refuse()"
    )


def test_an_action_whose_outcome_is_refused_fails_with_the_reason(project, connection):
    refuse(connection, "new.status = 'completed' and new.payload ? 'bad'")
    bad = insert(connection, payload={"bad": 1}, lock_group="g")
    others = [insert(connection) for _ in range(5)]

    report = project.processor.tick()

    assert (report.succeeded, report.failed) == (5, 1)
    found = row(connection, bad)
    assert found["status"] == "failed"
    assert "no such row here" in found["error_message"]
    assert found["history"][-1]["outcome"] == "failed"
    assert {statuses(connection)[one] for one in others} == {"completed"}
    assert holds(connection) == {}


def test_a_failure_that_is_refused_as_well_is_written_without_history(project, connection):
    refuse(connection, "new.payload ? 'bad' and new.history <> '[]'")
    bad = insert(connection, payload={"bad": 1, "delay": 5}, lock_group="g")
    others = [insert(connection) for _ in range(5)]

    report = project.processor.tick()

    assert (report.succeeded, report.failed) == (5, 1)
    assert row(connection, bad)["status"] == "failed"
    assert "no such row here" in row(connection, bad)["error_message"]
    assert {statuses(connection)[one] for one in others} == {"completed"}
    assert holds(connection) == {}


def test_a_row_that_refuses_every_change_stops_neither_ticks_nor_rescues(project, connection):
    refuse(connection, "old.status = 'processing' and new.payload ? 'bad'")
    bad = insert(connection, payload={"bad": 1})

    for hours in range(3):
        move_clock(connection, timedelta(hours=hours))
        others = [insert(connection) for _ in range(3)]
        report = project.processor.tick()
        assert (report.success, report.succeeded) == (True, 3)
        assert {statuses(connection)[one] for one in others} == {"completed"}

    assert row(connection, bad)["status"] == "processing"


def test_a_rescue_that_is_refused_for_one_action_rescues_the_others(project, connection):
    crashed = [insert(connection, payload={"bad": 1} if n == 2 else {}, max_attempts=1) for n in range(5)]
    connection.execute(
        "with tick as (insert into scheduled_action_ticks (id, started_at, lease_expires_at, running)"
        "   values (gen_random_uuid(), now() - interval '1 hour', now() - interval '1 minute', %s)"
        "   returning lease_expires_at)"
        " update scheduled_actions set status = 'processing', claim_token = gen_random_uuid(),"
        " lease_expires_at = tick.lease_expires_at from tick",
        [crashed],
    )
    refuse(connection, "new.payload ? 'bad' and new.history <> '[]'")

    report = project.processor.tick()

    assert report.rescued == 5
    assert "could not be rescued" in row(connection, crashed[2])["error_message"]
    assert row(connection, crashed[2])["status"] == "failed"


def test_a_condition_check_that_cannot_be_written_fails_only_its_action(project, connection):
    refuse(connection, "new.payload ? 'bad' and new.waiting is not null")
    order = {"type": "order", "id": "1"}
    condition = {"wait": {"kind": "document_state", "target": order, "state": "approved"}}
    bad, good = (
        project.scheduler.schedule_action(NewAction(action_type="test:run", payload=one, condition=condition)).id
        for one in ({"bad": 1}, {})
    )

    report = project.processor.tick()

    assert report.success
    assert row(connection, bad)["status"] == "failed"
    assert "no such row here" in row(connection, bad)["error_message"]
    assert row(connection, good)["status"] == "pending"
    assert row(connection, good)["waiting"]["checks"] == 1


def test_if_the_next_occurrence_cannot_be_planned_the_action_fails_and_only_its_series_is_paused(project, connection):
    bad, good = (
        project.schedules.schedule_recurring("test:run", one, "every hour", name=str(one)).id
        for one in ({"bad": 1}, {})
    )
    refuse(connection, "new.payload ? 'bad'", event="insert")
    move_clock(connection, timedelta(hours=2))

    report = project.processor.tick()

    assert report.success
    found = dict(connection.execute("select id, status from scheduled_action_schedules").fetchall())
    assert found == {bad: "paused", good: "active"}
    note = connection.execute("select status_reason from scheduled_action_schedules where id = %s", [bad]).fetchone()
    assert "no such row here" in note[0]
    ended = connection.execute("select status from scheduled_actions where schedule_id = %s order by id", [bad])
    assert ended.fetchall() == [("failed",)]


def test_claims_that_are_refused_are_reported_and_the_tick_ends(project, connection):
    insert(connection)
    refuse(connection, "new.status = 'processing'")

    report = project.processor.tick()

    assert report.success
    assert "no such row here" in report.errors[0]["error"]
    assert report.remaining == 1


def test_a_release_that_is_refused_for_one_action_releases_the_others(project, connection):
    bad, good = (
        insert(connection, status="no_action", payload=one, completed_at="2026-01-01") for one in ({"bad": 1}, {})
    )
    refuse(connection, "old.status = 'no_action' and new.payload ? 'bad'")

    report = project.processor.tick()

    assert report.success
    assert (statuses(connection)[bad], statuses(connection)[good]) == ("no_action", "completed")
    assert report.errors[0]["action_id"] == str(bad)


def test_an_action_that_cannot_be_pruned_does_not_prevent_pruning_others(project, connection):
    kept, *gone = (insert(connection, status="completed", completed_at="2020-01-01") for _ in range(4))
    connection.execute("create table receipts (action_id uuid references scheduled_actions (id))")
    connection.execute("insert into receipts values (%s)", [kept])

    report = project.processor.tick()

    assert report.pruned == len(gone)
    assert list(statuses(connection)) == [kept]


def test_an_action_that_cannot_be_woken_does_not_prevent_waking_others(project, connection):
    order = {"type": "order", "id": "1"}
    condition = {"wait": {"kind": "document_state", "target": order, "state": "approved"}, "check_interval": "P1D"}
    bad, good = (
        project.scheduler.schedule_action(NewAction(action_type="test:run", payload=one, condition=condition)).id
        for one in ({"bad": 1}, {})
    )
    project.processor.tick()
    refuse(connection, "new.payload ? 'bad' and new.scheduled_at <> old.scheduled_at")
    connection.execute('select report_fact(\'{"type": "order", "id": "1"}\', \'state\', \'"approved"\')')

    report = project.processor.tick()

    assert report.success
    assert (statuses(connection)[bad], statuses(connection)[good]) == ("pending", "completed")


@pytest.mark.parametrize("count", [1, 20])
def test_outcomes_are_written_while_their_schedules_are_locked(database_url, connection, count):
    with psycopg.connect(database_url) as other, projects(database_url) as a_project:
        together = threading.Barrier(
            count, action=lambda: other.execute("select from scheduled_action_schedules for update")
        )

        @action("test:run", timeout_seconds=5)
        def run(payload: dict) -> None:
            together.wait(PATIENCE)

        project = a_project(run, concurrency=count, max_run_seconds=5, max_duration_seconds=12)
        for _ in range(count):
            project.schedules.schedule_recurring("test:run", {}, "PT1H", recurrence_type="rolling")
        connection.execute("update scheduled_actions set scheduled_at = scheduled_actions_now()")
        report = project.processor.tick()

        assert report.succeeded == count
        assert set(statuses(connection).values()) == {"completed"}


def test_a_rescue_continues_while_the_schedules_of_its_actions_are_locked(database_url, connection):
    with psycopg.connect(database_url) as other, projects(database_url) as a_project:

        @action("test:run", timeout_seconds=2, max_attempts=1)
        def run(payload: dict) -> None:
            """Do nothing."""

        project = a_project(run, max_run_seconds=6, max_duration_seconds=12)
        for _ in range(40):
            project.schedules.schedule_recurring("test:run", {}, "PT1H", recurrence_type="rolling")
        crash(connection)
        due = insert(connection)
        other.execute("select from scheduled_action_schedules for update")
        report = project.processor.tick()

        assert (report.rescued, report.succeeded) == (40, 1)
        assert statuses(connection)[due] == "completed"


def crash(connection):
    """Leave every action in the state after a kill of its process, as the only one that had started in its tick."""
    connection.execute(
        "update scheduled_actions a set status = 'processing', claim_token = gen_random_uuid(), attempts = 0,"
        " lease_expires_at = scheduled_actions_now() - interval '1 second' - k.n * interval '1 millisecond'"
        " from (select id, row_number() over () as n from scheduled_actions) k where k.id = a.id"
    )
    connection.execute(
        "insert into scheduled_action_ticks (id, started_at, lease_expires_at, caller, budget, running)"
        " select gen_random_uuid(), scheduled_actions_now(), a.lease_expires_at, 'test', '{}', array[a.id]"
        " from scheduled_actions a"
    )


def test_a_series_that_is_paused_because_its_step_was_refused_has_nothing_planned(database_url, connection):
    @action("test:run", max_attempts=1)
    def run(payload: dict) -> None:
        raise ValueError("no")

    with projects(database_url) as a_project:
        project = a_project(run)
        schedule = project.schedules.schedule_recurring("test:run", {}, "PT1H", pause_after_failures=5)
        connection.execute("update scheduled_actions set scheduled_at = scheduled_actions_now()")
        connection.execute(
            "create function refuse_count() returns trigger language plpgsql as"
            " $$ begin raise exception 'no such count here'; end $$;"
            " create trigger refuse_count before update on scheduled_action_schedules for each row"
            " when (new.consecutive_failures > old.consecutive_failures) execute function refuse_count()"
        )
        report = project.processor.tick()

        paused = project.schedules.get(schedule.id)
    assert report.failed == 1
    assert paused.status == "paused"
    assert "no such count here" in paused.status_reason
    assert list(statuses(connection).values()) == ["failed"]


def test_a_series_continues_after_an_occurrence_that_could_only_be_marked_as_failed(database_url, connection):
    @action("test:run", max_attempts=1)
    def run(payload: dict) -> None:
        raise ValueError("no")

    with projects(database_url) as a_project:
        project = a_project(run)
        schedule = project.schedules.schedule_recurring(
            "test:run", {}, "PT1H", recurrence_type="rolling", pause_after_failures=2
        )
        # Its failure can only be written without history, by a statement that does not change the schedule.
        refuse(connection, "new.history <> '[]'")
        for failures in (1, 2):
            connection.execute("update scheduled_actions set scheduled_at = scheduled_actions_now()")
            assert project.processor.tick().failed == 1
            found = project.schedules.get(schedule.id)
            assert found.consecutive_failures == failures
            assert (found.status, found.next_action_id is None) == (
                ("active", False) if failures == 1 else ("paused", True)
            )
    assert set(statuses(connection).values()) == {"failed"}


def test_a_refused_step_before_the_first_claim_stops_no_other_step_and_all_are_repeated(database_url, connection):
    @action("test:run", recurrence="hourly")
    def run(payload: dict) -> None:
        """Do nothing."""

    due = insert(connection)
    connection.execute(
        "create function refuse_setting() returns trigger language plpgsql as"
        " $$ begin raise exception 'no such setting here'; end $$;"
        " create trigger refuse_setting before insert or update on scheduled_action_settings for each row"
        " when (new.name = 'webhook_fifo') execute function refuse_setting()"
    )
    with projects(database_url) as a_project:
        project = a_project(run)
        report = project.processor.tick()
        assert report.succeeded == 1
        assert [error["error"] for error in report.errors] == ["webhooks: RaiseException: no such setting here"]
        assert statuses(connection)[due] == "completed"
        assert [one.name for one in project.schedules.find()] == ["test:run"]

        connection.execute("drop trigger refuse_setting on scheduled_action_settings")
        assert project.processor.tick().errors == []
        shared = "select from scheduled_action_settings where name = 'webhook_fifo'"
        assert connection.execute(shared).rowcount == 1


def test_a_prune_waits_for_only_a_few_rows_that_another_session_has_locked(database_url, connection):
    @action("test:run", timeout_seconds=2)
    def run(payload: dict) -> None:
        """Do nothing."""

    connection.execute("create table notes (action_id uuid references scheduled_actions on delete cascade)")
    old = {"status": "completed", "completed_at": database_now(connection) - timedelta(days=30)}
    for _ in range(40):
        connection.execute("insert into notes values (%s)", [insert(connection, **old)])
    insert(connection)
    with psycopg.connect(database_url) as other, projects(database_url) as a_project:
        project = a_project(run, max_run_seconds=8, max_duration_seconds=12)
        other.execute("select from notes for update")
        report = project.processor.tick()

        assert (report.succeeded, report.pruned) == (1, 0)
