"""What other features do with paused actions: schedules, deadlines, changes by people, deduplication and lists."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions import action, set_deadline
from scheduled_actions.actions.model import NewAction
from scheduled_actions.actions.search import ActionFilters
from scheduled_actions.core.action import Status
from scheduled_actions.limits.pauses import Subject
from scheduled_actions.schedules import operations
from tests.deadlines.deadline_project import SENT, deadline_project, send, start
from tests.factories import NOW, insert, row, set_clock, statuses

HOUR = timedelta(hours=1)
LATE = timedelta(hours=5, minutes=10)
TYPE = Subject("action_type", "test:run", None)


@action("test:run")
def run(payload: dict):
    """Accept any payload."""


@pytest.fixture
def project(database_url, connection):
    """Return a project with a handler and deadlines, whose clock is stopped."""
    set_clock(connection, NOW)
    with deadline_project(database_url, run, send, start) as project:
        yield project


def tick(project, connection, *, at=timedelta(0)):
    set_clock(connection, NOW + at)
    return project.processor.tick()


@pytest.fixture
def paused(project, connection):
    """Return the id of a due action, parked by a pause of its type."""
    action_id = insert(connection, dedup_key="k", dedup_open=True)
    project.pauses.pause(TYPE)
    return action_id


def occurrences(connection, schedule):
    found = connection.execute(
        "select status, occurrence_at from scheduled_actions where schedule_id = %s order by occurrence_at, id",
        [schedule.id],
    )
    return [(status, (at - NOW) // HOUR) for status, at in found]


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        ("fire_once", [("completed", 1), ("pending", 6)]),
        ("skip", [("skipped", 1), ("pending", 6)]),
        ("catch_up", [("completed", 1), ("completed", 2), ("completed", 3), ("completed", 4), ("completed", 5)]),
    ],
)
def test_the_misfire_policy_decides_about_the_occurrences_that_a_pause_held_back(
    project, connection, misfire, expected
):
    schedule = project.schedules.schedule_recurring("test:run", {}, "every 1 hour", misfire=misfire)
    project.pauses.pause(TYPE)
    tick(project, connection, at=2 * HOUR)
    tick(project, connection, at=LATE)
    assert occurrences(connection, schedule) == [("pending", 1)]

    project.pauses.resume(TYPE)
    tick(project, connection, at=LATE)

    assert [one for one in occurrences(connection, schedule) if one in expected] == expected
    assert occurrences(connection, schedule)[-1] == ("pending", 6)


def test_an_occurrence_that_is_skipped_while_paused_is_followed_by_the_next_one(project, connection):
    schedule = project.schedules.schedule_recurring("test:run", {}, "every 1 hour")
    project.pauses.pause(TYPE)
    tick(project, connection, at=HOUR + timedelta(minutes=1))

    operations.skip_next(project.schedules, schedule.id)

    assert [status for status, _ in occurrences(connection, schedule)].count("pending") == 1
    project.pauses.resume(TYPE)
    tick(project, connection, at=2 * HOUR)
    assert "completed" in [status for status, _ in occurrences(connection, schedule)]


def test_notices_of_a_deadline_are_sent_after_the_pause(project, connection):
    set_deadline({"type": "license", "id": "1"}, NOW + 48 * HOUR, reminders=["1 day before"], recipients="a@b.example")
    reminders = Subject("action_type", "reminder:send", None)
    project.pauses.pause(reminders)
    tick(project, connection, at=25 * HOUR)
    assert SENT == []

    project.pauses.resume(reminders)
    tick(project, connection, at=25 * HOUR)
    assert len(SENT) == 1


def test_a_paused_action_can_be_cancelled(project, connection, paused):
    project.scheduler.cancel_action(paused)
    project.pauses.resume(TYPE)
    tick(project, connection)
    assert statuses(connection) == {paused: "cancelled"}
    assert project.pauses.find() == []


def test_running_a_paused_action_now_leaves_it_paused(project, connection, paused):
    project.action_operations.run_now(paused, by="ann", team_id=None)
    later = insert(connection, scheduled_at=NOW + HOUR)
    project.action_operations.run_now(later, by="ann", team_id=None)

    tick(project, connection)
    assert statuses(connection) == {paused: "pending", later: "pending"}
    project.pauses.resume(TYPE)
    tick(project, connection)
    assert statuses(connection) == {paused: "completed", later: "completed"}


def test_a_paused_action_that_is_postponed_runs_at_its_new_time(project, connection, paused):
    project.scheduler.update_action(paused, scheduled_at=NOW + HOUR)
    project.pauses.resume(TYPE)
    tick(project, connection)
    assert statuses(connection) == {paused: "pending"}
    tick(project, connection, at=2 * HOUR)
    assert statuses(connection) == {paused: "completed"}


def test_the_retry_of_an_action_waits_for_the_end_of_the_pause(project, connection):
    failed = insert(connection, status="failed", completed_at=NOW)
    project.pauses.pause(TYPE)
    project.scheduler.retry_action(failed)
    tick(project, connection)
    assert statuses(connection) == {failed: "pending"}
    project.pauses.resume(TYPE)
    tick(project, connection)
    assert statuses(connection) == {failed: "completed"}


def test_an_action_is_merged_into_a_paused_one(project, connection, paused):
    new = NewAction(action_type="test:run", payload={"n": 2}, dedup_key="k", dedup_window=3600)
    merged = project.scheduler.schedule_action(new)

    assert (merged.id, merged.deduplicated) == (paused, True)
    project.pauses.resume(TYPE)
    tick(project, connection)
    found = row(connection, paused)
    assert (found["status"], found["payload"]) == ("completed", {"n": 2})


def test_counts_and_lists_include_paused_actions(project, paused):
    assert [one.id for one in project.scheduler.list_actions(status="pending")] == [paused]
    assert project.action_operations.count_matching(ActionFilters(statuses=(Status.PENDING,))).matched == 1
    assert project.action_operations.counts().by_status[Status.PENDING] == 1


def test_a_limited_action_that_is_postponed_while_paused_does_not_wait_in_a_queue(project, connection):
    limited = insert(connection, limit_keys=["api:acme"], parked_by="limit")
    project.pauses.pause(TYPE)
    connection.execute("update scheduled_actions set scheduled_at = %s", [NOW + HOUR])
    project.pauses.resume(TYPE)
    assert row(connection, limited)["parked_by"] is None
