"""Attempts of types whose handlers take some milliseconds start before the results of earlier attempts are written."""

from __future__ import annotations

import threading

import psycopg
import pytest

from scheduled_actions import Context, action
from scheduled_actions.actions import settling
from tests.factories import PATIENCE, insert, projects, statuses, wait_until


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@pytest.mark.parametrize(("seconds", "starts_first"), [(0.05, True), (0.001, False), (1.0, False)])
def test_the_next_attempt_starts_and_the_previous_one_stays_announced_until_its_result_is_written(
    a_project, connection, monkeypatch, seconds, starts_first
):
    started, ids, found = [threading.Event(), threading.Event()], [], []

    @action("test:run")
    def handle(payload, context: Context):
        started[len(ids)].set()
        ids.append(context.id)

    def complete(own, tick, completions, **announced):
        if not found:
            has_started = started[1].wait(PATIENCE if starts_first else 0)
            running = connection.execute("select running from scheduled_action_ticks").fetchone()[0]
            found.append((has_started, running))
        return settling.complete(own, tick, completions, **announced)

    monkeypatch.setattr(settling.Settler, "complete", staticmethod(complete))
    project = a_project(handle, concurrency=1)
    for _ in range(5):
        project.processor.state.duration_stats.record("test:run", [seconds])
    for _ in range(2):
        insert(connection, max_attempts=1)

    project.processor.tick()

    first, second = ids
    assert found[0] == ((True, [second, first]) if starts_first else (False, [first]))
    assert set(statuses(connection).values()) == {"completed"}


def test_an_attempt_that_runs_alone_is_announced_alone(a_project, connection, database_url, monkeypatch):
    announced = []

    @action("test:run")
    def handle(payload, context: Context):
        if payload.get("is_first"):
            with psycopg.connect(database_url, autocommit=True) as own:
                # It is claimed during this attempt, so that the result of this one is unwritten when it may start.
                alone = insert(own, attempts=1, history=[{"outcome": "crashed"}])
                wait_until(lambda: statuses(own)[alone] == "processing")

    def complete(own, tick, completions, **options):
        running = connection.execute("select running from scheduled_action_ticks").fetchone()[0]
        announced.append((running, [one.action_id for one in completions]))
        return settling.complete(own, tick, completions, **options)

    monkeypatch.setattr(settling.Settler, "complete", staticmethod(complete))
    project = a_project(handle, concurrency=1)
    project.processor.state.duration_stats.record("test:run", [0.05] * 5)
    first = insert(connection, payload={"is_first": True})

    project.processor.tick()

    # Otherwise a crash of the second would be charged to the first, too, and the second would never fail.
    assert announced == [([first], [first])]
    assert set(statuses(connection).values()) == {"completed"}
