"""The next attempt starts when a thread is free, before results that take long to write and without a wait for more."""

from __future__ import annotations

import threading

import psycopg
import pytest

from scheduled_actions import Context, Skip, action
from scheduled_actions.actions import settling
from scheduled_actions.ticks.attempts.attempt import InFlightAttempts
from tests.factories import PATIENCE, insert, projects, statuses, wait_until


@pytest.fixture
def two_actions(database_url, connection):
    """Return a function that inserts two actions whose type has a duration and an outcome.

    The function returns a project with one thread, an event that is set when the second action starts, and the ids of
    those that have started.
    """

    def insert_two(seconds, outcome):
        started, ids = [threading.Event(), threading.Event()], []

        @action("test:run")
        def handle(payload, context: Context):
            started[len(ids)].set()
            ids.append(context.id)
            return outcome

        project = create_project(handle, concurrency=1)
        for _ in range(5):
            project.processor.state.duration_stats.record("test:run", [seconds])
        for _ in range(2):
            insert(connection, max_attempts=1)
        return project, started[1], ids

    with projects(database_url) as create_project:
        yield insert_two


@pytest.mark.parametrize(
    ("of", "starts_first"),
    [((0.05, Skip("no")), True), ((0.05, None), False), ((0.001, Skip("no")), False), ((1.0, Skip("no")), False)],
)
def test_the_next_attempt_starts_and_the_previous_one_stays_announced_until_its_result_is_written(
    two_actions, connection, monkeypatch, of, starts_first
):
    project, second_started, ids = two_actions(*of)
    found = []

    def observed(write):
        def write_observed(*given, **announced):
            if ids and not found:
                has_started = second_started.wait(PATIENCE if starts_first else 0)
                running = connection.execute("select running from scheduled_action_ticks").fetchone()[0]
                found.append((has_started, running))
            return write(*given, **announced)

        return write_observed

    settler = project.processor.state.settler
    monkeypatch.setattr(settling.Settler, "complete", staticmethod(observed(settler.complete)))
    settle = settling.settle
    monkeypatch.setattr(
        settling, "settle", lambda *given, **more: (observed(settle) if given[2] else settle)(*given, **more)
    )

    project.processor.tick()

    first, second = ids
    assert found[0] == ((True, [second, first]) if starts_first else (False, [first]))
    assert set(statuses(connection).values()) == {"skipped" if of[1] else "completed"}


@pytest.mark.parametrize(
    ("seconds", "outcome", "urgent"),
    [(0.05, None, [True, False]), (0.05, Skip("no"), [False, False]), (0.01, None, [False, False])],
)
def test_a_completion_waits_for_no_further_results_if_its_thread_can_start_another_attempt(
    two_actions, monkeypatch, seconds, outcome, urgent
):
    project, _, ids = two_actions(seconds, outcome)
    collect, found = InFlightAttempts.collect, []

    def observed(in_flight, wait, *, is_urgent):
        def asks():
            found.append(is_urgent())
            return found[-1]

        return collect(in_flight, wait, is_urgent=asks)

    monkeypatch.setattr(InFlightAttempts, "collect", observed)

    project.processor.tick()

    assert len(ids) == 2
    assert found == urgent


def test_an_attempt_that_runs_alone_is_announced_alone(database_url, connection, monkeypatch):
    @action("test:run")
    def handle(payload, context: Context):
        if not payload.get("is_first"):
            return None
        with psycopg.connect(database_url, autocommit=True) as own:
            # It is claimed during this attempt, so that the result of this one is unwritten when it may start.
            alone = insert(own, attempts=1, history=[{"outcome": "crashed"}])
            wait_until(lambda: statuses(own)[alone] == "processing")
        # Not a plain completion, which would be written before the next start in any case.
        return Skip("no")

    settle, announced = settling.settle, []

    def observed(own, tick, outcomes, **options):
        if outcomes:
            running = connection.execute("select running from scheduled_action_ticks").fetchone()[0]
            announced.append((running, [one.action_id for one in outcomes]))
        return settle(own, tick, outcomes, **options)

    monkeypatch.setattr(settling, "settle", observed)
    with projects(database_url) as create_project:
        project = create_project(handle, concurrency=1)
        project.processor.state.duration_stats.record("test:run", [0.05] * 5)
        first = insert(connection, payload={"is_first": True})

        project.processor.tick()

    # Otherwise a crash of the second would be charged to the first, too, and the second would never fail.
    assert announced[0] == ([first], [first])
    assert sorted(statuses(connection).values()) == ["completed", "skipped"]
