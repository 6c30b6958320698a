"""Lock groups after a handler that returns too late, and after a withdrawn claim."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import psycopg

from scheduled_actions import Delays, action
from tests.factories import NOW, PATIENCE, holds, insert, projects, row, set_clock, wait_until


def test_the_lock_group_of_a_late_handler_is_free_once_it_has_returned_whenever_its_timeout_is_stored(
    connection, database_url
):
    entered, released = threading.Event(), threading.Event()

    @action("test:run", timeout_seconds=0.2)
    def late(payload: dict) -> None:
        entered.set()
        released.wait(PATIENCE)

    set_clock(connection, NOW)
    with projects(database_url) as make:
        project = make(late)
        action_id = insert(connection, scheduled_at=NOW, lock_group="one at a time")
        ticking = threading.Thread(target=project.processor.tick)
        ticking.start()
        assert entered.wait(PATIENCE)
        runner = project.processor.state.threads
        with psycopg.connect(database_url) as other:
            # While the row is locked, the timeout cannot be stored; the handler returns during this time.
            other.execute("select from scheduled_actions for update")
            wait_until(lambda: runner.stuck == 1)
            released.set()
            wait_until(lambda: runner.stuck == 0)
            # The lock group is freed immediately after that.
            time.sleep(0.3)
        ticking.join(PATIENCE)

    assert "timed out" in row(connection, action_id)["error_message"]
    assert holds(connection) == {}


def test_a_withdrawn_claim_keeps_the_hold_of_a_blocking_action_that_waits_for_its_retry(connection, database_url):
    @action("test:run", retry=Delays([60]))
    def fail(payload: dict) -> None:
        raise ValueError("no")

    set_clock(connection, NOW)
    with projects(database_url) as make:
        project = make(fail)
        schedule = project.schedules.schedule_recurring(
            "test:run", {}, "PT1H", recurrence_type="rolling", lock_group="one at a time", lock_group_blocks=True
        )
        set_clock(connection, NOW + timedelta(hours=1))
        project.processor.tick()
        action_id = schedule.next_action_id
        assert holds(connection) == {"one at a time": action_id}
        insert(connection, scheduled_at=NOW, lock_group="one at a time")

        set_clock(connection, NOW + timedelta(hours=1, minutes=2))
        with psycopg.connect(database_url) as other:
            other.execute("select from scheduled_action_schedules for update")
            project.processor.tick()

        assert row(connection, action_id)["status"] == "pending"
        assert holds(connection) == {"one at a time": action_id}
