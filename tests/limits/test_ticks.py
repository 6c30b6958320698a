"""Ticks in projects with limits: every queued action runs, and never more of a key than its limit allows."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from scheduled_actions import Snooze, action
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from tests.factories import CRON_SECRET, insert_many, move_clock, statuses


@pytest.fixture
def a_project(database_url, tmp_path):
    """Return a function that creates a project with a handler and a table of limits."""
    made = []

    def make(handler, limits, *, handlers=(), **settings):
        loaded = config.load(tmp_path, {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET})
        changed = config.settings_of({"limits": limits, "concurrency": 4} | settings)
        made.append(Runtime(replace(loaded, settings=changed), registry=Registry.of(handler, *handlers)))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


class Running:
    """Counts the running handlers of each key, and the starts."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now, self.most, self.starts = Counter(), Counter(), Counter()

    @contextmanager
    def count(self, key):
        with self.lock:
            self.now[key] += 1
            self.starts[key] += 1
            self.most[key] = max(self.most[key], self.now[key])
        try:
            yield
        finally:
            with self.lock:
                self.now[key] -= 1

    def handler(self, outcome=None):
        @action("test:run")
        def run(payload: dict):
            with self.count(payload["key"]):
                threading.Event().wait(0.002)
            return outcome

        return run


def schedule(project, key, count, **arguments):
    project.scheduler.schedule_actions(
        [{"action_type": "test:run", "payload": {"key": key}, "limit": key, **arguments} for _ in range(count)]
    )


def slots(connection):
    return connection.execute("select count(*) from scheduled_action_limit_slots").fetchone()[0]


def test_one_tick_runs_all_queued_actions_within_their_limits(a_project, connection):
    running = Running()
    project = a_project(running.handler(), {"one:*": {"at_once": 1}, "two:*": {"at_once": 2}})
    for key in ("one:a", "one:b", "two:a"):
        schedule(project, key, 15)
    insert_many(connection, 10, payload={"key": "free"})

    report = project.processor.tick()

    assert (report.succeeded, report.failed, report.errors) == (55, 0, [])
    assert running.most["one:a"] == running.most["one:b"] == 1
    assert running.most["two:a"] == 2
    assert slots(connection) == 0


@pytest.mark.parametrize("lock_group", [None, "g"])
def test_one_tick_runs_the_actions_that_have_become_due_since_they_were_scheduled(a_project, connection, lock_group):
    running = Running()
    project = a_project(running.handler(), {"one:*": {"at_once": 1}})
    schedule(project, "one:a", 5, scheduled_at=timedelta(minutes=1), lock_group=lock_group)
    move_clock(connection, timedelta(minutes=2))

    assert project.processor.tick().succeeded == 5
    assert running.most["one:a"] == 1


def test_actions_that_retry_or_snooze_free_their_slot_and_queue_again(a_project, connection):
    running = Running()
    project = a_project(running.handler(Snooze(timedelta(hours=1))), {"one:*": {"at_once": 1}})
    schedule(project, "one:a", 5)

    assert project.processor.tick().snoozed == 5
    assert slots(connection) == 0
    assert running.most["one:a"] == 1


def test_a_rate_starts_its_burst_and_leaves_the_others_queued(a_project, connection):
    running = Running()
    project = a_project(running.handler(), {"api:*": {"rate": "4 per hour"}})
    schedule(project, "api:x", 9)

    assert project.processor.tick().succeeded == 4
    assert Counter(statuses(connection).values()) == {"completed": 4, "pending": 5}
    assert project.processor.tick().succeeded == 0


def test_a_tick_waits_for_a_rate_that_soon_allows_a_start(a_project, connection):
    running = Running()
    project = a_project(running.handler(), {"api:*": {"rate": "10 per second", "burst": 1}})
    schedule(project, "api:x", 4)

    assert project.processor.tick().succeeded == 4


def test_an_action_whose_condition_is_not_met_uses_no_start_of_the_rate(a_project, connection):
    running = Running()
    project = a_project(running.handler(), {"api:*": {"rate": "2 per hour"}})
    never = {"kind": "field_value", "target": {"type": "order", "id": "1"}, "field": "paid", "value": True}
    schedule(project, "api:x", 5, condition={"wait": never})
    schedule(project, "api:x", 2, priority=1)

    for _ in range(3):
        project.processor.tick()

    assert running.starts["api:x"] == 2
    assert slots(connection) == 0


def test_a_changed_limit_holds_for_every_process_after_the_first_tick_of_a_new_one(a_project, connection):
    running = Running()
    old = a_project(running.handler(), {"api:*": {"at_once": 3}})
    schedule(old, "api:x", 20)
    old.processor.tick()
    assert running.most["api:x"] == 3

    again = Running()
    a_project(again.handler(), {"api:*": {"at_once": 1}}).processor.tick()
    schedule(old, "api:x", 10)
    running.most.clear()
    old.processor.tick()
    assert running.most["api:x"] == 1


def test_unused_limit_keys_are_pruned_after_an_hour(a_project, connection):
    running = Running()
    project = a_project(running.handler(), {"api:*": {"at_once": 3}})
    schedule(project, "api:x", 1)
    project.processor.tick()
    assert connection.execute("select limit_key from scheduled_action_limit_keys").fetchall() == [("api:x",)]

    connection.execute("update scheduled_action_limit_keys set used_at = used_at - interval '61 minutes'")
    project.processor.tick()
    assert connection.execute("select count(*) from scheduled_action_limit_keys").fetchone() == (0,)


def test_queued_actions_do_not_wait_for_another_team_that_runs_as_many_as_it_may(a_project, connection):
    running = Running()

    @action("test:slow")
    def slow(payload: dict):
        threading.Event().wait(0.05)

    limits = {"one:*": {"at_once": 1}}
    project = a_project(running.handler(), limits, handlers=(slow,), teams={"concurrency": 1}, max_run_seconds=5)
    insert_many(connection, 400, action_type="test:slow", team_id="large")
    schedule(project, "one:a", 60, team_id="small")

    project.processor.tick()

    assert running.starts["one:a"] == 60


def test_actions_of_a_limit_start_one_after_the_other_while_another_handler_runs(a_project, connection):
    running, may_end = Running(), threading.Event()

    @action("test:slow")
    def slow(payload: dict):
        may_end.wait(2)

    @action("test:last")
    def last(payload: dict):
        may_end.set()
        running.starts["before the last"] = running.starts["one:a"]

    limits = {"one:*": {"at_once": 1}}
    project = a_project(running.handler(), limits, handlers=(slow, last))
    insert_many(connection, 1, action_type="test:slow")
    schedule(project, "one:a", 20)
    project.scheduler.schedule_actions([{"action_type": "test:last", "payload": {}, "limit": "one:a", "priority": 1}])
    project.processor.tick()

    began, ended = connection.execute(
        "select started_at, completed_at from scheduled_actions where action_type = 'test:slow'"
    ).fetchone()
    assert running.starts["before the last"] == 20
    assert ended - began < timedelta(seconds=1.9)
