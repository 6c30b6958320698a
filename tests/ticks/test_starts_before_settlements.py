"""Attempts of types whose handlers take some milliseconds start before the results of earlier attempts are written."""

from __future__ import annotations

import threading

import pytest

from scheduled_actions import Context, action
from scheduled_actions.actions import settling
from tests.factories import PATIENCE, insert, projects, statuses


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
