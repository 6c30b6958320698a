"""Listeners run actions as they become due; only one is active, and behind a pooler it looks every second."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest

from scheduled_actions import action
from scheduled_actions.ticks.wake import Listener
from tests.factories import projects, row, wait_until

SECOND = timedelta(seconds=1)


@action("test:run")
def run(payload: dict):
    return None


@pytest.fixture
def listening(database_url):
    """Return a function that creates a project with a listener; all listeners end with the test."""
    started = []
    with projects(database_url) as make:

        def listen(**settings):
            project = make(run, linger_seconds=30, max_duration_seconds=70, **settings)
            reported, reports = [], []
            listener = Listener(project.database, reported.append)
            thread = threading.Thread(
                target=listener.process, args=[project.processor], kwargs={"on_report": reports.append}
            )
            thread.start()
            started.append((project, listener, thread))
            return project, listener, reported

        yield listen
        for project, listener, thread in started:
            listener.stop()
            project.processor.stop()
            thread.join(10)
            assert not thread.is_alive()


def scheduled(connection, delay="0"):
    found = connection.execute(
        "select id from schedule_action('test:run', '{}', statement_timestamp() + %s::interval)", [delay]
    )
    return found.fetchone()[0]


def lateness(project, connection, action_id):
    wait_until(lambda: row(connection, action_id)["status"] == "completed")
    found = project.scheduler.get_action(action_id)
    return found.started_at - found.scheduled_at


def test_a_listener_runs_new_actions_immediately_and_later_actions_at_their_instant(listening, connection):
    project, _, reported = listening()
    wait_until(lambda: reported == ["listening"])

    at_once = [lateness(project, connection, scheduled(connection)) for _ in range(10)]
    later = [lateness(project, connection, scheduled(connection, "0.4 s")) for _ in range(3)]

    # A busy machine may delay some of them.
    assert sorted(at_once)[5] < 0.4 * SECOND
    assert min(later) < 0.4 * SECOND


def test_one_of_two_listeners_is_active_and_the_other_takes_over_when_it_ends(listening, connection):
    first, listener, _ = listening()
    lateness(first, connection, scheduled(connection))
    second, _, reported = listening()
    wait_until(lambda: "standing by: another listener is active" in reported)

    listener.stop()
    first.processor.stop()
    lateness(second, connection, scheduled(connection))


def test_a_ping_during_a_listener_is_answered_immediately(listening, connection, database_url):
    _, _, reported = listening()
    wait_until(lambda: reported)
    with projects(database_url) as make:
        began = time.monotonic()
        make(run, linger_seconds=20, max_duration_seconds=60).processor.tick()

    assert time.monotonic() - began < 5


def test_a_listener_waits_for_an_unavailable_database(listening, connection):
    project, _, reported = listening()
    wait_until(lambda: reported)

    connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )

    lateness(project, connection, scheduled(connection))


def test_inserts_notify_only_with_an_active_listener(connection):
    connection.execute("listen scheduled_actions")

    scheduled(connection)

    assert list(connection.notifies(timeout=0.2)) == []
