"""Waiting actions under concurrent changes: nothing runs twice; cycles of waiting actions are rejected or reported."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import action
from scheduled_actions.actions import evaluation, waits
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.ticks import maintenance as tidying
from tests.factories import PATIENCE, insert, is_waiting, projects, row, statuses, wait_until

CONDITION = {"wait": {"kind": "document_state", "target": {"type": "order", "id": "42"}, "state": "approved"}}


@pytest.fixture
def create_project(database_url):
    """Return a function that creates a project of handlers and settings on the test database."""
    with projects(database_url) as create:
        yield create


def schedule(project, action_type, **arguments):
    new = NewAction(action_type=action_type, payload=arguments.pop("payload", {}), **arguments)
    return project.scheduler.schedule_action(new).id


def test_an_outcome_is_settled_while_another_session_locks_the_waits(
    create_project, connection, database_url, monkeypatch
):
    """The tick must not wait for that session until its time limit: actions that ended meanwhile would run again."""
    runs, registering, register = [], threading.Event(), waits.register

    def registered(*arguments):
        registering.set()
        return register(*arguments)

    @action("test:plain")
    def plain(payload: dict):
        runs.append(payload)
        # Ends while the thread of the tick waits for the locked rows.
        assert registering.wait(PATIENCE)

    @action("test:waiting")
    def waiting(payload: dict): ...

    project = create_project(
        plain, waiting, batch_size=1, max_run_seconds=1.5, max_duration_seconds=4, default_timeout_seconds=2
    )
    child = schedule(project, "test:waiting", condition=CONDITION)
    project.processor.tick()
    connection.execute("update scheduled_action_waits set is_woken = true")
    connection.execute("update scheduled_actions set scheduled_at = now() where id = %s", [child])
    first = insert(connection, action_type="test:plain")
    monkeypatch.setattr(waits, "register", registered)
    with psycopg.connect(database_url) as holder:
        # Like a session that wakes a thousand actions on a busy server.
        holder.execute("select from scheduled_action_waits for update")
        report = project.processor.tick()

    assert (report.succeeded, statuses(connection)[first]) == (1, "completed")
    assert len(runs) == 1
    found = row(connection, child)
    assert (found["status"], found["attempts"]) == ("pending", 0)
    project.facts.report({"type": "order", "id": "42"}, "state", "approved")
    assert project.processor.tick().succeeded == 1
    assert len(runs) == 1


def test_a_tick_wakes_all_actions_in_several_steps(create_project, connection, monkeypatch):
    monkeypatch.setattr(tidying, "_WAKE_SECONDS", 0.0)

    @action("test:waiting")
    def waiting(payload: dict): ...

    project = create_project(waiting)
    targets = [{"type": "order", "id": str(number)} for number in range(210)]
    for target in targets:
        condition = {"wait": {"kind": "document_state", "target": target, "state": "approved"}}
        schedule(project, "test:waiting", payload=target, condition=condition)
    project.processor.tick()
    for target in targets:
        project.facts.report(target, "state", "approved")

    assert project.processor.tick().succeeded == len(targets)


@pytest.mark.parametrize("locked", ["scheduled_actions", "scheduled_action_waits"])
def test_a_locked_waiting_action_does_not_delay_the_wake_of_others(create_project, connection, database_url, locked):
    @action("test:waiting")
    def waiting(payload: dict): ...

    project = create_project(waiting)
    targets = [{"type": "order", "id": str(number)} for number in range(3)]
    ids = [
        schedule(
            project,
            "test:waiting",
            condition={
                "wait": {"kind": "document_state", "target": target, "state": "approved"},
                "check_interval": "PT1H",
            },
        )
        for target in targets
    ]
    project.processor.tick()
    column = "id" if locked == "scheduled_actions" else "action_id"
    with psycopg.connect(database_url) as other:
        other.execute(f"select from {locked} where {column} = %s for update", [ids[0]])
        for target in targets:
            project.facts.report(target, "state", "approved")
        project.processor.tick()
        meanwhile = statuses(connection)
    project.processor.tick()

    assert [meanwhile[action_id] for action_id in ids] == ["pending", "completed", "completed"]
    assert statuses(connection)[ids[0]] == "completed"


def test_the_second_of_two_concurrent_changes_that_would_create_a_cycle_is_rejected(
    create_project, database_url, connection
):
    @action("test:run")
    def run(payload: dict): ...

    project = create_project(run)
    first, second = (insert(connection, scheduled_at="2099-01-01") for _ in range(2))

    def change_back():
        with pytest.raises(InvalidArgument, match="contains an action that waits for this one"):
            project.scheduler.update_action(second, after=[first])

    with psycopg.connect(database_url) as own, ThreadPoolExecutor(1) as pool:
        project.scheduler.update_action(first, after=[second], connection=own)
        refused = pool.submit(change_back)
        wait_until(lambda: is_waiting(connection) or refused.done())
        own.commit()
        refused.result(PATIENCE)

    assert row(connection, first)["condition"] == {"after": [str(second)]}
    assert row(connection, second)["condition"] is None


def test_concurrent_changes_of_pairs_create_no_cycle(create_project, connection):
    @action("test:run")
    def run(payload: dict): ...

    project = create_project(run, concurrency=8)
    pairs = [[insert(connection, scheduled_at="2099-01-01") for _ in range(2)] for _ in range(12)]
    barrier = threading.Barrier(2)

    def change(number):
        for pair in pairs:
            barrier.wait(PATIENCE)
            with contextlib.suppress(InvalidArgument):
                project.scheduler.update_action(pair[number], after=[pair[1 - number]])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(change, range(2)))

    waiting = [[row(connection, action_id)["condition"] is not None for action_id in pair] for pair in pairs]
    assert all(sorted(pair) == [False, True] for pair in waiting)


def test_the_sweep_reports_a_cycle_of_waiting_actions(create_project, connection, caplog):
    @action("test:run")
    def run(payload: dict): ...

    ids = [insert(connection) for _ in range(4)]
    for number, action_id in enumerate(ids[:3]):
        after = Jsonb({"after": [str(ids[(number + 1) % 3])]})
        connection.execute("update scheduled_actions set condition = %s where id = %s", [after, action_id])
    connection.execute(
        "update scheduled_actions set condition = %s where id = %s", [Jsonb({"after": [str(ids[0])]}), ids[3]]
    )
    create_project(run).processor.tick()

    report = create_project(run).processor.tick()

    (error,) = [item for item in report.errors if "wait for one another" in item["error"]]
    assert all(str(action_id) in error["error"] for action_id in ids[:3])
    assert str(ids[3]) not in error["error"]
    assert "waits.cycle" in caplog.text


@pytest.mark.parametrize("resolved_by", ["code", "sql"])
def test_a_resolved_cycle_is_not_reported(create_project, connection, resolved_by):
    @action("test:run")
    def run(payload: dict): ...

    project = create_project(run)
    first, second, later = insert(connection), insert(connection), insert(connection, scheduled_at="2099-01-01")
    for action_id, after in ((first, second), (second, first)):
        set_predecessors(connection, action_id, after)
    project.processor.tick()

    if resolved_by == "code":
        project.scheduler.update_action(first, after=[later])
    else:
        set_predecessors(connection, first, later)
    report = create_project(run).processor.tick()

    assert report.errors == []


def test_a_cycle_with_an_action_that_is_not_due_is_reported(create_project, connection):
    @action("test:run")
    def run(payload: dict): ...

    first, later = insert(connection), insert(connection, scheduled_at="2099-01-01")
    set_predecessors(connection, first, later)
    set_predecessors(connection, later, first)
    create_project(run).processor.tick()

    report = create_project(run).processor.tick()

    assert len(report.errors) == 1


def set_predecessors(connection, action_id, *others):
    """Set the predecessors of an action directly in SQL."""
    after = Jsonb({"after": [str(other) for other in others]})
    connection.execute("update scheduled_actions set condition = %s where id = %s", [after, action_id])


def test_cycle_of_returns_the_cycle_in_the_order_of_waiting():
    one, two, three, four = (UUID(int=number) for number in range(1, 5))

    cycle = evaluation.cycle_of({four: {one}, one: {two}, two: {three}, three: {one}})

    start = cycle.index(one)
    assert cycle[start:] + cycle[:start] == [one, two, three]
    assert evaluation.cycle_of({four: {one}, one: {two}}) is None
