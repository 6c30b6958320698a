"""Locks are taken in one order everywhere, schedules before actions: no two paths wait for each other in a circle."""

from __future__ import annotations

import itertools
import logging
import threading
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from scheduled_actions import action
from scheduled_actions.actions import claims
from scheduled_actions.core.errors import ScheduledActionsError
from tests.factories import NOW, a_tick, an_outcome, is_waiting, projects, set_clock, wait_until

HOUR = timedelta(hours=1)


@action("test:run")
def run(payload: dict):
    return None


@pytest.fixture
def project(database_url, connection):
    set_clock(connection, NOW)
    # A circle is found before any lock has been waited for too long.
    name = connection.execute("select current_database()").fetchone()[0]
    connection.execute(sql.SQL("alter database {} set deadlock_timeout = '5ms'").format(sql.Identifier(name)))
    with projects(database_url) as a_project:
        yield a_project(run)


class Occurrence:
    """The planned occurrence of a rolling schedule, due; its schedule waits for its end."""

    def __init__(self, project, connection):
        self.schedule = project.schedules.schedule_recurring("test:run", {}, "every 1 hour", recurrence_type="rolling")
        set_clock(connection, NOW + HOUR)
        self.schedule_id, self.action_id = self.schedule.id, project.schedules.get(self.schedule.id).next_action_id

    def claim(self, connection):
        claimed, _ = claims.claim_free(connection, a_tick(connection), wanted=9, after=claims.START, excluded=())
        return next(one for one in claimed if one.id == self.action_id)


def settle(project, found, connection):
    claimed = found.claim(connection)
    outcome = an_outcome(claimed)
    object.__setattr__(outcome, "schedule_id", found.schedule_id)
    return lambda own: project.settler.settle(own, a_tick(own), [outcome], running=None)


def rescue(project, found, connection):
    found.claim(connection)
    connection.execute("update scheduled_actions set lease_expires_at = '-infinity', attempts = 99")
    return project.maintenance.rescue


def cancel(project, found, connection):
    return lambda own: project.scheduler.cancel_action(found.action_id, connection=own)


def cancel_running(project, found, connection):
    found.claim(connection)
    return lambda own: project.scheduler.cancel_action(found.action_id, also_running=True, connection=own)


def skip(project, found, connection):
    return lambda own: project.schedules.skip_next(found.schedule_id, connection=own)


def pause(project, found, connection):
    return lambda own: project.schedules.pause(found.schedule_id, connection=own)


def change(project, found, connection):
    return lambda own: project.schedules.update(found.schedule_id, recurrence="every 2 hours", connection=own)


def delete(project, found, connection):
    return lambda own: project.schedules.delete(found.schedule_id, connection=own)


def claim_in_a_tick(project, found, connection):
    return lambda own: project.processor.tick(lingers=False)


def sweep(project, found, connection):
    connection.execute("update scheduled_action_schedules set next_action_id = null")
    return lambda own: project.series.sweep(own, every_seconds=0)


def _names(pair):
    return "-".join(path.__name__ for path in pair)


PATHS = [settle, rescue, cancel, cancel_running, skip, pause, change, delete, claim_in_a_tick, sweep]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_a_path_that_waits_for_a_schedule_keeps_no_action_locked(project, connection, database_url, path):
    found = Occurrence(project, connection)
    step = path(project, found, connection)

    with psycopg.connect(database_url) as holder:
        holder.execute("select from scheduled_action_schedules where id = %s for update", [found.schedule_id])
        thread = threading.Thread(target=_go, args=[database_url, step])
        thread.start()
        wait_until(lambda: is_waiting(connection) or not thread.is_alive())
        waits = thread.is_alive()
        # Raises where the path has locked it.
        connection.execute("select from scheduled_actions where id = %s for update nowait", [found.action_id])
    thread.join()

    assert waits or path in {claim_in_a_tick, sweep, rescue}, (
        "these pass by a locked schedule, or settle the action first"
    )


@pytest.mark.parametrize("pair", list(itertools.product(PATHS, repeat=2)), ids=_names)
def test_two_paths_that_wait_for_one_action_go_on_one_after_the_other(project, connection, database_url, caplog, pair):
    found = Occurrence(project, connection)
    steps = [_of(path, project, found, connection) for path in pair]
    with psycopg.connect(database_url) as holder:
        holder.execute("select from scheduled_actions where id = %s for update", [found.action_id])
        threads = []
        for step in steps:
            # The first waits for the action with all that it locks before; then the second begins.
            threads.append(threading.Thread(target=_go, args=[database_url, step]))
            threads[-1].start()
            wait_until(lambda: is_waiting(connection, sum(thread.is_alive() for thread in threads)))
    for thread in threads:
        thread.join()

    # What is contained is logged.
    assert "deadlock" not in caplog.text.lower()


def _of(path, project, found, connection):
    try:
        return path(project, found, connection)
    except StopIteration:
        # The other path has claimed it: both settle one action.
        return lambda _: None


def _go(database_url, step):
    with psycopg.connect(database_url, autocommit=True) as own:
        try:
            step(own)
        except psycopg.errors.DeadlockDetected as error:
            logging.getLogger("scheduled_actions").warning("deadlock: %s", error)
        except (psycopg.Error, ScheduledActionsError):
            # It came second: locked for too long, gone, or ended.
            pass
