"""The list of executors: their queues, their running actions, and the workers seen lately."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest

import scheduled_actions
from scheduled_actions import action, runtime
from scheduled_actions.executors import store, takeover
from tests.executors.test_take_over import Tickets
from tests.factories import database_now, due_for, insert, insert_many, move_clock
from tests.limits.test_claims import limits
from tests.statements import statement

BOTH = {"media": {"types": ["video:*"]}, "gpu": {"types": ["model:train", "model:tune"]}}


@action("video:cut")
def cut(payload: dict): ...


@pytest.fixture
def project(a_project):
    return a_project(cut, executors=BOTH)


def found(connection, name="media"):
    [one] = store.find_executors(connection, name)
    return one


def write(connection, name, *, executor="media", has_finished=False):
    """Write the row of a worker."""
    worker = takeover.WorkerRow(executor=executor, name=name, concurrency=4)
    takeover.write_worker(connection, worker, has_finished=has_finished)
    return worker


def test_executors_are_listed_by_name_with_their_types(project):
    listed = project.executors.find()

    assert {one.name: one.types for one in listed} == {"gpu": ("model:train", "model:tune"), "media": ("video:*",)}
    assert {(one.due, one.queued, one.running, one.workers, one.seen_workers) for one in listed} == {(0, 0, 0, 0, ())}
    assert {one.is_attended for one in listed} == {False}
    assert {(one.oldest_due_at, one.last_taken_at, one.last_seen_at) for one in listed} == {(None, None, None)}


def test_due_actions_are_counted_wherever_they_wait(project, connection):
    limits(connection, {"api:*": {"at_once": 1}})
    oldest = database_now(connection) - timedelta(minutes=3)
    insert(connection, action_type="video:cut", parked_by="queue:media", scheduled_at=oldest)
    insert(connection, action_type="video:cut")
    insert(connection, action_type="video:cut", lock_group="g")
    insert(connection, action_type="video:cut", limit_keys=["api:x"], parked_by="limit")
    insert(connection, action_type="video:cut", scheduled_at=database_now(connection) + timedelta(hours=1))
    insert(connection, action_type="email:send")

    one = found(connection)

    assert (one.due, one.queued, one.oldest_due_at) == (4, 1, oldest)
    assert found(connection, "gpu").due == 0


def test_due_actions_are_counted_to_ten_thousand(project, connection):
    insert_many(connection, 10_001, action_type="video:cut", parked_by="queue:media")

    assert found(connection).due == 10_000


def test_workers_are_listed_with_what_they_run_now(project, connection):
    tickets = Tickets(connection, project)
    insert_many(connection, 3, action_type="video:cut")
    idle = write(connection, "render-1:7")
    claimed = tickets.claim()
    tickets.take(claimed[:2])

    one = found(connection)

    assert (one.running, one.workers, one.is_attended) == (2, 2, True), "the third one is claimed, not taken over"
    first, second = one.seen_workers
    assert (first.name, first.concurrency, first.running, first.last_taken_at) == (idle.name, 4, 0, None)
    assert (second.name, second.concurrency, second.running) == (tickets.worker.name, 2, 2)
    assert second.last_taken_at == one.last_taken_at is not None
    assert first.started_at <= first.seen_at <= second.seen_at == one.last_seen_at
    assert found(connection, "gpu").seen_workers == ()


def test_a_worker_that_was_not_seen_for_two_minutes_is_left_out(project, connection):
    write(connection, "killed:1")
    move_clock(connection, timedelta(seconds=100))
    before = found(connection)
    move_clock(connection, timedelta(seconds=125))

    after = found(connection)

    assert ([one.name for one in before.seen_workers], before.workers, before.is_attended) == (["killed:1"], 1, True)
    assert (after.seen_workers, after.workers, after.is_attended) == ((), 0, False)
    assert after.last_seen_at == before.last_seen_at


def test_an_executor_that_pings_run_is_attended_between_the_pings(project, connection):
    write(connection, "lambda:1", has_finished=True)

    one = found(connection)

    assert (one.workers, one.seen_workers, one.is_attended) == (0, (), True)


def test_at_most_a_hundred_workers_are_listed_and_all_are_counted(project, connection):
    for number in range(101):
        write(connection, f"host:{number}")

    one = found(connection)

    assert (one.workers, len(one.seen_workers)) == (101, 100)


def test_the_client_lists_the_executors_of_the_project(project):
    before = runtime.use(project)
    try:
        listed = scheduled_actions.list_executors()
    finally:
        runtime.use(before)

    assert [one.name for one in listed] == ["gpu", "media"]


def test_without_executors_nothing_is_counted(a_project, connection):
    project = a_project(cut, executors={})
    insert_many(connection, 10, **due_for(connection, seconds=60))

    assert project.executors.find() == []
    plan = connection.execute(
        f"explain (analyze, costs off, timing off) {statement('list_executors')}", {"names": None, "workers": 100}
    ).fetchall()
    scans = [line for (line,) in plan if "Scan using scheduled_actions_" in line]
    assert scans
    assert all("never executed" in line for line in scans)


def test_the_list_loads_no_worker():
    script = "import sys, scheduled_actions.executors.store; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert "scheduled_actions.executors.model" in loaded
    assert not {"scheduled_actions.executors.worker", "scheduled_actions.ticks.runner"} & set(loaded)
