"""Waiting actions while others change what they wait for: nothing runs twice, and none wait for one another."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import action
from scheduled_actions.actions import evaluation as conditional
from scheduled_actions.actions import waits
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.ticks import tick_maintenance as tidying
from tests.factories import PATIENCE, insert, is_waiting, projects, row, statuses, wait_until

CONDITION = {"wait": {"kind": "document_state", "target": {"type": "order", "id": "42"}, "state": "approved"}}


@pytest.fixture
def a_project(database_url):
    """Return a function that makes a project of handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


def schedule(project, action_type, **arguments):
    new = NewAction(action_type=action_type, payload=arguments.pop("payload", {}), **arguments)
    return project.scheduler.schedule_action(new).id


def test_an_outcome_is_settled_while_another_session_changes_what_an_action_waits_for(
    a_project, connection, database_url, monkeypatch
):
    """The tick must not wait for that session until its time is up: what has ended meanwhile would run again."""
    runs, registering, register = [], threading.Event(), waits.register

    def registered(*arguments):
        registering.set()
        return register(*arguments)

    @action("test:plain")
    def plain(payload: dict):
        runs.append(payload)
        # Ends while the tick's own thread meets the locked marks.
        assert registering.wait(PATIENCE)

    @action("test:waiting")
    def waiting(payload: dict): ...

    project = a_project(
        plain, waiting, batch_size=1, max_run_seconds=1.5, max_duration_seconds=4, default_timeout_seconds=2
    )
    child = schedule(project, "test:waiting", condition=CONDITION)
    project.processor.tick()
    connection.execute("update scheduled_action_waits set is_woken = true")
    connection.execute("update scheduled_actions set scheduled_at = now() where id = %s", [child])
    first = insert(connection, action_type="test:plain")
    monkeypatch.setattr(waits, "register", registered)
    with psycopg.connect(database_url) as holder:
        # As one does that wakes a thousand actions, on a busy server.
        holder.execute("select from scheduled_action_waits for update")
        report = project.processor.tick()

    assert (report.succeeded, statuses(connection)[first]) == (1, "completed")
    assert len(runs) == 1
    found = row(connection, child)
    assert (found["status"], found["attempts"]) == ("pending", 0)
    project.facts.report({"type": "order", "id": "42"}, "state", "approved")
    assert project.processor.tick().succeeded == 1
    assert len(runs) == 1


def test_a_tick_wakes_all_though_each_of_its_steps_wakes_only_some(a_project, connection, monkeypatch):
    monkeypatch.setattr(tidying, "_WAKE_SECONDS", 0.0)

    @action("test:waiting")
    def waiting(payload: dict): ...

    project = a_project(waiting)
    targets = [{"type": "order", "id": str(number)} for number in range(210)]
    for target in targets:
        condition = {"wait": {"kind": "document_state", "target": target, "state": "approved"}}
        schedule(project, "test:waiting", payload=target, condition=condition)
    project.processor.tick()
    for target in targets:
        project.facts.report(target, "state", "approved")

    assert project.processor.tick().succeeded == len(targets)


@pytest.mark.parametrize("locked", ["scheduled_actions", "scheduled_action_waits"])
def test_a_waiting_action_that_another_session_keeps_locked_keeps_no_other_asleep(
    a_project, connection, database_url, locked
):
    @action("test:waiting")
    def waiting(payload: dict): ...

    project = a_project(waiting)
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

    assert [meanwhile[one] for one in ids] == ["pending", "completed", "completed"]
    assert statuses(connection)[ids[0]] == "completed"


def test_of_two_changes_at_once_that_would_make_a_cycle_the_second_is_refused(a_project, database_url, connection):
    @action("test:run")
    def run(payload: dict): ...

    project = a_project(run)
    one, other = (insert(connection, scheduled_at="2099-01-01") for _ in range(2))

    def change_back():
        with pytest.raises(InvalidArgument, match="do not wait for this one themselves"):
            project.scheduler.update_action(other, after=[one])

    with psycopg.connect(database_url) as own, ThreadPoolExecutor(1) as pool:
        project.scheduler.update_action(one, after=[other], connection=own)
        refused = pool.submit(change_back)
        wait_until(lambda: is_waiting(connection) or refused.done())
        own.commit()
        refused.result(PATIENCE)

    assert row(connection, one)["condition"] == {"after": [str(other)]}
    assert row(connection, other)["condition"] is None


def test_of_many_pairs_changed_at_once_none_waits_for_itself(a_project, connection):
    @action("test:run")
    def run(payload: dict): ...

    project = a_project(run, concurrency=8)
    pairs = [[insert(connection, scheduled_at="2099-01-01") for _ in range(2)] for _ in range(12)]
    barrier = threading.Barrier(2)

    def change(turn):
        for pair in pairs:
            barrier.wait(PATIENCE)
            with contextlib.suppress(InvalidArgument):
                project.scheduler.update_action(pair[turn], after=[pair[1 - turn]])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(change, range(2)))

    waiting = [[row(connection, one)["condition"] is not None for one in pair] for pair in pairs]
    assert all(sorted(pair) == [False, True] for pair in waiting)


def test_the_sweep_reports_actions_that_wait_for_one_another(a_project, connection, caplog):
    @action("test:run")
    def run(payload: dict): ...

    ids = [insert(connection) for _ in range(4)]
    for number, one in enumerate(ids[:3]):
        after = Jsonb({"after": [str(ids[(number + 1) % 3])]})
        connection.execute("update scheduled_actions set condition = %s where id = %s", [after, one])
    connection.execute(
        "update scheduled_actions set condition = %s where id = %s", [Jsonb({"after": [str(ids[0])]}), ids[3]]
    )
    a_project(run).processor.tick()

    report = a_project(run).processor.tick()

    (error,) = [one for one in report.errors if "wait for one another" in one["error"]]
    assert all(str(one) in error["error"] for one in ids[:3])
    assert str(ids[3]) not in error["error"]
    assert "waits.cycle" in caplog.text


@pytest.mark.parametrize("mended_by", ["code", "sql"])
def test_a_cycle_that_was_broken_is_reported_no_more(a_project, connection, mended_by):
    @action("test:run")
    def run(payload: dict): ...

    project = a_project(run)
    one, other, later = insert(connection), insert(connection), insert(connection, scheduled_at="2099-01-01")
    for action_id, after in ((one, other), (other, one)):
        come_after(connection, action_id, after)
    project.processor.tick()

    if mended_by == "code":
        project.scheduler.update_action(one, after=[later])
    else:
        come_after(connection, one, later)
    report = a_project(run).processor.tick()

    assert report.errors == []


def test_a_cycle_is_reported_though_one_of_its_actions_was_never_due(a_project, connection):
    @action("test:run")
    def run(payload: dict): ...

    one, later = insert(connection), insert(connection, scheduled_at="2099-01-01")
    come_after(connection, one, later)
    come_after(connection, later, one)
    a_project(run).processor.tick()

    report = a_project(run).processor.tick()

    assert len(report.errors) == 1


def come_after(connection, action_id, *others):
    """Have an action come after others, as SQL can."""
    after = Jsonb({"after": [str(one) for one in others]})
    connection.execute("update scheduled_actions set condition = %s where id = %s", [after, action_id])


def test_a_cycle_is_named_in_the_order_of_waiting():
    one, two, three, four = (UUID(int=number) for number in range(1, 5))

    cycle = conditional.cycle_of({four: {one}, one: {two}, two: {three}, three: {one}})

    start = cycle.index(one)
    assert cycle[start:] + cycle[:start] == [one, two, three]
    assert conditional.cycle_of({four: {one}, one: {two}}) is None
