"""Lateness of actions: the time from the instant at which an attempt became due to its start."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions import Delays, action
from scheduled_actions.actions.management import ActionOperations
from scheduled_actions.actions.search import SearchBounds
from scheduled_actions.operations.explain.service import explain
from scheduled_actions.operations.recent_activity import recent_activity
from tests.factories import database_now, insert, move_clock, projects
from tests.statements import statement


@pytest.fixture
def a_project(database_url):
    with projects(database_url) as make:
        yield make


def lateness(project, **options):
    return ActionOperations(project.database, lambda: project.scheduler, **options)


def ended(connection, *late, ago=60, status="completed", **columns):
    """Insert actions that started this number of seconds late and ended `ago` seconds ago."""
    now = database_now(connection)
    for seconds in late:
        started = now - timedelta(seconds=ago)
        due = started - timedelta(seconds=seconds)
        times = {"created_at": due, "scheduled_at": due, "started_at": started, "completed_at": started}
        insert(connection, status=status, **times | columns)


def test_lateness_is_reported_by_type_as_median_p95_and_maximum(a_project, connection):
    ended(connection, *range(101))
    ended(connection, 3, status="failed", action_type="test:other")

    other, run = sorted(lateness(a_project()).lateness(), key=lambda one: one.sample_count)

    assert run == ("test:run", 101, 50.0, 95.0, 100.0)
    assert other == ("test:other", 1, 3.0, 3.0, 3.0)


def test_the_lateness_of_a_retry_is_measured_from_its_own_scheduled_at(a_project, connection):
    answers = [RuntimeError("not yet"), None]

    @action("test:run", retry=Delays([3600.0], jitter="none"))
    def flaky(payload: dict):
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    project = a_project(flaky)
    insert(connection)
    project.processor.tick()
    assert lateness(project).lateness() == []
    move_clock(connection, timedelta(seconds=3607))
    project.processor.tick()

    (found,) = lateness(project).lateness()

    assert 6 < found.max_seconds < 60


def test_only_recently_ended_actions_that_were_started_are_measured(a_project, connection):
    ended(connection, 5, ago=3700)
    ended(connection, 5, scheduled_at="-infinity")
    ended(connection, 5, started_at=None)
    ended(connection, 5, status="skipped")

    assert lateness(a_project()).lateness() == []
    # The start of a handler may be measured slightly before its due time by the database's clock.
    ended(connection, -0.1)
    assert lateness(a_project()).lateness()[0].max_seconds == 0


def test_only_the_latest_actions_of_each_status_are_measured(a_project, connection):
    for ago in (1, 2, 3):
        ended(connection, ago, ago=ago)
        ended(connection, ago, ago=ago, status="failed")

    (found,) = lateness(a_project(), bounds=SearchBounds(sample_size=2)).lateness()

    assert (found.sample_count, found.max_seconds) == (4, 2.0)


def test_a_team_sees_only_its_own_lateness(a_project, connection):
    ended(connection, 9)
    ended(connection, 4, team_id="blue")
    ended(connection, 4, team_id="blue", ago=3700)

    (blue,) = lateness(a_project()).lateness(team_id="blue")

    assert (blue.sample_count, blue.max_seconds) == (1, 4.0)
    assert lateness(a_project()).lateness(team_id="red") == []


@pytest.mark.parametrize("team_id", [None, "blue"])
def test_the_actions_to_measure_are_found_with_an_index(connection, team_id):
    connection.execute(
        "insert into scheduled_actions (action_type, status, team_id, scheduled_at, started_at, completed_at)"
        " select 'test:run', 'completed', 'blue', now(), now(), now() - n * interval '1 second'"
        " from generate_series(1, 20000) n"
    )
    connection.execute("analyze scheduled_actions")
    parameters = {"team_id": team_id, "seconds": 3600, "most": 100}

    lines = connection.execute(f"explain {statement('lateness')}", parameters).fetchall()

    plan = "\n".join(line for (line,) in lines)
    assert "Index" in plan
    assert "Seq Scan on scheduled_actions" not in plan


@pytest.mark.parametrize("team_id", [None, "blue"])
def test_an_action_scheduled_for_the_past_is_due_since_its_creation(a_project, connection, team_id):
    @action("test:run")
    def run(payload: dict): ...

    project = a_project(run)
    past = {"scheduled_at": database_now(connection) - timedelta(days=3), "team_id": "blue"}
    insert(connection, **past)
    locked = insert(connection, lock_group="g", **past)
    operations = project.action_operations

    waiting = operations.counts(team_id=team_id)
    explained = explain(project, locked)
    project.processor.tick()

    assert (waiting.due, waiting.overdue) == (2, 0)
    assert waiting.oldest_due_seconds < 3600
    assert explained.details["due_for_seconds"] < 3600
    assert "day" not in explained.sentence
    (measured,) = operations.lateness(team_id=team_id)
    assert (measured.sample_count, measured.max_seconds < 3600) == (2, True)
    steps = recent_activity(project.database, window="hour", team_id=team_id).steps
    assert max(one.most_late or 0 for one in steps) < 3600
